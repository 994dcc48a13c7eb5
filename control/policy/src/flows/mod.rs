//! Files of flows: one per line, or JSON.
//!
//! A line is a pcap-filter expression or a five-tuple, then settings, then a comment:
//! ```text
//! udp 10.0.0.1:1234 -> 10.0.0.2:11211  rate=12k class=hp   # one client
//! tcp [2001:db8::1]:* -> *:443         app=web weight=2
//! udp dst port 53 and src net 10.0.0.0/8
//! ```
//! JSON is a list of objects (or an object whose `flows` is one) with the same settings, and
//! `match` for the expression. What cannot be read is reported by its line; the rest is kept.

mod json;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod tuple;

use weever_plan::flow::Conj;
use weever_plan::watch::FiveTuple;

use crate::{Place, Problem, Problems};

/// No file has more flows.
pub const MAX_FLOWS: usize = 1 << 20;

/// A flow as a file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Where it stands.
    pub place: Place,
    /// What to call it: its name, or its expression as written.
    pub name: String,
    /// Its packets.
    pub parts: Vec<Conj>,
    /// Its packets per second, or whatever unit the file uses throughout.
    pub rate: Option<u64>,
    /// The name of its class, if the file says so.
    pub class: Option<String>,
    /// The application that it belongs to.
    pub app: Option<String>,
    /// The core on which that application runs.
    pub core: Option<u16>,
    /// How much it counts beside other flows.
    pub weight: u32,
}

impl FlowSpec {
    /// A flow that no file describes: it was seen, at so many packets per second. `None` if it has no
    /// packets ([`FiveTuple::packets`]).
    pub fn seen(tuple: FiveTuple, rate: u64) -> Option<FlowSpec> {
        Some(FlowSpec {
            place: Place::File,
            name: tuple.to_string(),
            parts: vec![tuple.packets()?],
            rate: Some(rate),
            class: None,
            app: None,
            core: None,
            weight: 1,
        })
    }
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowList {
    /// The flows that could be read, in the order of the file.
    pub flows: Vec<FlowSpec>,
    /// What could not.
    pub problems: Problems,
}

/// Reads a file of flows. JSON is told from lines by its first character.
pub fn parse(bytes: &[u8]) -> FlowList {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    match first {
        Some(b'[' | b'{') => json::parse(bytes),
        _ => text::parse(bytes),
    }
}

impl FlowList {
    fn take(&mut self, flow: Result<FlowSpec, Problem>) {
        match flow {
            Ok(_) if self.flows.len() == MAX_FLOWS => {
                self.problems.more += 1;
            }
            Ok(flow) => self.flows.push(flow),
            Err(problem) => self.problems.add(problem),
        }
        if self.flows.len() == MAX_FLOWS && self.problems.first.len() < crate::problem::MAX_KEPT {
            let full = format!("there are more than {MAX_FLOWS} flows, which is too many");
            if !self.problems.first.iter().any(|p| p.message == full) {
                self.problems.add(Problem::new(Place::File, full));
            }
        }
    }
}
