//! Addresses in the kernel's terms: offsets into the pool's memory.

use weever_packet::Pool;

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

    /// The frame that an address lies in.
    #[inline]
    pub(super) fn index(self, address: u64) -> u32 {
        (address >> self.shift) as u32
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
