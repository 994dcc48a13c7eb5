//! Neighbour discovery messages (RFC 4861 §4) and their options.
//!
//! A message is parsed as a whole: RFC 4861 §6.1 and §7.1 have it discarded when an option's length
//! is zero or runs beyond the message. `weever-net` checks the IPv6 header around it.

use core::net::Ipv6Addr;

use crate::bytes::{array, be16, be32};
use crate::icmpv6::kind;
use crate::{Layer, MacAddr, WireError};

mod emit;
mod option;
#[cfg(test)]
mod tests;

pub use option::{NdpOption, NdpOptions, PrefixInfo, option_kind};

/// Bytes of a neighbour solicitation or advertisement before its options.
pub const NEIGHBOUR_LEN: usize = 24;
/// Bytes of a router solicitation before its options.
pub const ROUTER_SOLICIT_LEN: usize = 8;
/// Bytes of a router advertisement before its options.
pub const ROUTER_ADVERT_LEN: usize = 16;
/// Bytes of a redirect before its options.
pub const REDIRECT_LEN: usize = 40;

const FLAGS: usize = 4;
const TARGET: usize = 8;
const DESTINATION: usize = 24;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// How much a router wants to be preferred (RFC 4191 §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// Over none.
    Low,
    /// As most.
    #[default]
    Medium,
    /// Over others.
    High,
}

/// The fields of a router advertisement, without its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouterAdvert {
    /// Hop limit to send with; 0: not said.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other configuration is to be had by DHCPv6.
    pub other: bool,
    /// How much the router wants to be preferred.
    pub preference: Preference,
    /// Seconds for which it is a default router; 0: it is none.
    pub lifetime: u16,
    /// Milliseconds for which a neighbour counts as reachable; 0: not said.
    pub reachable: u32,
    /// Milliseconds between two solicitations; 0: not said.
    pub retrans: u32,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NdpRepr<'a> {
    /// Please advertise, routers.
    RouterSolicit {
        /// The sender's link address; none from the unspecified address.
        source_link: Option<MacAddr>,
    },
    /// A router advertises.
    RouterAdvert {
        /// Its fixed fields.
        advert: RouterAdvert,
        /// Its options: link address, MTU, prefixes.
        options: NdpOptions<'a>,
    },
    /// Neighbour solicitation.
    NeighbourSolicit {
        /// The address.
        target: Ipv6Addr,
        /// The asker's link address.
        source_link: Option<MacAddr>,
        /// Tells one's own probe that came back from another's (RFC 7527).
        nonce: Option<[u8; 6]>,
    },
    /// I have it.
    NeighbourAdvert {
        /// The address.
        target: Ipv6Addr,
        /// Whether its owner is a router.
        router: bool,
        /// Whether it was asked for.
        solicited: bool,
        /// Whether it replaces the known link address.
        overrides: bool,
        /// The link address.
        target_link: Option<MacAddr>,
    },
    /// A better first hop.
    Redirect {
        /// The better hop; the destination itself if that is a neighbour.
        target: Ipv6Addr,
        /// The better first hop.
        destination: Ipv6Addr,
        /// The hop's link address.
        target_link: Option<MacAddr>,
    },
}

impl<'a> NdpRepr<'a> {
    /// The values in `message`, a whole ICMPv6 message whose checksum was verified.
    ///
    /// # Errors
    /// [`WireError::Truncated`]; [`WireError::BadField`] for another type or code;
    /// [`WireError::BadLength`] for an option.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        match message {
            [kind::ROUTER_SOLICIT, 0, ..] => router_solicit(message),
            [kind::ROUTER_ADVERT, 0, ..] => router_advert(message),
            [kind::NEIGHBOUR_SOLICIT, 0, ..] => neighbour_solicit(message),
            [kind::NEIGHBOUR_ADVERT, 0, ..] => neighbour_advert(message),
            [kind::REDIRECT, 0, ..] => redirect(message),
            [133..=137, code, ..] => Err(unexpected("code", *code)),
            [other, ..] => Err(unexpected("type", *other)),
            [] => Err(WireError::Truncated { layer: Layer::Ndp, need: 8, have: 0 }),
        }
    }

    /// The ICMPv6 type.
    pub const fn kind(&self) -> u8 {
        match self {
            NdpRepr::RouterSolicit { .. } => kind::ROUTER_SOLICIT,
            NdpRepr::RouterAdvert { .. } => kind::ROUTER_ADVERT,
            NdpRepr::NeighbourSolicit { .. } => kind::NEIGHBOUR_SOLICIT,
            NdpRepr::NeighbourAdvert { .. } => kind::NEIGHBOUR_ADVERT,
            NdpRepr::Redirect { .. } => kind::REDIRECT,
        }
    }
}

/// The fixed part of a message, and its options, which are sound.
fn split<const N: usize>(message: &[u8]) -> Result<(&[u8; N], NdpOptions<'_>), WireError> {
    let have = message.len();
    let (fixed, rest) = message.split_first_chunk().ok_or(WireError::Truncated {
        layer: Layer::Ndp,
        need: N,
        have,
    })?;
    Ok((fixed, NdpOptions::new(rest)?))
}

fn router_solicit(message: &[u8]) -> Result<NdpRepr<'_>, WireError> {
    let (_, options) = split::<ROUTER_SOLICIT_LEN>(message)?;
    Ok(NdpRepr::RouterSolicit { source_link: options.source_link() })
}

fn router_advert(message: &[u8]) -> Result<NdpRepr<'_>, WireError> {
    let (fixed, options) = split::<ROUTER_ADVERT_LEN>(message)?;
    let flags = fixed[5];
    let preference = match flags >> 3 & 0b11 {
        0b01 => Preference::High,
        0b11 => Preference::Low,
        // RFC 4191 §2.2: the reserved value is treated as medium.
        _ => Preference::Medium,
    };
    let advert = RouterAdvert {
        hop_limit: fixed[4],
        managed: flags & 0x80 != 0,
        other: flags & 0x40 != 0,
        preference,
        lifetime: be16(fixed, 6),
        reachable: be32(fixed, 8),
        retrans: be32(fixed, 12),
    };
    Ok(NdpRepr::RouterAdvert { advert, options })
}

fn neighbour_solicit(message: &[u8]) -> Result<NdpRepr<'_>, WireError> {
    let (fixed, options) = split::<NEIGHBOUR_LEN>(message)?;
    let (target, source_link) = (address(fixed, TARGET), options.source_link());
    Ok(NdpRepr::NeighbourSolicit { target, source_link, nonce: options.nonce() })
}

fn neighbour_advert(message: &[u8]) -> Result<NdpRepr<'_>, WireError> {
    let (fixed, options) = split::<NEIGHBOUR_LEN>(message)?;
    let flags = fixed[FLAGS];
    Ok(NdpRepr::NeighbourAdvert {
        target: address(fixed, TARGET),
        router: flags & ROUTER != 0,
        solicited: flags & SOLICITED != 0,
        overrides: flags & OVERRIDE != 0,
        target_link: options.target_link(),
    })
}

fn redirect(message: &[u8]) -> Result<NdpRepr<'_>, WireError> {
    let (fixed, options) = split::<REDIRECT_LEN>(message)?;
    Ok(NdpRepr::Redirect {
        target: address(fixed, TARGET),
        destination: address(fixed, DESTINATION),
        target_link: options.target_link(),
    })
}

fn address<const N: usize>(fixed: &[u8; N], at: usize) -> Ipv6Addr {
    Ipv6Addr::from_octets(array(fixed, at))
}

fn unexpected(field: &'static str, value: u8) -> WireError {
    WireError::BadField { layer: Layer::Ndp, field, value: value.into() }
}
