//! Timer expiry: requests repeated, entries aged.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use weever_wire::MacAddr;

use super::cache::request;
use super::probe::probe;
use super::{Action, Cache, Config, State, Transmit};
use crate::neighbour::NEVER;

type Entry = crate::neighbour::Entry<Ipv4Addr>;

/// The action of an entry whose deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    /// Nothing: the entry has changed its state.
    Wait,
    /// Ask the station.
    Ask(MacAddr),
    /// Give up asking.
    GiveUp,
    /// Forget the entry.
    Forget,
}

impl Cache {
    /// Does all work due at `now`.
    pub(super) fn expire(&mut self, now: u64, mut act: impl FnMut(Action)) {
        let (mac, locals, config) = (self.mac, &self.locals, self.config);
        let mut wake = self.claims.poll(now, |ip| act(Action::Send(announcement(mac, ip))));
        let mut free = Vec::new();
        let ask = |ip| act(Action::Send(probe(mac, ip)));
        wake = wake.min(self.probes.poll(now, ask, |ip| free.push(ip)));
        free.into_iter().for_each(|ip| act(Action::Free(ip)));
        self.entries.poll(now, |entry| {
            let expiry = expire(entry, config, now);
            match expiry {
                Expiry::Ask(dst) => act(Action::Send(request(locals, mac, dst, entry.ip))),
                Expiry::GiveUp => act(Action::Unresolved(entry.ip)),
                Expiry::Wait | Expiry::Forget => {}
            }
            expiry != Expiry::Forget
        });
        self.entries.arm(wake);
    }
}

/// RFC 5227 §3: a broadcast request with both protocol addresses ours.
pub(super) fn announcement(mac: MacAddr, ip: Ipv4Addr) -> Transmit {
    Transmit::request(MacAddr::BROADCAST, mac, ip, ip)
}

/// The transition of an entry whose deadline has come.
fn expire(entry: &mut Entry, config: Config, now: u64) -> Expiry {
    match entry.state {
        State::Incomplete if entry.tries < config.broadcast_tries => ask(entry, config, now),
        State::Incomplete => {
            enter(entry, State::Failed, now.saturating_add(config.failed));
            Expiry::GiveUp
        }
        // RFC 1122 §2.3.2.1(2), "Unicast Poll": a neighbour in use is asked while its address is
        // still used, so that a living one never stalls its traffic.
        State::Reachable if entry.used_at.is_some_and(|used| used > entry.heard_at) => {
            enter(entry, State::Probe, now);
            ask(entry, config, now)
        }
        State::Reachable => {
            enter(entry, State::Stale, now.saturating_add(config.stale));
            Expiry::Wait
        }
        State::Probe if entry.tries < config.unicast_tries => ask(entry, config, now),
        // It may have got another link address, which a unicast cannot find out.
        State::Probe => {
            enter(entry, State::Incomplete, now);
            ask(entry, config, now)
        }
        State::Stale | State::Delay | State::Failed => Expiry::Forget,
        State::Static => {
            entry.deadline = NEVER;
            Expiry::Wait
        }
    }
}

fn enter(entry: &mut Entry, state: State, deadline: u64) {
    (entry.state, entry.tries, entry.deadline) = (state, 0, deadline);
}

fn ask(entry: &mut Entry, config: Config, now: u64) -> Expiry {
    entry.tries += 1;
    entry.deadline = now.saturating_add(config.retry);
    Expiry::Ask(if entry.state == State::Probe { entry.mac } else { MacAddr::BROADCAST })
}
