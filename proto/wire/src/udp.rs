//! UDP (RFC 768).

use core::net::Ipv4Addr;

use crate::bytes::{be16, first, header, put, room};
use crate::checksum::{self, Pseudo};
use crate::ipv4::protocol;
use crate::{Layer, WireError};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

const SRC: usize = 0;
const DST: usize = 2;
const LEN: usize = 4;
const CHECKSUM: usize = 6;

header! {
    /// A header; no value in it has been checked.
    UdpHeader, HEADER_LEN
}

impl UdpHeader<'_> {
    /// Source port.
    #[inline]
    pub fn src_port(self) -> u16 {
        be16(self.0, SRC)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(self) -> u16 {
        be16(self.0, DST)
    }

    /// Length of header and payload in bytes, as the header claims it.
    #[inline]
    pub fn length(self) -> u16 {
        be16(self.0, LEN)
    }

    /// Checksum field; zero if the sender computed none.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }
}

/// Writes the checksum field as it is given.
#[inline]
pub fn set_checksum(header: &mut [u8; HEADER_LEN], checksum: u16) {
    put(header, CHECKSUM, checksum.to_be_bytes());
}

/// The field's value for a computed checksum: RFC 768, "If the computed checksum is zero, it is
/// transmitted as all ones", as zero means that there is none.
#[inline]
pub const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Completes a partial checksum over a whole datagram, as a device does. Slices shorter than a
/// header are left alone.
#[inline]
pub fn complete(datagram: &mut [u8]) {
    let whole = !checksum::sum(datagram);
    if let Ok((header, _)) = room::<HEADER_LEN>(datagram, Layer::Udp) {
        set_checksum(header, never_zero(whole));
    }
}

/// A datagram whose length is consistent with the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpView<'a> {
    header: UdpHeader<'a>,
    datagram: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Checks the length; bytes beyond it are cut off.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadLength`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let header = UdpHeader(first(bytes, Layer::Udp)?);
        let (said, max) = (usize::from(header.length()), bytes.len());
        if !(HEADER_LEN..=max).contains(&said) {
            return Err(WireError::BadLength { layer: Layer::Udp, said, min: HEADER_LEN, max });
        }
        Ok(Self { header, datagram: &bytes[..said] })
    }

    /// The header.
    #[inline]
    pub fn header(self) -> UdpHeader<'a> {
        self.header
    }

    /// Header and payload.
    #[inline]
    pub fn datagram(self) -> &'a [u8] {
        self.datagram
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        &self.datagram[HEADER_LEN..]
    }

    /// Sum of the pseudo-header between these addresses.
    #[inline]
    pub fn pseudo_sum(self, src: Ipv4Addr, dst: Ipv4Addr) -> u16 {
        checksum::pseudo_v4(src, dst, protocol::UDP, self.header.length())
    }

    /// Whether the checksum over pseudo-header, header and payload is right; false if absent.
    #[inline]
    pub fn checksum_ok(self, pseudo_sum: u16) -> bool {
        let sum = checksum::combine(pseudo_sum, checksum::sum(self.datagram));
        self.header.checksum() != 0 && checksum::is_valid(sum)
    }
}

/// The header's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload that follow; at most 65,527.
    pub payload_len: u16,
}

impl UdpRepr {
    /// The values in `view`.
    pub fn parse(view: UdpView<'_>) -> Self {
        let (src_port, dst_port) = (view.header.src_port(), view.header.dst_port());
        Self { src_port, dst_port, payload_len: view.payload().len() as u16 }
    }

    /// Bytes that [`emit`](Self::emit) writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `buf` with an absent (zero) checksum.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; [`WireError::BadLength`] if the datagram were longer than 65,535.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let length = self.datagram_len()?;
        let (header, _) = room::<HEADER_LEN>(buf, Layer::Udp)?;
        put(header, SRC, self.src_port.to_be_bytes());
        put(header, DST, self.dst_port.to_be_bytes());
        put(header, LEN, length.to_be_bytes());
        put(header, CHECKSUM, [0; 2]);
        Ok(())
    }

    /// Writes the header in front of the payload that already stands in `buf`, with its checksum.
    ///
    /// # Errors
    /// As [`emit`](Self::emit), where `buf` must hold header and payload.
    #[inline]
    pub fn emit_with_checksum(
        &self,
        buf: &mut [u8],
        src: Ipv4Addr,
        dst: Ipv4Addr,
    ) -> Result<(), WireError> {
        let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
        let pseudo = |length| Pseudo::v4(&[a, b, c, d, e, f, g, h], protocol::UDP, length);
        self.emit_sealed(buf, pseudo)
    }

    /// Writes the header with a partial checksum, for a device to [`complete`] it: the sum
    /// of the pseudo-header between these addresses, not inverted.
    ///
    /// # Errors
    /// As [`emit`](Self::emit).
    #[inline]
    pub fn emit_partial(
        &self,
        buf: &mut [u8],
        src: Ipv4Addr,
        dst: Ipv4Addr,
    ) -> Result<(), WireError> {
        self.emit(buf)?;
        let (header, _) = room::<HEADER_LEN>(buf, Layer::Udp)?;
        set_checksum(header, checksum::pseudo_v4(src, dst, protocol::UDP, self.datagram_len()?));
        Ok(())
    }

    /// [`emit_with_checksum`](Self::emit_with_checksum) between IPv6 addresses, source and
    /// destination as they lie next to each other. RFC 8200 §8.1: a checksum is not optional there.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn emit_with_checksum_v6(
        &self,
        buf: &mut [u8],
        addresses: &[u8; 32],
    ) -> Result<(), WireError> {
        self.emit_sealed(buf, |length| Pseudo::v6(addresses, protocol::UDP, length.into()))
    }

    #[inline(always)]
    fn emit_sealed(
        &self,
        buf: &mut [u8],
        pseudo: impl FnOnce(u16) -> Pseudo,
    ) -> Result<(), WireError> {
        let (length, have) = (self.datagram_len()?, buf.len());
        let need = usize::from(length);
        let datagram =
            buf.get_mut(..need).ok_or(WireError::NoRoom { layer: Layer::Udp, need, have })?;
        self.emit(datagram)?;
        let checksum = pseudo(length).checksum(datagram);
        let (header, _) = room::<HEADER_LEN>(datagram, Layer::Udp)?;
        set_checksum(header, never_zero(checksum));
        Ok(())
    }

    fn datagram_len(&self) -> Result<u16, WireError> {
        const MAX: u16 = u16::MAX - HEADER_LEN as u16;
        if self.payload_len <= MAX {
            return Ok(self.payload_len + HEADER_LEN as u16);
        }
        let (said, max) = (self.payload_len.into(), MAX.into());
        Err(WireError::BadLength { layer: Layer::Udp, said, min: 0, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{UdpHeader as Oracle, UdpHeaderSlice};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn emitted(src_port: u16, dst_port: u16, ips: (u32, u32), payload: &[u8]) -> std::vec::Vec<u8> {
        let payload_len = payload.len() as u16;
        let mut buf = [&[0; HEADER_LEN], payload].concat();
        let (src, dst) = (Ipv4Addr::from_bits(ips.0), Ipv4Addr::from_bits(ips.1));
        let repr = UdpRepr { src_port, dst_port, payload_len };
        repr.emit_with_checksum(&mut buf, src, dst).unwrap();
        buf
    }

    proptest! {
        #[test]
        fn round_trip_and_checksum_agree_with_etherparse(
            ports: (u16, u16), ips: (u32, u32), payload in vec(any::<u8>(), 0..100),
        ) {
            let buf = emitted(ports.0, ports.1, ips, &payload);
            let view = UdpView::new(&buf).unwrap();
            prop_assert_eq!(view.payload(), &payload[..]);
            prop_assert_eq!((view.header().src_port(), view.header().dst_port()), ports);
            let (src, dst) = (ips.0.to_be_bytes(), ips.1.to_be_bytes());
            let theirs = Oracle::without_ipv4_checksum(ports.0, ports.1, payload.len()).unwrap();
            let theirs = theirs.calc_checksum_ipv4_raw(src, dst, &payload).unwrap();
            prop_assert_eq!(view.header().checksum(), theirs);
            let pseudo = view.pseudo_sum(Ipv4Addr::from_bits(ips.0), Ipv4Addr::from_bits(ips.1));
            prop_assert!(view.checksum_ok(pseudo));
        }

        #[test]
        fn a_partial_checksum_completed_is_the_whole_one(
            ips: (u32, u32), payload in vec(any::<u8>(), 0..100),
        ) {
            let whole = emitted(7, 9, ips, &payload);
            let repr = UdpRepr { src_port: 7, dst_port: 9, payload_len: payload.len() as u16 };
            let (src, dst) = (Ipv4Addr::from_bits(ips.0), Ipv4Addr::from_bits(ips.1));
            let mut buf = [&[0; HEADER_LEN], &payload[..]].concat();
            repr.emit_partial(&mut buf, src, dst).unwrap();
            complete(&mut buf);
            prop_assert_eq!(buf, whole);
            complete(&mut [0; HEADER_LEN - 1]);
        }

        #[test]
        fn agrees_with_etherparse(mut bytes in vec(any::<u8>(), 0..40), length in 0u8..45) {
            if bytes.len() > 5 {
                bytes[4..6].copy_from_slice(&[0, length]);
            }
            let Ok(view) = UdpView::new(&bytes) else {
                prop_assert!(bytes.len() < HEADER_LEN.max(length.into()) || length < 8);
                return Ok(());
            };
            let (ours, theirs) = (view.header(), UdpHeaderSlice::from_slice(&bytes).unwrap());
            prop_assert_eq!(ours.src_port(), theirs.source_port());
            prop_assert_eq!(ours.dst_port(), theirs.destination_port());
            prop_assert_eq!(ours.length(), theirs.length());
            prop_assert_eq!(ours.checksum(), theirs.checksum());
            prop_assert_eq!(view.datagram().len(), usize::from(length));
        }

        #[test]
        fn over_ipv6_the_checksum_agrees_with_etherparse(
            ports: (u16, u16), src: [u8; 16], dst: [u8; 16], payload in vec(any::<u8>(), 0..100),
        ) {
            let mut buf = [&[0; HEADER_LEN], &payload[..]].concat();
            let addresses: [u8; 32] = [src, dst].concat().try_into().unwrap();
            let payload_len = payload.len() as u16;
            let repr = UdpRepr { src_port: ports.0, dst_port: ports.1, payload_len };
            repr.emit_with_checksum_v6(&mut buf, &addresses).unwrap();
            let theirs = Oracle::without_ipv4_checksum(ports.0, ports.1, payload.len()).unwrap();
            let theirs = theirs.calc_checksum_ipv6_raw(src, dst, &payload).unwrap();
            prop_assert_eq!(UdpHeader::first(&buf).unwrap().checksum(), theirs);
        }

    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        // A payload word chosen so that everything sums to 0xffff.
        let probe = emitted(1, 2, (0, 0), &[0, 0]);
        let needed = be16(probe.first_chunk::<8>().unwrap(), CHECKSUM);
        let buf = emitted(1, 2, (0, 0), &needed.to_be_bytes());
        assert_eq!(buf[6..8], [0xff, 0xff]);
    }

    #[test]
    fn a_datagram_that_does_not_fit_is_refused() {
        let any = Ipv4Addr::UNSPECIFIED;
        let repr = UdpRepr { src_port: 0, dst_port: 0, payload_len: 1 };
        let refused = WireError::NoRoom { layer: Layer::Udp, need: 9, have: 8 };
        assert_eq!(repr.emit_with_checksum(&mut [0; 8], any, any), Err(refused));
        let repr = UdpRepr { payload_len: u16::MAX - 8, ..repr };
        assert_eq!(repr.emit(&mut [0; 8]), Ok(()));
        let repr = UdpRepr { payload_len: u16::MAX - 7, ..repr };
        assert!(matches!(repr.emit(&mut [0; 8]), Err(WireError::BadLength { .. })));
    }
}
