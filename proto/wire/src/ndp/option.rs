//! Options of neighbour discovery messages (RFC 4861 §4.6).

use core::net::Ipv6Addr;

use crate::bytes::{array, be32, first};
use crate::{Layer, MacAddr, WireError};

/// Option types.
pub mod option_kind {
    /// Link address of the sender.
    pub const SOURCE_LINK: u8 = 1;
    /// Link address of the target.
    pub const TARGET_LINK: u8 = 2;
    /// A prefix of the link, or to make addresses of.
    pub const PREFIX: u8 = 3;
    /// The packet that a redirect is about.
    pub const REDIRECTED: u8 = 4;
    /// The link's MTU.
    pub const MTU: u8 = 5;
    /// A number that tells one's own messages from others' (RFC 3971 §5.3.2).
    pub const NONCE: u8 = 14;
    /// Name servers (RFC 8106).
    pub const RDNSS: u8 = 25;
}

/// Bytes of a prefix information option.
pub(super) const PREFIX_LEN: usize = 32;
const UNIT: usize = 8;

/// A prefix that a router advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixInfo {
    /// The prefix; its other bits are ignored.
    pub prefix: Ipv6Addr,
    /// Bits of it; above 128 is nonsense.
    pub prefix_len: u8,
    /// Whether its addresses are neighbours.
    pub on_link: bool,
    /// Whether to make an address of it.
    pub autonomous: bool,
    /// Seconds for which it holds; `u32::MAX`: for ever.
    pub valid: u32,
    /// Seconds for which addresses made of it are to be used for new connections.
    pub preferred: u32,
}

impl PrefixInfo {
    fn parse(bytes: &[u8; PREFIX_LEN]) -> Self {
        Self {
            prefix: Ipv6Addr::from_octets(array(bytes, 16)),
            prefix_len: bytes[2],
            on_link: bytes[3] & 0x80 != 0,
            autonomous: bytes[3] & 0x40 != 0,
            valid: be32(bytes, 4),
            preferred: be32(bytes, 8),
        }
    }
}

/// One option; other types are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NdpOption<'a> {
    /// Link address of the sender.
    SourceLink(MacAddr),
    /// Link address of the target.
    TargetLink(MacAddr),
    /// A prefix.
    Prefix(PrefixInfo),
    /// The link's MTU.
    Mtu(u32),
    /// A nonce of 48 bits, as RFC 7527 sends it.
    Nonce([u8; 6]),
    /// Any other, or one of the above with another length: its type and its bytes.
    Other(u8, &'a [u8]),
}

/// The options of one message, each whole and of a length that is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpOptions<'a> {
    area: &'a [u8],
}

impl<'a> NdpOptions<'a> {
    /// Checks the lengths in `area`, the bytes behind a message's fixed part.
    ///
    /// # Errors
    /// [`WireError::BadLength`] of the first option whose length is zero or too large.
    pub fn new(area: &'a [u8]) -> Result<Self, WireError> {
        let mut rest = area;
        while !rest.is_empty() {
            let said = UNIT * rest.get(1).map_or(0, |&units| usize::from(units));
            if said == 0 || said > rest.len() {
                let (layer, max) = (Layer::Ndp, rest.len());
                return Err(WireError::BadLength { layer, said, min: UNIT, max });
            }
            rest = &rest[said..];
        }
        Ok(Self { area })
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = NdpOption<'a>> {
        let mut rest = self.area;
        core::iter::from_fn(move || {
            let (option, after) = rest.split_at_checked(UNIT * usize::from(*rest.get(1)?))?;
            rest = after;
            Some(read(option))
        })
    }

    /// Their bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.area
    }

    /// The first source link address.
    pub fn source_link(self) -> Option<MacAddr> {
        self.iter().find_map(|option| match option {
            NdpOption::SourceLink(mac) => Some(mac),
            _ => None,
        })
    }

    /// The first target link address.
    pub fn target_link(self) -> Option<MacAddr> {
        self.iter().find_map(|option| match option {
            NdpOption::TargetLink(mac) => Some(mac),
            _ => None,
        })
    }

    /// The first nonce.
    pub fn nonce(self) -> Option<[u8; 6]> {
        self.iter().find_map(|option| match option {
            NdpOption::Nonce(nonce) => Some(nonce),
            _ => None,
        })
    }
}

fn read(option: &[u8]) -> NdpOption<'_> {
    let kind = option.first().copied().unwrap_or_default();
    let short: Option<&[u8; UNIT]> = option.try_into().ok();
    match (kind, short) {
        (option_kind::SOURCE_LINK, Some(bytes)) => NdpOption::SourceLink(MacAddr(array(bytes, 2))),
        (option_kind::TARGET_LINK, Some(bytes)) => NdpOption::TargetLink(MacAddr(array(bytes, 2))),
        (option_kind::NONCE, Some(bytes)) => NdpOption::Nonce(array(bytes, 2)),
        (option_kind::MTU, Some(bytes)) => NdpOption::Mtu(be32(bytes, 4)),
        (option_kind::PREFIX, None) if option.len() == PREFIX_LEN => {
            match first(option, Layer::Ndp) {
                Ok(bytes) => NdpOption::Prefix(PrefixInfo::parse(bytes)),
                Err(_) => NdpOption::Other(kind, option),
            }
        }
        _ => NdpOption::Other(kind, option),
    }
}
