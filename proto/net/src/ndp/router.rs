//! Routers: default routers (RFC 4861 §6.3.4, §6.3.6, RFC 4191), the prefixes and parameters that they
//! advertise, and soliciting them (RFC 4861 §6.3.7 with the backing off of RFC 7559 §2, so that a host that
//! came up before its router does not wait for ever).

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use weever_wire::ndp::Preference;

use super::{MAX_PREFIXES, MAX_ROUTERS, State};
use crate::SECOND;
use crate::addr::Cidr6;
use crate::neighbour::NEVER;
use crate::random::Random;

#[derive(Clone, Copy, Debug)]
struct Router {
    ip: Ipv6Addr,
    preference: Preference,
    until: u64,
}

/// The routers that offer themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Routers {
    list: Vec<Router>,
}

impl Routers {
    /// Notes an advertisement; `until` is now for a router that is none any more. False if there is
    /// no room for it.
    pub(super) fn note(
        &mut self,
        ip: Ipv6Addr,
        preference: Preference,
        until: u64,
        now: u64,
    ) -> bool {
        if until <= now {
            self.remove(ip);
            return true;
        }
        let router = Router { ip, preference, until };
        let room = self.list.len() < MAX_ROUTERS;
        match self.list.iter_mut().find(|there| there.ip == ip) {
            Some(there) => *there = router,
            None if room => self.list.push(router),
            None => return false,
        }
        true
    }

    pub(super) fn remove(&mut self, ip: Ipv6Addr) {
        self.list.retain(|router| router.ip != ip);
    }

    pub(super) fn contains(&self, ip: Ipv6Addr) -> bool {
        self.list.iter().any(|router| router.ip == ip)
    }

    pub(super) fn expire(&mut self, now: u64) {
        self.list.retain(|router| router.until > now);
    }

    pub(super) fn wake(&self) -> u64 {
        self.list.iter().map(|router| router.until).min().unwrap_or(NEVER)
    }

    /// RFC 4861 §6.3.6: "Routers that are reachable or probably reachable (i.e., in any state other
    /// than INCOMPLETE) SHOULD be preferred over routers whose reachability is unknown or suspect";
    /// of those, RFC 4191 §3.2 takes the one that wants it most. The first of equals stays.
    pub(super) fn best(&self, state: impl Fn(Ipv6Addr) -> Option<State>) -> Option<Ipv6Addr> {
        let rank = |router: &Router| {
            let likely = state(router.ip).is_some_and(State::is_resolved);
            let absent = state(router.ip) == Some(State::Failed);
            (likely, !absent, router.preference)
        };
        let ranked = self.list.iter().map(|router| (rank(router), router.ip));
        ranked.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, ip)| ip)
    }
}

/// Parameters of a link that routers advertise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// Hop limit of the packets we send.
    pub hop_limit: u8,
    /// Longest packet of the link.
    pub mtu: u16,
}

/// Prefixes of the link, and until when.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes {
    list: Vec<(Cidr6, u64)>,
}

impl Prefixes {
    /// Notes a prefix; `until` is now for one that has gone. False if there is no room for it.
    pub(super) fn note(&mut self, prefix: Cidr6, until: u64, now: u64) -> bool {
        let prefix = prefix.network();
        if until <= now {
            self.list.retain(|(there, _)| *there != prefix);
            return true;
        }
        let room = self.list.len() < MAX_PREFIXES;
        match self.list.iter_mut().find(|(there, _)| *there == prefix) {
            Some(there) => there.1 = until,
            None if room => self.list.push((prefix, until)),
            None => return false,
        }
        true
    }

    /// Forgets the expired ones; true if there were any.
    pub(super) fn expire(&mut self, now: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|(_, until)| *until > now);
        self.list.len() != before
    }

    pub(super) fn wake(&self) -> u64 {
        self.list.iter().map(|(_, until)| *until).min().unwrap_or(NEVER)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cidr6> + '_ {
        self.list.iter().map(|(prefix, _)| *prefix)
    }
}

/// RFC 7559 §2.1, IRT: to the second solicitation.
const FIRST_INTERVAL: u64 = 4 * SECOND;
/// RFC 7559 §2.1, MRT: between two solicitations at most.
const MAX_INTERVAL: u64 = 3600 * SECOND;

/// Router solicitations to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solicitations {
    pub(super) next: u64,
    interval: u64,
}

impl Solicitations {
    /// None are wanted.
    pub(super) const NEVER: Solicitations = Solicitations { next: NEVER, interval: 0 };

    /// From `at` on.
    pub(super) const fn from(at: u64) -> Self {
        Self { next: at, interval: 0 }
    }

    /// A router has advertised itself.
    pub(super) fn stop(&mut self) {
        *self = Self::NEVER;
    }

    /// One was sent: the next comes after twice the time, a tenth more or less.
    pub(super) fn sent(&mut self, now: u64, random: &mut Random) {
        let doubled =
            if self.interval == 0 { FIRST_INTERVAL } else { (2 * self.interval).min(MAX_INTERVAL) };
        self.interval = doubled - doubled / 10 + random.up_to(doubled / 5);
        self.next = now.saturating_add(self.interval);
    }
}
