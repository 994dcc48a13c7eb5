//! IPv6 neighbours: one writer at a time, readers that do not lock (DESIGN §4.4). What neighbour
//! discovery finds out about addresses and routes is published as a change of the host's network.

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use weever_blocks_api::Nanos;
use weever_net::iface::IfaceId;
use weever_net::ndp::{
    Action, Config, Lookup, Neighbour, Outcome, Received, Reject, State, TableFull, Transmit,
};
use weever_net::random::keyed_hash;
use weever_wire::MacAddr;
use weever_wire::ndp::NdpRepr;

use super::nodes6::Nodes;
use super::{Host, Resolver};

/// How many resolved or failed addresses are remembered for the workers that have not looked yet.
const NEWS: usize = 1024;

/// A neighbour: the interface that it is at, and its address.
type At = (u16, Ipv6Addr);

/// What waits for a neighbour waits by this. Two neighbours that share a key wake each other's
/// packets, which then look again and wait on.
pub(crate) fn key6((iface, ip): At) -> u64 {
    let bits = ip.to_bits();
    keyed_hash([iface.into(), 0], &[(bits >> 64) as u64, bits as u64])
}

/// The neighbours whose link address is known, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot6 {
    /// Ascending: a search has no worst case that a peer could construct.
    known: Box<[Known]>,
}

#[derive(Debug)]
struct Known {
    at: At,
    mac: MacAddr,
    /// Told to the cache at the next poll, which then keeps the entry fresh.
    used: AtomicBool,
}

impl Snapshot6 {
    /// The link address of a neighbour, and a note that it was used.
    #[inline]
    pub(crate) fn find(&self, at: At) -> Option<MacAddr> {
        let found = self.known.binary_search_by_key(&at, |known| known.at).ok()?;
        let known = &self.known[found];
        // Reading first keeps the line shared among the workers that send to this neighbour.
        if !known.used.load(Ordering::Relaxed) {
            known.used.store(true, Ordering::Relaxed);
        }
        Some(known.mac)
    }

    fn of(nodes: &Nodes) -> Snapshot6 {
        let mut known = Vec::new();
        for own in &nodes.all {
            own.node.for_each_resolved(|ip, mac| {
                known.push(Known { at: (own.iface, ip), mac, used: AtomicBool::new(false) });
            });
        }
        Snapshot6 { known: known.into() }
    }
}

/// A reader's handle to the latest snapshot.
pub(crate) type Reader6 = arc_swap::Cache<Arc<ArcSwap<Snapshot6>>, Arc<Snapshot6>>;

/// The IPv6 neighbours of one host on all its interfaces, shared by its workers.
#[derive(Debug)]
pub struct Neighbours6 {
    host: Arc<Host>,
    resolver: Arc<Resolver>,
    slow: Mutex<Slow>,
    published: Arc<ArcSwap<Snapshot6>>,
    /// Copies of what the lock guards, for a glance without it.
    news: AtomicU64,
    wake: AtomicU64,
    followed: AtomicU64,
}

#[derive(Debug)]
struct Slow {
    nodes: Nodes,
    generation: u64,
    /// The generation of the host's network that the nodes are made for.
    followed: u64,
    /// Keys of neighbours that were resolved or given up, the latest last.
    news: VecDeque<u64>,
    /// How many there ever were.
    told: u64,
}

impl Neighbours6 {
    /// Neighbour discovery on each interface that speaks IPv6. `seed` decides its delays.
    pub fn new(host: Arc<Host>, config: Config, seed: u64, now: Nanos) -> Neighbours6 {
        let nodes = Nodes::new(config, seed);
        let news = VecDeque::with_capacity(NEWS);
        let slow = Slow { nodes, generation: 0, followed: 0, news, told: 0 };
        let (slow, published) = (Mutex::new(slow), Arc::default());
        let (news, wake, followed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let resolver = Arc::default();
        let neighbours = Neighbours6 { host, resolver, slow, published, news, wake, followed };
        drop(neighbours.session(now));
        neighbours
    }

    /// The same with somebody who finds out the neighbours of borrowed interfaces.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<Resolver>) -> Neighbours6 {
        Neighbours6 { resolver, ..self }
    }

    /// Every entry, by interface and address. Locks.
    pub fn entries(&self) -> Vec<(IfaceId, Neighbour)> {
        let slow = self.lock();
        slow.nodes.entries().map(|(iface, entry)| (IfaceId(iface), entry)).collect()
    }

    /// Enters an address that never ages and that packets do not change. False if the interface
    /// does not speak IPv6. Locks.
    ///
    /// # Errors
    /// When the cache is full of such entries.
    pub fn insert_static(
        &self,
        iface: IfaceId,
        ip: Ipv6Addr,
        mac: MacAddr,
        now: Nanos,
    ) -> Result<bool, TableFull> {
        let mut session = self.session(now);
        let Some(node) = session.slow.nodes.of(iface.0) else { return Ok(false) };
        node.insert_static(ip, mac, now)?;
        session.slow.tell((iface.0, ip));
        Ok(true)
    }

    /// Forgets a neighbour, entered by an operator or not; what was known of it. Locks.
    pub fn remove(&self, iface: IfaceId, ip: Ipv6Addr, now: Nanos) -> Option<Neighbour> {
        let mut session = self.session(now);
        let removed = session.slow.nodes.remove(iface.0, ip)?;
        session.slow.tell((iface.0, ip));
        Some(removed)
    }

    /// Takes over a link address that somebody else found out, who is asked for it again while it is
    /// used. Has no effect on what an operator has entered. Locks.
    pub fn adopt(&self, iface: IfaceId, ip: Ipv6Addr, mac: MacAddr, now: Nanos) {
        let mut session = self.session(now);
        let Some(node) = session.slow.nodes.of(iface.0) else { return };
        if node.adopt(ip, mac, now).is_some_and(|learned| learned.resolves) {
            session.slow.tell((iface.0, ip));
        }
    }

    /// Forgets what was adopted, but for what packets wait for: whoever withdrew it looks again, and
    /// they wait until it is found or time is up. Locks.
    pub fn withdraw(&self, iface: IfaceId, ip: Ipv6Addr, now: Nanos) {
        let mut session = self.session(now);
        let Some(node) = session.slow.nodes.of(iface.0) else { return };
        let is_static = |e: Neighbour| e.ip == ip && e.state == State::Static;
        if !node.is_asked(ip) && !node.entries().any(is_static) {
            node.remove(ip);
        }
    }

    /// The latest snapshot, to be read once per burst.
    pub(crate) fn reader(&self) -> Reader6 {
        arc_swap::Cache::new(Arc::clone(&self.published))
    }

    /// Whether something is due, `seen` is not the latest news, or the host's network has changed.
    /// Does not lock.
    pub(crate) fn is_due(&self, seen: u64, now: Nanos) -> bool {
        self.news.load(Ordering::Acquire) != seen
            || self.wake.load(Ordering::Acquire) <= now
            || self.followed.load(Ordering::Acquire) != self.host.generation()
    }

    /// Access for one burst; what changed is published when it ends.
    pub(crate) fn session(&self, now: Nanos) -> Session6<'_> {
        let mut slow = self.lock();
        if slow.followed != self.host.generation() {
            slow.follow(&self.host, now);
        }
        Session6 { shared: self, slow }
    }

    fn lock(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slow {
    fn tell(&mut self, at: At) {
        if self.news.len() == NEWS {
            self.news.pop_front();
        }
        self.news.push_back(key6(at));
        self.told += 1;
    }

    #[cold]
    fn follow(&mut self, host: &Host, now: Nanos) {
        let state = host.state();
        let mut gone = Vec::new();
        self.nodes.follow(&state, now, |iface, ip| gone.push((iface, ip)));
        gone.into_iter().for_each(|at| self.tell(at));
        self.followed = state.generation();
    }

    /// Has the host's network know what neighbour discovery found out. The change comes back as
    /// one to follow, which changes nothing more.
    fn report(&mut self, host: &Host) {
        for own in &mut self.nodes.all {
            let generation = own.node.config_generation();
            if own.told != generation {
                own.told = generation;
                let found = own.advertised();
                // An interface that went meanwhile will be followed.
                let _ = host.update(|net| net.set_advertised(IfaceId(own.iface), found));
            }
        }
    }
}

/// Neighbour discovery, locked.
pub(crate) struct Session6<'a> {
    shared: &'a Neighbours6,
    slow: MutexGuard<'a, Slow>,
}

impl Session6<'_> {
    /// What is known of a neighbour; `None` if its interface does not speak IPv6, or is down.
    pub(crate) fn lookup(&mut self, (iface, ip): At, now: Nanos) -> Option<Lookup> {
        let found = self.slow.nodes.of(iface)?.lookup(ip, now);
        match found {
            Lookup::MissSendRequest(_) if self.slow.nodes.is_borrowed(iface) => {
                self.shared.resolver.ask(iface, ip.into());
                Some(Lookup::Incomplete)
            }
            found => Some(found),
        }
    }

    /// Whether a neighbour is being asked for, so that what waits for it will be told.
    pub(crate) fn is_asked(&mut self, (iface, ip): At) -> bool {
        self.slow.nodes.of(iface).is_some_and(|node| node.is_asked(ip))
    }

    /// Handles a message that `iface` received; `None` as for [`lookup`](Self::lookup).
    pub(crate) fn handle(
        &mut self,
        iface: u16,
        received: &Received<'_>,
        now: Nanos,
    ) -> Option<Result<Outcome, Reject>> {
        let outcome = self.slow.nodes.of(iface)?.handle(received, now);
        if let Ok(Outcome { learned: Some(learned), .. }) = outcome
            && learned.resolves
        {
            self.slow.tell((iface, learned.ip));
        }
        Some(outcome)
    }

    /// Tells what was used, and does what is due: calls `send` for what is to be sent by which
    /// interface.
    pub(crate) fn poll(&mut self, now: Nanos, mut send: impl FnMut(u16, Transmit)) {
        self.note_use(now);
        let mut given_up = Vec::new();
        for own in &mut self.slow.nodes.all {
            let (iface, borrowed) = (own.iface, own.borrowed);
            own.node.poll(now, |action| match action {
                Action::Send(transmit) if borrowed => {
                    if let NdpRepr::NeighbourSolicit { target, .. } = transmit.message {
                        self.shared.resolver.ask(iface, target.into());
                    }
                }
                Action::Send(transmit) => send(iface, transmit),
                Action::Unresolved(ip) => given_up.push((iface, ip)),
            });
        }
        given_up.into_iter().for_each(|at| self.slow.tell(at));
    }

    /// Calls `visit` for the key of each neighbour that was resolved or given up since `seen`, or
    /// once without one when some of them are forgotten: then whoever waits is to look again.
    /// Returns the new value for `seen`.
    pub(crate) fn news_since(&self, seen: u64, mut visit: impl FnMut(Option<u64>)) -> u64 {
        let missed = self.slow.told - seen;
        match usize::try_from(missed).ok().and_then(|m| self.slow.news.len().checked_sub(m)) {
            Some(old) => self.slow.news.iter().skip(old).for_each(|key| visit(Some(*key))),
            None => visit(None),
        }
        self.slow.told
    }

    fn note_use(&mut self, now: Nanos) {
        for known in &self.shared.published.load().known {
            if known.used.swap(false, Ordering::Relaxed) {
                let (iface, ip) = known.at;
                self.slow.nodes.of(iface).into_iter().for_each(|node| node.touch(ip, now));
            }
        }
    }

    fn publish(&mut self) {
        let generation = self.slow.nodes.generation();
        if generation != self.slow.generation {
            self.slow.generation = generation;
            let fresh = Arc::new(Snapshot6::of(&self.slow.nodes));
            let old = self.shared.published.swap(fresh);
            // Use that was not told yet must not be lost with the old snapshot.
            let fresh = self.shared.published.load();
            for known in old.known.iter().filter(|known| known.used.load(Ordering::Relaxed)) {
                fresh.find(known.at);
            }
        }
    }
}

impl Drop for Session6<'_> {
    fn drop(&mut self) {
        self.publish();
        self.slow.report(&self.shared.host);
        self.shared.wake.store(self.slow.nodes.poll_at(), Ordering::Release);
        self.shared.news.store(self.slow.told, Ordering::Release);
        self.shared.followed.store(self.slow.followed, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::frames::{HOST_MAC, PEER_MAC};
    use weever_net::iface::Interface;
    use weever_net::ipv6::{AddrState, Locals6};
    use weever_net::state::{NetConfig, StateError};

    const SECOND: Nanos = 1_000_000_000;
    const LINK: IfaceId = IfaceId(0);

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn neighbours() -> Neighbours6 {
        let mut config = NetConfig::new();
        let iface = Interface::new(LINK, "link0", 0, HOST_MAC).with_v6(Locals6::default());
        config.add_interface(iface).unwrap();
        Neighbours6::new(Arc::new(Host::new(config)), Config::default(), 1, 0)
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
        assert_eq!(neighbours.reader().load().find((0, ip("fe80::2"))), Some(PEER_MAC));
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
        assert_eq!(reader.load().find((0, ip("fe80::2"))), Some(PEER_MAC));
        let mut session = neighbours.session(2);
        assert!(matches!(session.lookup((0, ip("fe80::3")), 2), Some(Lookup::MissSendRequest(_))));
        drop(session);
        neighbours.host.update(|net| net.set_up(LINK, false)).unwrap();
        assert!(neighbours.is_due(1, 2), "a change is news");
        let mut session = neighbours.session(3);
        assert!(session.lookup((0, ip("fe80::2")), 3).is_none());
        let mut woken = Vec::new();
        session.news_since(1, |key| woken.push(key));
        assert!(woken.contains(&Some(key6((0, ip("fe80::3"))))), "nobody waits for ever");
        drop(session);
        assert_eq!(reader.load().find((0, ip("fe80::2"))), None);
        neighbours.host.update(|net| net.set_up(LINK, true)).unwrap();
        drop(neighbours.session(4));
        assert_eq!(reader.load().find((0, ip("fe80::2"))), Some(PEER_MAC), "an operator's stays");
        neighbours
            .host
            .update(|net| {
                net.settings.forwarding = true;
                Ok::<_, StateError>(())
            })
            .unwrap();
        drop(neighbours.session(5));
        assert_eq!(reader.load().find((0, ip("fe80::2"))), Some(PEER_MAC), "on a router too");
        neighbours.host.update(|net| net.remove_interface(LINK)).unwrap();
        drop(neighbours.session(6));
        assert_eq!(reader.load().find((0, ip("fe80::2"))), None);
    }

    #[test]
    fn a_reader_that_fell_far_behind_wakes_all_that_wait() {
        let neighbours = neighbours();
        neighbours.session(0).lookup((0, ip("fe80::3")), 1);
        assert!(neighbours.remove(LINK, ip("fe80::3"), 2).is_some());
        let mut session = neighbours.session(2);
        (0..NEWS).for_each(|_| session.slow.tell((0, ip("fe80::1"))));
        let mut visited = Vec::new();
        session.news_since(0, |key| visited.push(key));
        assert_eq!(visited, [None]);
    }
}
