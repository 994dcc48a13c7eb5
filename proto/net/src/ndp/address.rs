//! Our addresses: duplicate address detection (RFC 4862 §5.4) and lifetimes.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::{ANNOUNCE_NUM, MAX_ADDRESSES, NdpConfig};
use crate::SECOND;
use crate::addr::Cidr6;
use crate::ipv6::{AddrOrigin, AddrState, Locals6, OwnAddr};
use crate::neighbour::NEVER;
use crate::random::Random;

/// RFC 4862 §5.5.3(e): an advertisement may not bring the end of an address nearer than this.
const TWO_HOURS: u64 = 7200 * SECOND;
/// RFC 7217 §5, IDGEN_RETRIES.
const MAX_COLLISIONS: u8 = 3;

#[derive(Clone, Copy, Debug)]
struct Own {
    addr: OwnAddr,
    /// Probes of a tentative address that are still to be sent; after the last one comes the wait for an
    /// answer.
    probes: u8,
    /// Announcements of an address in use that are still to be sent.
    announcements: u8,
    /// When the next of them is due.
    next: u64,
    nonce: [u8; 6],
    valid_until: u64,
    preferred_until: u64,
    /// Addresses of this prefix that others had already.
    collisions: u8,
}

impl Own {
    /// RFC 4861 §7.2.6: advertisements "MUST be separated by at least RetransTimer seconds".
    fn announce(&mut self, now: u64, retrans: u64, send: &mut impl FnMut(Sent)) {
        if self.announcements > 0 {
            self.announcements -= 1;
            send(Sent::Announcement(self.addr.cidr.addr()));
        }
        self.next = if self.announcements > 0 { now.saturating_add(retrans) } else { NEVER };
    }
}

/// The addresses of an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    list: Vec<Own>,
    /// Changed since the last look.
    pub(super) changed: bool,
}

/// The ends of an address's lifetimes: valid, and preferred for new flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetimes {
    pub(super) valid_until: u64,
    pub(super) preferred_until: u64,
}

impl Lifetimes {
    pub(super) const FOR_EVER: Lifetimes = Lifetimes { valid_until: NEVER, preferred_until: NEVER };
}

/// A message about one of our addresses that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Whether another station has it, with this nonce.
    Probe(Ipv6Addr, [u8; 6]),
    /// That it is ours, at our link address.
    Announcement(Ipv6Addr),
}

impl Addresses {
    /// Adds an address, which is asked for after `delay`; false if there is no room, or it is there.
    pub(super) fn add(
        &mut self,
        (cidr, origin, collisions): (Cidr6, AddrOrigin, u8),
        lifetimes: Lifetimes,
        config: &NdpConfig,
        (now, delay): (u64, u64),
    ) -> bool {
        if self.list.len() >= MAX_ADDRESSES || self.get(cidr.addr()).is_some() {
            return false;
        }
        let Lifetimes { valid_until, preferred_until } = lifetimes;
        let (state, next, probes) = match config.dad_transmits {
            0 => (settled(preferred_until, now), now, 0),
            probes => (AddrState::Tentative, now.saturating_add(delay), probes),
        };
        let (addr, nonce) = (OwnAddr { cidr, state, origin }, [0; 6]);
        let announcements = ANNOUNCE_NUM;
        self.list.push(Own {
            addr,
            probes,
            announcements,
            next,
            nonce,
            valid_until,
            preferred_until,
            collisions,
        });
        self.changed = true;
        true
    }

    pub(super) fn remove(&mut self, ip: Ipv6Addr) -> bool {
        let before = self.list.len();
        self.list.retain(|own| own.addr.cidr.addr() != ip);
        self.changed |= self.list.len() != before;
        self.list.len() != before
    }

    pub(super) fn get(&self, ip: Ipv6Addr) -> Option<OwnAddr> {
        self.list.iter().find(|own| own.addr.cidr.addr() == ip).map(|own| own.addr)
    }

    /// The nonce of the last probe for `ip`.
    pub(super) fn nonce(&self, ip: Ipv6Addr) -> Option<[u8; 6]> {
        self.list.iter().find(|own| own.addr.cidr.addr() == ip).map(|own| own.nonce)
    }

    pub(super) fn locals(&self) -> Locals6 {
        let mut locals = Locals6::default();
        self.list.iter().for_each(|own| locals.set(own.addr));
        locals
    }

    pub(super) fn source_for(&self, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        crate::ipv6::best_source(dst, self.list.iter().map(|own| own.addr))
    }

    pub(super) fn link_local(&self) -> Option<Ipv6Addr> {
        let own = self.list.iter().find(|own| {
            own.addr.is_used() && crate::ipv6::addr::is_link_local(own.addr.cidr.addr())
        });
        own.map(|own| own.addr.cidr.addr())
    }

    /// The address that was made of an advertised prefix, in any state.
    pub(super) fn of_prefix(&self, prefix: Cidr6) -> Option<OwnAddr> {
        let made = |own: &&Own| {
            own.addr.origin == AddrOrigin::Autoconf && own.addr.cidr.network() == prefix.network()
        };
        self.list.iter().find(made).map(|own| own.addr)
    }

    /// RFC 4862 §5.5.3(e): new lifetimes for the address of a prefix, seconds from an advertisement.
    pub(super) fn renew(&mut self, ip: Ipv6Addr, offered: Lifetimes, now: u64) {
        let Some(own) = self.list.iter_mut().find(|own| own.addr.cidr.addr() == ip) else { return };
        own.preferred_until = offered.preferred_until;
        let remaining = own.valid_until.saturating_sub(now);
        let new = offered.valid_until.saturating_sub(now);
        own.valid_until = if new > TWO_HOURS || new > remaining {
            offered.valid_until
        } else if remaining <= TWO_HOURS {
            own.valid_until
        } else {
            now.saturating_add(TWO_HOURS)
        };
        self.changed |= age(own, now);
    }

    /// Another station has a tentative address, which is therefore given up. If another identifier
    /// could be tried (`another`), returns its prefix, origin and how many collisions there have
    /// been, and how long it was to hold.
    pub(super) fn collide(
        &mut self,
        ip: Ipv6Addr,
        another: bool,
    ) -> Option<((Cidr6, AddrOrigin, u8), Lifetimes)> {
        let tentative = |own: &&mut Own| own.addr.state == AddrState::Tentative;
        let found = self.list.iter_mut().filter(tentative).find(|o| o.addr.cidr.addr() == ip)?;
        found.addr.state = AddrState::Duplicate;
        found.next = NEVER;
        self.changed = true;
        let Own { addr, collisions, valid_until, preferred_until, .. } = *found;
        let made = addr.origin != AddrOrigin::Static;
        let again = another && made && collisions < MAX_COLLISIONS;
        if again {
            self.remove(ip);
        }
        let lifetimes = Lifetimes { valid_until, preferred_until };
        again.then_some(((addr.cidr, addr.origin, collisions + 1), lifetimes))
    }

    /// Calls `send` for every message that is due.
    pub(super) fn poll(
        &mut self,
        now: u64,
        retrans: u64,
        random: &mut Random,
        mut send: impl FnMut(Sent),
    ) {
        let mut changed = false;
        for own in self.list.iter_mut().filter(|own| own.next <= now) {
            if own.probes > 0 {
                let [_, _, nonce @ ..] = random.next_u64().to_be_bytes();
                (own.probes, own.nonce) = (own.probes - 1, nonce);
                own.next = now.saturating_add(retrans);
                send(Sent::Probe(own.addr.cidr.addr(), nonce));
            } else if own.addr.state == AddrState::Tentative {
                // RFC 4862 §5.4: no objection came within RetransTimer after the last probe.
                (own.addr.state, own.next) = (settled(own.preferred_until, now), now);
                changed = true;
            }
            if own.addr.is_used() && own.next <= now {
                own.announce(now, retrans, &mut send);
            }
        }
        for own in &mut self.list {
            changed |= age(own, now);
        }
        let before = self.list.len();
        self.list.retain(|own| own.valid_until > now);
        self.changed |= changed || self.list.len() != before;
    }

    /// When [`Addresses::poll`] has something to do next.
    pub(super) fn wake(&self) -> u64 {
        let of = |own: &Own| {
            let preferred = match own.addr.state {
                AddrState::Preferred => own.preferred_until,
                _ => NEVER,
            };
            own.next.min(own.valid_until).min(preferred)
        };
        self.list.iter().map(of).min().unwrap_or(NEVER)
    }
}

fn settled(preferred_until: u64, now: u64) -> AddrState {
    if preferred_until > now { AddrState::Preferred } else { AddrState::Deprecated }
}

/// Whether the state of an address in use is another by now.
fn age(own: &mut Own, now: u64) -> bool {
    let state = settled(own.preferred_until, now);
    let changed = own.addr.is_used() && own.addr.state != state;
    if changed {
        own.addr.state = state;
    }
    changed
}
