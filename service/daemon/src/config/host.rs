//! Addresses that a host can have.

use std::net::IpAddr;

use weever_net::addr::Cidr;

use super::Prefix;

/// Why the address of `prefix` cannot be a host's, if it cannot: it is a group's, loopback,
/// unspecified, the network itself or its broadcast address.
pub(super) fn unfit_for_host(prefix: Prefix) -> Option<&'static str> {
    let address = prefix.addr();
    if address.is_unspecified() {
        Some("it is the unspecified address")
    } else if address.is_multicast() {
        Some("it is a group's address")
    } else if address.is_loopback() {
        Some("it is a loopback address")
    } else {
        match (address, prefix.v4()) {
            (_, Some(v4)) => unfit_v4(v4),
            (IpAddr::V6(v6), _) if v6.to_ipv4_mapped().is_some() => {
                Some("it is an IPv4 address in IPv6's clothes")
            }
            // RFC 4291 §2.6.1; RFC 6164 exempts links between two routers.
            _ if prefix.network() == prefix && prefix.len() < 127 => {
                Some("it is the routers' anycast address of the network")
            }
            _ => None,
        }
    }
}

fn unfit_v4(cidr: Cidr) -> Option<&'static str> {
    if cidr.addr().is_broadcast() {
        Some("it is the broadcast address")
    } else if cidr.broadcast() == Some(cidr.addr()) {
        Some("it is the network's broadcast address")
    } else if cidr.broadcast().is_some() && cidr.network() == cidr {
        Some("it is the network's address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_no_host_has_and_some_that_one_has() {
        let unfit = |text: &str| unfit_for_host(text.parse().unwrap());
        for text in [
            "0.0.0.0/8",
            "224.0.0.1/4",
            "127.0.0.1/8",
            "10.0.0.0/24",
            "10.0.0.255/24",
            "255.255.255.255/32",
            "::/64",
            "::1/128",
            "ff02::1/64",
            "2001:db8::/64",
            "::ffff:10.0.0.1/128",
        ] {
            assert!(unfit(text).is_some(), "{text}");
        }
        for text in [
            "10.0.0.1/24",
            "10.0.0.0/31",
            "10.0.0.1/31",
            "10.0.0.0/32",
            "2001:db8::1/64",
            "2001:db8::/127",
            "fe80::1/64",
        ] {
            assert_eq!(unfit(text), None, "{text}");
        }
    }
}
