//! Writing messages.

use super::option::PREFIX_LEN;
use super::{
    DESTINATION, FLAGS, NEIGHBOUR_LEN, NdpOption, NdpRepr, OVERRIDE, Preference, PrefixInfo,
    REDIRECT_LEN, ROUTER, ROUTER_ADVERT_LEN, ROUTER_SOLICIT_LEN, RouterAdvert, SOLICITED, TARGET,
    option_kind,
};
use crate::bytes::{put, room};
use crate::icmpv6::fill_checksum;
use crate::{Layer, WireError};

/// Bytes of an option with a link address, an MTU or a nonce.
const SHORT: usize = 8;

impl NdpRepr<'_> {
    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        const fn optional(there: bool) -> usize {
            if there { SHORT } else { 0 }
        }
        match self {
            NdpRepr::RouterSolicit { source_link } => {
                ROUTER_SOLICIT_LEN + optional(source_link.is_some())
            }
            NdpRepr::RouterAdvert { options, .. } => ROUTER_ADVERT_LEN + options.bytes().len(),
            NdpRepr::NeighbourSolicit { source_link, nonce, .. } => {
                NEIGHBOUR_LEN + optional(source_link.is_some()) + optional(nonce.is_some())
            }
            NdpRepr::NeighbourAdvert { target_link, .. } => {
                NEIGHBOUR_LEN + optional(target_link.is_some())
            }
            NdpRepr::Redirect { target_link, .. } => REDIRECT_LEN + optional(target_link.is_some()),
        }
    }

    /// Writes the whole message to the front of `buf`, with its checksum between these addresses.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8], addresses: &[u8; 32]) -> Result<(), WireError> {
        let (need, have) = (self.buffer_len(), buf.len());
        let message =
            buf.get_mut(..need).ok_or(WireError::NoRoom { layer: Layer::Ndp, need, have })?;
        message.fill(0);
        message[0] = self.kind();
        self.emit_body(message)?;
        fill_checksum(message, addresses);
        Ok(())
    }

    fn emit_body(&self, message: &mut [u8]) -> Result<(), WireError> {
        match *self {
            NdpRepr::RouterSolicit { source_link } => {
                let (_, rest) = room::<ROUTER_SOLICIT_LEN>(message, Layer::Ndp)?;
                emit_all(rest, [source_link.map(NdpOption::SourceLink)])
            }
            NdpRepr::RouterAdvert { advert, options } => {
                let (fixed, rest) = room::<ROUTER_ADVERT_LEN>(message, Layer::Ndp)?;
                emit_advert(fixed, advert);
                rest.copy_from_slice(options.bytes());
                Ok(())
            }
            NdpRepr::NeighbourSolicit { target, source_link, nonce } => {
                let (fixed, rest) = room::<NEIGHBOUR_LEN>(message, Layer::Ndp)?;
                put(fixed, TARGET, target.octets());
                let link = source_link.map(NdpOption::SourceLink);
                emit_all(rest, [link, nonce.map(NdpOption::Nonce)])
            }
            NdpRepr::NeighbourAdvert { target, router, solicited, overrides, target_link } => {
                let (fixed, rest) = room::<NEIGHBOUR_LEN>(message, Layer::Ndp)?;
                let flag = |set: bool, bit: u8| if set { bit } else { 0 };
                fixed[FLAGS] =
                    flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(overrides, OVERRIDE);
                put(fixed, TARGET, target.octets());
                emit_all(rest, [target_link.map(NdpOption::TargetLink)])
            }
            NdpRepr::Redirect { target, destination, target_link } => {
                let (fixed, rest) = room::<REDIRECT_LEN>(message, Layer::Ndp)?;
                put(fixed, TARGET, target.octets());
                put(fixed, DESTINATION, destination.octets());
                emit_all(rest, [target_link.map(NdpOption::TargetLink)])
            }
        }
    }
}

fn emit_advert(fixed: &mut [u8; ROUTER_ADVERT_LEN], advert: RouterAdvert) {
    let preference = match advert.preference {
        Preference::High => 0b01 << 3,
        Preference::Medium => 0,
        Preference::Low => 0b11 << 3,
    };
    let flags = u8::from(advert.managed) << 7 | u8::from(advert.other) << 6 | preference;
    put(fixed, 4, [advert.hop_limit, flags]);
    put(fixed, 6, advert.lifetime.to_be_bytes());
    put(fixed, 8, advert.reachable.to_be_bytes());
    put(fixed, 12, advert.retrans.to_be_bytes());
}

fn emit_all<'a, const N: usize>(
    buf: &mut [u8],
    options: [Option<NdpOption<'a>>; N],
) -> Result<(), WireError> {
    let mut at = 0;
    for option in options.into_iter().flatten() {
        option.emit(buf.get_mut(at..).unwrap_or_default())?;
        at += option.buffer_len();
    }
    Ok(())
}

impl NdpOption<'_> {
    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        match self {
            NdpOption::Prefix(_) => PREFIX_LEN,
            NdpOption::Other(_, bytes) => bytes.len(),
            _ => SHORT,
        }
    }

    /// Writes the option to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        match *self {
            NdpOption::SourceLink(mac) => short(buf, option_kind::SOURCE_LINK, mac.0),
            NdpOption::TargetLink(mac) => short(buf, option_kind::TARGET_LINK, mac.0),
            NdpOption::Nonce(nonce) => short(buf, option_kind::NONCE, nonce),
            NdpOption::Mtu(mtu) => {
                let [a, b, c, d] = mtu.to_be_bytes();
                short(buf, option_kind::MTU, [0, 0, a, b, c, d])
            }
            NdpOption::Prefix(prefix) => emit_prefix(buf, prefix),
            NdpOption::Other(_, bytes) => {
                let (need, have) = (bytes.len(), buf.len());
                let no_room = WireError::NoRoom { layer: Layer::Ndp, need, have };
                buf.get_mut(..need).ok_or(no_room)?.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn short(buf: &mut [u8], kind: u8, data: [u8; 6]) -> Result<(), WireError> {
    let (option, _) = room::<SHORT>(buf, Layer::Ndp)?;
    put(option, 0, [kind, 1]);
    put(option, 2, data);
    Ok(())
}

fn emit_prefix(buf: &mut [u8], prefix: PrefixInfo) -> Result<(), WireError> {
    let (option, _) = room::<PREFIX_LEN>(buf, Layer::Ndp)?;
    *option = [0; PREFIX_LEN];
    let flags = u8::from(prefix.on_link) << 7 | u8::from(prefix.autonomous) << 6;
    put(option, 0, [option_kind::PREFIX, 4, prefix.prefix_len, flags]);
    put(option, 4, prefix.valid.to_be_bytes());
    put(option, 8, prefix.preferred.to_be_bytes());
    put(option, 16, prefix.prefix.octets());
    Ok(())
}
