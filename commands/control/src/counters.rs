//! `weever counters`: links, nodes with their ports, and drops with their reasons, as tables.

use std::io::{self, Write};

use clap::Args;
use weever_service_api::{Counters, CountersRequest, DropCounter, LinkCounters, NodeCounters};

use crate::CliError;
use crate::table::{Align, Table, grouped, per_second, span};
use crate::watch::Repeated;

/// Shows the counters of a running stack: links, nodes with their ports, drops with their reasons.
#[derive(Args, Clone, Debug, Default)]
pub struct CountersArgs {
    #[command(flatten)]
    repeated: Repeated,
    /// Only drops, with their reasons
    #[arg(long)]
    drops: bool,
    /// Also nodes that no packet has reached
    #[arg(long, conflicts_with = "drops")]
    all: bool,
}

/// Writes counters as tables for people, those of nodes that nothing reached left out.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_counters(out: &mut dyn Write, counters: &Counters) -> io::Result<()> {
    write(out, counters, None, false, false)
}

impl CountersArgs {
    /// Asks and prints; with `--watch` until the stack ends, which is then an error.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        self.repeated.run(out, &CountersRequest {}, |out, counters, earlier| {
            write(out, counters, earlier, self.drops, self.all)
        })
    }
}

/// Writes the tables; with an earlier reading, rates since then beside the totals.
fn write(
    out: &mut dyn Write,
    now: &Counters,
    earlier: Option<&Counters>,
    only_drops: bool,
    with_idle: bool,
) -> io::Result<()> {
    let since = earlier.map(|earlier| Since { earlier, now });
    writeln!(out, "up {}", span(now.uptime_ns))?;
    if !only_drops {
        writeln!(out)?;
        links(now, since).write(out)?;
        pools(out, now)?;
        writeln!(out)?;
        nodes(now, since, with_idle).write(out)?;
    }
    writeln!(out)?;
    let drops = drops(now, since);
    if drops.is_empty() { writeln!(out, "no packet was dropped") } else { drops.write(out) }
}

/// Two readings to compare.
#[derive(Clone, Copy)]
struct Since<'a> {
    earlier: &'a Counters,
    now: &'a Counters,
}

impl Since<'_> {
    fn rate(self, now: u64, earlier: u64) -> String {
        let time = self.now.uptime_ns.saturating_sub(self.earlier.uptime_ns);
        grouped(per_second(now.saturating_sub(earlier), time))
    }
}

fn links(now: &Counters, since: Option<Since<'_>>) -> Table {
    let right = Align::Right;
    let mut columns = vec![
        ("link", Align::Left),
        ("queue", right),
        ("rx packets", right),
        ("rx bytes", right),
        ("tx packets", right),
        ("tx bytes", right),
        ("dropped", right),
    ];
    if since.is_some() {
        columns.extend([("rx/s", right), ("tx/s", right)]);
    }
    let mut table = Table::new(&columns);
    for link in &now.links {
        table.row(link_row(link, since));
    }
    table
}

fn link_row(link: &LinkCounters, since: Option<Since<'_>>) -> Vec<String> {
    let lost = link.rx_dropped + link.rx_invalid + link.rx_unusable + link.tx_dropped;
    let mut row = vec![link.link.clone(), link.queue.to_string()];
    let numbers = [link.rx_packets, link.rx_bytes, link.tx_packets, link.tx_bytes, lost];
    row.extend(numbers.map(grouped));
    if let Some(since) = since {
        let same = |l: &&LinkCounters| (&l.link, l.queue) == (&link.link, link.queue);
        let old = since.earlier.links.iter().find(same).cloned().unwrap_or_default();
        row.push(since.rate(link.rx_packets, old.rx_packets));
        row.push(since.rate(link.tx_packets, old.tx_packets));
    }
    row
}

fn pools(out: &mut dyn Write, now: &Counters) -> io::Result<()> {
    for pool in &now.pools {
        let (free, all) = (grouped(pool.available), grouped(pool.frames));
        writeln!(out, "pool: {free} of {all} frames in the depot")?;
    }
    Ok(())
}

fn nodes(now: &Counters, since: Option<Since<'_>>, with_idle: bool) -> Table {
    let mut columns = vec![("node", Align::Left), ("packets", Align::Right)];
    if since.is_some() {
        columns.push(("per second", Align::Right));
    }
    columns.push(("left by (started) [counted]", Align::Left));
    let mut table = Table::new(&columns);
    for (position, node) in now.nodes.iter().enumerate() {
        if !with_idle && node.packets == 0 {
            continue;
        }
        let mut row = vec![node.name.clone(), grouped(node.packets)];
        if let Some(since) = since {
            // The same graph has the same nodes in the same places; another one starts anew.
            let old = since.earlier.nodes.get(position).filter(|n| n.name == node.name);
            row.push(since.rate(node.packets, old.map_or(0, |n| n.packets)));
        }
        row.push(exits(node));
        table.row(row);
    }
    table
}

/// `true 1,200  false 3  (reply 1,200)  [partial 7]`: ports, spawn edges, the block's own.
fn exits(node: &NodeCounters) -> String {
    let ports = node.ports.iter().filter(|p| p.packets > 0);
    let ports = ports.map(|p| format!("{} {}", p.name, grouped(p.packets)));
    let spawned = node.spawned.iter().filter(|s| s.packets > 0);
    let spawned = spawned.map(|s| format!("({} {})", s.name, grouped(s.packets)));
    let own = node.own.iter().filter(|c| c.value > 0);
    let own = own.map(|c| format!("[{} {}]", c.name, grouped(c.value)));
    ports.chain(spawned).chain(own).collect::<Vec<_>>().join("  ")
}

fn drops(now: &Counters, since: Option<Since<'_>>) -> Table {
    let mut columns = vec![("dropped", Align::Right)];
    if since.is_some() {
        columns.push(("per second", Align::Right));
    }
    columns.extend([("reason", Align::Left), ("at", Align::Left)]);
    let mut table = Table::new(&columns);
    let mut drops: Vec<&DropCounter> = now.drops.iter().filter(|d| d.packets > 0).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
    for drop in drops {
        let mut row = vec![grouped(drop.packets)];
        if let Some(since) = since {
            row.push(since.rate(drop.packets, earlier_drops(since.earlier, drop)));
        }
        row.extend([drop.reason.clone(), place(drop)]);
        table.row(row);
    }
    table
}

fn earlier_drops(earlier: &Counters, drop: &DropCounter) -> u64 {
    let same =
        |d: &&DropCounter| (&d.node, &d.port, &d.reason) == (&drop.node, &drop.port, &drop.reason);
    earlier.drops.iter().find(same).map_or(0, |d| d.packets)
}

fn place(drop: &DropCounter) -> String {
    match &drop.port {
        Some(port) => format!("{}.{port}", drop.node),
        None => drop.node.clone(),
    }
}

#[cfg(test)]
mod tests {
    use weever_service_api::{NamedCounter, PoolCounters, PortCounter};

    use super::*;

    fn counters(factor: u64) -> Counters {
        let port = |name: &str, packets| PortCounter { name: name.into(), packets };
        let node = |name: &str, packets, ports| NodeCounters {
            name: name.into(),
            packets,
            ports,
            ..NodeCounters::default()
        };
        let mut first =
            node("RxL2", 1000 * factor, vec![port("ip", 998 * factor), port("drop", 2 * factor)]);
        first.own = vec![NamedCounter { name: "bytes".into(), value: 64_000 * factor }];
        first.spawned = vec![port("reply", 7 * factor)];
        let drop = |node: &str, port: Option<&str>, packets| DropCounter {
            node: node.into(),
            port: port.map(str::to_owned),
            reason: "bad checksum".into(),
            packets,
        };
        let link = LinkCounters {
            link: "eth0".into(),
            rx_packets: 1000 * factor,
            rx_bytes: 64_000 * factor,
            rx_dropped: 1,
            tx_dropped: 2,
            ..LinkCounters::default()
        };
        Counters {
            uptime_ns: 2_000_000_000 * factor,
            nodes: vec![first, node("RxIdle", 0, vec![port("true", 0)])],
            drops: vec![drop("RxL2", None, 1), drop("RxL2", Some("drop"), 2 * factor)],
            links: vec![link],
            pools: vec![PoolCounters { frames: 8192, available: 4096, ..PoolCounters::default() }],
            totals: Vec::new(),
        }
    }

    fn text(earlier: Option<&Counters>, only_drops: bool, with_idle: bool) -> String {
        let mut out = Vec::new();
        write(&mut out, &counters(2), earlier, only_drops, with_idle).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_reading() {
        let expected = "\
up 4.0 s

link  queue  rx packets  rx bytes  tx packets  tx bytes  dropped
eth0      0       2,000   128,000           0         0        3
pool: 4,096 of 8,192 frames in the depot

node  packets  left by (started) [counted]
RxL2    2,000  ip 1,996  drop 4  (reply 14)  [bytes 128,000]

dropped  reason        at
      4  bad checksum  RxL2.drop
      1  bad checksum  RxL2
";
        assert_eq!(text(None, false, false), expected);
    }

    #[test]
    fn a_second_reading_has_rates() {
        let text = text(Some(&counters(1)), false, true);
        assert!(text.contains("RxL2      2,000         500  ip"), "{text}");
        assert!(text.contains("RxIdle        0           0"), "{text}");
        assert!(text.contains("      4           1  bad checksum  RxL2.drop"), "{text}");
        assert!(text.contains("rx/s"), "{text}");
    }

    #[test]
    fn only_drops_and_none_at_all() {
        assert!(!text(None, true, false).contains("link"));
        let mut out = Vec::new();
        write(&mut out, &Counters::default(), None, true, false).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("no packet was dropped\n"));
    }
}
