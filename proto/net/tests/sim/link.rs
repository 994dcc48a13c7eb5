//! The link between the hosts, and its faults.

use weever_net::MILLIS;

/// How bad the link is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fault {
    /// Frames lost of a thousand.
    pub(crate) loss: u64,
    /// Frames duplicated of a thousand.
    pub(crate) duplicate: u64,
    /// Most that a frame is late, in milliseconds; frames overtake each other if it is not 0.
    pub(crate) jitter: u64,
}

pub(crate) struct Link {
    state: u64,
    pub(crate) fault: Fault,
    /// A link that is down loses everything.
    pub(crate) up: bool,
}

impl Link {
    pub(crate) const DELAY: u64 = MILLIS;

    pub(crate) fn new(seed: u64, fault: Fault) -> Self {
        Self { state: seed, fault, up: true }
    }

    /// The delays of the copies that arrive.
    pub(crate) fn carry(&mut self) -> Vec<u64> {
        if !self.up || self.chance(self.fault.loss) {
            return Vec::new();
        }
        let copies = if self.chance(self.fault.duplicate) { 2 } else { 1 };
        (0..copies).map(|_| self.delay()).collect()
    }

    fn delay(&mut self) -> u64 {
        Self::DELAY + self.below(self.fault.jitter * MILLIS + 1)
    }

    fn chance(&mut self, of_a_thousand: u64) -> bool {
        self.below(1000) < of_a_thousand
    }

    /// SplitMix64 (Steele, Lea, Flood 2014); its slight bias does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
