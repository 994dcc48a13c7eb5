//! IPv4: an ARP cache for each interface, up or down.

use std::collections::VecDeque;
use std::mem;
use std::net::Ipv4Addr;

use weever_block::Nanos;
use weever_net::addr::Locals;
use weever_net::arp::{ArpConfig, Cache, Outcome, Transmit, Verdict};
use weever_net::iface::{IfaceId, Interface};
use weever_net::neighbour::Discovery;
use weever_net::random::Key;
use weever_net::state::NetState;
use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;

use super::super::Network;
use super::family::Family;
use super::family::Key4;
use super::links::{Link, Links};
use super::session::Session;

/// Conflicts that are kept until they are reported.
const MAX_CONFLICTS: usize = 64;

/// Another station uses one of our addresses (RFC 5227 §2.4), or one that we were about to use
/// (§2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressConflict {
    /// The interface.
    pub iface: IfaceId,
    /// The address.
    pub ip: Ipv4Addr,
    /// The station.
    pub mac: MacAddr,
}

/// ARP on the interfaces of a host.
#[derive(Debug)]
pub struct V4 {
    config: ArpConfig,
    /// Kept until they are in the host's network.
    found: Vec<Found>,
    /// Since they were last taken, the latest last.
    conflicts: VecDeque<AddressConflict>,
}

/// The result of probing for a tentative address, which is not probed for any more.
#[derive(Debug)]
struct Found {
    iface: IfaceId,
    ip: Ipv4Addr,
    /// Whether no other station has it.
    is_free: bool,
}

impl V4 {
    pub(crate) fn new(config: ArpConfig) -> V4 {
        V4 { config, found: Vec::new(), conflicts: VecDeque::new() }
    }

    pub(super) fn take_conflicts(&mut self) -> Vec<AddressConflict> {
        self.conflicts.drain(..).collect()
    }

    fn note_conflict(&mut self, conflict: AddressConflict) {
        // A station may send as many as it likes: each pair is kept once, and the oldest goes.
        if !self.conflicts.contains(&conflict) {
            if self.conflicts.len() == MAX_CONFLICTS {
                self.conflicts.pop_front();
            }
            self.conflicts.push_back(conflict);
        }
    }

    /// Drops findings about addresses that are not tentative any more, or of a link that may have been plugged in
    /// elsewhere since.
    fn drop_outdated(&mut self, links: &mut Links<Cache>, interfaces: &[Interface]) {
        self.found.retain(|found| {
            let iface = interfaces.iter().find(|iface| iface.id == found.iface);
            let both = iface.zip(links.any(found.iface.0));
            both.is_some_and(|(iface, link)| {
                link.downs == iface.downs && tentative(iface).is_ours(found.ip)
            })
        });
    }

    /// The tentative addresses of an interface about which nothing has been found.
    fn to_probe(&self, iface: &Interface) -> Locals {
        let mut open = tentative(iface);
        for found in self.found.iter().filter(|found| found.iface == iface.id) {
            open.remove(found.ip);
        }
        open
    }

    fn insert(&self, links: &mut Links<Cache>, iface: &Interface, now: Nanos) {
        let mut machine = Cache::new(iface.mac, locals(iface), self.config, now);
        machine.set_tentative(&self.to_probe(iface), now);
        let Interface { up, downs, borrowed, .. } = *iface;
        links.insert(Link { iface: iface.id.0, up, downs, borrowed, told: 0, machine });
    }
}

impl Family for V4 {
    type Key = Key4;
    type Machine = Cache;

    fn secret(&self) -> Key {
        self.config.key
    }

    fn asks_for(sent: &Transmit) -> Option<Ipv4Addr> {
        Some(sent.arp.tpa)
    }

    fn follow(
        &mut self,
        links: &mut Links<Cache>,
        state: &NetState,
        now: Nanos,
        mut given_up: impl FnMut(u16, Ipv4Addr),
    ) {
        let interfaces = state.config().interfaces();
        links.retain(|link| {
            let stays = interfaces.iter().any(|iface| iface.id.0 == link.iface);
            if !stays {
                flush(link, &mut given_up);
            }
            stays
        });
        self.drop_outdated(links, interfaces);
        for iface in interfaces {
            match links.any(iface.id.0) {
                Some(link) => adapt(link, iface, &self.to_probe(iface), now, &mut given_up),
                None => self.insert(links, iface, now),
            }
        }
    }

    fn note_free(&mut self, iface: u16, ip: Ipv4Addr) {
        self.found.push(Found { iface: IfaceId(iface), ip, is_free: true });
    }

    fn report(&mut self, _: &mut Links<Cache>, host: &Network) -> bool {
        if self.found.is_empty() {
            return true;
        }
        let Some(mut changes) = host.try_changes() else { return false };
        let found = mem::take(&mut self.found);
        changes.ask(move |net| {
            for Found { iface, ip, is_free } in found {
                // An operator may have removed it meanwhile.
                let _ = match is_free {
                    true => net.confirm_address(iface, ip),
                    false => net.refuse_address(iface, ip),
                };
            }
        });
        true
    }
}

/// The addresses that are announced and asked from.
fn locals(iface: &Interface) -> Locals {
    if iface.up && !iface.borrowed { iface.v4.clone() } else { Locals::default() }
}

/// The addresses that may not be used yet.
fn tentative(iface: &Interface) -> Locals {
    if iface.up && !iface.borrowed { iface.tentative.clone() } else { Locals::default() }
}

fn flush(link: &mut Link<Cache>, given_up: &mut impl FnMut(u16, Ipv4Addr)) {
    link.machine.neighbours_mut().flush(|ip| given_up(link.iface, ip));
}

/// A link that was down may have been plugged in elsewhere: its neighbours are asked for again, and
/// its addresses announced.
fn adapt(
    link: &mut Link<Cache>,
    iface: &Interface,
    to_probe: &Locals,
    now: Nanos,
    given_up: &mut impl FnMut(u16, Ipv4Addr),
) {
    // It may have come up again before any block has looked.
    if link.downs != iface.downs {
        flush(link, given_up);
    }
    (link.up, link.downs, link.borrowed) = (iface.up, iface.downs, iface.borrowed);
    let cache = &mut link.machine;
    if cache.mac() != iface.mac {
        cache.set_mac(iface.mac, now);
    }
    cache.set_tentative(to_probe, now);
    let locals = locals(iface);
    if *cache.locals() != locals {
        cache.set_locals(locals, now);
    }
}

impl Session<'_, V4> {
    /// Whether there is an entry for `ip`, resolved or not, or the address is ours.
    pub(crate) fn knows(&self, iface: u16, ip: Ipv4Addr) -> bool {
        let known = |cache: &Cache| {
            let ours = cache.locals().is_ours(ip) || cache.is_tentative(ip);
            ours || cache.neighbours().state(ip).is_some()
        };
        self.inner.links.iter().any(|link| link.iface == iface && known(&link.machine))
    }

    /// Lets the cache of `iface` learn from an ARP packet, and answer it; `None` if the interface
    /// is down or gone.
    pub(crate) fn handle(&mut self, iface: u16, arp: &ArpRepr, now: Nanos) -> Option<Outcome> {
        let outcome = self.inner.links.up(iface)?.machine.handle(arp, now);
        self.note_learned(iface, outcome.learned);
        let (family, iface) = (&mut self.inner.family, IfaceId(iface));
        if let Verdict::Duplicate { ip, .. } = outcome.verdict {
            family.found.push(Found { iface, ip, is_free: false });
        }
        if let Verdict::Conflict { ip, mac } | Verdict::Duplicate { ip, mac } = outcome.verdict {
            family.note_conflict(AddressConflict { iface, ip, mac });
        }
        Some(outcome)
    }
}
