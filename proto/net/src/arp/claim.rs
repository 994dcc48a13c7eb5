//! Our own addresses: announced when they come up, defended when another station uses them.

use core::net::Ipv4Addr;

use alloc::vec::Vec;
use weever_wire::MacAddr;

use super::Transmit;
use crate::addr::Locals;
use crate::neighbour::NEVER;
use crate::{MILLIS, SECOND};

/// RFC 5227 §1.1: ANNOUNCE_NUM.
const ANNOUNCE_NUM: u8 = 2;
/// RFC 5227 §1.1: ANNOUNCE_INTERVAL.
const ANNOUNCE_INTERVAL: u64 = 2 * SECOND;
/// RFC 5227 §1.1: DEFEND_INTERVAL.
const DEFEND_INTERVAL: u64 = 10 * SECOND;

#[derive(Clone, Copy, Debug)]
struct Claim {
    ip: Ipv4Addr,
    left: u8,
    next: u64,
    conflict_at: Option<u64>,
}

/// One claim per address.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    claims: Vec<Claim>,
}

impl Claims {
    /// Keeps the claims to addresses that stay, and announces those that are new from `now` on.
    pub(super) fn set(&mut self, locals: &Locals, now: u64) {
        self.claims.retain(|claim| locals.is_ours(claim.ip));
        for cidr in locals.iter() {
            let ip = cidr.addr();
            if self.claims.iter().all(|claim| claim.ip != ip) {
                self.claims.push(Claim { ip, left: ANNOUNCE_NUM, next: now, conflict_at: None });
            }
        }
    }

    /// Calls `announce` for each address that is due; when the next one is.
    ///
    /// RFC 5227 §2.3: "The host may begin legitimately using the IP address immediately after
    /// sending the first of the two ARP Announcements; the sending of the second ARP Announcement
    /// may be completed asynchronously".
    pub(super) fn poll(&mut self, now: u64, mut announce: impl FnMut(Ipv4Addr)) -> u64 {
        for claim in self.claims.iter_mut().filter(|claim| claim.left > 0 && claim.next <= now) {
            announce(claim.ip);
            claim.left -= 1;
            claim.next = now.saturating_add(ANNOUNCE_INTERVAL);
        }
        self.claims.iter().filter(|claim| claim.left > 0).map(|c| c.next).min().unwrap_or(NEVER)
    }

    /// Whether to answer a conflict over `ip` with an announcement.
    ///
    /// RFC 5227 §2.4(c): a host that does not give up its address announces it once, but "if the
    /// time recorded for the previous conflicting ARP packet is within DEFEND_INTERVAL seconds,
    /// then the host MUST NOT send another defensive ARP Announcement", lest two such hosts fight
    /// in an endless loop.
    pub(super) fn defend(&mut self, ip: Ipv4Addr, now: u64) -> bool {
        let Some(claim) = self.claims.iter_mut().find(|claim| claim.ip == ip) else { return false };
        let previous = claim.conflict_at.replace(now);
        previous.is_none_or(|at| now.saturating_sub(at) >= DEFEND_INTERVAL)
    }
}

/// RFC 5227 §1.1: PROBE_NUM.
const PROBE_NUM: u8 = 3;
/// Between PROBE_MIN, a second, and PROBE_MAX, two. The RFC draws it by lot, lest hosts that were
/// switched on together speak together; a host that is given an address while it runs is alone.
const PROBE_INTERVAL: u64 = 1500 * MILLIS;
/// RFC 5227 §1.1: ANNOUNCE_WAIT.
const ANNOUNCE_WAIT: u64 = 2 * SECOND;

#[derive(Clone, Copy, Debug)]
struct Probe {
    ip: Ipv4Addr,
    sent: u8,
    next: u64,
}

/// One probe per tentative address.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    probes: Vec<Probe>,
}

impl Probes {
    pub(super) fn set(&mut self, tentative: &Locals, now: u64) {
        self.probes.retain(|probe| tentative.is_ours(probe.ip));
        for ip in tentative.iter().map(|cidr| cidr.addr()) {
            if !self.has(ip) {
                self.probes.push(Probe { ip, sent: 0, next: now });
            }
        }
    }

    pub(super) fn has(&self, ip: Ipv4Addr) -> bool {
        self.probes.iter().any(|probe| probe.ip == ip)
    }

    pub(super) fn remove(&mut self, ip: Ipv4Addr) {
        self.probes.retain(|probe| probe.ip != ip);
    }

    /// Calls `probe` for each address whose probe is due and `free` for each that no station has;
    /// returns the time of the next deadline.
    pub(super) fn poll(
        &mut self,
        now: u64,
        mut probe: impl FnMut(Ipv4Addr),
        mut free: impl FnMut(Ipv4Addr),
    ) -> u64 {
        self.probes.retain_mut(|of| {
            if of.next > now {
                return true;
            }
            if of.sent == PROBE_NUM {
                free(of.ip);
                return false;
            }
            probe(of.ip);
            of.sent += 1;
            let wait = if of.sent == PROBE_NUM { ANNOUNCE_WAIT } else { PROBE_INTERVAL };
            of.next = now.saturating_add(wait);
            true
        });
        self.probes.iter().map(|probe| probe.next).min().unwrap_or(NEVER)
    }
}

/// RFC 5227 §2.1.1: the sender's protocol address "MUST be set to all zeroes".
pub(super) fn probe(mac: MacAddr, ip: Ipv4Addr) -> Transmit {
    Transmit::request(MacAddr::BROADCAST, mac, Ipv4Addr::UNSPECIFIED, ip)
}
