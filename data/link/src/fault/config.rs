//! The settings of faults.

use weever_packet::Nanos;

/// The faults of one direction, in the order in which a packet meets them. The default changes
/// nothing. Probabilities are per packet, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Longer frames vanish, in bytes with the link header; 0: none do.
    pub longest: u16,
    /// The packet vanishes.
    pub loss: f64,
    /// One bit of it is flipped, anywhere in the frame.
    pub corrupt: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// How many bits a second pass; 0: as many as there are.
    pub rate: Rate,
    /// Each packet is kept for so long.
    pub delay: Nanos,
    /// And for so much longer, evenly distributed from 0. Order is kept: only
    /// [`reorder`](Self::reorder) changes it.
    pub jitter: Nanos,
    /// The packet is overtaken by later ones.
    pub reorder: f64,
    /// By how many at most, not counting those that were kept back themselves; each time a number
    /// from 1 to this is drawn. A packet that nothing overtakes is not kept longer than until the
    /// next idle poll or flush with nothing on its way.
    pub reorder_depth: u32,
}

/// A narrow passage: a token bucket behind a queue that has an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// How many bits pass in a second; 0: the passage is not narrow.
    pub bits_per_second: u64,
    /// How many bytes pass at once after a pause. With 0 even a single packet takes its length by
    /// the rate to pass, as on a wire.
    pub burst: u32,
    /// How many bytes may wait; packets beyond that are dropped.
    pub queue: u32,
}

impl Faults {
    /// Whether packets are delayed, so that their lane needs a clock.
    pub(super) fn has_clock(&self) -> bool {
        self.delay != 0 || self.jitter != 0 || self.rate.bits_per_second != 0
    }
}

/// The faults of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultConfig {
    /// Decides which packets it hits. Queue *i* of a link uses a stream of its own.
    pub seed: u64,
    /// On the way to us.
    pub rx: Faults,
    /// On the way out.
    pub tx: Faults,
}

impl FaultConfig {
    /// The same in both directions.
    pub fn both(seed: u64, faults: Faults) -> FaultConfig {
        FaultConfig { seed, rx: faults, tx: faults }
    }
}
