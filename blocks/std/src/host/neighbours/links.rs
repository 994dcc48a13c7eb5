//! The neighbour protocol on each of a host's interfaces, and the neighbours that readers have yet to hear of.

use std::collections::VecDeque;

use weever_net::neighbour::{Discovery, Neighbour};
use weever_wire::MacAddr;

/// One interface's.
#[derive(Debug)]
pub(super) struct Link<M> {
    pub(super) iface: u16,
    pub(super) up: bool,
    /// How often the interface had gone down when its neighbours were last forgotten.
    pub(super) downs: u32,
    /// The kernel's: see [`Interface::borrowed`](weever_net::iface::Interface::borrowed).
    pub(super) borrowed: bool,
    /// The generation last reported to the host's network; IPv6 only.
    pub(super) told: u64,
    pub(super) machine: M,
}

/// A state machine for each interface that has one, by ascending number.
#[derive(Debug)]
pub struct Links<M: Discovery> {
    all: Vec<Link<M>>,
    /// Operators' entries for interfaces that have no machine for a while.
    pub(super) kept: Vec<(u16, Neighbour<M::Ip>)>,
    /// Generations of those that are gone.
    past: u64,
}

impl<M: Discovery> Links<M> {
    pub(super) fn new() -> Self {
        Links { all: Vec::new(), kept: Vec::new(), past: 0 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link<M>> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link<M>> {
        self.all.iter_mut()
    }

    /// That of an interface, up or down.
    pub(super) fn any(&mut self, iface: u16) -> Option<&mut Link<M>> {
        let at = self.all.binary_search_by_key(&iface, |link| link.iface).ok()?;
        self.all.get_mut(at)
    }

    /// That of an interface that is up.
    pub(super) fn up(&mut self, iface: u16) -> Option<&mut Link<M>> {
        self.any(iface).filter(|link| link.up)
    }

    /// Adds one for an interface that has none.
    pub(super) fn insert(&mut self, link: Link<M>) {
        let at = self.all.partition_point(|other| other.iface < link.iface);
        self.all.insert(at, link);
    }

    /// Drops those for which `stays` says no.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&mut Link<M>) -> bool) {
        let past = &mut self.past;
        self.all.retain_mut(|link| {
            let stays = stays(link);
            if !stays {
                *past += link.machine.neighbours().generation() + 1;
            }
            stays
        });
    }

    /// Every neighbour with its interface, those included that wait for theirs to come back.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u16, Neighbour<M::Ip>)> + '_ {
        let of = |link: &Link<M>| link.iface;
        let running = self.all.iter().map(move |link| (of(link), link.machine.neighbours()));
        let running = running.flat_map(|(iface, all)| all.iter().map(move |e| (iface, e)));
        running.chain(self.kept.iter().copied())
    }

    /// Forgets a neighbour, whether its interface is up or not; returns its entry.
    pub(super) fn remove(&mut self, iface: u16, ip: M::Ip) -> Option<Neighbour<M::Ip>> {
        if let Some(link) = self.any(iface) {
            return link.machine.neighbours_mut().remove(ip);
        }
        let at = self.kept.iter().position(|(of, kept)| *of == iface && kept.ip == ip)?;
        Some(self.kept.swap_remove(at).1)
    }

    /// The neighbours whose link address is known, by ascending interface and address.
    pub(super) fn resolved(&self) -> impl Iterator<Item = (u16, M::Ip, MacAddr)> + '_ {
        self.all.iter().flat_map(|link| {
            link.machine.neighbours().resolved().map(|(ip, mac)| (link.iface, ip, mac))
        })
    }

    /// A number that grows whenever a link address is learned or lost.
    pub(super) fn generation(&self) -> u64 {
        let generation = |link: &Link<M>| link.machine.neighbours().generation();
        self.all.iter().fold(self.past, |sum, link| sum + generation(link))
    }

    /// When the first of them has something to do.
    pub(super) fn poll_at(&self) -> u64 {
        self.all.iter().filter_map(|link| link.machine.poll_at()).min().unwrap_or(u64::MAX)
    }
}

/// How many events are remembered; a reader that misses some has to look at everything.
pub(super) const NEWS: usize = 1024;

/// Keys of neighbours that were resolved or given up.
#[derive(Debug)]
pub(super) struct News {
    /// The latest last.
    latest: VecDeque<u64>,
    /// How many there ever were.
    count: u64,
}

impl News {
    pub(super) fn new() -> News {
        News { latest: VecDeque::with_capacity(NEWS), count: 0 }
    }

    pub(super) fn push(&mut self, key: u64) {
        if self.latest.len() == NEWS {
            self.latest.pop_front();
        }
        self.latest.push_back(key);
        self.count += 1;
    }

    /// How many there ever were: the position of a reader that has read all.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Calls `visit` for each that came after the first `seen`, or once without one when some of
    /// them are forgotten.
    pub(super) fn since(&self, seen: u64, mut visit: impl FnMut(Option<u64>)) {
        let missed = self.count - seen;
        match usize::try_from(missed).ok().and_then(|m| self.latest.len().checked_sub(m)) {
            Some(old) => self.latest.iter().skip(old).for_each(|key| visit(Some(*key))),
            None => visit(None),
        }
    }
}
