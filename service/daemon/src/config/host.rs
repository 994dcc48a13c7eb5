//! Addresses that a host can have.

use weever_net::addr::Cidr;

/// Why the address of `cidr` cannot be a host's, if it cannot: it is a group's, loopback,
/// unspecified, the network itself or its broadcast address.
pub(super) fn unfit_for_host(cidr: Cidr) -> Option<&'static str> {
    let address = cidr.addr();
    if address.is_unspecified() {
        Some("it is the unspecified address")
    } else if address.is_multicast() || address.is_broadcast() {
        Some("it is a group's address")
    } else if address.is_loopback() {
        Some("it is a loopback address")
    } else if cidr.broadcast() == Some(address) {
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
        for text in ["0.0.0.0/8", "224.0.0.1/4", "127.0.0.1/8", "10.0.0.0/24", "10.0.0.255/24"] {
            assert!(unfit(text).is_some(), "{text}");
        }
        for text in ["10.0.0.1/24", "10.0.0.0/31", "10.0.0.1/31", "10.0.0.0/32"] {
            assert_eq!(unfit(text), None, "{text}");
        }
    }
}
