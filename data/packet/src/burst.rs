//! Up to sixty-four packets at a time, and sets of them as bits (design/0000 §4.2).

use crate::Buffer;

/// How many tasks a burst holds: one per bit of a [`Mask`].
pub const BURST: usize = 64;

/// A set of tasks of a burst.
pub type Mask = u64;

/// The set of the first `n` tasks.
#[inline]
pub const fn first_n(n: usize) -> Mask {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// How many tasks a mask has. One alone is not counted bit by bit, which takes a dozen instructions where the processor
/// is not known to have one for it.
#[inline]
pub const fn number_of(tasks: Mask) -> u32 {
    if tasks & tasks.wrapping_sub(1) == 0 { (tasks != 0) as u32 } else { tasks.count_ones() }
}

/// The tasks in a mask, in order.
#[inline]
pub fn bits(mask: Mask) -> Bits {
    Bits(mask)
}

/// Iterator over the tasks in a mask, lowest first.
#[derive(Clone, Copy, Debug)]
pub struct Bits(Mask);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lowest = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lowest)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.0.count_ones() as usize;
        (n, Some(n))
    }
}

impl ExactSizeIterator for Bits {}

/// Up to [`BURST`] packets, each in a slot of its own. A slot may be empty: a task need not have a
/// buffer.
pub struct Burst {
    slots: [Option<Buffer>; BURST],
}

impl Default for Burst {
    fn default() -> Burst {
        Burst { slots: [const { None }; BURST] }
    }
}

impl Burst {
    /// An empty burst.
    pub fn new() -> Burst {
        Burst::default()
    }

    /// The packet in slot `i`, if there is one. `i` is below [`BURST`].
    #[inline]
    pub fn get(&self, i: usize) -> Option<&Buffer> {
        self.slots[i & (BURST - 1)].as_ref()
    }

    /// The packet in slot `i`, to change.
    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut Buffer> {
        self.slots[i & (BURST - 1)].as_mut()
    }

    /// Takes the packet out of slot `i`.
    #[inline]
    pub fn take(&mut self, i: usize) -> Option<Buffer> {
        self.slots[i & (BURST - 1)].take()
    }

    /// Puts a packet into slot `i`; returns the one that was there.
    #[inline]
    pub fn put(&mut self, i: usize, buffer: Buffer) -> Option<Buffer> {
        self.slots[i & (BURST - 1)].replace(buffer)
    }

    /// The slots that hold a packet. Walks all of them.
    pub fn occupied(&self) -> Mask {
        let present = |(i, slot): (usize, &Option<Buffer>)| u64::from(slot.is_some()) << i;
        self.slots.iter().enumerate().map(present).sum()
    }
}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Burst({:#x})", self.occupied())
    }
}
