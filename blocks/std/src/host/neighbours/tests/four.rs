use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use weever_net::neighbour::Demand;

use weever_block::Nanos;
use weever_net::arp::{ArpConfig, Lookup};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::{NetConfig, StateError};
use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;

use super::super::{Key4, NeighbourKey, Neighbours, V4};
use crate::host::neighbours::links::NEWS;
use crate::host::{AddressConflict, Network, Resolver};
use crate::testing::frames::{HOST, HOST_MAC, PEER, PEER_MAC};

const SECOND: Nanos = 1_000_000_000;

fn neighbours() -> Neighbours {
    let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    make(config, Arc::default())
}

fn make(config: NetConfig, resolver: Arc<Resolver>) -> Neighbours {
    Neighbours::new(Arc::new(Network::new(config)), resolver, V4::new(ArpConfig::default()), 0)
}

fn at(ip: Ipv4Addr) -> Key4 {
    Key4::new(0, ip)
}

fn key(ip: Ipv4Addr) -> u64 {
    at(ip).wait_key([0; 2])
}

fn reply() -> ArpRepr {
    ArpRepr { op: 2, sha: PEER_MAC, spa: PEER, tha: HOST_MAC, tpa: HOST }
}

#[test]
fn address_conflicts_are_kept_once_for_each_station() {
    let neighbours = neighbours();
    let station = |last: u8| MacAddr([2, 0, 0, 0, 9, last]);
    let theirs = |mac| ArpRepr { sha: mac, spa: HOST, ..reply() };
    for mac in [station(1), station(1), station(2)] {
        neighbours.session(0).handle(0, &theirs(mac), 0).unwrap();
    }
    let conflict = |mac| AddressConflict { iface: IfaceId(0), ip: HOST, mac };
    assert_eq!(neighbours.take_conflicts(), [conflict(station(1)), conflict(station(2))]);
    assert_eq!(neighbours.take_conflicts(), []);
    for last in 0..=255 {
        neighbours.session(0).handle(0, &theirs(station(last)), 0).unwrap();
    }
    let kept = neighbours.take_conflicts();
    assert_eq!((kept.len(), kept[63]), (64, conflict(station(255))), "they have a bound");
}

#[test]
fn what_is_learned_is_published_when_the_session_ends() {
    let neighbours = neighbours();
    let mut reader = neighbours.reader();
    let mut session = neighbours.session(0);
    assert!(matches!(session.lookup(at(PEER), Demand::Own, 1), Some(Lookup::MissSendRequest(_))));
    assert!(session.knows(0, PEER) && session.knows(0, HOST));
    session.handle(0, &reply(), 2);
    assert_eq!(reader.load().find(at(PEER)), None);
    drop(session);
    assert_eq!(reader.load().find(at(PEER)), Some(PEER_MAC));
}

#[test]
fn news_reach_every_worker_once() {
    let neighbours = neighbours();
    let mut session = neighbours.session(0);
    session.lookup(at(PEER), Demand::Own, 1);
    session.handle(0, &reply(), 2);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let seen = session.news_since(0, |key| first.push(key));
    assert_eq!(session.news_since(seen, |key| second.push(key)), seen);
    assert_eq!((first, second), (vec![Some(key(PEER))], vec![]));
    drop(session);
    neighbours.session(0).poll(3, |_, _| ());
    assert!(neighbours.is_due(0, 4) && !neighbours.is_due(seen, 4));
}

#[test]
fn a_neighbour_that_is_used_is_asked_again_and_stays() {
    let neighbours = neighbours();
    neighbours.session(0).handle(0, &ArpRepr { op: 1, ..reply() }, 0);
    let mut reader = neighbours.reader();
    let mut asked = 0;
    for second in 1..400 {
        assert!(reader.load().find(at(PEER)).is_some(), "second {second}");
        let (mut session, before) = (neighbours.session(0), asked);
        session.poll(second * SECOND, |_, sent| asked += u32::from(sent.dst == PEER_MAC));
        if asked > before {
            session.handle(0, &reply(), second * SECOND);
        }
    }
    assert!((10..20).contains(&asked), "once in thirty seconds, not {asked} times");
}

#[test]
fn a_reader_that_fell_far_behind_wakes_all_that_wait() {
    let neighbours = neighbours();
    neighbours.session(0).lookup(at(PEER), Demand::Own, 1);
    // The neighbour it waits for is gone before any block has looked, and so is the news of it.
    assert!(neighbours.remove(IfaceId(0), PEER, 2).is_some());
    let mut session = neighbours.session(2);
    (0..NEWS).for_each(|_| session.tell(0, HOST));
    let mut visited = Vec::new();
    let seen = session.news_since(0, |key| visited.push(key));
    assert_eq!(visited, [None]);
    session.news_since(seen, |key| panic!("{key:?} is no news"));
}

#[test]
fn caches_follow_the_network() {
    let neighbours = neighbours();
    let (host, link) = (Arc::clone(&neighbours.host), IfaceId(0));
    let mut reader = neighbours.reader();
    neighbours.session(1).handle(0, &ArpRepr { op: 1, ..reply() }, 1);
    assert!(reader.load().find(at(PEER)).is_some());
    let waiting = Ipv4Addr::new(10, 0, 0, 77);
    neighbours.session(2).lookup(at(waiting), Demand::Own, 2);
    neighbours.session(2).poll(2, |_, _| ());
    assert!(!neighbours.is_due(0, 2));

    host.update(|net| net.set_up(link, false)).unwrap();
    assert!(neighbours.is_due(0, 2), "a change is news");
    let mut session = neighbours.session(3);
    assert_eq!(session.lookup(at(PEER), Demand::Own, 3), None, "the interface is down");
    let mut woken = Vec::new();
    session.news_since(0, |key| woken.push(key));
    assert_eq!(woken, [Some(key(waiting))], "no packet waits for ever");
    drop(session);
    assert_eq!(reader.load().find(at(PEER)), None);

    let up: Result<(), StateError> = host.update(|net| {
        net.add_address(link, "10.7.0.1/16".parse().unwrap())?;
        net.set_up(link, true)
    });
    up.unwrap();
    let mut announced = Vec::new();
    neighbours.session(4).poll(4, |_, sent| announced.push(sent.arp.spa));
    assert_eq!(announced, [HOST, Ipv4Addr::new(10, 7, 0, 1)]);
    host.update(|net| net.remove_interface(link)).unwrap();
    assert!(
        neighbours.session(5).handle(0, &reply(), 5).is_none() && neighbours.entries().is_empty()
    );
}

#[test]
fn an_interface_that_was_down_for_a_moment_has_no_neighbours() {
    let neighbours = neighbours();
    neighbours.adopt(IfaceId(0), PEER, PEER_MAC, 1);
    assert_eq!(neighbours.entries().len(), 1);
    for up in [false, true] {
        neighbours.host.update(|config| config.set_up(IfaceId(0), up)).unwrap();
    }
    neighbours.session(2).poll(2, |_, _| {});
    assert_eq!(neighbours.entries(), []);
}

#[test]
fn neighbours_of_a_borrowed_interface_are_somebody_elses_to_find() {
    let mut config = NetConfig::new();
    let iface = Interface::new(IfaceId(0), "eth0", 0, HOST_MAC);
    config.add_interface(Interface { borrowed: true, ..iface }).unwrap();
    config.add_address(IfaceId(0), "10.0.0.1/24".parse().unwrap()).unwrap();
    let (resolver, asked) = (Arc::new(Resolver::default()), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&asked);
    assert!(resolver.ask_by(move |iface, ip| {
        assert_eq!((iface, ip), (IfaceId(0), PEER.into()));
        *count.lock().unwrap() += 1;
    }));
    let neighbours = make(config, resolver);
    let mut reader = neighbours.reader();
    let asked = || *asked.lock().unwrap();
    let silent = |now| neighbours.session(now).poll(now, |_, sent| panic!("{sent:?}"));
    silent(0);
    assert_eq!(neighbours.session(1).lookup(at(PEER), Demand::Own, 1), Some(Lookup::Incomplete));
    neighbours.withdraw(IfaceId(0), PEER, 2);
    assert!(neighbours.session(2).is_asked(at(PEER)), "it is waited for all the same");
    silent(2 * SECOND);
    assert_eq!(asked(), 2, "at once, and a second later");
    neighbours.adopt(IfaceId(0), PEER, PEER_MAC, 2 * SECOND);
    let mut woken = Vec::new();
    neighbours.session(2 * SECOND).news_since(0, |key| woken.push(key));
    assert_eq!(woken, [Some(key(PEER))]);
    for second in 3..40 {
        assert_eq!(reader.load().find(at(PEER)), Some(PEER_MAC));
        silent(second * SECOND);
        if asked() == 3 {
            neighbours.adopt(IfaceId(0), PEER, PEER_MAC, second * SECOND);
        }
    }
    assert!(asked() >= 3, "a neighbour in use is asked for again");
    neighbours.withdraw(IfaceId(0), PEER, 41 * SECOND);
    assert_eq!(reader.load().find(at(PEER)), None);
}
