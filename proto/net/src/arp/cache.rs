//! The cache, but for packets and time ([`receive`](super::receive)).

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, op};

use super::claim::Claims;
use super::claim::Probes;
use super::{Action, ArpConfig, Discovery, Learned, Lookup, State, Transmit};
use crate::addr::Locals;
use crate::neighbour::{Answers, Demand, Entries, NEVER};

/// The neighbour cache of one link; see the [module's documentation](super).
#[derive(Clone, Debug)]
pub struct Cache {
    pub(super) mac: MacAddr,
    pub(super) locals: Locals,
    pub(super) config: ArpConfig,
    /// It also knows when claims and probes are due.
    pub(super) entries: Entries<Ipv4Addr>,
    pub(super) claims: Claims,
    pub(super) probes: Probes,
    pub(super) answers: Answers,
}

impl Cache {
    /// An empty cache for the station `mac` with the addresses `locals`, which the first polls
    /// will announce. Allocates all it will ever need.
    pub fn new(mac: MacAddr, locals: Locals, config: ArpConfig, now: u64) -> Self {
        let mut cache = Self {
            mac,
            locals: Locals::default(),
            config,
            entries: Entries::new(config.capacity),
            claims: Claims::default(),
            probes: Probes::default(),
            answers: Answers::new(config.key),
        };
        cache.set_locals(locals, now);
        cache
    }

    /// Our own link address.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Our own addresses.
    pub fn locals(&self) -> &Locals {
        &self.locals
    }

    /// Replaces our own addresses; new ones will be announced.
    pub fn set_locals(&mut self, locals: Locals, now: u64) {
        self.claims.set(&locals, now);
        self.locals = locals;
        self.entries.arm(now);
    }

    /// Replaces our own link address; all our addresses will be announced with it.
    pub fn set_mac(&mut self, mac: MacAddr, now: u64) {
        self.mac = mac;
        self.claims = Claims::default();
        self.claims.set(&self.locals, now);
        self.entries.arm(now);
    }

    /// Replaces the addresses that are asked for before they are used: [`Action::Free`] or
    /// [`Verdict::Duplicate`](super::Verdict::Duplicate) will tell of each.
    pub fn set_tentative(&mut self, tentative: &Locals, now: u64) {
        self.probes.set(tentative, now);
        self.entries.arm(now);
    }

    /// Whether `ip` is being asked for before it is used.
    pub fn is_tentative(&self, ip: Ipv4Addr) -> bool {
        self.probes.has(ip)
    }

    /// RFC 5227 §2.1.1: a tentative address belongs to another station if any ARP packet has it as its
    /// sender, or another station's probe asks for it. It is not asked for any longer then.
    pub(super) fn duplicate(&mut self, arp: &ArpRepr) -> Option<Ipv4Addr> {
        let probed = arp.op == op::REQUEST && arp.spa.is_unspecified();
        let ip = if probed { arp.tpa } else { arp.spa };
        let taken = self.probes.has(ip) && arp.sha != self.mac;
        taken.then(|| self.probes.remove(ip));
        taken.then_some(ip)
    }
}

pub(super) fn request(locals: &Locals, mac: MacAddr, dst: MacAddr, ip: Ipv4Addr) -> Transmit {
    let source = locals.source_for(ip).unwrap_or(Ipv4Addr::UNSPECIFIED);
    Transmit::request(dst, mac, source, ip)
}

impl Discovery for Cache {
    type Ip = Ipv4Addr;
    type Transmit = Transmit;

    fn neighbours(&self) -> &Entries<Ipv4Addr> {
        &self.entries
    }

    fn neighbours_mut(&mut self) -> &mut Entries<Ipv4Addr> {
        &mut self.entries
    }

    fn lookup_for(&mut self, ip: Ipv4Addr, demand: Demand, now: u64) -> Lookup {
        let found = self.entries.lookup(ip, demand, self.config.retry, now);
        if matches!(found, Lookup::Hit(_)) {
            self.touch(ip, now);
        }
        found.asking(|| request(&self.locals, self.mac, MacAddr::BROADCAST, ip))
    }

    fn touch(&mut self, ip: Ipv4Addr, now: u64) {
        self.entries.touch(ip, now, (State::Probe, now));
    }

    fn adopt(&mut self, ip: Ipv4Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        self.heard(ip, mac, now)
    }

    fn poll_at(&self) -> Option<u64> {
        Some(self.entries.wake()).filter(|wake| *wake != NEVER)
    }

    fn poll(&mut self, now: u64, act: impl FnMut(Action)) {
        if now >= self.entries.wake() {
            self.expire(now, act);
        }
    }
}
