//! What time does to the entries.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use weever_wire::MacAddr;

use super::probe::probe;
use super::{Action, Cache, Config, State, Transmit};
use crate::addr::Locals;
use crate::neighbour::NEVER;

type Entry = crate::neighbour::Entry<Ipv4Addr>;

/// What becomes of an entry whose deadline has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing to be done but what the entry says.
    Wait,
    /// Ask the station.
    Ask(MacAddr),
    /// Give up asking.
    GiveUp,
    /// Forget the entry.
    Forget,
}

impl Cache {
    /// Does what is due at `now`: calls `act` for every request to send and every neighbour that
    /// did not answer. A request that is not sent counts as lost, and is repeated.
    ///
    /// Costs one look at every entry if something is due, else nothing.
    pub fn poll(&mut self, now: u64, mut act: impl FnMut(Action)) {
        if now < self.wake {
            return;
        }
        let (mac, locals, config) = (self.mac, &self.locals, self.config);
        let mut wake = self.claims.poll(now, |ip| act(Action::Send(announcement(mac, ip))));
        let mut free = Vec::new();
        let ask = |ip| act(Action::Send(probe(mac, ip)));
        wake = wake.min(self.probes.poll(now, ask, |ip| free.push(ip)));
        free.into_iter().for_each(|ip| act(Action::Free(ip)));
        let (mut incomplete, mut withdrawn) = (0, 0);
        self.table.retain_mut(|entry| {
            let before = entry.state;
            let step = if entry.deadline <= now { expire(entry, config, now) } else { Step::Wait };
            match step {
                Step::Ask(dst) => act(Action::Send(request(locals, mac, dst, entry.ip))),
                Step::GiveUp => act(Action::Unresolved(entry.ip)),
                Step::Wait | Step::Forget => {}
            }
            let keep = step != Step::Forget;
            if keep {
                wake = wake.min(entry.deadline);
                incomplete += usize::from(entry.state == State::Incomplete);
            }
            let resolved = keep && entry.state.is_resolved();
            withdrawn += u64::from(before.is_resolved() && !resolved);
            keep
        });
        (self.wake, self.incomplete) = (wake, incomplete);
        self.generation += withdrawn;
    }
}

/// RFC 5227 §3: a broadcast request with both protocol addresses ours.
pub(super) fn announcement(mac: MacAddr, ip: Ipv4Addr) -> Transmit {
    Transmit::request(MacAddr::BROADCAST, mac, ip, ip)
}

fn request(locals: &Locals, mac: MacAddr, dst: MacAddr, ip: Ipv4Addr) -> Transmit {
    let source = locals.source_for(ip).unwrap_or(Ipv4Addr::UNSPECIFIED);
    Transmit::request(dst, mac, source, ip)
}

/// The transition of an entry whose deadline has come.
fn expire(entry: &mut Entry, config: Config, now: u64) -> Step {
    match entry.state {
        State::Incomplete if entry.tries < config.broadcast_tries => ask(entry, config, now),
        State::Incomplete => {
            enter(entry, State::Failed, now.saturating_add(config.failed));
            Step::GiveUp
        }
        // RFC 1122 §2.3.2.1(2), "Unicast Poll": a neighbour in use is asked while its address is
        // still used, so that a living one never stalls its traffic.
        State::Reachable if entry.used_at.is_some_and(|used| used > entry.heard_at) => {
            enter(entry, State::Probe, now);
            ask(entry, config, now)
        }
        State::Reachable => {
            enter(entry, State::Stale, now.saturating_add(config.stale));
            Step::Wait
        }
        State::Probe if entry.tries < config.unicast_tries => ask(entry, config, now),
        // It may have got another link address, which a unicast cannot find out.
        State::Probe => {
            enter(entry, State::Incomplete, now);
            ask(entry, config, now)
        }
        State::Stale | State::Delay | State::Failed => Step::Forget,
        State::Static => {
            entry.deadline = NEVER;
            Step::Wait
        }
    }
}

fn enter(entry: &mut Entry, state: State, deadline: u64) {
    (entry.state, entry.tries, entry.deadline) = (state, 0, deadline);
}

fn ask(entry: &mut Entry, config: Config, now: u64) -> Step {
    entry.tries += 1;
    entry.deadline = now.saturating_add(config.retry);
    Step::Ask(if entry.state == State::Probe { entry.mac } else { MacAddr::BROADCAST })
}
