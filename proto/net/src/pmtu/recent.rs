//! Large packets that were sent recently.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::SECOND;

const SLOTS: usize = 512;
/// How long a message may be on its way back.
const MEMORY: u64 = 30 * SECOND;

/// A lossy set of destinations, written by every worker that sends and read by the one that learns
/// path MTUs. A slot holds part of a keyed hash and half-minutes: others may take it over, after
/// which a true message is not believed until the next packet.
#[derive(Debug)]
pub struct Recent {
    key: [u64; 2],
    slots: [AtomicU32; SLOTS],
}

impl Recent {
    /// Nothing sent; `key` is a secret.
    pub fn new(key: [u64; 2]) -> Self {
        Self { key, slots: [const { AtomicU32::new(0) }; SLOTS] }
    }

    /// Notes that a packet longer than [`MIN_V4`](super::MIN_V4) or [`MIN_V6`](super::MIN_V6) bytes
    /// was sent to `dst`. Writes only what has changed: a cache line is not passed about among
    /// workers that send to the same place.
    #[inline]
    pub fn note(&self, dst: IpAddr, now: u64) {
        let (slot, tag) = self.place(dst);
        let value = tag | age(now);
        let slot = &self.slots[slot];
        if slot.load(Ordering::Relaxed) != value {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// Whether such a packet was sent to `dst` within half a minute, or nearly one.
    pub fn sent(&self, dst: IpAddr, now: u64) -> bool {
        let (slot, tag) = self.place(dst);
        let value = self.slots[slot].load(Ordering::Relaxed);
        let old = age(now).wrapping_sub(value & 0xff) & 0xff;
        value >> 8 == tag >> 8 && value != 0 && old <= 1
    }

    /// A slot, and a tag in the upper 24 bits that is never zero.
    fn place(&self, dst: IpAddr) -> (usize, u32) {
        let words = match dst {
            IpAddr::V4(dst) => [dst.to_bits().into(), 0],
            IpAddr::V6(dst) => [(dst.to_bits() >> 64) as u64, dst.to_bits() as u64],
        };
        // Not a strong hash, on the packet path: what a collision costs is one true message.
        let mix = (words[0] ^ self.key[0]).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ words[1];
        let wide = u128::from(mix ^ self.key[1]) * 0xd6e8_feb8_6659_fd93_u128;
        let hash = (wide >> 64) as u64 ^ wide as u64;
        (hash as usize % SLOTS, ((hash >> 32) as u32 | 1 << 8) & !0xff)
    }
}

/// Half-minutes, modulo 256.
const fn age(now: u64) -> u32 {
    (now / MEMORY) as u32 & 0xff
}
