//! The header in front of each packet: the work that one side left to the other.

use weever_packet::{Buffer, Flags};

use crate::offload::{Layers, Transport};

/// The checksum from `checksum_start` on is partial.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum was verified.
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The first segment has CWR set.
const GSO_ECN: u8 = 0x80;

/// `struct virtio_net_hdr` in the host's byte order, as the driver has it unless told otherwise.
pub(super) type Header = [u8; 10];

/// The contents of a received header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) flags: Flags,
    /// For a packet that is to be cut: its transport and the payload of a piece. `Err`: a kind that
    /// was not asked for.
    pub(super) segments: Result<Option<(Transport, u16)>, ()>,
}

impl Received {
    pub(super) fn of(header: &Header) -> Received {
        let mut flags = Flags::MAY_BE_PARTIAL;
        if header[0] & NEEDS_CHECKSUM != 0 {
            flags = flags.with(Flags::PARTIAL_CHECKSUM);
        }
        if header[0] & DATA_VALID != 0 {
            flags = flags.with(Flags::CHECKSUM_VERIFIED);
        }
        let size = u16::from_ne_bytes([header[4], header[5]]);
        let segments = match header[1] & !GSO_ECN {
            GSO_NONE => Ok(None),
            GSO_TCP4 | GSO_TCP6 => Ok(Some((Transport::Tcp, size))),
            GSO_UDP => Ok(Some((Transport::Udp, size))),
            _ => Err(()),
        };
        Received { flags, segments }
    }
}

/// The header for a packet to be sent.
pub(super) fn header_of(packet: &Buffer) -> Header {
    let mut header = Header::default();
    let meta = packet.meta();
    if !meta.flags.has(Flags::PARTIAL_CHECKSUM) {
        return header;
    }
    let frame = packet.data();
    let Some(layers) = Layers::of(frame) else { return header };
    header[0] = NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&(layers.l4 as u16).to_ne_bytes());
    header[8..10].copy_from_slice(&(layers.transport.checksum_at() as u16).to_ne_bytes());
    let payload = layers.payload(frame).unwrap_or(frame.len());
    if meta.segment != 0 && frame.len() > payload + usize::from(meta.segment) {
        header[1] = match (layers.transport, layers.v6) {
            (Transport::Tcp, false) => GSO_TCP4,
            (Transport::Tcp, true) => GSO_TCP6,
            (Transport::Udp, _) => GSO_UDP,
        };
        header[2..4].copy_from_slice(&(payload as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&meta.segment.to_ne_bytes());
    }
    header
}
