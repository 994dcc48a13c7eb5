//! A policy's judgement of a flow map.

use std::cmp::Ordering;

/// The cost of a flow map. Less is better, and any accepted one is better than any rejected one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// The degree of rejection; 0 is acceptable. It is graded, so that a search sees progress before
    /// the map is acceptable.
    pub rejected: u64,
    /// The deciding value among equally rejected maps.
    pub value: f64,
}

impl Cost {
    /// An acceptable cost.
    pub fn accept(value: f64) -> Cost {
        Cost { rejected: 0, value }
    }

    /// An unacceptable one.
    pub fn reject(rejected: u64, value: f64) -> Cost {
        Cost { rejected, value }
    }

    /// Whether the policy can live with it.
    pub fn is_acceptable(&self) -> bool {
        self.rejected == 0
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        let rejected = self.rejected.saturating_add(other.rejected);
        Cost { rejected, value: self.value + other.value }
    }
}

impl PartialEq for Cost {
    fn eq(&self, other: &Cost) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cost {}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Cost) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Cost) -> Ordering {
        self.rejected.cmp(&other.rejected).then(self.value.total_cmp(&other.value))
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rejected {
            0 => write!(f, "{:.3}", self.value),
            1 => write!(f, "rejected (1 violation, {:.3})", self.value),
            n => write!(f, "rejected ({n} violations, {:.3})", self.value),
        }
    }
}
