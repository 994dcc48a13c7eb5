//! Lookups of the packet path.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::family::Family;
use super::{NetState, ReversePath};
use crate::addr::{Destination, Martian, Ours};
use crate::iface::IfaceId;
use crate::ipv6::addr::{ALL_ROUTERS, is_link_local};
use crate::ipv6::best_source;
use crate::route::{Hop, Kind};

impl NetState {
    /// RFC 3704 §2.2, §2.3: whether a packet from `src` may have come by `iface`. Ask
    /// [`check_source4`](Self::check_source4) first for IPv4.
    #[inline]
    pub fn reverse_path<A: Family>(&self, iface: IfaceId, src: A) -> bool {
        match self.settings().reverse_path {
            ReversePath::None => true,
            _ if src.is_local_to_a_link() => true,
            check => A::fib(&self.fibs).get(src).is_some_and(|hop| {
                hop.kind == Kind::Unicast && (check == ReversePath::Loose || hop.iface == iface)
            }),
        }
    }

    /// Whether `iface` is in the group.
    #[inline]
    pub fn is_member<A: Family>(&self, iface: IfaceId, group: A) -> bool {
        self.interface(iface).is_some_and(|iface| iface.is_member(group))
    }

    /// Whether `iface` wants packets of `source` to the group.
    #[inline]
    pub fn accepts<A: Family>(&self, iface: IfaceId, group: A, source: A) -> bool {
        self.interface(iface).is_some_and(|iface| iface.accepts(group, source))
    }

    /// The next hop of packets to an IPv4 address; `None`: there is no route.
    #[inline]
    pub fn route4(&self, dst: Ipv4Addr) -> Option<&Hop<Ipv4Addr>> {
        self.fibs.v4.get(dst)
    }

    /// Whether an IPv4 address is one of ours, on any interface that is up.
    #[inline]
    pub fn is_ours(&self, ip: Ipv4Addr) -> bool {
        Some(ip) == self.first4 || self.route4(ip).is_some_and(|hop| hop.kind == Kind::Local)
    }

    /// The class of the destination of a datagram that `iface` received.
    ///
    /// An address of ours is ours whichever interface a datagram for it came by: the weak model of
    /// RFC 1122 §3.3.4.2, which a router needs (RFC 1812 §5.2.3). A subnet's broadcast address
    /// counts on its own link only, and a group where it was joined.
    #[inline]
    pub fn destination4(&self, iface: IfaceId, dst: Ipv4Addr) -> Destination {
        if Some(dst) == self.first4 {
            return Destination::Local;
        }
        let Some(hop) = self.route4(dst) else { return Destination::Other };
        match hop.kind {
            Kind::Local => Destination::Local,
            Kind::Broadcast if hop.iface == iface || dst.is_broadcast() => Destination::Broadcast,
            Kind::Multicast => Destination::Multicast,
            _ => Destination::Other,
        }
    }

    /// RFC 1122 §3.2.1.3 and RFC 1812 §5.3.7: whether a datagram from outside can be from `src`.
    ///
    /// # Errors
    /// The rule that `src` breaks.
    #[inline]
    pub fn check_source4(&self, src: Ipv4Addr) -> Result<(), Martian> {
        match src.octets()[0] {
            0 => Err(Martian::ThisNetwork),
            127 => Err(Martian::Loopback),
            224.. => Err(Martian::Group),
            _ => match self.route4(src).map(|hop| hop.kind) {
                Some(Kind::Local) => Err(Martian::Own),
                Some(Kind::Broadcast) => Err(Martian::SubnetBroadcast),
                _ => Ok(()),
            },
        }
    }

    /// The source address for packets to `dst` by `iface`, where no route says: one on the subnet of
    /// `dst`, else the interface's first, else that of any other interface that is up.
    pub fn source4(&self, iface: IfaceId, dst: Ipv4Addr) -> Option<Ipv4Addr> {
        let own = self.interface(iface).and_then(|iface| iface.v4.source_for(dst));
        let others = self.config().interfaces().iter().filter(|iface| iface.up);
        own.or_else(|| others.filter_map(|iface| iface.v4.source_for(dst)).next())
    }

    /// The next hop of packets to an IPv6 address that is not link-local; `None`: there is no route.
    #[inline]
    pub fn route6(&self, dst: Ipv6Addr) -> Option<&Hop<Ipv6Addr>> {
        self.fibs.v6.get(dst)
    }

    /// The next hop of a packet of ours to `dst`; link-local addresses and groups are reached by `via`
    /// (RFC 4007 §6), others as the routes say.
    pub fn hop6(&self, via: IfaceId, dst: Ipv6Addr) -> Option<Hop<Ipv6Addr>> {
        if is_link_local(dst) || dst.is_multicast() {
            let iface = self.interface(via).filter(|i| i.up && i.v6_settings.enabled)?;
            let kind = if dst.is_multicast() { Kind::Multicast } else { Kind::Unicast };
            let local = iface.v6.is_ours(dst);
            let kind = if local { Kind::Local } else { kind };
            return Some(Hop::direct(kind, via, Ipv6Addr::UNSPECIFIED));
        }
        self.route6(dst).copied()
    }

    /// Whether an IPv6 address is one of ours: on `iface` if it is link-local, else on any.
    #[inline]
    pub fn is_ours6(&self, iface: IfaceId, ip: Ipv6Addr) -> bool {
        if is_link_local(ip) {
            return self.interface(iface).is_some_and(|iface| iface.v6.is_ours(ip));
        }
        self.route6(ip).is_some_and(|hop| hop.kind == Kind::Local)
    }

    /// The class of the destination of a packet that `iface` received.
    #[inline]
    pub fn destination6(&self, iface: IfaceId, dst: Ipv6Addr) -> Destination {
        let Some(own) = self.interface(iface).filter(|own| own.v6_settings.enabled) else {
            return Destination::Other;
        };
        if dst.is_multicast() {
            let router = self.settings().forwarding && dst == ALL_ROUTERS;
            let member = router || own.is_member(dst);
            return if member { Destination::Multicast } else { Destination::Other };
        }
        if self.is_ours6(iface, dst) { Destination::Local } else { Destination::Other }
    }

    /// Whether `iface` wants packets of `source` to a group that it is in. Routers are in their group
    /// without joining it.
    #[inline]
    pub fn accepts6(&self, iface: IfaceId, group: Ipv6Addr, source: Ipv6Addr) -> bool {
        self.accepts(iface, group, source) || !self.is_member(iface, group)
    }

    /// The source address for packets to `dst` by `iface` (RFC 6724): one of the interface's if it has a
    /// fitting one, else another's.
    pub fn source6(&self, iface: IfaceId, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        let own = self.interface(iface)?;
        let near = best_source(dst, own.v6.iter());
        let fits =
            |src: &Ipv6Addr| is_link_local(dst) || dst.is_multicast() || !is_link_local(*src);
        near.filter(fits).or_else(|| {
            let others = self.config().interfaces().iter().filter(|i| i.up);
            let global = others.flat_map(|i| i.v6.iter()).filter(|o| !is_link_local(o.cidr.addr()));
            best_source(dst, global)
        })
    }

    /// The longest IPv6 packet that an interface sends.
    pub fn mtu6(&self, iface: IfaceId) -> u16 {
        self.interface(iface).map_or(0, |iface| match iface.v6_settings.link_mtu {
            0 => iface.mtu,
            link => link.min(iface.mtu),
        })
    }
}

impl Ours for NetState {
    fn is_ours(&self, ip: Ipv4Addr) -> bool {
        NetState::is_ours(self, ip)
    }

    fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool {
        self.route4(ip).is_some_and(|hop| hop.kind == Kind::Broadcast)
    }

    fn check_source(&self, src: Ipv4Addr) -> Result<(), Martian> {
        self.check_source4(src)
    }
}
