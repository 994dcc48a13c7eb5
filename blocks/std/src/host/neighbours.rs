//! The neighbour caches: one writer at a time, readers that do not lock (DESIGN §4.4).

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use weever_blocks_api::Nanos;
use weever_net::arp::{
    Action, Cache, Config, Lookup, Neighbour, Outcome, State, TableFull, Transmit,
};
use weever_net::iface::IfaceId;
use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;

use super::follow::Caches;
use super::{Host, Resolver};

/// How many resolved or failed addresses are remembered for the workers that have not looked yet.
const NEWS: usize = 1024;

/// A neighbour: the interface that it is at, and its address. What waits for it waits by this.
#[inline]
pub(crate) const fn key(iface: u16, ip: Ipv4Addr) -> u64 {
    (iface as u64) << 32 | ip.to_bits() as u64
}

const fn of_key(key: u64) -> (u16, Ipv4Addr) {
    ((key >> 32) as u16, Ipv4Addr::from_bits(key as u32))
}

/// The neighbours whose link address is known, at one moment. Never larger than the caches.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// By ascending [`key`]: a search has no worst case that a peer could construct.
    known: Box<[Known]>,
}

#[derive(Debug)]
struct Known {
    key: u64,
    mac: MacAddr,
    /// Told to the cache at the next poll, which then keeps the entry fresh.
    used: AtomicBool,
}

impl Snapshot {
    /// The link address of the neighbour `key`, and a note that it was used.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<MacAddr> {
        let at = self.known.binary_search_by_key(&key, |known| known.key).ok()?;
        let known = &self.known[at];
        // Reading first keeps the line shared among the workers that send to this neighbour.
        if !known.used.load(Ordering::Relaxed) {
            known.used.store(true, Ordering::Relaxed);
        }
        Some(known.mac)
    }

    fn of(caches: &Caches) -> Snapshot {
        let mut known = Vec::new();
        for (iface, cache) in caches.iter() {
            cache.for_each_resolved(|ip, mac| {
                known.push(Known { key: key(iface, ip), mac, used: AtomicBool::new(false) });
            });
        }
        Snapshot { known: known.into() }
    }
}

/// A reader's handle to the latest snapshot.
pub(crate) type Reader = arc_swap::Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>;

/// The neighbours of one host on all its interfaces, shared by its workers. What changes in the
/// host's network is followed by whoever uses the caches next, the workers' timers at the latest.
#[derive(Debug)]
pub struct Neighbours {
    host: Arc<Host>,
    resolver: Arc<Resolver>,
    slow: Mutex<Slow>,
    published: Arc<ArcSwap<Snapshot>>,
    /// Copies of what the lock guards, for a glance without it.
    news: AtomicU64,
    wake: AtomicU64,
    followed: AtomicU64,
}

#[derive(Debug)]
struct Slow {
    caches: Caches,
    generation: u64,
    /// The generation of the host's network that the caches are made for.
    followed: u64,
    /// Neighbours that were resolved or given up, the latest last.
    news: VecDeque<u64>,
    /// How many there ever were.
    told: u64,
}

impl Neighbours {
    /// An empty cache for each interface. The first poll announces the host's addresses.
    pub fn new(host: Arc<Host>, config: Config, now: Nanos) -> Neighbours {
        let caches = Caches::new(config);
        let news = VecDeque::with_capacity(NEWS);
        let slow = Slow { caches, generation: 0, followed: 0, news, told: 0 };
        let (slow, published) = (Mutex::new(slow), Arc::default());
        let (news, wake, followed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let resolver = Arc::default();
        let neighbours = Neighbours { host, resolver, slow, published, news, wake, followed };
        drop(neighbours.session(now));
        neighbours
    }

    /// The same with somebody who finds out the neighbours of borrowed interfaces.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<Resolver>) -> Neighbours {
        Neighbours { resolver, ..self }
    }

    /// Every entry, by interface and address. Locks.
    pub fn entries(&self) -> Vec<(IfaceId, Neighbour)> {
        let slow = self.lock();
        let all = slow.caches.iter();
        all.flat_map(|(iface, cache)| cache.entries().map(move |e| (IfaceId(iface), e))).collect()
    }

    /// Enters an address that never ages and that packets do not change. False if there is no such
    /// interface. Locks.
    ///
    /// # Errors
    /// When the cache is full of such entries.
    pub fn insert_static(
        &self,
        iface: IfaceId,
        ip: Ipv4Addr,
        mac: MacAddr,
        now: Nanos,
    ) -> Result<bool, TableFull> {
        let mut session = self.session(now);
        let Some(cache) = session.slow.caches.with_down(iface.0) else { return Ok(false) };
        cache.insert_static(ip, mac, now)?;
        session.slow.tell(key(iface.0, ip));
        Ok(true)
    }

    /// Forgets a neighbour, entered by an operator or not; what was known of it. Locks.
    pub fn remove(&self, iface: IfaceId, ip: Ipv4Addr, now: Nanos) -> Option<Neighbour> {
        let mut session = self.session(now);
        let removed = session.slow.caches.with_down(iface.0)?.remove(ip);
        session.slow.tell(key(iface.0, ip));
        removed
    }

    /// Takes over a link address that somebody else found out, who is asked for it again while it is
    /// used. Has no effect on what an operator has entered. Locks.
    pub fn adopt(&self, iface: IfaceId, ip: Ipv4Addr, mac: MacAddr, now: Nanos) {
        let mut session = self.session(now);
        let Some(cache) = session.slow.caches.of(iface.0) else { return };
        if cache.adopt(ip, mac, now).is_some_and(|learned| learned.resolves) {
            session.slow.tell(key(iface.0, ip));
        }
    }

    /// Forgets what was adopted, but for what packets wait for: whoever withdrew it looks again, and
    /// they wait until it is found or time is up. Locks.
    pub fn withdraw(&self, iface: IfaceId, ip: Ipv4Addr, now: Nanos) {
        let mut session = self.session(now);
        let Some(cache) = session.slow.caches.with_down(iface.0) else { return };
        let is_static = |e: Neighbour| e.ip == ip && e.state == State::Static;
        if !cache.is_asked(ip) && !cache.entries().any(is_static) {
            cache.remove(ip);
        }
    }

    /// The latest snapshot, to be read once per burst.
    pub(crate) fn reader(&self) -> Reader {
        arc_swap::Cache::new(Arc::clone(&self.published))
    }

    /// Whether something is due, `seen` is not the latest news, or the host's network has changed.
    /// Does not lock.
    pub(crate) fn is_due(&self, seen: u64, now: Nanos) -> bool {
        self.news.load(Ordering::Acquire) != seen
            || self.wake.load(Ordering::Acquire) <= now
            || self.followed.load(Ordering::Acquire) != self.host.generation()
    }

    /// Access to the caches for one burst; what changed is published when it ends.
    pub(crate) fn session(&self, now: Nanos) -> Session<'_> {
        let mut slow = self.lock();
        if slow.followed != self.host.generation() {
            slow.follow(&self.host, now);
        }
        Session { shared: self, slow }
    }

    /// Has the host use tentative addresses that nobody else has. Not during a session.
    #[cold]
    pub(crate) fn confirm(&self, free: &[u64]) {
        for (iface, ip) in free.iter().copied().map(of_key) {
            // An operator may have removed it meanwhile.
            let _ = self.host.update(|net| net.confirm_address(IfaceId(iface), ip));
        }
    }

    /// Has the host give up tentative addresses that somebody else has. Not during a session.
    #[cold]
    pub(crate) fn refuse(&self, taken: &[u64]) {
        for (iface, ip) in taken.iter().copied().map(of_key) {
            let _ = self.host.update(|net| net.refuse_address(IfaceId(iface), ip));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slow {
    fn tell(&mut self, key: u64) {
        if self.news.len() == NEWS {
            self.news.pop_front();
        }
        self.news.push_back(key);
        self.told += 1;
    }

    #[cold]
    fn follow(&mut self, host: &Host, now: Nanos) {
        let state = host.state();
        let mut woken = Vec::new();
        self.caches.follow(&state, now, |iface, ip| woken.push(key(iface, ip)));
        woken.into_iter().for_each(|key| self.tell(key));
        self.followed = state.generation();
    }
}

/// The caches, locked.
pub(crate) struct Session<'a> {
    shared: &'a Neighbours,
    slow: MutexGuard<'a, Slow>,
}

impl Session<'_> {
    /// What is known of the neighbour `key`; `None` if its interface is down or gone.
    pub(crate) fn lookup(&mut self, key: u64, now: Nanos) -> Option<Lookup> {
        let (iface, ip) = of_key(key);
        let found = self.slow.caches.of(iface)?.lookup(ip, now);
        match found {
            Lookup::MissSendRequest(_) if self.slow.caches.is_borrowed(iface) => {
                self.shared.resolver.ask(iface, ip.into());
                Some(Lookup::Incomplete)
            }
            found => Some(found),
        }
    }

    /// Whether the neighbour `key` is being asked for, so that what waits for it will be told.
    pub(crate) fn is_asked(&mut self, key: u64) -> bool {
        let (iface, ip) = of_key(key);
        self.slow.caches.of(iface).is_some_and(|cache| cache.is_asked(ip))
    }

    /// Whether there is an entry for `ip`, resolved or not, or the address is ours.
    pub(crate) fn knows(&self, iface: u16, ip: Ipv4Addr) -> bool {
        let mut caches = self.slow.caches.iter().filter(|(of, _)| *of == iface);
        let ours = |cache: &Cache| cache.locals().is_ours(ip) || cache.is_tentative(ip);
        caches.any(|(_, cache)| ours(cache) || cache.contains(ip))
    }

    /// Lets the cache of `iface` learn from an ARP packet, and answer it; `None` if the interface
    /// is down or gone.
    pub(crate) fn handle(&mut self, iface: u16, arp: &ArpRepr, now: Nanos) -> Option<Outcome> {
        let outcome = self.slow.caches.of(iface)?.handle(arp, now);
        if let Some(learned) = outcome.learned.filter(|learned| learned.resolves) {
            self.slow.tell(key(iface, learned.ip));
        }
        Some(outcome)
    }

    /// Tells the caches what was used, and does what is due: calls `send` for what is to be sent by
    /// which interface. Returns tentative addresses that nobody has, for
    /// [`Neighbours::confirm`] after the session.
    pub(crate) fn poll(&mut self, now: Nanos, mut send: impl FnMut(u16, Transmit)) -> Vec<u64> {
        self.note_use(now);
        let (mut given_up, mut free) = (Vec::new(), Vec::new());
        for (iface, borrowed, cache) in self.slow.caches.iter_mut() {
            cache.poll(now, |action| match action {
                Action::Send(transmit) if borrowed => {
                    self.shared.resolver.ask(iface, transmit.arp.tpa.into());
                }
                Action::Send(transmit) => send(iface, transmit),
                Action::Unresolved(ip) => given_up.push(key(iface, ip)),
                Action::Free(ip) => free.push(key(iface, ip)),
            });
        }
        given_up.into_iter().for_each(|key| self.slow.tell(key));
        free
    }

    /// Calls `visit` for each neighbour that was resolved or given up since `seen`, or once without
    /// one when some of them are forgotten: then whoever waits is to look again. Returns the new
    /// value for `seen`.
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
                let (iface, ip) = of_key(known.key);
                self.slow.caches.with_down(iface).into_iter().for_each(|c| c.touch(ip, now));
            }
        }
    }

    fn publish(&mut self) {
        let generation = self.slow.caches.generation();
        if generation != self.slow.generation {
            self.slow.generation = generation;
            let fresh = Arc::new(Snapshot::of(&self.slow.caches));
            let old = self.shared.published.swap(fresh);
            // Use that was not told yet must not be lost with the old snapshot.
            let fresh = self.shared.published.load();
            for known in old.known.iter().filter(|known| known.used.load(Ordering::Relaxed)) {
                fresh.find(known.key);
            }
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.publish();
        self.shared.wake.store(self.slow.caches.poll_at(), Ordering::Release);
        self.shared.news.store(self.slow.told, Ordering::Release);
        self.shared.followed.store(self.slow.followed, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::frames::{HOST, HOST_MAC, PEER, PEER_MAC};
    use weever_net::state::{NetConfig, StateError};

    const SECOND: Nanos = 1_000_000_000;

    fn neighbours() -> Neighbours {
        let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
        Neighbours::new(Arc::new(Host::new(config)), Config::default(), 0)
    }

    fn reply() -> ArpRepr {
        ArpRepr { op: 2, sha: PEER_MAC, spa: PEER, tha: HOST_MAC, tpa: HOST }
    }

    #[test]
    fn what_is_learned_is_published_when_the_session_ends() {
        let neighbours = neighbours();
        let mut reader = neighbours.reader();
        let mut session = neighbours.session(0);
        assert!(matches!(session.lookup(key(0, PEER), 1), Some(Lookup::MissSendRequest(_))));
        assert!(session.knows(0, PEER) && session.knows(0, HOST));
        session.handle(0, &reply(), 2);
        assert_eq!(reader.load().find(key(0, PEER)), None);
        drop(session);
        assert_eq!(reader.load().find(key(0, PEER)), Some(PEER_MAC));
    }

    #[test]
    fn news_reach_every_worker_once() {
        let neighbours = neighbours();
        let mut session = neighbours.session(0);
        session.lookup(key(0, PEER), 1);
        session.handle(0, &reply(), 2);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let seen = session.news_since(0, |key| first.push(key));
        assert_eq!(session.news_since(seen, |key| second.push(key)), seen);
        assert_eq!((first, second), (vec![Some(key(0, PEER))], vec![]));
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
            assert!(reader.load().find(key(0, PEER)).is_some(), "second {second}");
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
        neighbours.session(0).lookup(key(0, PEER), 1);
        // What it waits for is gone before anybody has looked, and so is the news of it.
        assert!(neighbours.remove(IfaceId(0), PEER, 2).is_some());
        let mut session = neighbours.session(2);
        (0..NEWS).for_each(|_| session.slow.tell(key(0, HOST)));
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
        assert!(reader.load().find(key(0, PEER)).is_some());
        let waiting = Ipv4Addr::new(10, 0, 0, 77);
        neighbours.session(2).lookup(key(0, waiting), 2);
        neighbours.session(2).poll(2, |_, _| ());
        assert!(!neighbours.is_due(0, 2));

        host.update(|net| net.set_up(link, false)).unwrap();
        assert!(neighbours.is_due(0, 2), "a change is news");
        let mut session = neighbours.session(3);
        assert_eq!(session.lookup(key(0, PEER), 3), None, "the interface is down");
        let mut woken = Vec::new();
        session.news_since(0, |key| woken.push(key));
        assert_eq!(woken, [Some(key(0, waiting))], "nobody waits for ever");
        drop(session);
        assert_eq!(reader.load().find(key(0, PEER)), None);

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
            neighbours.session(5).handle(0, &reply(), 5).is_none()
                && neighbours.entries().is_empty()
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
        let iface = weever_net::iface::Interface::new(IfaceId(0), "eth0", 0, HOST_MAC);
        config.add_interface(weever_net::iface::Interface { borrowed: true, ..iface }).unwrap();
        config.add_address(IfaceId(0), "10.0.0.1/24".parse().unwrap()).unwrap();
        let (resolver, asked) = (Arc::new(Resolver::default()), Arc::new(Mutex::new(0)));
        let count = Arc::clone(&asked);
        assert!(resolver.ask_by(move |iface, ip| {
            assert_eq!((iface, ip), (IfaceId(0), PEER.into()));
            *count.lock().unwrap() += 1;
        }));
        let neighbours = Neighbours::new(Arc::new(Host::new(config)), Config::default(), 0)
            .with_resolver(resolver);
        let mut reader = neighbours.reader();
        let asked = || *asked.lock().unwrap();
        let silent = |now| neighbours.session(now).poll(now, |_, sent| panic!("{sent:?}"));
        silent(0);
        assert_eq!(neighbours.session(1).lookup(key(0, PEER), 1), Some(Lookup::Incomplete));
        neighbours.withdraw(IfaceId(0), PEER, 2);
        assert!(neighbours.session(2).is_asked(key(0, PEER)), "it is waited for all the same");
        silent(2 * SECOND);
        assert_eq!(asked(), 2, "at once, and a second later");
        neighbours.adopt(IfaceId(0), PEER, PEER_MAC, 2 * SECOND);
        let mut woken = Vec::new();
        neighbours.session(2 * SECOND).news_since(0, |key| woken.push(key));
        assert_eq!(woken, [Some(key(0, PEER))]);
        for second in 3..40 {
            assert_eq!(reader.load().find(key(0, PEER)), Some(PEER_MAC));
            silent(second * SECOND);
            if asked() == 3 {
                neighbours.adopt(IfaceId(0), PEER, PEER_MAC, second * SECOND);
            }
        }
        assert!(asked() >= 3, "a neighbour in use is asked for again");
        neighbours.withdraw(IfaceId(0), PEER, 41 * SECOND);
        assert_eq!(reader.load().find(key(0, PEER)), None);
    }
}
