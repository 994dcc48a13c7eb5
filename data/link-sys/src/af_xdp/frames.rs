//! Frames in the kernel's terms: addresses as offsets into the pool's memory, and the metadata in front of
//! a sent packet (`xsk_tx_metadata`).

use weever_packet::{Buffer, Flags, Pool};

use crate::offload::Layers;

/// How a pool's memory is cut into frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    shift: u32,
}

impl Frames {
    pub(super) fn of(pool: &Pool) -> Frames {
        debug_assert!(pool.frame_size().is_power_of_two(), "2048 or 4096, see PoolConfig");
        Frames { shift: pool.frame_size().trailing_zeros() }
    }

    /// The frame that an address lies in; a number that no frame has where there is none so far out.
    #[inline]
    pub(super) fn index(self, address: u64) -> u32 {
        (address >> self.shift).min(u64::from(u32::MAX)) as u32
    }

    /// Where in its frame an address lies.
    #[inline]
    pub(super) fn offset(self, address: u64) -> u16 {
        (address & ((1 << self.shift) - 1)) as u16
    }

    /// The address of a byte in a frame.
    #[inline]
    pub(super) fn address(self, index: u32, offset: u16) -> u64 {
        (u64::from(index) << self.shift) + u64::from(offset)
    }
}

/// Bytes of metadata in front of a packet: `struct xsk_tx_metadata` with flags and the longest of
/// their requests. Once registered every packet needs them, whether used or not.
pub(super) const METADATA: u16 = 24;

/// Writes in front of a packet with a partial checksum where the device has to complete it. Returns
/// the descriptor's options.
pub(super) fn request_checksum(packet: &mut Buffer) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_frame_and_an_offset() {
        for shift in [11, 12] {
            let frames = Frames { shift };
            for (index, offset) in [(0, 0), (1, 256), (77, 2047), (u32::MAX >> 12, 14)] {
                let address = frames.address(index, offset);
                assert_eq!((frames.index(address), frames.offset(address)), (index, offset));
            }
        }
    }
}
