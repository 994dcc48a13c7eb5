//! What a sent packet asks of its device, in the bytes in front of it (`xsk_tx_metadata`).

use weever_packet::{Buffer, Flags};

use crate::offload::Layers;

/// Bytes in front of a packet that its metadata takes: `struct xsk_tx_metadata` with flags and the
/// longest of what they stand for. Once registered every packet needs them, whether used or not.
pub(super) const METADATA: u16 = 24;

/// Writes in front of a packet with a partial checksum where the device has to complete it. Returns
/// the descriptor's options.
pub(super) fn request(packet: &mut Buffer) -> u32 {
    if !packet.meta().flags.has(Flags::PARTIAL_CHECKSUM) {
        return 0;
    }
    let Some(layers) = Layers::of(packet.data()) else { return 0 };
    let Some(place) = packet.prepend(METADATA) else { return 0 };
    place.fill(0);
    place[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
    place[8..10].copy_from_slice(&(layers.l4 as u16).to_ne_bytes());
    place[10..12].copy_from_slice(&(layers.transport.checksum_at() as u16).to_ne_bytes());
    packet.strip(METADATA);
    libc::XDP_TX_METADATA
}
