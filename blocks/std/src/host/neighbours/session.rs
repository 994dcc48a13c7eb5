//! The neighbours, locked for one burst.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use weever_block::Nanos;
use weever_net::neighbour::{Action, Demand, Discovery, Learned, Lookup};

use super::family::NeighbourKey;
use super::family::{Family, Ip, Sent};
use super::neighbourhood::{Inner, Neighbourhood};
use super::snapshot::Snapshot;

/// The neighbours, locked. Changes are published when it is dropped.
pub(crate) struct Session<'a, F: Family> {
    shared: &'a Neighbourhood<F>,
    pub(super) inner: MutexGuard<'a, Inner<F>>,
}

impl<F: Family> Neighbourhood<F> {
    /// Access for one burst; changes are published when it ends. Locks: workers use
    /// [`try_session`](Self::try_session).
    pub(crate) fn session(&self, now: Nanos) -> Session<'_, F> {
        self.session_in(self.lock(), now)
    }

    /// The same for workers, which do not wait; `None` while somebody else has access.
    pub(crate) fn try_session(&self, now: Nanos) -> Option<Session<'_, F>> {
        Some(self.session_in(self.try_lock()?, now))
    }

    fn session_in<'a>(&'a self, mut inner: MutexGuard<'a, Inner<F>>, now: Nanos) -> Session<'a, F> {
        if inner.followed != self.host.generation() {
            inner.follow(&self.host, now);
        }
        Session { shared: self, inner }
    }
}

impl<F: Family> Session<'_, F> {
    /// The entry of a neighbour; `None` if its interface is down or gone, or does not speak the
    /// family.
    pub(crate) fn lookup(
        &mut self,
        at: F::Key,
        demand: Demand,
        now: Nanos,
    ) -> Option<Lookup<Sent<F>>> {
        let (iface, ip) = at.parts();
        let link = self.inner.links.up(iface)?;
        match link.machine.lookup_for(ip, demand, now) {
            Lookup::MissSendRequest(_) if link.borrowed => {
                self.shared.resolver.ask(iface, ip.into());
                Some(Lookup::Incomplete)
            }
            found => Some(found),
        }
    }

    /// Whether a neighbour is being asked for, so that the packets that wait for it will be told.
    pub(crate) fn is_asked(&mut self, at: F::Key) -> bool {
        let (iface, ip) = at.parts();
        self.inner.links.up(iface).is_some_and(|link| link.machine.neighbours().is_asked(ip))
    }

    /// Tells the machines which neighbours were used, and does all due work: calls `send` with each
    /// packet and its interface.
    pub(crate) fn poll(&mut self, now: Nanos, mut send: impl FnMut(u16, Sent<F>)) {
        self.note_use(now);
        let Inner { family, links, news, .. } = &mut *self.inner;
        for link in links.iter_mut() {
            let (iface, borrowed) = (link.iface, link.borrowed);
            link.machine.poll(now, |action| match action {
                Action::Send(sent) if borrowed => {
                    let asked = F::asks_for(&sent);
                    asked.into_iter().for_each(|ip| self.shared.resolver.ask(iface, ip.into()));
                }
                Action::Send(sent) => send(iface, sent),
                Action::Unresolved(ip) => news.push(self.shared.wait_key(F::Key::new(iface, ip))),
                Action::Free(ip) => family.note_free(iface, ip),
            });
        }
    }

    /// Calls `visit` for the key of each neighbour that was resolved or given up since `seen`, or
    /// once without one when some of them are forgotten: then every waiting packet looks again.
    /// Returns the new value for `seen`.
    pub(crate) fn news_since(&self, seen: u64, visit: impl FnMut(Option<u64>)) -> u64 {
        self.inner.news.since(seen, visit);
        self.inner.news.count()
    }

    /// Wakes the packets, on all workers, that wait for the learned neighbour.
    pub(super) fn note_learned(&mut self, iface: u16, learned: Option<Learned<Ip<F>>>) {
        if let Some(learned) = learned.filter(|learned| learned.resolves) {
            self.tell(iface, learned.ip);
        }
    }

    /// Wakes the packets, on all workers, that wait for a neighbour.
    pub(super) fn tell(&mut self, iface: u16, ip: Ip<F>) {
        let key = self.shared.wait_key(F::Key::new(iface, ip));
        self.inner.news.push(key);
    }

    fn note_use(&mut self, now: Nanos) {
        for at in self.shared.published.load().take_used() {
            let (iface, ip) = at.parts();
            self.inner.links.any(iface).into_iter().for_each(|link| link.machine.touch(ip, now));
        }
    }

    fn publish(&mut self) {
        let generation = self.inner.links.generation();
        if generation != self.inner.generation {
            self.inner.generation = generation;
            let known = self.inner.links.resolved();
            let fresh = Snapshot::of(known.map(|(iface, ip, mac)| (F::Key::new(iface, ip), mac)));
            let old = self.shared.published.swap(Arc::new(fresh));
            // Use that was not told yet must not be lost with the old snapshot.
            self.shared.published.load().inherit(&old);
        }
    }
}

impl<F: Family> Drop for Session<'_, F> {
    fn drop(&mut self) {
        self.publish();
        let Inner { family, links, news, followed, .. } = &mut *self.inner;
        // What could not be reported is at the timer's next look.
        let wake = if family.report(links, &self.shared.host) { links.poll_at() } else { 0 };
        self.shared.wake.store(wake, Ordering::Release);
        self.shared.news.store(news.count(), Ordering::Release);
        self.shared.followed.store(*followed, Ordering::Release);
    }
}
