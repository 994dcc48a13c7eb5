//! The mirror against a kernel whose network is being changed.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weever_link_sys::mirror::{Event, Mirror};
use weever_testbed::{Fixture, Namespace, require_net_admin};

/// A mirror of the left namespace and everything it has told.
struct Watcher {
    mirror: Mirror,
    told: Vec<Event>,
}

impl Watcher {
    fn of(namespace: &Namespace, interfaces: &[u32]) -> Watcher {
        let mirror = namespace.run(|| Mirror::open(interfaces.iter().copied())).unwrap();
        let mut watcher = Watcher { mirror, told: Vec::new() };
        watcher.poll();
        watcher
    }

    fn poll(&mut self) {
        self.mirror.poll(|event| self.told.push(event)).unwrap();
    }

    /// Waits, on the descriptor, until something was told that `wanted` accepts; forgets the events
    /// before it.
    fn until(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> Event {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(place) = self.told.iter().position(&wanted) {
                return self.told.drain(..=place).next_back().expect("it is there");
            }
            assert!(Instant::now() < end, "{what}; told were {:?}", self.told);
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            let fd = self.mirror.as_fd();
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap();
            self.poll();
        }
    }
}

fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, last))
}

#[test]
fn what_is_there_is_told_first() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net.veth.left.add_neighbour(Ipv4Addr::new(10, 77, 0, 9), [2, 0, 0, 0, 0, 9]).unwrap();
    net.left.add_route(Ipv4Addr::new(10, 99, 0, 0), 16, Fixture::RIGHT).unwrap();
    let index = net.veth.left.index;
    let mut watcher = Watcher::of(&net.left, &[index]);
    let told = std::mem::take(&mut watcher.told);
    assert!(told.iter().all(|event| event.interface() == index), "the loopback is left out");
    assert!(told.iter().any(|event| matches!(event,
        Event::Link(link) if link.name == "left0" && link.mac == net.veth.left.mac
            && link.mtu == 1500 && link.up && link.running)));
    assert!(told.iter().any(|event| matches!(event,
        Event::Address(a) if a.address == v4(1) && a.prefix == 24 && a.usable)));
    assert!(told.iter().any(|event| matches!(event,
        Event::Route(r) if r.network == v4(0) && r.prefix == 24 && r.gateway.is_none()
            && r.source == Some(v4(1)))));
    assert!(told.iter().any(|event| matches!(event,
        Event::Route(r) if r.prefix == 16 && r.gateway == Some(v4(2)))));
    assert!(told.iter().any(|event| matches!(event,
        Event::Neighbour(n) if n.address == v4(9) && n.mac == Some([2, 0, 0, 0, 0, 9])
            && n.permanent)));
    watcher.poll();
    assert_eq!(watcher.told, [], "nothing is told twice");
    let all = Watcher::of(&net.left, &[]);
    assert!(all.told.iter().any(|event| event.interface() != index), "every interface");
}

#[test]
fn changes_are_told_as_they_happen() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let mut watcher = Watcher::of(&net.left, &[net.veth.left.index]);
    net.veth.left.set_mtu(1280).unwrap();
    watcher.until("the MTU", |event| matches!(event, Event::Link(link) if link.mtu == 1280));
    net.veth.left.add_address(Fixture::LEFT, 24).unwrap();
    watcher.until("the address", |e| matches!(e, Event::Address(a) if a.address == v4(1)));
    watcher.until("its route", |e| matches!(e, Event::Route(r) if r.network == v4(0)));
    net.veth.left.add_neighbour(Ipv4Addr::new(10, 77, 0, 5), [2; 6]).unwrap();
    watcher.until(
        "the neighbour",
        |event| matches!(event, Event::Neighbour(n) if n.address == v4(5) && n.mac == Some([2; 6])),
    );
    net.veth.left.add_neighbour(Ipv4Addr::new(10, 77, 0, 5), [4; 6]).unwrap();
    watcher.until(
        "its new address",
        |event| matches!(event, Event::Neighbour(n) if n.mac == Some([4; 6])),
    );
    net.right.set_down("right0").unwrap();
    watcher.until(
        "no carrier",
        |event| matches!(event, Event::Link(link) if link.up && !link.running),
    );
    net.right.set_up("right0").unwrap();
    watcher.until("a carrier", |event| matches!(event, Event::Link(link) if link.running));
}

/// The kernel does not announce that IPv4 routes went with their link.
#[test]
fn routes_that_go_without_a_word_are_missed_all_the_same() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net.left.add_route(Ipv4Addr::new(10, 99, 0, 0), 16, Fixture::RIGHT).unwrap();
    let mut watcher = Watcher::of(&net.left, &[net.veth.left.index]);
    watcher.told.clear();
    net.left.set_down("left0").unwrap();
    watcher.until(
        "the route's end",
        |event| matches!(event, Event::RouteGone(r) if r.prefix == 16 && r.gateway == Some(v4(2))),
    );
    net.left.set_up("left0").unwrap();
    watcher
        .until("the network's route", |event| matches!(event, Event::Route(r) if r.prefix == 24));
    net.left.delete_link("left0").unwrap();
    watcher.until("the link's end", |e| matches!(e, Event::LinkGone(l) if l.name == "left0"));
}

#[test]
fn a_neighbour_is_found_on_request_and_one_that_is_not_there_fails() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let index = net.veth.left.index;
    // One try of a quarter of a second.
    net.left.sysctl("net/ipv4/neigh/left0/retrans_time_ms", "100").unwrap();
    let mut watcher = Watcher::of(&net.left, &[index]);
    watcher.mirror.resolve(index, v4(2)).unwrap();
    watcher.until("the neighbour", |event| {
        matches!(event, Event::Neighbour(n)
            if n.address == v4(2) && n.mac == Some(net.veth.right.mac) && !n.permanent)
    });
    watcher.mirror.resolve(index, v4(3)).unwrap();
    watcher.until("the failure", |event| {
        matches!(event, Event::Neighbour(n) if n.address == v4(3) && n.mac.is_none() && n.failed)
    });
}

/// More changes than the socket holds: the kernel drops the rest and says so.
#[test]
fn what_was_lost_is_read_again() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let mut watcher = Watcher::of(&net.left, &[net.veth.left.index]);
    let address = |i: u16| Ipv4Addr::new(10, 78, (i >> 8) as u8, i as u8);
    for i in 0..6_000 {
        net.veth.left.add_neighbour(address(i), [2; 6]).unwrap();
    }
    let end = Instant::now() + Duration::from_secs(10);
    let neighbours = |told: &[Event]| {
        let known = told.iter().filter(|event| matches!(event, Event::Neighbour(n) if n.permanent));
        known.count()
    };
    while neighbours(&watcher.told) < 6_000 && Instant::now() < end {
        watcher.poll();
    }
    assert_eq!(neighbours(&watcher.told), 6_000, "each once");
}
