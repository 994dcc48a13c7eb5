//! Watching a faulty link, and pulling its plug.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
