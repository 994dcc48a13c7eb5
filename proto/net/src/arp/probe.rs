//! Tentative addresses: probed before they are used (RFC 5227 §2.1).

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use weever_wire::MacAddr;

use super::Transmit;
use crate::addr::Locals;
use crate::neighbour::NEVER;
use crate::{MILLIS, SECOND};

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
