//! A hash for maps by the numbers of sockets, streams and queues.
//!
//! The standard library's is made against keys that strangers choose, and costs ten times as much.

use core::hash::{BuildHasherDefault, Hasher};

/// For maps by numbers that the stack has given out: no peer and no application chooses the keys, so one multiplication
/// is hash enough.
pub type ByNumber = BuildHasherDefault<NumberHasher>;

/// The stack's numbers come one after the other and from nobody hostile: one multiplication spreads
/// them.
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio, made odd.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(number.cast_unsigned().into());
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}
