//! Faults as they are set and counted, and the plug.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weever_packet::Nanos;

/// A handle to a faulty link: its counters over all queues, and its plug. It outlives the link.
#[derive(Clone, Debug, Default)]
pub struct FaultControl(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    down: AtomicBool,
    rx: LaneCounters,
    tx: LaneCounters,
}

/// The counters so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// To packets on their way to us. The wrapped link has received them.
    pub rx: LaneStats,
    /// To packets on their way out.
    pub tx: LaneStats,
}

impl FaultControl {
    /// Pulls the plug: both directions lose everything, packets on the way included. Or puts it
    /// back.
    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::Relaxed);
    }

    /// Whether the plug is pulled.
    pub fn is_down(&self) -> bool {
        self.0.down.load(Ordering::Relaxed)
    }

    /// The counters so far.
    pub fn stats(&self) -> FaultStats {
        FaultStats { rx: self.0.rx.read(), tx: self.0.tx.read() }
    }

    pub(super) fn rx(&self) -> &LaneCounters {
        &self.0.rx
    }

    pub(super) fn tx(&self) -> &LaneCounters {
        &self.0.tx
    }
}

macro_rules! lane_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one direction so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LaneStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct LaneCounters {
            $(pub(super) $name: AtomicU64,)*
        }

        impl LaneCounters {
            fn read(&self) -> LaneStats {
                LaneStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl LaneStats {
            /// How many packets vanished for any reason.
            pub fn vanished(&self) -> u64 {
                self.lost + self.too_long + self.overflowed + self.while_down + self.undeliverable
            }
        }
    };
}

lane_counters! {
    /// Packets that vanished by chance.
    lost,
    /// Packets that vanished because they were too long.
    too_long,
    /// Packets that had a bit flipped.
    corrupted,
    /// Copies that were made. None is made when the pool is exhausted.
    duplicated,
    /// Packets that found the rate's queue full, or too many on their way.
    overflowed,
    /// Packets that were kept back to be overtaken.
    reordered,
    /// Packets that were on the way, or sent, while the plug was pulled.
    while_down,
    /// Packets sent after the wrapped link had gone, while there were still some to receive.
    undeliverable,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

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
