//! From the stack's counters to a short table: the packets of each layer.

use weever_service_api::{Counters, NodeCounters};

use crate::outcome::LayerCount;

/// The layers in the order in which a packet passes them: a name, the cluster of the host graph,
/// and the node in it that every packet of the layer reaches.
const LAYERS: [(&str, &str, &str); 9] = [
    ("Ethernet receive", "RxL2Ether", "Classified"),
    ("ARP receive", "RxL3ARP", "ValidHeaderLength"),
    ("IPv4 receive", "RxL3IPv4", "ValidHeaderLength"),
    ("ICMP receive", "RxL3ICMP", "ValidHeaderLength"),
    ("UDP receive", "RxL4UDP", "ValidHeaderLength"),
    ("UDP send", "TxL4UDP", "FillHeader"),
    ("ICMP send", "TxL3ICMP", "FillHeader"),
    ("IPv4 send", "TxL3IPv4", "FillHeader"),
    ("neighbour lookup", "TxL3ARP", "Lookup_"),
];

/// Echoes that go back with the checksum that they came with do not reach the node that writes UDP headers.
const RETURNED: (&str, [&str; 2]) = ("TxL4UDPInitiateResponse", ["ipv4", "ipv6"]);

/// The rows of the table. Layers that saw no packet are left out.
pub(crate) fn layers(counters: &Counters) -> Vec<LayerCount> {
    let mut rows = Vec::new();
    link_rows(counters, &mut rows, true);
    for (layer, cluster, node) in LAYERS {
        let is_node = |n: &&NodeCounters| n.name.strip_prefix(cluster) == Some(node);
        let mut reached = counters.nodes.iter().find(is_node).map_or(0, |n| n.packets);
        if RETURNED.0.starts_with(cluster) {
            reached += returned(counters);
        }
        push(&mut rows, layer, "packets", reached);
        for drop in counters.drops.iter().filter(|d| d.node.starts_with(cluster)) {
            push(&mut rows, layer, &format!("dropped: {}", drop.reason), drop.packets);
        }
    }
    let elsewhere = |node: &str| !LAYERS.iter().any(|(_, cluster, _)| node.starts_with(cluster));
    for drop in counters.drops.iter().filter(|d| elsewhere(&d.node)) {
        push(&mut rows, &drop.node, &format!("dropped: {}", drop.reason), drop.packets);
    }
    link_rows(counters, &mut rows, false);
    rows
}

fn returned(counters: &Counters) -> u64 {
    let (node, ports) = RETURNED;
    let of_node = counters.nodes.iter().filter(|n| n.name == node).flat_map(|n| &n.ports);
    of_node.filter(|port| ports.contains(&&*port.name)).map(|port| port.packets).sum()
}

fn link_rows(counters: &Counters, rows: &mut Vec<LayerCount>, receive: bool) {
    for queue in &counters.links {
        let what = format!("queue {}", queue.queue);
        let layer = format!("{} {}", queue.link, if receive { "receive" } else { "send" });
        push(rows, &layer, &what, if receive { queue.rx_packets } else { queue.tx_packets });
    }
}

fn push(rows: &mut Vec<LayerCount>, layer: &str, what: &str, count: u64) {
    if count > 0 {
        rows.push(LayerCount { layer: layer.into(), what: what.into(), count });
    }
}

/// How many packets were dropped at `node`, for any reason.
pub(crate) fn drops_at(counters: &Counters, node: &str) -> u64 {
    counters.drops.iter().filter(|d| d.node == node).map(|d| d.packets).sum()
}

/// How many packets were dropped anywhere.
pub(crate) fn drops(counters: &Counters) -> u64 {
    counters.drops.iter().map(|d| d.packets).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weever_service_api::{DropCounter, PortCounter};

    fn counters() -> Counters {
        let node = |name: &str, packets| NodeCounters {
            name: name.into(),
            packets,
            ..NodeCounters::default()
        };
        let port = |(name, packets): (&str, u64)| PortCounter { name: name.into(), packets };
        let dropped = |node: &str, packets| DropCounter {
            node: node.into(),
            port: None,
            reason: "because".into(),
            packets,
        };
        Counters {
            nodes: vec![
                node("RxL3IPv4ValidHeaderLength", 9),
                node("RxL3IPv4Valid", 12),
                node("TxQueue", 3),
                node("TxL4UDPFillHeader", 4),
                NodeCounters {
                    ports: [("ipv4", 5), ("ipv6", 1), ("unsummed", 4)].map(port).into(),
                    ..node("TxL4UDPInitiateResponse", 10)
                },
            ],
            drops: vec![dropped("RxL3IPv4Valid", 2), dropped("TxQueue", 1), dropped("RxL4UDP", 0)],
            ..Counters::default()
        }
    }

    #[test]
    fn each_layer_shows_what_reached_it_and_what_it_dropped() {
        let rows = layers(&counters());
        let brief: Vec<_> = rows.iter().map(|r| (&r.layer[..], &r.what[..], r.count)).collect();
        assert_eq!(
            brief,
            [
                ("IPv4 receive", "packets", 9),
                ("IPv4 receive", "dropped: because", 2),
                ("UDP send", "packets", 10),
                ("TxQueue", "dropped: because", 1),
            ]
        );
    }

    #[test]
    fn drops_add_up() {
        assert_eq!(drops(&counters()), 3);
        assert_eq!(drops_at(&counters(), "TxQueue"), 1);
    }
}
