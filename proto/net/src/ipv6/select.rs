//! Source address selection: RFC 6724 §5, the rules that apply. Rules 4 (home
//! addresses) and 7 (temporary addresses) do not, as we have neither; rule 5 (outgoing interface)
//! is up to the caller, which supplies the candidates.

use core::net::Ipv6Addr;

use super::addr::Scope;
use super::locals::{AddrState, Locals6, OwnAddr};

impl Locals6 {
    /// The source address for packets to `dst` (RFC 6724 §5).
    pub fn source_for(&self, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        best_source(dst, self.iter())
    }
}

/// The best of `candidates` for packets to `dst`; those that may not be used are left out.
pub fn best_source(dst: Ipv6Addr, candidates: impl Iterator<Item = OwnAddr>) -> Option<Ipv6Addr> {
    let usable = candidates.filter(OwnAddr::is_used);
    // Of equals, the first one: `max_by_key` would take the last.
    usable
        .map(|own| (rank(dst, &own), own.cidr.addr()))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, addr)| addr)
}

/// A source that would do better has a larger one.
type Rank = (bool, (bool, i16), bool, bool, u32);

fn rank(dst: Ipv6Addr, own: &OwnAddr) -> Rank {
    let src = own.cidr.addr();
    let same = src == dst;
    let preferred = own.state == AddrState::Preferred;
    let labelled = label(src) == label(dst);
    (same, reach(Scope::of(src), Scope::of(dst)), preferred, labelled, common_prefix(own, dst))
}

/// Rule 2: a scope that reaches, and of those the smallest; else the largest.
fn reach(src: Scope, dst: Scope) -> (bool, i16) {
    let width = i16::from(src.number());
    if src >= dst { (true, -width) } else { (false, width) }
}

/// Rule 8, with RFC 6724 §2.2's limit to the source's prefix.
fn common_prefix(own: &OwnAddr, dst: Ipv6Addr) -> u32 {
    let same = (own.cidr.addr().to_bits() ^ dst.to_bits()).leading_zeros();
    same.min(own.cidr.prefix_len().into())
}

/// RFC 6724 §2.1: the labels of the default policy table.
fn label(ip: Ipv6Addr) -> u8 {
    let [a, b, ..] = ip.segments();
    let bits = ip.to_bits();
    match (a, b) {
        _ if bits == 1 => 0,
        _ if bits >> 32 == 0xffff => 4,
        _ if bits >> 32 == 0 => 3,
        (0x2002, _) => 2,
        (0x2001, 0) => 5,
        (0x3ffe, _) => 12,
        _ if a & 0xfe00 == 0xfc00 => 13,
        _ if a & 0xffc0 == 0xfec0 => 11,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::AddrOrigin;
    use std::vec::Vec;

    fn locals(texts: &[&str]) -> Locals6 {
        Locals6::new(&texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<_>>())
    }

    fn chosen(texts: &[&str], dst: &str) -> Ipv6Addr {
        locals(texts).source_for(dst.parse().unwrap()).unwrap()
    }

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// RFC 6724 §10.1.
    #[test]
    fn the_examples_of_the_rfc() {
        let two = ["2001:db8:3::1/64", "fe80::1/64"];
        assert_eq!(chosen(&two, "2001:db8:1::1"), ip("2001:db8:3::1"));
        assert_eq!(chosen(&two, "ff05::1"), ip("2001:db8:3::1"));
        let same = ["2001:db8:1::1/64", "2001:db8:2::1/64"];
        assert_eq!(chosen(&same, "2001:db8:1::1"), ip("2001:db8:1::1"));
        assert_eq!(chosen(&["2001:db8:3::1/64", "fe80::2/64"], "fe80::1"), ip("fe80::2"));
        let label = ["2001:db8:1::2/64", "2001:db8:3::2/64"];
        assert_eq!(chosen(&label, "2001:db8:1::1"), ip("2001:db8:1::2"));
        let tunnel = ["2001:db8:1::2/64", "2002:c633:6401::d5e3:7953:13eb:22e8/64"];
        assert_eq!(chosen(&tunnel, "2002:c633:6401::1"), ip("2002:c633:6401::d5e3:7953:13eb:22e8"));
    }

    #[test]
    fn what_is_deprecated_is_second_and_what_is_tentative_is_out() {
        let mut all = locals(&["2001:db8::2/64", "2001:db8::3/64"]);
        let first = all.get(ip("2001:db8::2")).unwrap();
        assert_eq!(
            all.source_for(ip("2001:db8::9")),
            Some(ip("2001:db8::2")),
            "the first of equals"
        );
        all.set(OwnAddr { state: AddrState::Deprecated, origin: AddrOrigin::Autoconf, ..first });
        assert_eq!(all.source_for(ip("2001:db8::9")), Some(ip("2001:db8::3")));
        all.remove(ip("2001:db8::3"));
        assert_eq!(all.source_for(ip("2001:db8::9")), Some(ip("2001:db8::2")));
        all.set(OwnAddr { state: AddrState::Tentative, ..first });
        assert_eq!(all.source_for(ip("2001:db8::9")), None);
        assert!(!all.is_ours(ip("2001:db8::2")) && all.in_solicited_node(ip("ff02::1:ff00:2")));
    }

    #[test]
    fn unique_local_speaks_to_unique_local() {
        let two = ["2001:db8::2/64", "fd00:1::2/64"];
        assert_eq!(chosen(&two, "fd00:2::1"), ip("fd00:1::2"));
        assert_eq!(chosen(&two, "2600::1"), ip("2001:db8::2"));
    }
}
