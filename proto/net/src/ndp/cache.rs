//! The neighbour cache (RFC 4861 §7.2, §7.3).

use core::net::Ipv6Addr;

use weever_wire::MacAddr;

use super::{Learned, Lookup, NdpConfig, State};
use crate::neighbour::{Demand, Entries, Entry, NEVER};

/// An action that became due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Solicit by the solicited-node group, or at this station.
    Ask(Ipv6Addr, Option<MacAddr>),
    /// It does not answer.
    GiveUp(Ipv6Addr),
}

/// The content of a neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    pub(super) ip: Ipv6Addr,
    pub(super) mac: Option<MacAddr>,
    pub(super) solicited: bool,
    pub(super) overrides: bool,
}

/// The effect of a neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdvertResult {
    /// Its target is no neighbour that we know or ask for.
    Unknown,
    /// It changes nothing but, perhaps, the trust in an entry.
    Ignored,
    /// It holds, and a link address may have been learned of it.
    Accepted(Option<Learned>),
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) entries: Entries<Ipv6Addr>,
    config: NdpConfig,
    /// ReachableTime and RetransTimer, as routers and chance have them.
    pub(super) reachable: u64,
    pub(super) retrans: u64,
}

impl Cache {
    pub(super) fn new(config: NdpConfig) -> Self {
        let (reachable, retrans) = (config.reachable, config.retrans);
        Self { entries: Entries::new(config.capacity), config, reachable, retrans }
    }

    pub(super) fn lookup(&mut self, ip: Ipv6Addr, demand: Demand, now: u64) -> Lookup<()> {
        let found = self.entries.lookup(ip, demand, self.retrans, now);
        if matches!(found, Lookup::Hit(_)) {
            self.touch(ip, now);
        }
        found
    }

    /// RFC 4861 §7.3.3: "The first time a node sends a packet to a neighbor whose entry is STALE,
    /// the sender changes the state to DELAY".
    pub(super) fn touch(&mut self, ip: Ipv6Addr, now: u64) {
        let first_probe = now.saturating_add(self.config.delay);
        self.entries.touch(ip, now, (State::Delay, first_probe));
    }

    /// Enters a sender's own link address: RFC 4861 §7.2.3, "If an entry already exists, and the
    /// cached link-layer address differs […], the cached address should be replaced by the received
    /// address, and the entry's reachability state MUST be set to STALE."
    pub(super) fn introduce(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        match self.entries.state(ip) {
            Some(State::Static) => None,
            Some(_) if self.entries.mac(ip) == Some(mac) => None,
            Some(_) => self.set(ip, mac, State::Stale, now),
            None => self.create(ip, mac, now),
        }
    }

    /// Takes over a link address that this station's kernel resolved, as if the neighbour had
    /// answered.
    pub(super) fn adopt(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        if self.entries.state(ip).is_none() {
            self.create(ip, mac, now)?;
        }
        self.set(ip, mac, State::Reachable, now)
    }

    fn create(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        let deadline = now.saturating_add(self.config.stale);
        self.entries.create((ip, mac), (State::Stale, deadline), now)
    }

    /// RFC 4861 §7.2.5.
    pub(super) fn advert(&mut self, said: Advert, now: u64) -> AdvertResult {
        let Advert { ip, mac, solicited, overrides } = said;
        let before = match self.entries.state(ip) {
            None | Some(State::Failed) => return AdvertResult::Unknown,
            Some(State::Static) => return AdvertResult::Ignored,
            Some(before) => before,
        };
        let heard = if solicited { State::Reachable } else { State::Stale };
        match (mac, self.entries.mac(ip)) {
            // "If the link layer has addresses and no Target Link-Layer Address option is included,
            // the receiving node SHOULD silently discard the received advertisement."
            (None, None) => AdvertResult::Ignored,
            // "If the Override flag is clear and the supplied link-layer address differs from that in
            // the cache, then […] the received advertisement should be ignored and MUST NOT update the
            // cache": a cleared Router flag is ignored as well.
            (Some(mac), Some(old)) if mac != old && !overrides => {
                if before == State::Reachable {
                    self.set(ip, old, State::Stale, now);
                }
                AdvertResult::Ignored
            }
            (Some(mac), old) if old != Some(mac) => {
                AdvertResult::Accepted(self.set(ip, mac, heard, now))
            }
            (_, Some(old)) if solicited => {
                AdvertResult::Accepted(self.set(ip, old, State::Reachable, now))
            }
            _ => AdvertResult::Accepted(None),
        }
    }

    /// Enters an address for a neighbour that is there, unless it is an operator's.
    fn set(&mut self, ip: Ipv6Addr, mac: MacAddr, state: State, now: u64) -> Option<Learned> {
        let lasts = if state == State::Reachable { self.reachable } else { self.config.stale };
        self.entries.update((ip, mac), (state, now.saturating_add(lasts)), now)
    }

    /// RFC 4861 §7.3.1: an upper layer makes progress with the neighbour.
    pub(super) fn confirm(&mut self, ip: Ipv6Addr, now: u64) {
        if let Some(mac) = self.entries.mac(ip) {
            self.set(ip, mac, State::Reachable, now);
        }
    }

    pub(super) fn poll(&mut self, now: u64, mut act: impl FnMut(Due)) {
        if now >= self.entries.wake() {
            let (config, retrans) = (self.config, self.retrans);
            self.entries.poll(now, |entry| expire(entry, &config, retrans, now, &mut act));
        }
    }
}

/// The transition of an entry whose deadline has come; false if it is forgotten.
fn expire(
    entry: &mut Entry<Ipv6Addr>,
    config: &NdpConfig,
    retrans: u64,
    now: u64,
    act: &mut impl FnMut(Due),
) -> bool {
    let enter = |entry: &mut Entry<Ipv6Addr>, state, lasts: u64| {
        (entry.state, entry.tries, entry.deadline) = (state, 0, now.saturating_add(lasts));
    };
    match entry.state {
        State::Incomplete if entry.tries >= config.multicast_tries => {
            enter(entry, State::Failed, config.failed);
            act(Due::GiveUp(entry.ip));
            return true;
        }
        State::Reachable => {
            enter(entry, State::Stale, config.stale);
            return true;
        }
        State::Stale | State::Failed => return false,
        State::Static => {
            entry.deadline = NEVER;
            return true;
        }
        State::Delay => enter(entry, State::Probe, 0),
        // RFC 7048: it may have got another link address, which a unicast cannot find out.
        State::Probe if entry.tries >= config.unicast_tries => enter(entry, State::Incomplete, 0),
        State::Incomplete | State::Probe => {}
    }
    entry.tries += 1;
    entry.deadline = now.saturating_add(retrans);
    act(Due::Ask(entry.ip, (entry.state == State::Probe).then_some(entry.mac)));
    true
}
