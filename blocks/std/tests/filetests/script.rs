//! A script: the host, the events, and the expected results.

use std::collections::VecDeque;
use std::path::Path;

use weever_blocks_std::testing::{HostBox, host::host_state_in, host::host_state6};
use weever_engine::{CounterKind, Limits};
use weever_graph::Graph;
use weever_models::{HostConfig, Service, Socket};
use weever_packet::Flags;

use super::packets::{From, Words, frame};

/// Runs the script; the error is the first difference, with its file and line.
pub(crate) fn run(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{shown}: {e}"))?;
    let mut script = Script::new(path);
    for (number, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        script.line(line).map_err(|e| format!("{shown}:{}: {e}", number + 1))?;
    }
    script.end().map_err(|e| format!("{shown}: at the end: {e}"))
}

struct Script<'a> {
    path: &'a Path,
    graph: Option<String>,
    config: HostConfig,
    vlan: Option<u16>,
    mtu: u16,
    ipv6: bool,
    host: Option<HostBox>,
    /// Sent and not yet expected.
    sent: VecDeque<Vec<u8>>,
    /// Drops that were expected: node, words of the reason, and how many.
    expected: Vec<(String, String, u64)>,
}

impl<'a> Script<'a> {
    fn new(path: &'a Path) -> Script<'a> {
        Script {
            path,
            graph: None,
            config: HostConfig::default(),
            vlan: None,
            mtu: 1500,
            ipv6: false,
            host: None,
            sent: VecDeque::new(),
            expected: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = Words::new(rest);
        match word {
            "graph" => self.graph = Some(words.next("host, or a file")?.into()),
            "serve" => self.serve(words)?,
            "vlan" => self.vlan = Some(words.number("a VLAN")?),
            "mtu" => self.mtu = words.number("a number of bytes")?,
            "ipv6" => self.ipv6 = true,
            "link" => self.link(words.next("partial or full")?)?,
            "receive" => self.receive(rest)?,
            "wait" => {
                let millis: u32 = words.number("milliseconds")?;
                self.host()?.advance(u64::from(millis) * 1_000_000);
                self.collect()?;
            }
            "sent" => self.expect_sent(rest)?,
            "ignore" => self.sent.clear(),
            "count" => self.expect_count(words)?,
            "drop" => self.expect_drop(words)?,
            "port" => self.expect_port(words)?,
            other => return Err(format!("unknown word `{other}`")),
        }
        Ok(())
    }

    /// The host, made when the first thing happens to it.
    fn host(&mut self) -> Result<&mut HostBox, String> {
        if self.host.is_none() {
            let (graph, plain) = (self.load()?, host_state_in(self.vlan, self.mtu));
            let state = if self.ipv6 { host_state6() } else { plain };
            self.host = Some(HostBox::with(graph, state, Limits::default()));
        }
        Ok(self.host.as_mut().expect("it was just made"))
    }

    fn load(&self) -> Result<Graph, String> {
        match self.graph.as_deref() {
            None => Err("no graph: write `graph host`, or `graph FILE.unicorn`".into()),
            Some("host") => weever_models::host(&self.config).map_err(|e| e.to_string()),
            Some(file) => {
                let path = self.path.with_file_name(file);
                let source = std::fs::read_to_string(&path).map_err(|e| format!("{file}: {e}"))?;
                Ok(weever_unicorn::load(&source, file).map_err(|e| e.to_string())?.graph)
            }
        }
    }

    fn serve(&mut self, mut words: Words<'_>) -> Result<(), String> {
        let service = match words.next("echo or discard")? {
            "echo" => Service::Echo,
            "discard" => Service::Discard,
            other => return Err(format!("unknown service `{other}`: use echo or discard")),
        };
        let port = words.number("a port")?;
        self.config.sockets.push(Socket { addr: None, port, service });
        Ok(())
    }

    fn link(&mut self, word: &str) -> Result<(), String> {
        let flags = match word {
            "partial" => Flags::MAY_BE_PARTIAL,
            "full" => Flags::NONE,
            other => return Err(format!("unknown kind of checksum `{other}`")),
        };
        self.host()?.set_flags(flags);
        Ok(())
    }

    /// `receive [N x] PACKET`.
    fn receive(&mut self, text: &str) -> Result<(), String> {
        let counted =
            text.split_once(" x ").and_then(|(n, packet)| Some((n.parse().ok()?, packet)));
        let (times, text): (usize, &str) = counted.unwrap_or((1, text));
        let numbered = |n: usize| frame(&text.replace("each", &n.to_string()), From::Peer);
        let frames: Vec<Vec<u8>> = (0..times).map(numbered).collect::<Result<_, _>>()?;
        self.host()?.receive(&frames);
        self.collect()
    }

    fn collect(&mut self) -> Result<(), String> {
        let frames = self.host()?.sent();
        self.sent.extend(frames);
        Ok(())
    }

    fn expect_sent(&mut self, text: &str) -> Result<(), String> {
        if text == "none" {
            return match self.sent.front() {
                None => Ok(()),
                Some(frame) => Err(format!("sent {}", hex(frame))),
            };
        }
        let counted =
            text.split_once(" x ").and_then(|(n, packet)| Some((n.parse().ok()?, packet)));
        let (times, text): (usize, &str) = counted.unwrap_or((1, text));
        let wanted = frame(text, From::Host)?;
        for _ in 0..times {
            let found = self.sent.pop_front().ok_or("nothing more was sent")?;
            if found != wanted {
                return Err(format!("sent     {}\n  expected {}", hex(&found), hex(&wanted)));
            }
        }
        Ok(())
    }

    /// `drop NODE N WORDS OF THE REASON`.
    fn expect_drop(&mut self, mut words: Words<'_>) -> Result<(), String> {
        let (node, times): (&str, u64) = (words.next("a node")?, words.number("a number")?);
        let reason = words.rest();
        let drops = self.host()?.drops();
        let at =
            drops.iter().find(|(at, why, n)| at == node && why.contains(&reason) && *n == times);
        at.ok_or_else(|| format!("drops so far: {drops:?}"))?;
        self.expected.retain(|(at, why, _)| at != node || *why != reason);
        self.expected.push((node.into(), reason, times));
        Ok(())
    }

    /// `port NODE PORT N`.
    fn expect_port(&mut self, mut words: Words<'_>) -> Result<(), String> {
        let (node, port) = (words.next("a node")?, words.next("a port")?);
        let wanted: u64 = words.number("a number")?;
        let readings = self.host()?.readings();
        let found = readings
            .iter()
            .find(|r| r.kind == CounterKind::Port && &*r.node == node && &*r.label == port)
            .ok_or_else(|| format!("there is no port {node}.{port}"))?;
        match found.value == wanted {
            true => Ok(()),
            false => Err(format!("{} packets left by {node}.{port}", found.value)),
        }
    }

    /// `count NODE NAME N`, of a counter of the node's own.
    fn expect_count(&mut self, mut words: Words<'_>) -> Result<(), String> {
        let (node, name) = (words.next("a node")?, words.next("a counter")?);
        let wanted: u64 = words.number("a number")?;
        let found = self.host()?.count(node, CounterKind::Own, name);
        if found == wanted { Ok(()) } else { Err(format!("{node} has counted {found} {name}")) }
    }

    /// Nothing may be left that the script does not mention.
    fn end(mut self) -> Result<(), String> {
        self.expect_sent("none").map_err(|e| format!("not expected: {e}"))?;
        let Some(host) = self.host else { return Err("no graph, or nothing happened".into()) };
        let expected = |(node, reason, n): &(String, String, u64)| {
            let mut all = self.expected.iter();
            all.any(|(at, words, m)| at == node && reason.contains(words) && m == n)
        };
        let unexpected = host.drops().into_iter().find(|drop| !expected(drop));
        if let Some((node, reason, n)) = unexpected {
            return Err(format!("{n} dropped at {node}, which is not expected: {reason}"));
        }
        host.finish();
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
