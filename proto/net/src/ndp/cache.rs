//! The neighbour cache: who has which link address (RFC 4861 §7.2, §7.3).

use core::net::Ipv6Addr;

use weever_wire::MacAddr;

use super::{Config, Learned, Neighbour, State};
use crate::neighbour::{Entry, NEVER, Table, TableFull};

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Hit(MacAddr),
    Incomplete,
    Ask,
    Failed,
    Full,
}

/// What became due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Solicit by the solicited-node group, or at this station.
    Ask(Ipv6Addr, Option<MacAddr>),
    /// It does not answer.
    GiveUp(Ipv6Addr),
}

/// What a neighbour advertisement says of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    pub(super) ip: Ipv6Addr,
    pub(super) mac: Option<MacAddr>,
    pub(super) solicited: bool,
    pub(super) overrides: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    table: Table<Ipv6Addr>,
    config: Config,
    /// ReachableTime and RetransTimer, as routers and chance have them.
    pub(super) reachable: u64,
    pub(super) retrans: u64,
    incomplete: usize,
    pub(super) wake: u64,
    pub(super) generation: u64,
}

impl Cache {
    pub(super) fn new(config: Config) -> Self {
        let (reachable, retrans) = (config.reachable, config.retrans);
        let table = Table::new(config.capacity);
        Self { table, config, reachable, retrans, incomplete: 0, wake: NEVER, generation: 0 }
    }

    pub(super) fn lookup(&mut self, ip: Ipv6Addr, now: u64) -> Found {
        let Some(entry) = self.table.find(ip) else { return self.miss(ip, now) };
        match entry.state {
            State::Incomplete => Found::Incomplete,
            State::Failed if now < entry.deadline => Found::Failed,
            State::Failed => {
                self.table.remove(ip);
                self.miss(ip, now)
            }
            _ => {
                let mac = entry.mac;
                self.touch(ip, now);
                Found::Hit(mac)
            }
        }
    }

    /// RFC 4861 §7.3.3: "The first time a node sends a packet to a neighbor whose entry is STALE,
    /// the sender changes the state to DELAY".
    pub(super) fn touch(&mut self, ip: Ipv6Addr, now: u64) {
        let Some(entry) = self.table.find(ip) else { return };
        entry.used_at = Some(now);
        if entry.state == State::Stale {
            let deadline = now.saturating_add(self.config.delay);
            (entry.state, entry.tries, entry.deadline) = (State::Delay, 0, deadline);
            self.wake = self.wake.min(deadline);
        }
    }

    fn miss(&mut self, ip: Ipv6Addr, now: u64) -> Found {
        if self.incomplete >= self.table.max_incomplete() {
            return Found::Full;
        }
        let deadline = now.saturating_add(self.retrans);
        let (mac, state) = (MacAddr::ZERO, State::Incomplete);
        let entry = Entry { ip, mac, state, tries: 1, deadline, heard_at: now, used_at: Some(now) };
        if self.insert(entry).is_err() {
            return Found::Full;
        }
        self.incomplete += 1;
        Found::Ask
    }

    fn insert(&mut self, entry: Entry<Ipv6Addr>) -> Result<(), TableFull> {
        let evicted = self.table.insert(entry)?;
        self.generation += u64::from(evicted.is_some_and(|old| old.state.is_resolved()));
        self.wake = self.wake.min(entry.deadline);
        Ok(())
    }

    pub(super) fn insert_static(
        &mut self,
        ip: Ipv6Addr,
        mac: MacAddr,
        now: u64,
    ) -> Result<(), TableFull> {
        self.remove(ip);
        let (state, deadline) = (State::Static, NEVER);
        self.insert(Entry { ip, mac, state, tries: 0, deadline, heard_at: now, used_at: None })?;
        self.generation += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, ip: Ipv6Addr) -> Option<Neighbour> {
        let entry = self.table.remove(ip)?;
        self.incomplete -= usize::from(entry.state == State::Incomplete);
        self.generation += u64::from(entry.state.is_resolved());
        Some(entry.listed())
    }

    pub(super) fn state(&self, ip: Ipv6Addr) -> Option<State> {
        self.table.get(ip).map(|entry| entry.state)
    }

    pub(super) fn mac(&self, ip: Ipv6Addr) -> Option<MacAddr> {
        self.table.get(ip).filter(|entry| entry.state.is_resolved()).map(|entry| entry.mac)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Neighbour> + '_ {
        self.table.iter().map(Entry::listed)
    }

    /// What a sender says of itself: RFC 4861 §7.2.3, "If an entry already exists, and the cached
    /// link-layer address differs […], the cached address should be replaced by the received
    /// address, and the entry's reachability state MUST be set to STALE."
    pub(super) fn introduce(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        let known = self.table.find(ip).map(|entry| (entry.state, entry.mac));
        match known {
            Some((State::Static, _)) => None,
            Some((state, same)) if state.is_resolved() && same == mac => None,
            Some(_) => Some(self.set(ip, mac, State::Stale, now)),
            None => self.create(ip, mac, now),
        }
    }

    /// What somebody else on this station found out, as if the neighbour had answered.
    pub(super) fn adopt(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        match self.state(ip) {
            Some(State::Static) => return None,
            Some(_) => {}
            None => drop(self.create(ip, mac, now)?),
        }
        Some(self.set(ip, mac, State::Reachable, now))
    }

    fn create(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        let deadline = now.saturating_add(self.config.stale);
        let (state, tries, heard_at, used_at) = (State::Stale, 0, now, None);
        self.insert(Entry { ip, mac, state, tries, deadline, heard_at, used_at }).ok()?;
        self.generation += 1;
        Some(Learned { ip, mac, resolves: false, replaces: None })
    }

    /// RFC 4861 §7.2.5; false if we have nothing to do with the target.
    pub(super) fn advert(&mut self, said: Advert, now: u64) -> (bool, Option<Learned>) {
        let Advert { ip, mac, solicited, overrides } = said;
        let Some(entry) = self.table.find(ip) else { return (false, None) };
        let (before, old) = (entry.state, entry.mac);
        if matches!(before, State::Static | State::Failed) {
            return (before == State::Static, None);
        }
        let heard = if solicited { State::Reachable } else { State::Stale };
        let learned = match (mac, before) {
            // "If the link layer has addresses and no Target Link-Layer Address option is included,
            // the receiving node SHOULD silently discard the received advertisement."
            (None, State::Incomplete) => None,
            (Some(mac), State::Incomplete) => Some(self.set(ip, mac, heard, now)),
            (Some(mac), _) if mac != old && !overrides => {
                if before == State::Reachable {
                    self.set(ip, old, State::Stale, now);
                }
                None
            }
            (Some(mac), _) if mac != old => Some(self.set(ip, mac, heard, now)),
            _ if solicited => Some(self.set(ip, old, State::Reachable, now)),
            _ => None,
        };
        (true, learned)
    }

    /// Enters an address for a neighbour that is there.
    fn set(&mut self, ip: Ipv6Addr, mac: MacAddr, state: State, now: u64) -> Learned {
        let lasts = if state == State::Reachable { self.reachable } else { self.config.stale };
        let deadline = now.saturating_add(lasts);
        let mut learned = Learned { ip, mac, resolves: false, replaces: None };
        let Some(entry) = self.table.find(ip) else { return learned };
        let (before, old) = (entry.state, entry.mac);
        (entry.state, entry.tries, entry.deadline) = (state, 0, deadline);
        (entry.mac, entry.heard_at) = (mac, now);
        learned.resolves = before == State::Incomplete;
        learned.replaces = (before.is_resolved() && old != mac).then_some(old);
        self.incomplete -= usize::from(learned.resolves);
        self.generation += u64::from(!before.is_resolved() || old != mac);
        self.wake = self.wake.min(deadline);
        learned
    }

    /// RFC 4861 §7.3.1: an upper layer makes progress with the neighbour.
    pub(super) fn confirm(&mut self, ip: Ipv6Addr, now: u64) {
        let used = |entry: &&mut Entry<Ipv6Addr>| {
            matches!(entry.state, State::Reachable | State::Stale | State::Delay | State::Probe)
        };
        if let Some(mac) = self.table.find(ip).filter(used).map(|entry| entry.mac) {
            self.set(ip, mac, State::Reachable, now);
        }
    }

    pub(super) fn poll(&mut self, now: u64, mut act: impl FnMut(Due)) {
        if now < self.wake {
            return;
        }
        let (config, retrans) = (self.config, self.retrans);
        let (mut wake, mut incomplete, mut withdrawn) = (NEVER, 0, 0);
        self.table.retain_mut(|entry| {
            let before = entry.state;
            let keep = entry.deadline > now || expire(entry, &config, retrans, now, &mut act);
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

/// The transition of an entry whose deadline has come; false if it is forgotten.
fn expire(
    entry: &mut Entry<Ipv6Addr>,
    config: &Config,
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
