//! The neighbour cache: one writer at a time, readers that do not lock (DESIGN §4.4).

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use weever_blocks_api::Nanos;
use weever_net::arp::{Action, Cache, Config, Lookup, Neighbour, Outcome, Transmit};
use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;

use super::HostState;

/// How many resolved or failed addresses are remembered for the workers that have not looked yet.
const NEWS: usize = 1024;

/// The neighbours whose link address is known, at one moment. Never larger than the cache.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// By ascending address: a search has no worst case that a peer could construct.
    known: Box<[Known]>,
}

#[derive(Debug)]
struct Known {
    ip: u32,
    mac: MacAddr,
    /// Told to the cache at the next poll, which then keeps the entry fresh.
    used: AtomicBool,
}

impl Snapshot {
    /// The link address of `ip`, and a note that it was used.
    #[inline]
    pub(crate) fn find(&self, ip: u32) -> Option<MacAddr> {
        let at = self.known.binary_search_by_key(&ip, |known| known.ip).ok()?;
        let known = &self.known[at];
        // Reading first keeps the line shared among the workers that send to this neighbour.
        if !known.used.load(Ordering::Relaxed) {
            known.used.store(true, Ordering::Relaxed);
        }
        Some(known.mac)
    }

    fn of(cache: &Cache) -> Snapshot {
        let mut known = Vec::new();
        cache.for_each_resolved(|ip, mac| {
            known.push(Known { ip: ip.to_bits(), mac, used: AtomicBool::new(false) });
        });
        Snapshot { known: known.into() }
    }
}

/// A reader's handle to the latest snapshot.
pub(crate) type Reader = arc_swap::Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>;

/// The neighbours of one host, shared by its workers.
#[derive(Debug)]
pub struct Neighbours {
    slow: Mutex<Slow>,
    published: Arc<ArcSwap<Snapshot>>,
    /// Copies of what the lock guards, for a glance without it.
    news: AtomicU64,
    wake: AtomicU64,
}

#[derive(Debug)]
struct Slow {
    cache: Cache,
    generation: u64,
    /// Addresses that were resolved or given up, the latest last.
    news: VecDeque<Ipv4Addr>,
    /// How many there ever were.
    told: u64,
}

impl Neighbours {
    /// An empty cache. The first poll announces the host's addresses.
    pub fn new(host: &HostState, config: Config, now: Nanos) -> Neighbours {
        let cache = Cache::new(host.mac, host.locals.clone(), config, now);
        let wake = AtomicU64::new(cache.poll_at().unwrap_or(u64::MAX));
        let news = VecDeque::with_capacity(NEWS);
        let slow = Slow { cache, generation: 0, news, told: 0 };
        let (slow, published) = (Mutex::new(slow), Arc::default());
        Neighbours { slow, published, news: AtomicU64::new(0), wake }
    }

    /// Every entry, by address. Locks.
    pub fn entries(&self) -> Vec<Neighbour> {
        self.lock().cache.entries().collect()
    }

    /// Enters an address that never ages and that packets do not change. Locks.
    ///
    /// # Errors
    /// When the cache is full of such entries.
    pub fn insert_static(
        &self,
        ip: Ipv4Addr,
        mac: MacAddr,
        now: Nanos,
    ) -> Result<(), weever_net::arp::TableFull> {
        let mut session = self.session();
        session.slow.cache.insert_static(ip, mac, now)?;
        session.slow.tell(ip);
        Ok(())
    }

    /// The latest snapshot, to be read once per burst.
    pub(crate) fn reader(&self) -> Reader {
        arc_swap::Cache::new(Arc::clone(&self.published))
    }

    /// Whether something is due, or `seen` is not the latest news. Does not lock.
    pub(crate) fn is_due(&self, seen: u64, now: Nanos) -> bool {
        self.news.load(Ordering::Acquire) != seen || self.wake.load(Ordering::Acquire) <= now
    }

    /// Access to the cache for one burst; what changed is published when it ends.
    pub(crate) fn session(&self) -> Session<'_> {
        Session { shared: self, slow: self.lock() }
    }

    fn lock(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slow {
    fn tell(&mut self, ip: Ipv4Addr) {
        if self.news.len() == NEWS {
            self.news.pop_front();
        }
        self.news.push_back(ip);
        self.told += 1;
    }
}

/// The cache, locked.
pub(crate) struct Session<'a> {
    shared: &'a Neighbours,
    slow: MutexGuard<'a, Slow>,
}

impl Session<'_> {
    pub(crate) fn lookup(&mut self, ip: Ipv4Addr, now: Nanos) -> Lookup {
        self.slow.cache.lookup(ip, now)
    }

    /// Whether there is an entry for `ip`, resolved or not, or the address is ours.
    pub(crate) fn knows(&self, ip: Ipv4Addr) -> bool {
        let cache = &self.slow.cache;
        cache.locals().is_ours(ip) || cache.contains(ip)
    }

    /// Lets the cache learn from an ARP packet, and answer it.
    pub(crate) fn handle(&mut self, arp: &ArpRepr, now: Nanos) -> Outcome {
        let outcome = self.slow.cache.handle(arp, now);
        if let Some(learned) = outcome.learned.filter(|learned| learned.resolves) {
            self.slow.tell(learned.ip);
        }
        outcome
    }

    /// Tells the cache what was used, and does what is due: calls `send` for what is to be sent.
    pub(crate) fn poll(&mut self, now: Nanos, mut send: impl FnMut(Transmit)) {
        self.note_use(now);
        let Slow { cache, news: _, .. } = &mut *self.slow;
        let mut given_up = Vec::new();
        cache.poll(now, |action| match action {
            Action::Send(transmit) => send(transmit),
            Action::Unresolved(ip) => given_up.push(ip),
        });
        given_up.into_iter().for_each(|ip| self.slow.tell(ip));
    }

    /// Calls `visit` for each address that was resolved or given up since `seen`, or for every
    /// entry when some of them are forgotten; returns the new value for `seen`.
    pub(crate) fn news_since(&self, seen: u64, mut visit: impl FnMut(Ipv4Addr)) -> u64 {
        let missed = self.slow.told - seen;
        match usize::try_from(missed).ok().and_then(|m| self.slow.news.len().checked_sub(m)) {
            Some(old) => self.slow.news.iter().skip(old).for_each(|ip| visit(*ip)),
            None => self.slow.cache.entries().for_each(|entry| visit(entry.ip)),
        }
        self.slow.told
    }

    fn note_use(&mut self, now: Nanos) {
        for known in &self.shared.published.load().known {
            if known.used.swap(false, Ordering::Relaxed) {
                self.slow.cache.touch(Ipv4Addr::from_bits(known.ip), now);
            }
        }
    }

    fn publish(&mut self) {
        let generation = self.slow.cache.generation();
        if generation != self.slow.generation {
            self.slow.generation = generation;
            let fresh = Arc::new(Snapshot::of(&self.slow.cache));
            let old = self.shared.published.swap(fresh);
            // Use that was not told yet must not be lost with the old snapshot.
            let fresh = self.shared.published.load();
            for known in old.known.iter().filter(|known| known.used.load(Ordering::Relaxed)) {
                fresh.find(known.ip);
            }
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.publish();
        let wake = self.slow.cache.poll_at().unwrap_or(u64::MAX);
        self.shared.wake.store(wake, Ordering::Release);
        self.shared.news.store(self.slow.told, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::frames::{HOST, HOST_MAC, PEER, PEER_MAC};
    use weever_net::addr::Locals;

    const SECOND: Nanos = 1_000_000_000;

    fn neighbours() -> Neighbours {
        let host = HostState::new(HOST_MAC, Locals::new(&["10.0.0.1/24".parse().unwrap()]));
        Neighbours::new(&host, Config::default(), 0)
    }

    fn reply() -> ArpRepr {
        ArpRepr { op: 2, sha: PEER_MAC, spa: PEER, tha: HOST_MAC, tpa: HOST }
    }

    #[test]
    fn what_is_learned_is_published_when_the_session_ends() {
        let neighbours = neighbours();
        let mut reader = neighbours.reader();
        let mut session = neighbours.session();
        assert!(matches!(session.lookup(PEER, 1), Lookup::MissSendRequest(_)));
        assert!(session.knows(PEER) && session.knows(HOST));
        session.handle(&reply(), 2);
        assert_eq!(reader.load().find(PEER.to_bits()), None);
        drop(session);
        assert_eq!(reader.load().find(PEER.to_bits()), Some(PEER_MAC));
    }

    #[test]
    fn news_reach_every_worker_once() {
        let neighbours = neighbours();
        let mut session = neighbours.session();
        session.lookup(PEER, 1);
        session.handle(&reply(), 2);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let seen = session.news_since(0, |ip| first.push(ip));
        assert_eq!(session.news_since(seen, |ip| second.push(ip)), seen);
        assert_eq!((first, second), (vec![PEER], vec![]));
        drop(session);
        neighbours.session().poll(3, |_| ());
        assert!(neighbours.is_due(0, 4) && !neighbours.is_due(seen, 4));
    }

    #[test]
    fn a_neighbour_that_is_used_is_asked_again_and_stays() {
        let neighbours = neighbours();
        neighbours.session().handle(&ArpRepr { op: 1, ..reply() }, 0);
        let mut reader = neighbours.reader();
        let mut asked = 0;
        for second in 1..400 {
            assert!(reader.load().find(PEER.to_bits()).is_some(), "second {second}");
            let (mut session, before) = (neighbours.session(), asked);
            session.poll(second * SECOND, |sent| asked += u32::from(sent.dst == PEER_MAC));
            if asked > before {
                session.handle(&reply(), second * SECOND);
            }
        }
        assert!((10..20).contains(&asked), "once in thirty seconds, not {asked} times");
    }

    #[test]
    fn a_reader_that_fell_far_behind_is_told_of_every_entry() {
        let neighbours = neighbours();
        let mut session = neighbours.session();
        session.lookup(PEER, 1);
        for _ in 0..NEWS + 1 {
            session.slow.tell(HOST);
        }
        let mut visited = Vec::new();
        session.news_since(0, |ip| visited.push(ip));
        assert_eq!(visited, [PEER]);
    }
}
