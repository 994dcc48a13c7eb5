//! Counters as control messages: those of the engines and links, and the totals of a stack that has stopped.

use std::collections::HashMap;
use std::sync::Arc;

use weever_engine::{CounterKind, Reading, sum};
use weever_link::QueueStats;
use weever_service_api::{
    Counters, DropCounter, LinkCounters, NamedCounter, NodeCounters, PortCounter,
};

/// Sums the counters of several workers, and sorts them by node.
pub(in crate::stack) fn nodes(workers: &[Vec<Reading>]) -> Counters {
    let mut counters = Counters::default();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for reading in sum(workers) {
        if reading.kind == CounterKind::Total {
            counters.drops.extend(unhanded(&reading));
            counters.totals.push(named(&reading));
            continue;
        }
        let place = *places.entry(reading.node.clone()).or_insert_with(|| {
            let name = reading.node.to_string();
            counters.nodes.push(NodeCounters { name, ..NodeCounters::default() });
            counters.nodes.len() - 1
        });
        enter(&mut counters.nodes[place], &mut counters.drops, &reading);
    }
    counters
}

fn enter(node: &mut NodeCounters, drops: &mut Vec<DropCounter>, reading: &Reading) {
    let port = || PortCounter { name: reading.label.to_string(), packets: reading.value };
    match reading.kind {
        CounterKind::Packets => node.packets = reading.value,
        CounterKind::Port => node.ports.push(port()),
        CounterKind::Spawned => node.spawned.push(port()),
        CounterKind::Own => node.own.push(named(reading)),
        CounterKind::Timer if reading.value > 0 => node.own.push(named(reading)),
        CounterKind::Timer => {}
        CounterKind::Panics => {
            node.own.push(NamedCounter { name: "panics".into(), value: reading.value })
        }
        _ => drops.extend(dropped(reading)),
    }
}

/// A drop, if the counter counts drops and there were any.
fn dropped(reading: &Reading) -> Option<DropCounter> {
    let (port, reason) = match reading.kind {
        CounterKind::Drop => (None, reading.label.to_string()),
        CounterKind::SpawnFull => {
            (Some(reading.label.to_string()), "queue of tasks is full".into())
        }
        CounterKind::RingFull => {
            (Some(reading.label.to_string()), "ring to another worker is full".into())
        }
        CounterKind::NoBuffer => (None, "task without a packet".into()),
        CounterKind::OutboxFull => (None, "queue to the link is full".into()),
        CounterKind::BlockFull => (None, "too many packets wait here".into()),
        other => (None, other.name().into()),
    };
    let node = reading.node.to_string();
    (reading.value > 0).then_some(DropCounter { node, port, reason, packets: reading.value })
}

/// Packets that were dropped at no node, if this counter counts some.
fn unhanded(reading: &Reading) -> Option<DropCounter> {
    let (node, reason) = match &*reading.label {
        "relay_full" => {
            ("(between workers)", "queue to the link is full at the worker that serves it")
        }
        "unclaimed" => ("(no node)", "no node took the packet, and no port says why"),
        _ => return None,
    };
    (reading.value > 0).then(|| DropCounter {
        node: node.into(),
        port: None,
        reason: reason.into(),
        packets: reading.value,
    })
}

fn named(reading: &Reading) -> NamedCounter {
    NamedCounter { name: reading.label.to_string(), value: reading.value }
}

/// One queue of a link.
pub(in crate::stack) fn queue(link: &str, queue: u16, stats: &QueueStats) -> LinkCounters {
    LinkCounters {
        link: link.into(),
        queue,
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
        rx_dropped: stats.rx_dropped,
        rx_invalid: stats.rx_invalid,
        rx_unusable: stats.rx_unusable,
        tx_dropped: stats.tx_dropped,
        fill_empty: stats.fill_empty,
        tx_copied: stats.tx_copied,
        bad_returns: stats.bad_returns,
    }
}

/// Packets that the queue of a link lost, in the same form as a node's drops. That the device found
/// no free frame (`fill_empty`) is a cause of the first, and so is not counted again.
pub(in crate::stack) fn lost(link: &LinkCounters) -> impl Iterator<Item = DropCounter> + use<> {
    let node = format!("{} queue {}", link.link, link.queue);
    let losses = [
        (link.rx_dropped, "receive ring full, or no free frame"),
        (link.rx_invalid, "invalid receive descriptor"),
        (link.rx_unusable, "cannot be replayed: cut, too long, or no Ethernet frame"),
        (link.tx_dropped, "not sent: too long, or refused by the device"),
    ];
    let happened = losses.into_iter().filter(|(packets, _)| *packets > 0);
    happened.map(move |(packets, reason)| DropCounter {
        node: node.clone(),
        port: None,
        reason: reason.into(),
        packets,
    })
}

/// The totals of a stack's work.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackTotals {
    /// The last counters.
    pub counters: Counters,
    /// Why a worker ended before it was told to, if one did.
    pub failure: Option<String>,
}

impl StackTotals {
    /// Packets received and sent by the link, and dropped anywhere.
    pub fn totals(&self) -> (u64, u64, u64) {
        let links = self.counters.links.iter();
        let (received, sent) =
            links.fold((0, 0), |(rx, tx), link| (rx + link.rx_packets, tx + link.tx_packets));
        (received, sent, self.counters.drops.iter().map(|d| d.packets).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(node: &str, kind: CounterKind, label: &str, value: u64) -> Reading {
        Reading { node: node.into(), kind, label: label.into(), value }
    }

    fn worker(factor: u64) -> Vec<Reading> {
        vec![
            reading("", CounterKind::Total, "batches", factor),
            reading("", CounterKind::Total, "relay_full", factor),
            reading("Rx", CounterKind::Packets, "", 10 * factor),
            reading("Rx", CounterKind::Port, "true", 7 * factor),
            reading("Rx", CounterKind::Port, "false", 3 * factor),
            reading("Rx", CounterKind::Drop, "too short", 3 * factor),
            reading("Echo", CounterKind::Packets, "", 7 * factor),
            reading("Echo", CounterKind::Spawned, "reply", 5 * factor),
            reading("Echo", CounterKind::SpawnFull, "reply", 2 * factor),
            reading("Echo", CounterKind::BlockFull, "", 0),
            reading("Echo", CounterKind::Own, "packets", 7 * factor),
        ]
    }

    #[test]
    fn workers_are_summed_and_sorted_by_node() {
        let counters = nodes(&[worker(1), worker(2)]);
        assert_eq!(counters.totals[0].value, 3);
        let names: Vec<&str> = counters.nodes.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["Rx", "Echo"]);
        let [rx, echo] = &counters.nodes[..] else { panic!() };
        assert_eq!((rx.packets, rx.ports[1].packets), (30, 9));
        assert_eq!((echo.spawned[0].packets, echo.own[0].value), (15, 21));
    }

    #[test]
    fn drops_have_a_reason_and_none_is_shown_that_did_not_happen() {
        let drops = nodes(&[worker(1)]).drops;
        let shown: Vec<_> = drops.iter().map(|d| (d.reason.as_str(), d.packets)).collect();
        let relayed = "queue to the link is full at the worker that serves it";
        assert_eq!(shown, [(relayed, 1), ("too short", 3), ("queue of tasks is full", 2)]);
        assert_eq!(drops[2].port.as_deref(), Some("reply"));
    }

    #[test]
    fn what_a_link_lost_is_named_by_its_queue() {
        let stats = QueueStats {
            rx_packets: 5,
            rx_dropped: 3,
            tx_dropped: 1,
            fill_empty: 2,
            ..QueueStats::default()
        };
        let lost: Vec<_> = lost(&queue("eth0", 2, &stats)).collect();
        assert!(lost.iter().all(|d| d.node == "eth0 queue 2"), "{lost:?}");
        assert_eq!(lost.iter().map(|d| d.packets).collect::<Vec<_>>(), [3, 1]);
        assert!(lost[0].reason.contains("ring full") && lost[1].reason.contains("not sent"));
    }

    #[test]
    fn no_worker_has_counted_nothing() {
        assert_eq!(nodes(&[]), Counters::default());
    }
}
