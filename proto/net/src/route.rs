//! Routes and next hops (RFC 1122 §3.3.1, RFC 1812 §5.2.4).

use crate::addr::{Address, Prefix};
use crate::iface::IfaceId;

/// The origin of a route; of two routes that are otherwise equal, the one with the earlier origin here wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// From an address of ours: its subnet.
    Connected,
    /// From an operator.
    Static,
    /// From the kernel's table.
    Kernel,
    /// From a DHCP server.
    Dhcp,
    /// From a router advertisement.
    Ra,
}

/// How packets for the destinations are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way<A> {
    /// The destinations are neighbours.
    OnLink,
    /// This neighbour gets them.
    Via(A),
    /// They are dropped, and their senders get "host unreachable".
    Unreachable,
    /// They are dropped, and their senders get "administratively prohibited".
    Prohibited,
    /// They are dropped silently.
    Blackhole,
}

/// A route to a set of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route<A> {
    /// The destinations.
    pub to: Prefix<A>,
    /// How packets for them are handled.
    pub way: Way<A>,
    /// By which interface; `None`: that of the gateway's subnet.
    pub iface: Option<IfaceId>,
    /// Our address to speak from; `None`: that of the neighbour's subnet.
    pub source: Option<A>,
    /// Of several routes to the same destinations, the one with the lowest metric counts.
    pub metric: u32,
    /// Its origin.
    pub origin: Origin,
}

impl<A: Address> Route<A> {
    /// An operator's route through a gateway.
    pub fn via(to: Prefix<A>, gateway: A) -> Self {
        Self::new(to, Way::Via(gateway))
    }

    /// An operator's route of this kind, without an interface.
    pub fn new(to: Prefix<A>, way: Way<A>) -> Self {
        let to = to.network();
        Self { to, way, iface: None, source: None, metric: 0, origin: Origin::Static }
    }

    /// The same by this interface.
    #[must_use]
    pub fn by(mut self, iface: IfaceId) -> Self {
        self.iface = Some(iface);
        self
    }

    /// The same with this metric.
    #[must_use]
    pub fn with_metric(mut self, metric: u32) -> Self {
        self.metric = metric;
        self
    }

    /// The same with this origin.
    #[must_use]
    pub fn from(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// The gateway, if the destinations are no neighbours.
    ///
    /// # Errors
    /// The result of a lookup of destinations whose packets are dropped.
    pub(crate) fn gateway(&self) -> Result<Option<A>, Hop<A>> {
        let refused = |kind| Err(Hop::direct(kind, IfaceId::NONE, A::UNSPECIFIED));
        match self.way {
            Way::OnLink => Ok(None),
            Way::Via(gateway) => Ok(Some(gateway)),
            Way::Unreachable => refused(Kind::Unreachable),
            Way::Prohibited => refused(Kind::Prohibited),
            Way::Blackhole => refused(Kind::Blackhole),
        }
    }
}

/// The kind of a destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One of ours.
    Local,
    /// All stations of a link.
    Broadcast,
    /// A group.
    Multicast,
    /// One that no packet outside a host has (RFC 1812 §5.3.7).
    Martian,
    /// Another host's, reached directly or through a gateway.
    Unicast,
    /// See [`Way::Unreachable`].
    Unreachable,
    /// See [`Way::Prohibited`].
    Prohibited,
    /// See [`Way::Blackhole`].
    Blackhole,
}

/// The result of a route lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop<A> {
    /// The destination's kind.
    pub kind: Kind,
    /// The interface that reaches it, or that has the address.
    pub iface: IfaceId,
    /// The neighbour to hand packets to; unspecified: the destination itself.
    pub gateway: A,
    /// Our address to speak from.
    pub source: A,
}

impl<A: Address> Hop<A> {
    /// A destination of this kind, reached directly.
    pub fn direct(kind: Kind, iface: IfaceId, source: A) -> Self {
        Self { kind, iface, gateway: A::UNSPECIFIED, source }
    }

    /// The neighbour that a packet for `dst` goes to.
    #[inline]
    pub fn neighbour(&self, dst: A) -> A {
        if self.gateway == A::UNSPECIFIED { dst } else { self.gateway }
    }
}
