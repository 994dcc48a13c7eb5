//! Labels of Dragonet's models with a known meaning.

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

/// The number of a type of ICMP or ICMPv6 message, by pcap-filter's name for it.
pub(super) fn icmp_type(name: &str) -> Option<u128> {
    Some(match name {
        "icmp-echoreply" => 0,
        "icmp-unreach" => 3,
        "icmp-sourcequench" => 4,
        "icmp-redirect" => 5,
        "icmp-echo" => 8,
        "icmp-routeradvert" => 9,
        "icmp-routersolicit" => 10,
        "icmp-timxceed" => 11,
        "icmp-paramprob" => 12,
        "icmp-tstamp" => 13,
        "icmp-tstampreply" => 14,
        "icmp6-destinationunreach" => 1,
        "icmp6-packettoobig" => 2,
        "icmp6-timeexceeded" => 3,
        "icmp6-parameterproblem" => 4,
        "icmp6-echo" => 128,
        "icmp6-echoreply" => 129,
        "icmp6-routersolicit" => 133,
        "icmp6-routeradvert" => 134,
        "icmp6-neighborsolicit" => 135,
        "icmp6-neighboradvert" => 136,
        "icmp6-redirect" => 137,
        _ => return None,
    })
}

/// The number of an IP protocol.
pub(super) fn protocol(name: &str) -> Option<u128> {
    match name {
        "icmp" => Some(1),
        "igmp" => Some(2),
        "tcp" => Some(6),
        "igrp" => Some(9),
        "udp" => Some(17),
        "esp" => Some(50),
        "ah" => Some(51),
        "icmp6" => Some(58),
        "pim" => Some(103),
        "vrrp" => Some(112),
        "sctp" => Some(132),
        _ => None,
    }
}
