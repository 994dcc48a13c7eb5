//! An address with the length of its network's prefix.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 address and the length of its network's prefix, written `192.0.2.10/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address, host part included.
    pub address: Ipv4Addr,
    /// Bits of the network's part, 0 to 32.
    pub prefix: u8,
}

impl Cidr {
    /// The network's mask, as a number.
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0)
    }

    /// The network's address.
    pub fn network(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask())
    }

    /// Whether `other` lies in the network.
    pub fn contains(self, other: Ipv4Addr) -> bool {
        other.to_bits() & self.mask() == self.network().to_bits()
    }

    /// Why the address cannot be a host's, if it cannot: it is a group, loopback, unspecified,
    /// the network itself or its broadcast address.
    pub fn unfit_for_host(self) -> Option<&'static str> {
        let (address, host) = (self.address, self.address.to_bits() & !self.mask());
        let has_broadcast = self.prefix < 31;
        if address.is_unspecified() {
            Some("it is the unspecified address")
        } else if address.is_multicast() || address.is_broadcast() {
            Some("it is a group's address")
        } else if address.is_loopback() {
            Some("it is a loopback address")
        } else if has_broadcast && host == 0 {
            Some("it is the network's address")
        } else if has_broadcast && host == !self.mask() {
            Some("it is the network's broadcast address")
        } else {
            None
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Text that is no address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an IPv4 address with a prefix: {problem}; write it as 192.0.2.10/24")]
pub struct ParseCidrError {
    text: String,
    problem: &'static str,
}

impl FromStr for Cidr {
    type Err = ParseCidrError;
    fn from_str(text: &str) -> Result<Cidr, ParseCidrError> {
        let fail = |problem| ParseCidrError { text: text.into(), problem };
        let (address, prefix) =
            text.split_once('/').ok_or_else(|| fail("the `/` and the prefix are missing"))?;
        let address = address.parse().map_err(|_| fail("the address is malformed"))?;
        let digits = prefix.len() <= 2 && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|p| digits && *p <= 32);
        Ok(Cidr { address, prefix: prefix.ok_or_else(|| fail("the prefix is not 0 to 32"))? })
    }
}

impl<'de> serde::Deserialize<'de> for Cidr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Cidr, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks() {
        let c = cidr("10.1.2.3/20");
        assert_eq!(c.network(), Ipv4Addr::new(10, 1, 0, 0));
        assert!(c.contains(Ipv4Addr::new(10, 1, 15, 255)));
        assert!(!c.contains(Ipv4Addr::new(10, 1, 16, 0)));
        assert!(cidr("0.0.0.0/0").contains(Ipv4Addr::BROADCAST));
        assert_eq!(cidr("10.0.0.1/32").mask(), u32::MAX);
        assert_eq!(c.to_string(), "10.1.2.3/20");
    }

    #[test]
    fn what_is_no_cidr_is_refused() {
        for text in ["", "10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0/8", "10.0.0.1/+8", "x/8"] {
            let error = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("192.0.2.10/24"));
        }
    }

    #[test]
    fn addresses_that_no_host_has() {
        for text in ["0.0.0.0/8", "224.0.0.1/4", "127.0.0.1/8", "10.0.0.0/24", "10.0.0.255/24"] {
            assert!(cidr(text).unfit_for_host().is_some(), "{text}");
        }
        for text in ["10.0.0.1/24", "10.0.0.0/31", "10.0.0.1/31", "10.0.0.0/32"] {
            assert_eq!(cidr(text).unfit_for_host(), None, "{text}");
        }
    }
}
