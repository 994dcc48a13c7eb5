//! The caches of a host's interfaces, as interfaces come, change and go.

use std::net::Ipv4Addr;

use weever_blocks_api::Nanos;
use weever_net::addr::Locals;
use weever_net::arp::{Cache, Config};
use weever_net::iface::Interface;
use weever_net::state::NetState;

/// One interface's.
#[derive(Debug)]
struct Own {
    iface: u16,
    up: bool,
    downs: u32,
    /// The kernel's: see [`Interface::borrowed`].
    borrowed: bool,
    cache: Cache,
}

/// A cache for each interface, by ascending number.
#[derive(Debug)]
pub(super) struct Caches {
    caches: Vec<Own>,
    config: Config,
    /// Generations of caches that are gone.
    past: u64,
}

impl Caches {
    pub(super) fn new(config: Config) -> Caches {
        Caches { caches: Vec::new(), config, past: 0 }
    }

    /// All of them, by ascending interface.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Cache)> {
        self.caches.iter().map(|own| (own.iface, &own.cache))
    }

    /// All of them, to be changed, and whether their interfaces are borrowed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, bool, &mut Cache)> {
        self.caches.iter_mut().map(|own| (own.iface, own.borrowed, &mut own.cache))
    }

    /// The cache of an interface that is up.
    pub(super) fn of(&mut self, iface: u16) -> Option<&mut Cache> {
        self.any(iface).filter(|own| own.up).map(|own| &mut own.cache)
    }

    /// Whether the interface's neighbours are somebody else's to find out.
    pub(super) fn is_borrowed(&mut self, iface: u16) -> bool {
        self.any(iface).is_some_and(|own| own.borrowed)
    }

    /// The cache of an interface, up or down.
    pub(super) fn with_down(&mut self, iface: u16) -> Option<&mut Cache> {
        self.any(iface).map(|own| &mut own.cache)
    }

    fn any(&mut self, iface: u16) -> Option<&mut Own> {
        let at = self.caches.binary_search_by_key(&iface, |own| own.iface).ok()?;
        self.caches.get_mut(at)
    }

    /// A number that grows whenever what is known has changed.
    pub(super) fn generation(&self) -> u64 {
        self.caches.iter().fold(self.past, |sum, own| sum + own.cache.generation())
    }

    /// When the first of them has something to do.
    pub(super) fn poll_at(&self) -> u64 {
        let next = self.caches.iter().filter_map(|own| own.cache.poll_at());
        next.min().unwrap_or(u64::MAX)
    }

    /// Makes the caches those of the interfaces of `state`; calls `woken` for neighbours that
    /// packets may wait for in vain from now on.
    pub(super) fn follow(
        &mut self,
        state: &NetState,
        now: Nanos,
        mut woken: impl FnMut(u16, Ipv4Addr),
    ) {
        let interfaces = state.config().interfaces();
        let past = &mut self.past;
        self.caches.retain_mut(|own| {
            let stays = interfaces.iter().any(|iface| iface.id.0 == own.iface);
            if !stays {
                own.cache.flush(|ip| woken(own.iface, ip));
                *past += own.cache.generation() + 1;
            }
            stays
        });
        for iface in interfaces {
            match self.any(iface.id.0) {
                Some(own) => adapt(own, iface, now, &mut woken),
                None => self.insert(iface, now),
            }
        }
    }

    fn insert(&mut self, iface: &Interface, now: Nanos) {
        let mut cache = Cache::new(iface.mac, locals(iface), self.config, now);
        cache.set_tentative(&tentative(iface), now);
        let (up, downs, borrowed) = (iface.up, iface.downs, iface.borrowed);
        let own = Own { iface: iface.id.0, up, downs, borrowed, cache };
        let at = self.caches.partition_point(|other| other.iface < own.iface);
        self.caches.insert(at, own);
    }
}

/// What is announced and asked from.
fn locals(iface: &Interface) -> Locals {
    if iface.up && !iface.borrowed { iface.v4.clone() } else { Locals::default() }
}

/// What is probed for.
fn tentative(iface: &Interface) -> Locals {
    if iface.up && !iface.borrowed { iface.tentative.clone() } else { Locals::default() }
}

/// A link that was down may have been plugged in elsewhere: its neighbours are asked for again, and
/// its addresses announced.
fn adapt(own: &mut Own, iface: &Interface, now: Nanos, woken: &mut impl FnMut(u16, Ipv4Addr)) {
    // It may have come up again before anybody has looked.
    if own.downs != iface.downs {
        own.cache.flush(|ip| woken(own.iface, ip));
    }
    (own.up, own.downs, own.borrowed) = (iface.up, iface.downs, iface.borrowed);
    if own.cache.mac() != iface.mac {
        own.cache.set_mac(iface.mac, now);
    }
    own.cache.set_tentative(&tentative(iface), now);
    let locals = locals(iface);
    if *own.cache.locals() != locals {
        own.cache.set_locals(locals, now);
    }
}
