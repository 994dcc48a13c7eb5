//! A region for payload: a ring of octets that are named by their stream offset.

use core::ops::Range;

use weever_wire::checksum;

/// Holds the octets of a stream from one offset up to its capacity.
///
/// One for sent octets (written by the application, read by [`Transmit`](crate::Transmit)s) or for
/// received ones (written at the offsets in [`Payload`](crate::Payload), read by the application).
/// Its users keep to the offsets that the connection states; beyond the capacity they come round
/// again.
#[derive(Clone, Debug)]
pub struct Region {
    octets: Box<[u8]>,
}

impl Region {
    /// A region of `capacity` octets, rounded up to a power of two.
    pub fn new(capacity: usize) -> Self {
        Self { octets: vec![0; capacity.next_power_of_two()].into_boxed_slice() }
    }

    /// Octets it holds.
    pub fn capacity(&self) -> usize {
        self.octets.len()
    }

    /// Makes room for `capacity` octets. Those from the offset `from` on are kept.
    pub fn grow(&mut self, capacity: usize, from: u64) {
        if capacity <= self.octets.len() {
            return;
        }
        let mut larger = Region::new(capacity);
        let (first, second) = self.slices(from..from + self.octets.len() as u64);
        larger.write(from, first);
        larger.write(from + first.len() as u64, second);
        *self = larger;
    }

    /// The two pieces in which a range lies, of which the second may be empty.
    #[inline]
    fn pieces(&self, at: u64, len: usize) -> (Range<usize>, Range<usize>) {
        let len = len.min(self.octets.len());
        let start = at as usize & (self.octets.len() - 1);
        let first = len.min(self.octets.len() - start);
        (start..start + first, 0..len - first)
    }

    /// Writes `bytes` at the offset `at`; octets beyond the capacity are cut off.
    #[inline]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let (first, second) = self.pieces(at, bytes.len());
        let (left, right) = bytes[..first.len() + second.len()].split_at(first.len());
        self.octets[first].copy_from_slice(left);
        if !right.is_empty() {
            self.octets[second].copy_from_slice(right);
        }
    }

    /// Reads from the offset `at` into `out`: the octets' [sum](checksum::sum), which costs nearly nothing
    /// beside the copy.
    ///
    /// # Panics
    /// If `out` is longer than the capacity.
    #[inline]
    pub fn read(&self, at: u64, out: &mut [u8]) -> u16 {
        let (first, second) = self.pieces(at, out.len());
        let (left, right) = out.split_at_mut(first.len());
        let sum = checksum::copy(&self.octets[first], left);
        if right.is_empty() {
            return sum;
        }
        checksum::append(sum, left.len(), checksum::copy(&self.octets[second], right))
    }

    /// The octets from `at` on, in one or two pieces.
    #[inline]
    pub fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let (first, second) = self.pieces(range.start, (range.end - range.start) as usize);
        (&self.octets[first], &self.octets[second])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_also_across_the_end() {
        let mut region = Region::new(6);
        assert_eq!(region.capacity(), 8);
        region.write(13, b"abcdef");
        let mut out = [0; 6];
        assert_eq!(
            region.read(13, &mut out),
            checksum::sum(b"abcdef"),
            "in two pieces of 3 octets"
        );
        assert_eq!(&out, b"abcdef");
        assert_eq!(region.slices(13..19), (&b"abc"[..], &b"def"[..]));
        region.grow(9, 13);
        assert_eq!(region.capacity(), 16);
        region.write(19, b"ghijklmno");
        region.read(13, &mut out);
        assert_eq!(&out, b"abcdef", "they are where they were");
        let mut all = [0; 15];
        region.read(13, &mut all);
        assert_eq!(&all, b"abcdefghijklmno");
        let mut region = Region::new(8);
        region.write(0, b"0123456789");
        assert_eq!(region.slices(0..8), (&b"01234567"[..], &b""[..]));
    }
}
