//! Two hosts, a link that loses, delays, reorders and duplicates, and a virtual clock. The same
//! seed gives the same run.

mod host;
mod link;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

pub(crate) use host::Host;
pub(crate) use link::{Fault, Link};
use weever_net::arp::Discovery;

/// The host that asks.
pub(crate) const A: usize = 0;
/// The host that answers.
pub(crate) const B: usize = 1;

pub(crate) const A_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const B_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A frame on its way to a host.
struct Arrival {
    to: usize,
    frame: Vec<u8>,
}

pub(crate) struct Pair {
    pub(crate) now: u64,
    pub(crate) hosts: [Host; 2],
    pub(crate) link: Link,
    /// By time, then by order of sending.
    in_flight: BTreeMap<(u64, u64), Arrival>,
    sent: u64,
    /// Everything that was put on the link, with its time and sender.
    pub(crate) trace: Vec<(u64, usize, Vec<u8>)>,
}

impl Pair {
    pub(crate) fn new(seed: u64, fault: Fault) -> Self {
        Self {
            now: 0,
            hosts: [Host::new(A_IP, 1), Host::new(B_IP, 2)],
            link: Link::new(seed, fault),
            in_flight: BTreeMap::new(),
            sent: 0,
            trace: Vec::new(),
        }
    }

    /// Sends a payload from A to B.
    pub(crate) fn send(&mut self, payload: &[u8]) {
        self.hosts[A].send(B_IP, payload, self.now);
        self.collect(A);
    }

    /// Sends a payload from a host to the other, which sends it back.
    pub(crate) fn ask(&mut self, from: usize, payload: &[u8]) {
        self.hosts[from].ask([B_IP, A_IP][from], payload, self.now);
        self.collect(from);
    }

    /// Runs until `end`, and leaves the clock there.
    pub(crate) fn run_until(&mut self, end: u64) {
        while let Some(next) = self.next_event().filter(|&next| next <= end) {
            assert!(next >= self.now, "time never goes back");
            self.now = next;
            self.step();
        }
        self.now = end;
    }

    fn next_event(&self) -> Option<u64> {
        let arrival = self.in_flight.keys().next().map(|key| key.0);
        let timers = self.hosts.iter().filter_map(|host| host.arp.poll_at());
        // A deadline that has passed is due now.
        arrival.into_iter().chain(timers.map(|at| at.max(self.now))).min()
    }

    fn step(&mut self) {
        while let Some(entry) = self.in_flight.first_entry().filter(|e| e.key().0 <= self.now) {
            let Arrival { to, frame } = entry.remove();
            self.hosts[to].receive(&frame, self.now);
            self.collect(to);
        }
        for at in [A, B] {
            self.hosts[at].poll(self.now);
            self.collect(at);
        }
    }

    /// Puts a host's frames on the link.
    fn collect(&mut self, from: usize) {
        for frame in std::mem::take(&mut self.hosts[from].out) {
            self.trace.push((self.now, from, frame.clone()));
            for delay in self.link.carry() {
                self.sent += 1;
                let arrival = Arrival { to: 1 - from, frame: frame.clone() };
                self.in_flight.insert((self.now + delay, self.sent), arrival);
            }
        }
    }

    /// How many frames of this type a host has sent since `since`.
    pub(crate) fn count(&self, from: usize, ethertype: u16, since: u64) -> usize {
        let of_type = |frame: &[u8]| frame[12..14] == ethertype.to_be_bytes();
        self.trace.iter().filter(|(at, by, f)| *at >= since && *by == from && of_type(f)).count()
    }
}
