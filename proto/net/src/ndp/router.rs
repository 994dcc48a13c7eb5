//! Default routers (RFC 4861 §6.3.4, §6.3.6, RFC 4191).

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use weever_wire::ndp::Preference;

use super::{MAX_ROUTERS, State};
use crate::neighbour::NEVER;

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
