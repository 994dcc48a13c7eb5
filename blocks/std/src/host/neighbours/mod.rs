//! The neighbours of a host: one writer at a time, readers that do not lock (design/0000 §4.4).
//!
//! ```text
//!  lookup, handle, poll                     publish                 find
//!  ───────────────────► Session ► Links ──────────────► Snapshot ◄───────── workers
//!                          │   one machine per interface
//!                          ├──► News: neighbours that were resolved or given up, for waiting packets
//!                          └──► Network: findings about our own addresses
//! ```
//!
//! All of it serves both families; their differences are in [`Family`].

mod family;
mod links;
mod neighbourhood;
mod session;
mod snapshot;
#[cfg(test)]
mod tests;
mod v4;
mod v6;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use weever_block::Nanos;
use weever_net::iface::IfaceId;
use weever_net::neighbour::{Discovery, Neighbour, State, TableFull};
use weever_wire::MacAddr;

use super::{Network, Resolver};
use family::Ip;
pub(crate) use family::{Family, Key4, Key6, NeighbourKey, Sent};
use links::{Links, News};
use neighbourhood::Inner;
pub use neighbourhood::Neighbourhood;
pub(crate) use session::Session;
pub(crate) use snapshot::{Reader, Snapshot};
pub use v4::{AddressConflict, V4};
pub use v6::V6;

/// The IPv4 neighbours of a host.
pub type Neighbours = Neighbourhood<V4>;
/// The IPv6 neighbours of a host.
pub type Neighbours6 = Neighbourhood<V6>;

impl<F: Family> Neighbourhood<F> {
    /// A machine for each interface, whose first polls announce the host's addresses; `resolver`
    /// finds out the neighbours of borrowed interfaces.
    pub(crate) fn new(host: Arc<Network>, resolver: Arc<Resolver>, family: F, now: Nanos) -> Self {
        let (links, news, secret) = (Links::new(), News::new(), family.secret());
        let inner = Mutex::new(Inner { family, links, generation: 0, followed: 0, news });
        let (news, wake, followed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (published, waiting) = (Arc::default(), Arc::default());
        let neighbours =
            Self { secret, host, resolver, inner, published, waiting, news, wake, followed };
        drop(neighbours.session(now));
        neighbours
    }

    /// Every entry, by interface and address. Locks.
    pub fn entries(&self) -> Vec<(IfaceId, Neighbour<Ip<F>>)> {
        self.lock().links.entries().map(|(iface, entry)| (IfaceId(iface), entry)).collect()
    }

    /// Enters an address that never ages and that packets do not change. False if there is no such
    /// interface, or it does not speak IPv6. Locks.
    ///
    /// # Errors
    /// When the cache is full of such entries.
    pub fn insert_static(
        &self,
        iface: IfaceId,
        ip: Ip<F>,
        mac: MacAddr,
        now: Nanos,
    ) -> Result<bool, TableFull> {
        let mut session = self.session(now);
        let Some(link) = session.inner.links.any(iface.0) else { return Ok(false) };
        link.machine.neighbours_mut().insert_static(ip, mac, now)?;
        session.tell(iface.0, ip);
        Ok(true)
    }

    /// Forgets a neighbour, entered by an operator or not; returns its entry. Locks.
    pub fn remove(&self, iface: IfaceId, ip: Ip<F>, now: Nanos) -> Option<Neighbour<Ip<F>>> {
        let mut session = self.session(now);
        let removed = session.inner.links.remove(iface.0, ip)?;
        session.tell(iface.0, ip);
        Some(removed)
    }

    /// Takes over a link address that the [`Resolver`] found, which is asked again while it is
    /// used. Has no effect on an operator's entry. Locks.
    pub fn adopt(&self, iface: IfaceId, ip: Ip<F>, mac: MacAddr, now: Nanos) {
        let mut session = self.session(now);
        let Some(link) = session.inner.links.up(iface.0) else { return };
        if link.machine.adopt(ip, mac, now).is_some_and(|learned| learned.resolves) {
            session.tell(iface.0, ip);
        }
    }

    /// Forgets an adopted address, but keeps the packets that wait for it: the resolver looks
    /// again, and they wait until it is found or time is up. Locks.
    pub fn withdraw(&self, iface: IfaceId, ip: Ip<F>, now: Nanos) {
        let mut session = self.session(now);
        let Some(link) = session.inner.links.any(iface.0) else { return };
        let neighbours = link.machine.neighbours_mut();
        if !matches!(neighbours.state(ip), Some(State::Incomplete | State::Static)) {
            neighbours.remove(ip);
        }
    }
}

impl Neighbourhood<V4> {
    /// The address conflicts since the last call, each pair of address and station once. Locks.
    pub fn take_conflicts(&self) -> Vec<AddressConflict> {
        self.lock().family.take_conflicts()
    }
}
