//! Kinds and scopes of IPv6 addresses (RFC 4291), and addresses derived from others.

use core::net::Ipv6Addr;

use weever_wire::MacAddr;

use crate::addr::{Cidr6, Prefix};
use crate::random::keyed_hash;

/// All nodes of a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// All routers that speak MLDv2 (RFC 3810 §5.2.14).
pub const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The prefix of solicited-node groups (RFC 4291 §2.7.1).
const SOLICITED_NODE: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
const LINK_LOCAL: u128 = 0xfe80 << 112;

/// How far packets to an address may go; a smaller one is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(u8);

impl Scope {
    /// Not beyond the interface.
    pub const INTERFACE: Scope = Scope(1);
    /// Not beyond the link.
    pub const LINK: Scope = Scope(2);
    /// Not beyond the site.
    pub const SITE: Scope = Scope(5);
    /// Anywhere.
    pub const GLOBAL: Scope = Scope(14);

    /// The number that groups have in their addresses.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// That of an address: RFC 4291 §2.7 for groups, RFC 6724 §3.1 for others.
    pub const fn of(ip: Ipv6Addr) -> Scope {
        let [first, second, ..] = ip.octets();
        if first == 0xff {
            Scope(second & 0xf)
        } else if is_link_local(ip) || ip.is_loopback() {
            Scope::LINK
        } else if first == 0xfe && second & 0xc0 == 0xc0 {
            Scope::SITE
        } else {
            Scope::GLOBAL
        }
    }
}

/// Whether the address is that of one interface on its link only: fe80::/10.
#[inline]
pub const fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xffc0 == 0xfe80
}

/// Whether packets to or from the address stay on their link; groups of the interface included.
#[inline]
pub fn stays_on_link(ip: Ipv6Addr) -> bool {
    Scope::of(ip) <= Scope::LINK || ip.is_unspecified()
}

/// The group of all nodes that have an address with these last 24 bits (RFC 4291 §2.7.1).
pub const fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(SOLICITED_NODE | ip.to_bits() & 0x00ff_ffff)
}

/// Whether the group is a solicited-node one.
pub const fn is_solicited_node(group: Ipv6Addr) -> bool {
    group.to_bits() & !0x00ff_ffff == SOLICITED_NODE
}

/// The group of stations of an IPv6 group: RFC 2464 §7, 33-33 and the last four bytes.
#[inline]
pub const fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    MacAddr::from_bits(0x3333_0000_0000 | (group.to_bits() & 0xffff_ffff) as u64)
}

/// An interface identifier made of a link address (RFC 4291 appendix A): an observer can follow
/// the station from network to network.
pub const fn eui64(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// An interface identifier that stays the same in one network and is another in every other (RFC
/// 7217 §5), of a keyed hash that cannot be predicted without `secret`. `collisions` counts the
/// addresses of this prefix that others had already.
pub fn stable_iid(secret: [u64; 2], prefix: u64, mac: MacAddr, collisions: u8) -> u64 {
    let iid = |salt: u64| keyed_hash(secret, &[prefix, mac.to_bits(), collisions.into(), salt]);
    // RFC 5453: reserved ones are not taken.
    (0..).map(iid).find(|iid| !is_reserved(*iid)).unwrap_or(1)
}

/// RFC 5453: the anycast address of routers, and those of RFC 2526 and of the Ethernet block.
const fn is_reserved(iid: u64) -> bool {
    iid == 0 || iid >> 7 == 0xfdff_ffff_ffff_ff80 >> 7 || iid >> 24 == 0x02_005e_fffe
}

/// The address of this prefix of 64 bits with this interface identifier.
pub const fn with_iid(prefix: Ipv6Addr, iid: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(prefix.to_bits() & (u128::MAX << 64) | iid as u128)
}

/// The link-local address with this interface identifier, and its prefix.
pub fn link_local(iid: u64) -> Option<Cidr6> {
    Prefix::new(with_iid(Ipv6Addr::from_bits(LINK_LOCAL), iid), 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn scopes() {
        let of = |text| Scope::of(ip(text));
        assert_eq!(
            (of("fe80::1"), of("febf::1"), of("::1")),
            (Scope::LINK, Scope::LINK, Scope::LINK)
        );
        assert_eq!(
            (of("fec0::1"), of("fd00::1"), of("::")),
            (Scope::SITE, Scope::GLOBAL, Scope::GLOBAL)
        );
        assert_eq!(
            (of("ff01::1"), of("ff02::1"), of("ff0e::1")),
            (Scope::INTERFACE, Scope::LINK, Scope::GLOBAL)
        );
        assert!(
            stays_on_link(ip("ff02::5"))
                && stays_on_link(ip("::"))
                && !stays_on_link(ip("ff05::2"))
        );
    }

    #[test]
    fn groups_and_link_addresses() {
        assert_eq!(solicited_node(ip("4037::1:800:200e:8c6c")), ip("ff02::1:ff0e:8c6c"));
        assert!(is_solicited_node(ip("ff02::1:ff0e:8c6c")) && !is_solicited_node(ALL_NODES));
        assert_eq!(multicast_mac(ip("ff02::1:ff0e:8c6c")).to_string(), "33:33:ff:0e:8c:6c");
        let mac = MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(link_local(eui64(mac)).unwrap().addr(), ip("fe80::3656:78ff:fe9a:bcde"));
    }

    #[test]
    fn stable_identifiers_differ_by_all_they_are_made_of() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let base = stable_iid([1, 2], 3, mac, 0);
        assert_eq!(base, stable_iid([1, 2], 3, mac, 0));
        for other in [
            stable_iid([1, 3], 3, mac, 0),
            stable_iid([1, 2], 4, mac, 0),
            stable_iid([1, 2], 3, MacAddr([2, 0, 0, 0, 0, 2]), 0),
            stable_iid([1, 2], 3, mac, 1),
        ] {
            assert_ne!(base, other);
        }
        assert!(is_reserved(0xfdff_ffff_ffff_ff81) && is_reserved(0x0200_5eff_fe00_0001));
    }
}
