//! An address of either family with the length of its network's prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use weever_net::addr::{Cidr, Cidr6};

/// An address and the length of the prefix that it shares with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// An IPv4 prefix.
    V4(Cidr),
    /// An IPv6 prefix.
    V6(Cidr6),
}

impl Prefix {
    /// Every IPv4 address.
    pub const ALL_V4: Prefix = Prefix::V4(Cidr::ALL);
    /// Every IPv6 address.
    pub const ALL_V6: Prefix = Prefix::V6(Cidr6::ALL);

    /// `addr`/`len`; `None` if the family has fewer bits.
    pub fn new(addr: IpAddr, len: u8) -> Option<Prefix> {
        match addr {
            IpAddr::V4(v4) => Cidr::new(v4, len).map(Prefix::V4),
            IpAddr::V6(v6) => Cidr6::new(v6, len).map(Prefix::V6),
        }
    }

    /// Every address of the family of `addr`.
    pub const fn all_like(addr: IpAddr) -> Prefix {
        if addr.is_ipv4() { Prefix::ALL_V4 } else { Prefix::ALL_V6 }
    }

    /// The address, host bits included.
    pub fn addr(self) -> IpAddr {
        match self {
            Prefix::V4(cidr) => cidr.addr().into(),
            Prefix::V6(cidr) => cidr.addr().into(),
        }
    }

    /// Bits of the prefix.
    pub fn len(self) -> u8 {
        match self {
            Prefix::V4(cidr) => cidr.prefix_len(),
            Prefix::V6(cidr) => cidr.prefix_len(),
        }
    }

    /// Whether every address of the family begins with it.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The same prefix with its host bits cleared.
    pub fn network(self) -> Prefix {
        match self {
            Prefix::V4(cidr) => Prefix::V4(cidr.network()),
            Prefix::V6(cidr) => Prefix::V6(cidr.network()),
        }
    }

    /// Whether `ip` is of the family and begins with the prefix.
    pub fn contains(self, ip: IpAddr) -> bool {
        match (self, ip) {
            (Prefix::V4(cidr), IpAddr::V4(v4)) => cidr.contains(v4),
            (Prefix::V6(cidr), IpAddr::V6(v6)) => cidr.contains(v6),
            _ => false,
        }
    }

    /// The same of IPv4; `None` for the other family.
    pub fn v4(self) -> Option<Cidr> {
        match self {
            Prefix::V4(cidr) => Some(cidr),
            Prefix::V6(_) => None,
        }
    }

    /// The same of IPv6; `None` for the other family.
    pub fn v6(self) -> Option<Cidr6> {
        match self {
            Prefix::V4(_) => None,
            Prefix::V6(cidr) => Some(cidr),
        }
    }
}

impl From<Cidr> for Prefix {
    fn from(cidr: Cidr) -> Prefix {
        Prefix::V4(cidr)
    }
}

impl From<Cidr6> for Prefix {
    fn from(cidr: Cidr6) -> Prefix {
        Prefix::V6(cidr)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prefix::V4(cidr) => cidr.fmt(f),
            Prefix::V6(cidr) => cidr.fmt(f),
        }
    }
}

/// Text that is not an address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address with a prefix length, such as 192.0.2.10/24 or 2001:db8::10/64")]
pub struct ParsePrefixError;

impl FromStr for Prefix {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Prefix, ParsePrefixError> {
        let (addr, len) = text.split_once('/').ok_or(ParsePrefixError)?;
        let digits = len.bytes().all(|b| b.is_ascii_digit());
        let len = len.parse().ok().filter(|_| digits).ok_or(ParsePrefixError)?;
        addr.parse().ok().and_then(|addr| Prefix::new(addr, len)).ok_or(ParsePrefixError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn both_families_are_read_and_written() {
        for text in ["10.0.0.1/24", "0.0.0.0/0", "2001:db8::1/64", "::/0", "fe80::1/128"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        for text in ["10.0.0.1", "10.0.0.1/33", "::/129", "::/+1", "x/8", "10.0.0.1/", "/8"] {
            assert_eq!(text.parse::<Prefix>(), Err(ParsePrefixError), "{text}");
        }
    }

    #[test]
    fn a_network_has_its_own_addresses_and_no_others() {
        assert_eq!(prefix("10.1.2.3/8").network(), prefix("10.0.0.0/8"));
        assert_eq!(prefix("2001:db8:1::9/33").network(), prefix("2001:db8::/33"));
        for (net, ip, inside) in [
            ("10.0.0.0/24", "10.0.0.255", true),
            ("10.0.0.0/24", "10.0.1.0", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("::/0", "1.2.3.4", false),
            ("fd00::/64", "fd00::1:0:0:1", true),
            ("fd00::/64", "fd00:0:0:1::", false),
            ("::1/128", "::1", true),
        ] {
            assert_eq!(prefix(net).contains(ip.parse().unwrap()), inside, "{ip} in {net}");
        }
    }
}
