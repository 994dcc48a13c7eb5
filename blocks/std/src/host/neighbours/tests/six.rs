use std::net::Ipv6Addr;
use std::sync::Arc;
use weever_net::neighbour::Demand;

use weever_block::Nanos;
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::{AddrState, Locals6};
use weever_net::ndp::{Lookup, NdpConfig};
use weever_net::state::{NetConfig, StateError};

use super::super::{Key6, NeighbourKey, Neighbours6, V6};
use crate::host::Network;
use crate::host::neighbours::links::NEWS;
use crate::testing::frames::{HOST_MAC, PEER_MAC};

const SECOND: Nanos = 1_000_000_000;
const LINK: IfaceId = IfaceId(0);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn neighbours() -> Neighbours6 {
    let mut config = NetConfig::new();
    let iface = Interface::new(LINK, "link0", 0, HOST_MAC).with_v6(Locals6::default());
    config.add_interface(iface).unwrap();
    let family = V6::new(NdpConfig::default(), [1, 2]);
    Neighbours6::new(Arc::new(Network::new(config)), Arc::default(), family, 0)
}

fn at(text: &str) -> Key6 {
    Key6::new(0, ip(text))
}

fn run(neighbours: &Neighbours6, from: u64, to: u64) {
    for tenth in from * 10..to * 10 {
        neighbours.session(tenth * SECOND / 10).poll(tenth * SECOND / 10, |_, _| ());
    }
}

#[test]
fn addresses_become_part_of_the_network_when_they_are_found_unique() {
    let neighbours = neighbours();
    let ours = ip("fe80::ff:fe00:1");
    assert!(!neighbours.host.state().is_ours6(LINK, ours));
    run(&neighbours, 0, 3);
    assert!(neighbours.host.state().is_ours6(LINK, ours));
    let added: Result<(), StateError> =
        neighbours.host.update(|net| net.add_address6(LINK, "fd00::1/64".parse().unwrap()));
    added.unwrap();
    assert!(!neighbours.host.state().is_ours6(LINK, ip("fd00::1")), "it is asked for first");
    run(&neighbours, 3, 6);
    assert!(neighbours.host.state().is_ours6(LINK, ip("fd00::1")));
    neighbours.host.update(|net| net.remove_address6(LINK, ip("fd00::1"))).unwrap();
    run(&neighbours, 6, 8);
    let state = neighbours.host.state();
    assert!(state.interface(LINK).unwrap().v6.get(ip("fd00::1")).is_none(), "and stays away");
    let own = state.interface(LINK).unwrap().v6.get(ours).unwrap();
    assert_eq!(own.state, AddrState::Preferred);
}

#[test]
fn another_mtu_leaves_addresses_and_neighbours_as_they_are() {
    let neighbours = neighbours();
    let ours = ip("fe80::ff:fe00:1");
    run(&neighbours, 0, 3);
    assert!(neighbours.insert_static(LINK, ip("fe80::2"), PEER_MAC, 3 * SECOND).unwrap());
    neighbours.host.update(|net| net.set_mtu(LINK, 1400)).unwrap();
    drop(neighbours.session(3 * SECOND));
    let state = neighbours.host.state();
    assert!(state.is_ours6(LINK, ours), "it need not be asked for again");
    assert_eq!(state.mtu6(LINK), 1400);
    assert_eq!(neighbours.reader().load().find(at("fe80::2")), Some(PEER_MAC));
    neighbours.host.update(|net| net.set_mtu(LINK, 1500)).unwrap();
    drop(neighbours.session(4 * SECOND));
    assert_eq!(neighbours.host.state().mtu6(LINK), 1500);
}

#[test]
fn what_is_entered_is_published_and_goes_with_the_interface() {
    let neighbours = neighbours();
    let mut reader = neighbours.reader();
    assert!(neighbours.insert_static(LINK, ip("fe80::2"), PEER_MAC, 1).unwrap());
    assert!(!neighbours.insert_static(IfaceId(7), ip("fe80::2"), PEER_MAC, 1).unwrap());
    assert_eq!(reader.load().find(at("fe80::2")), Some(PEER_MAC));
    let mut session = neighbours.session(2);
    assert!(matches!(
        session.lookup(at("fe80::3"), Demand::Own, 2),
        Some(Lookup::MissSendRequest(_))
    ));
    drop(session);
    neighbours.host.update(|net| net.set_up(LINK, false)).unwrap();
    assert!(neighbours.is_due(1, 2), "a change is news");
    let mut session = neighbours.session(3);
    assert!(session.lookup(at("fe80::2"), Demand::Own, 3).is_none());
    let mut woken = Vec::new();
    session.news_since(1, |key| woken.push(key));
    assert!(woken.contains(&Some(at("fe80::3").wait_key([1, 2]))), "no packet waits for ever");
    drop(session);
    assert_eq!(reader.load().find(at("fe80::2")), None);
    neighbours.host.update(|net| net.set_up(LINK, true)).unwrap();
    drop(neighbours.session(4));
    assert_eq!(reader.load().find(at("fe80::2")), Some(PEER_MAC), "an operator's stays");
    neighbours
        .host
        .update(|net| {
            net.settings.forwarding = true;
            Ok::<_, StateError>(())
        })
        .unwrap();
    drop(neighbours.session(5));
    assert_eq!(reader.load().find(at("fe80::2")), Some(PEER_MAC), "on a router too");
    neighbours.host.update(|net| net.remove_interface(LINK)).unwrap();
    drop(neighbours.session(6));
    assert_eq!(reader.load().find(at("fe80::2")), None);
}

#[test]
fn a_reader_that_fell_far_behind_wakes_all_that_wait() {
    let neighbours = neighbours();
    neighbours.session(0).lookup(at("fe80::3"), Demand::Own, 1);
    assert!(neighbours.remove(LINK, ip("fe80::3"), 2).is_some());
    let mut session = neighbours.session(2);
    (0..NEWS).for_each(|_| session.tell(0, ip("fe80::1")));
    let mut visited = Vec::new();
    session.news_since(0, |key| visited.push(key));
    assert_eq!(visited, [None]);
}
