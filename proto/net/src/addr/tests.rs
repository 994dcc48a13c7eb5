use super::*;
use proptest::prelude::*;
use std::string::{String, ToString};

fn locals() -> Locals {
    Locals::new(&["10.0.0.1/24".parse().unwrap(), "10.0.0.200/28".parse().unwrap()])
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn destinations() {
    let locals = locals();
    for (dst, wanted) in [
        ("10.0.0.1", Destination::Local),
        ("10.0.0.200", Destination::Local),
        ("10.0.0.255", Destination::Broadcast),
        ("10.0.0.207", Destination::Broadcast),
        ("255.255.255.255", Destination::Broadcast),
        ("224.0.0.1", Destination::Multicast),
        ("10.0.0.2", Destination::Other),
        ("127.0.0.1", Destination::Other),
    ] {
        assert_eq!(locals.classify(ip(dst)), wanted, "{dst}");
    }
}

#[test]
fn martians() {
    let locals = locals();
    for (src, wanted) in [
        ("10.0.0.2", Ok(())),
        ("8.8.8.8", Ok(())),
        ("0.0.0.0", Err(Martian::ThisNetwork)),
        ("127.0.0.1", Err(Martian::Loopback)),
        ("224.0.0.1", Err(Martian::Group)),
        ("240.0.0.1", Err(Martian::Group)),
        ("255.255.255.255", Err(Martian::Group)),
        ("10.0.0.255", Err(Martian::SubnetBroadcast)),
        ("10.0.0.1", Err(Martian::Own)),
    ] {
        assert_eq!(locals.check_source(ip(src)), wanted, "{src}");
    }
}

#[test]
fn the_source_shares_the_longest_prefix() {
    let locals = locals();
    assert_eq!(locals.source_for(ip("10.0.0.201")), Some(ip("10.0.0.200")));
    assert_eq!(locals.source_for(ip("10.0.0.9")), Some(ip("10.0.0.1")));
    assert_eq!(locals.source_for(ip("8.8.8.8")), Some(ip("10.0.0.1")));
    assert_eq!(Locals::default().source_for(ip("8.8.8.8")), None);
}

#[test]
fn edges_of_prefixes() {
    let (all, host) = (Cidr::ALL, Cidr::new(ip("1.2.3.4"), 32).unwrap());
    assert!(all.contains(ip("255.1.2.3")));
    assert!(host.contains(ip("1.2.3.4")) && !host.contains(ip("1.2.3.5")));
    assert_eq!(host.broadcast(), None);
    assert_eq!(Cidr::new(ip("1.2.3.4"), 31).unwrap().broadcast(), None);
    assert_eq!(Cidr::new(ip("1.2.3.4"), 30).unwrap().broadcast(), Some(ip("1.2.3.7")));
    assert_eq!(Cidr::new(ip("1.2.3.4"), 33), None);
    for bad in ["1.2.3.4", "1.2.3/4", "1.2.3.4/33", "1.2.3.4/+3", "1.2.3.4/", "/8", ""] {
        assert!(bad.parse::<Cidr>().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn text_round_trip(addr: u32, len in 0u8..33) {
        let cidr = Cidr::new(Ipv4Addr::from_bits(addr), len).unwrap();
        prop_assert_eq!(cidr.to_string().parse(), Ok(cidr));
    }

    #[test]
    fn a_prefix_contains_exactly_what_shares_its_bits(addr: u32, ip: u32, len in 0u8..33) {
        let cidr = Cidr::new(Ipv4Addr::from_bits(addr), len).unwrap();
        let same = (addr ^ ip).leading_zeros() >= u32::from(len);
        prop_assert_eq!(cidr.contains(Ipv4Addr::from_bits(ip)), same);
        prop_assert!(cidr.contains(cidr.network().addr()));
    }

    #[test]
    fn any_text_parses_or_fails(text: String) {
        prop_assert!(text.parse::<Cidr>().is_err() || text.contains('/'));
    }
}
