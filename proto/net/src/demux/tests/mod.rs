//! The table against the meaning of bindings, and the conflicts between bindings.

mod bindings;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::option;
use proptest::prelude::*;

use super::*;

fn addr() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (1..3u8).prop_map(|i| IpAddr::V4(Ipv4Addr::new(192, 0, 2, i))),
        (1..3u16).prop_map(|i| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, i))),
        Just(IpAddr::V4(Ipv4Addr::new(239, 1, 1, 1))),
        Just(IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 1))),
    ]
}

fn binding() -> impl Strategy<Value = Binding> {
    let family = prop_oneof![Just(Family::Both), Just(Family::V4), Just(Family::V6)];
    (
        family,
        option::of(addr()),
        option::of(1..3u16),
        option::of(addr()),
        option::of(1..3u16),
        option::of(0..2u16),
    )
        .prop_map(|(family, local_addr, local_port, remote_addr, remote_port, interface)| {
            Binding { family, local_addr, local_port, remote_addr, remote_port, interface }
        })
}

fn packet() -> impl Strategy<Value = FlowKey> {
    (addr(), 1..3u16, addr(), 1..3u16, 0..2u16).prop_map(
        |(local, sport, remote, dport, interface)| {
            FlowKey::new((local, sport), (remote, dport), interface)
        },
    )
}

fn table() -> SocketTable {
    SocketTable::new([1, 2, 3, 4], 1 << 20)
}

fn socket(id: u32) -> SocketRef {
    SocketRef { id, worker: id as u16 % 2 }
}

proptest! {
    /// The table finds the same as a walk over all bindings, also after removals.
    #[test]
    fn a_lookup_is_a_walk_over_all_bindings(
        bindings in proptest::collection::vec(binding(), 0..40),
        removed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        packets in proptest::collection::vec(packet(), 1..40),
    ) {
        let mut table = table();
        let mut all: Vec<(u32, Binding)> = Vec::new();
        for (id, binding) in bindings.into_iter().enumerate() {
            let id = id as u32;
            table.insert(&binding, socket(id), Sharing::Latest).unwrap();
            all.push((id, binding));
        }
        for index in removed {
            if all.is_empty() {
                break;
            }
            let (id, binding) = all.remove(index.index(all.len()));
            prop_assert!(table.remove(&binding, socket(id)));
            prop_assert!(!table.remove(&binding, socket(id)), "it is gone");
        }
        prop_assert_eq!(table.len(), all.len());
        let shapes: BTreeSet<u8> = all.iter().map(|(_, b)| binding::Shape::of(b).0).collect();
        prop_assert_eq!(table.shapes(), shapes.len());
        for packet in packets {
            let wanting = all.iter().filter(|(_, b)| b.wants(&packet));
            // The most specific, and of those the latest.
            let expected = wanting.clone().max_by_key(|(id, b)| (binding::Shape::of(b).0, *id));
            let found = table.find(&packet, 0).map(|socket| socket.id);
            prop_assert_eq!(found, expected.map(|(id, _)| *id));
            let mut everybody = BTreeSet::new();
            table.for_each(&packet, |socket| assert!(everybody.insert(socket.id)));
            prop_assert_eq!(everybody, wanting.map(|(id, _)| *id).collect::<BTreeSet<_>>());
        }
    }

    /// Two bindings overlap exactly if some packet is wanted by both.
    #[test]
    fn overlapping_bindings_have_a_packet_in_common(
        a in binding(), b in binding(), packets in proptest::collection::vec(packet(), 1..200),
    ) {
        // An address of one family and another's peer contradict each other: nothing matches.
        for packet in packets {
            if a.wants(&packet) && b.wants(&packet) {
                prop_assert!(a.overlaps(&b) && b.overlaps(&a));
            }
        }
    }
}

fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

#[test]
fn a_group_by_flow_keeps_a_flow_together_and_uses_everybody() {
    let mut table = table();
    let port = Binding { local_port: Some(53), ..Binding::default() };
    for id in 0..4 {
        table.insert(&port, socket(id), Sharing::ByFlow).unwrap();
    }
    let mut seen = BTreeSet::new();
    for remote_port in 1000..1100 {
        let packet = FlowKey::new((v4(1), 53), (v4(2), remote_port), 0);
        let first = table.find(&packet, 0).unwrap();
        assert_eq!(table.find(&packet, 1), Some(first), "whichever worker received it");
        seen.insert(first.id);
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_group_by_worker_stays_on_the_worker_where_it_can() {
    let mut table = table();
    let port = Binding { local_port: Some(53), ..Binding::default() };
    for id in 0..4 {
        table.insert(&port, socket(id), Sharing::ByWorker).unwrap();
    }
    for remote_port in 1000..1050 {
        let packet = FlowKey::new((v4(1), 53), (v4(2), remote_port), 0);
        for worker in 0..2 {
            assert_eq!(table.find(&packet, worker).unwrap().worker, worker);
        }
        assert!(table.find(&packet, 9).is_some(), "a worker without a socket of its own");
    }
}

#[test]
fn a_full_table_says_so_and_keeps_what_it_has() {
    let mut table = SocketTable::new([1, 2, 3, 4], 2);
    let port = |port| Binding { local_port: Some(port), ..Binding::default() };
    table.insert(&port(1), socket(1), Sharing::Exclusive).unwrap();
    table.insert(&port(2), socket(2), Sharing::Exclusive).unwrap();
    assert_eq!(table.insert(&port(3), socket(3), Sharing::Exclusive), Err(TableFull { limit: 2 }));
    assert!(table.remove(&port(1), socket(1)));
    assert!(!table.remove(&port(2), socket(1)), "another socket's");
    table.insert(&port(3), socket(3), Sharing::Exclusive).unwrap();
    let packet = FlowKey::new((v4(1), 3), (v4(2), 9), 0);
    assert_eq!(table.find(&packet, 0).map(|s| s.id), Some(3));
}

#[test]
fn a_dual_stack_socket_gives_way_to_one_of_the_packets_family() {
    let mut table = table();
    let port = Binding { local_port: Some(53), ..Binding::default() };
    table.insert(&port, socket(1), Sharing::Exclusive).unwrap();
    table.insert(&Binding { family: Family::V6, ..port }, socket(2), Sharing::Exclusive).unwrap();
    let six = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let find = |local| table.find(&FlowKey::new((local, 53), (local, 9), 0), 0).map(|s| s.id);
    assert_eq!((find(v4(1)), find(six)), (Some(1), Some(2)));
}
