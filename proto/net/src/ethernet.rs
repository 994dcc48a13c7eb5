//! Which frames are for us (IEEE 802.3), and where multicast goes (RFC 1112).

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::ethernet::EthernetHeader;
pub use weever_wire::ethernet::{EthernetRepr, HEADER_LEN, ethertype};

/// What a frame's destination means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkDestination {
    /// Our own address.
    Us,
    /// All stations.
    Broadcast,
    /// A group of stations; whether we are in it is asked elsewhere.
    Multicast,
    /// Another station: the frame was flooded to us, or the device is promiscuous.
    Other,
}

/// What `dst` means to the station `own`.
#[inline]
pub fn classify(dst: MacAddr, own: MacAddr) -> LinkDestination {
    if dst == own {
        LinkDestination::Us
    } else if dst.is_broadcast() {
        LinkDestination::Broadcast
    } else if dst.is_multicast() {
        LinkDestination::Multicast
    } else {
        LinkDestination::Other
    }
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum FrameReject {
    /// It ends before its header does.
    #[error("frame shorter than an Ethernet header")]
    Truncated,
    /// It is for another station.
    #[error("frame for another station")]
    OtherStation,
    /// Its source is a group, which IEEE 802 forbids.
    #[error("frame from a group address")]
    GroupSource,
    /// Its type field is a length (802.3 with LLC), which nothing here speaks.
    #[error("802.3 frame with a length instead of a type")]
    LengthField,
}

/// All checks of an Ethernet receiver in one.
///
/// # Errors
/// The first check that failed.
#[inline]
pub fn receive(frame: &[u8], own: MacAddr) -> Result<LinkDestination, FrameReject> {
    let header = EthernetHeader::first(frame).ok_or(FrameReject::Truncated)?;
    let destination = classify(header.dst(), own);
    if destination == LinkDestination::Other {
        Err(FrameReject::OtherStation)
    } else if header.src().is_multicast() {
        Err(FrameReject::GroupSource)
    } else if header.ethertype() < ethertype::MIN {
        Err(FrameReject::LengthField)
    } else {
        Ok(destination)
    }
}

/// The group of stations of an IPv4 group: RFC 1112 §6.4, "placing the low-order 23-bits of the IP
/// address into the low-order 23 bits of the Ethernet multicast address 01-00-5E-00-00-00".
pub const fn multicast_mac(group: Ipv4Addr) -> MacAddr {
    MacAddr::from_bits(0x0100_5e00_0000 | (group.to_bits() & 0x007f_ffff) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn received(
        dst: MacAddr,
        src: MacAddr,
        ethertype: u16,
    ) -> Result<LinkDestination, FrameReject> {
        let mut frame = [0; HEADER_LEN];
        EthernetRepr { dst, src, ethertype }.emit(&mut frame).unwrap();
        receive(&frame, OWN)
    }

    #[test]
    fn every_outcome() {
        let group = multicast_mac(Ipv4Addr::new(224, 0, 0, 1));
        assert_eq!(received(OWN, PEER, 0x800), Ok(LinkDestination::Us));
        assert_eq!(received(MacAddr::BROADCAST, PEER, 0x806), Ok(LinkDestination::Broadcast));
        assert_eq!(received(group, PEER, 0x800), Ok(LinkDestination::Multicast));
        assert_eq!(received(PEER, PEER, 0x800), Err(FrameReject::OtherStation));
        assert_eq!(received(OWN, group, 0x800), Err(FrameReject::GroupSource));
        assert_eq!(received(OWN, PEER, ethertype::MIN - 1), Err(FrameReject::LengthField));
        assert_eq!(received(OWN, PEER, ethertype::MIN), Ok(LinkDestination::Us));
        assert_eq!(receive(&[0; 13], OWN), Err(FrameReject::Truncated));
    }

    #[test]
    fn groups_keep_23_bits() {
        let mac = multicast_mac(Ipv4Addr::new(239, 255, 1, 2));
        assert_eq!(mac, MacAddr([1, 0, 0x5e, 0x7f, 1, 2]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_rejected(frame in vec(any::<u8>(), 0..40)) {
            prop_assert!(receive(&frame, OWN).is_err() || frame.len() >= HEADER_LEN);
        }
    }
}
