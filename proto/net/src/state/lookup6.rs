//! Lookups of the IPv6 packet path.

use core::net::Ipv6Addr;

use super::{NetState, ReversePath};
use crate::addr::Destination;
use crate::iface::IfaceId;
use crate::ipv6::addr::{ALL_ROUTERS, is_link_local};
use crate::ipv6::best_source;
use crate::route::{Hop, Kind};

impl NetState {
    /// The next hop of packets to an IPv6 address that is not link-local; `None`: there is no route.
    #[inline]
    pub fn route6(&self, dst: Ipv6Addr) -> Option<&Hop<Ipv6Addr>> {
        self.fib6.get(dst)
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
            let member = router || own.is_member6(dst);
            return if member { Destination::Multicast } else { Destination::Other };
        }
        if self.is_ours6(iface, dst) { Destination::Local } else { Destination::Other }
    }

    /// Whether `iface` wants packets of `source` to a group that it is in.
    #[inline]
    pub fn accepts6(&self, iface: IfaceId, group: Ipv6Addr, source: Ipv6Addr) -> bool {
        let own = self.interface(iface);
        // Routers are in their group without joining it.
        own.is_some_and(|own| own.accepts6(group, source) || !own.is_member6(group))
    }

    /// RFC 3704 §2.2, §2.3: whether a packet from `src` may have come by `iface`.
    pub fn reverse_path6(&self, iface: IfaceId, src: Ipv6Addr) -> bool {
        match self.settings().reverse_path {
            ReversePath::None => true,
            _ if is_link_local(src) => true,
            check => self.route6(src).is_some_and(|hop| {
                hop.kind == Kind::Unicast && (check == ReversePath::Loose || hop.iface == iface)
            }),
        }
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
