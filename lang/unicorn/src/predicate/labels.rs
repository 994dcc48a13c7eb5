//! Labels of Dragonet's models whose meaning is known.

use weever_graph::{Field, Predicate};

pub(super) const ETH_IP4: u128 = 0x0800;
pub(super) const ETH_ARP: u128 = 0x0806;
pub(super) const ETH_IP6: u128 = 0x86dd;

/// The atom (label, value): typed if the label is known, opaque if not.
pub(super) fn atom(label: &str, value: &str) -> Predicate {
    let typed = match label {
        "EthType" => ether_type(value).map(|v| Predicate::eq(Field::EthType, v)),
        "IpProt" => {
            protocol(&value.to_ascii_lowercase()).map(|v| Predicate::eq(Field::Ip4Proto, v))
        }
        _ => None,
    };
    typed.unwrap_or_else(|| Predicate::Atom { label: label.into(), value: value.into() })
}

/// A label without a value, as in Dragonet's constraints.
pub(super) fn bare(label: &str) -> Predicate {
    match label {
        "IPv4" | "IPv6" | "ARP" => atom("EthType", label),
        "UDP" | "TCP" | "ICMP" => atom("IpProt", label),
        _ => atom(label, "true"),
    }
}

fn ether_type(name: &str) -> Option<u128> {
    match name {
        "IPv4" => Some(ETH_IP4),
        "ARP" => Some(ETH_ARP),
        "IPv6" => Some(ETH_IP6),
        _ => None,
    }
}

/// The number of an IP protocol.
pub(super) fn protocol(name: &str) -> Option<u128> {
    match name {
        "icmp" => Some(1),
        "igmp" => Some(2),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmp6" => Some(58),
        "sctp" => Some(132),
        _ => None,
    }
}
