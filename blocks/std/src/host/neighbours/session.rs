//! The neighbours, locked for one burst.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use weever_block::Nanos;
use weever_net::neighbour::{Action, Discovery, Learned, Lookup};

use super::at::At;
use super::family::{Family, Ip, Sent};
use super::neighbourhood::{Neighbourhood, Slow};
use super::snapshot::Snapshot;

/// The neighbours, locked. What changed is published when it is dropped.
pub(crate) struct Session<'a, F: Family> {
    shared: &'a Neighbourhood<F>,
    pub(super) slow: MutexGuard<'a, Slow<F>>,
}

impl<F: Family> Neighbourhood<F> {
    /// Access for one burst; what changed is published when it ends.
    pub(crate) fn session(&self, now: Nanos) -> Session<'_, F> {
        let mut slow = self.lock();
        if slow.followed != self.host.generation() {
            slow.follow(&self.host, now);
        }
        Session { shared: self, slow }
    }
}

impl<F: Family> Session<'_, F> {
    /// What is known of a neighbour; `None` if its interface is down or gone, or does not speak the
    /// family.
    pub(crate) fn lookup(&mut self, at: F::At, now: Nanos) -> Option<Lookup<Sent<F>>> {
        let (iface, ip) = at.parts();
        let link = self.slow.links.up(iface)?;
        match link.machine.lookup(ip, now) {
            Lookup::MissSendRequest(_) if link.borrowed => {
                self.shared.resolver.ask(iface, ip.into());
                Some(Lookup::Incomplete)
            }
            found => Some(found),
        }
    }

    /// Whether a neighbour is being asked for, so that what waits for it will be told.
    pub(crate) fn is_asked(&mut self, at: F::At) -> bool {
        let (iface, ip) = at.parts();
        self.slow.links.up(iface).is_some_and(|link| link.machine.neighbours().is_asked(ip))
    }

    /// Tells the machines what was used, and does what is due: calls `send` for what is to be sent
    /// by which interface.
    pub(crate) fn poll(&mut self, now: Nanos, mut send: impl FnMut(u16, Sent<F>)) {
        self.note_use(now);
        let Slow { family, links, news, .. } = &mut *self.slow;
        for link in links.iter_mut() {
            let (iface, borrowed) = (link.iface, link.borrowed);
            link.machine.poll(now, |action| match action {
                Action::Send(sent) if borrowed => {
                    let asked = F::asks_for(&sent);
                    asked.into_iter().for_each(|ip| self.shared.resolver.ask(iface, ip.into()));
                }
                Action::Send(sent) => send(iface, sent),
                Action::Unresolved(ip) => news.tell(F::At::new(iface, ip).key()),
                Action::Free(ip) => family.note_free(iface, ip),
            });
        }
    }

    /// Calls `visit` for the key of each neighbour that was resolved or given up since `seen`, or
    /// once without one when some of them are forgotten: then whoever waits is to look again.
    /// Returns the new value for `seen`.
    pub(crate) fn news_since(&self, seen: u64, visit: impl FnMut(Option<u64>)) -> u64 {
        self.slow.news.since(seen, visit);
        self.slow.news.told()
    }

    /// Has those woken, on all workers, who wait for what was learned.
    pub(super) fn note_learned(&mut self, iface: u16, learned: Option<Learned<Ip<F>>>) {
        if let Some(learned) = learned.filter(|learned| learned.resolves) {
            self.tell(iface, learned.ip);
        }
    }

    /// Has those woken, on all workers, who wait for a neighbour.
    pub(super) fn tell(&mut self, iface: u16, ip: Ip<F>) {
        self.slow.news.tell(F::At::new(iface, ip).key());
    }

    fn note_use(&mut self, now: Nanos) {
        for at in self.shared.published.load().take_used() {
            let (iface, ip) = at.parts();
            self.slow.links.any(iface).into_iter().for_each(|link| link.machine.touch(ip, now));
        }
    }

    fn publish(&mut self) {
        let generation = self.slow.links.generation();
        if generation != self.slow.generation {
            self.slow.generation = generation;
            let known = self.slow.links.resolved();
            let fresh = Snapshot::of(known.map(|(iface, ip, mac)| (F::At::new(iface, ip), mac)));
            let old = self.shared.published.swap(Arc::new(fresh));
            // Use that was not told yet must not be lost with the old snapshot.
            self.shared.published.load().inherit(&old);
        }
    }
}

impl<F: Family> Drop for Session<'_, F> {
    fn drop(&mut self) {
        self.publish();
        let Slow { family, links, news, followed, .. } = &mut *self.slow;
        family.report(links, &self.shared.host);
        self.shared.wake.store(links.poll_at(), Ordering::Release);
        self.shared.news.store(news.told(), Ordering::Release);
        self.shared.followed.store(*followed, Ordering::Release);
    }
}
