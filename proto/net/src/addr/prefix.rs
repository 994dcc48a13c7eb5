//! Prefixes of either family.

use core::fmt;
use core::hash::Hash;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address of some family, as a string of bits.
pub trait Address: Copy + Ord + Hash + fmt::Debug + fmt::Display + FromStr {
    /// Bits of an address; at most 128.
    const BITS: u8;
    /// The family's name, for messages.
    const FAMILY: &'static str;
    /// The address of no host.
    const UNSPECIFIED: Self;

    /// The bits, the first one leftmost, zeros behind the last.
    fn to_left(self) -> u128;
    /// The address that begins with these bits.
    fn from_left(bits: u128) -> Self;
    /// `len` bits from bit number `at` on; at least one, and not beyond the last.
    fn chunk(self, at: u8, len: u8) -> usize;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
    const FAMILY: &'static str = "IPv4";
    const UNSPECIFIED: Self = Ipv4Addr::UNSPECIFIED;

    fn to_left(self) -> u128 {
        u128::from(self.to_bits()) << 96
    }

    fn from_left(bits: u128) -> Self {
        Ipv4Addr::from_bits((bits >> 96) as u32)
    }

    #[inline(always)]
    fn chunk(self, at: u8, len: u8) -> usize {
        (self.to_bits() << at >> (32 - len)) as usize
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
    const FAMILY: &'static str = "IPv6";
    const UNSPECIFIED: Self = Ipv6Addr::UNSPECIFIED;

    fn to_left(self) -> u128 {
        self.to_bits()
    }

    fn from_left(bits: u128) -> Self {
        Ipv6Addr::from_bits(bits)
    }

    #[inline(always)]
    fn chunk(self, at: u8, len: u8) -> usize {
        (self.to_bits() << at >> (128 - len)) as usize
    }
}

/// An address and the length of the prefix that it shares with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    addr: A,
    prefix_len: u8,
}

/// An IPv4 prefix.
pub type Cidr = Prefix<Ipv4Addr>;
/// An IPv6 prefix.
pub type Cidr6 = Prefix<Ipv6Addr>;

impl Prefix<Ipv4Addr> {
    /// The prefix of every IPv4 address.
    pub const ALL: Cidr = Prefix { addr: Ipv4Addr::UNSPECIFIED, prefix_len: 0 };

    /// The directed broadcast address; a prefix of 31 (RFC 3021) or 32 bits has none.
    #[inline]
    pub const fn broadcast(self) -> Option<Ipv4Addr> {
        if self.prefix_len >= 31 {
            return None;
        }
        Some(Ipv4Addr::from_bits(self.addr.to_bits() | u32::MAX >> self.prefix_len))
    }
}

impl Prefix<Ipv6Addr> {
    /// The prefix of every IPv6 address.
    pub const ALL: Cidr6 = Prefix { addr: Ipv6Addr::UNSPECIFIED, prefix_len: 0 };
}

impl<A: Address> Prefix<A> {
    /// `addr`/`prefix_len`; `None` if the length exceeds that of an address.
    pub fn new(addr: A, prefix_len: u8) -> Option<Self> {
        (prefix_len <= A::BITS).then_some(Self { addr, prefix_len })
    }

    /// The prefix of this address alone.
    pub fn host(addr: A) -> Self {
        Self { addr, prefix_len: A::BITS }
    }

    /// The address, host bits included.
    pub fn addr(self) -> A {
        self.addr
    }

    /// Bits of the prefix, at most those of an address.
    pub fn prefix_len(self) -> u8 {
        self.prefix_len
    }

    /// The same prefix with its host bits cleared.
    pub fn network(self) -> Self {
        Self { addr: A::from_left(self.addr.to_left() & self.mask()), ..self }
    }

    /// Whether `ip` begins with the prefix.
    #[inline]
    pub fn contains(self, ip: A) -> bool {
        (self.addr.to_left() ^ ip.to_left()) & self.mask() == 0
    }

    /// Ones where the prefix is, in the left-aligned form of an address.
    fn mask(self) -> u128 {
        u128::MAX.checked_shr(self.prefix_len.into()).map_or(u128::MAX, |host| !host)
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

/// Text that is not an address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an {family} address with a prefix length from 0 to {bits}, such as {example}")]
pub struct ParseCidrError {
    family: &'static str,
    bits: u8,
    example: &'static str,
}

impl ParseCidrError {
    fn of<A: Address>() -> Self {
        let example = if A::BITS == 32 { "10.0.0.1/24" } else { "2001:db8::1/64" };
        Self { family: A::FAMILY, bits: A::BITS, example }
    }
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let parsed = text.split_once('/').and_then(|(addr, len)| {
            let digits = len.bytes().all(|b| b.is_ascii_digit());
            let len = len.parse().ok().filter(|_| digits)?;
            Prefix::new(addr.parse().ok()?, len)
        });
        parsed.ok_or_else(ParseCidrError::of::<A>)
    }
}
