//! Items that are assigned to queues, what that costs, and the room for their rules.

/// Flows that go to a queue together, or are hashed.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct Item {
    pub(in crate::search) weight: f64,
    /// The variance that hashing them adds, as a multiple of that of a flow of weight 1.
    pub(in crate::search) doubt: f64,
    /// The pools of entries that have a rule for them, a bit each; 0 if there is none.
    pub(in crate::search) pools: u32,
}

/// Items, the share of hashed packets that each queue gets, and the room for rules.
pub(in crate::search) struct Assignment {
    pub(super) items: Vec<Item>,
    pub(super) spread: Vec<f64>,
    /// The entries that each set of pools has, by the bits of the set.
    pub(super) room: Vec<u32>,
    /// The items by their doubt, the greatest first.
    pub(super) by_doubt: Vec<usize>,
    /// The variance of hashing a flow of weight 1.
    pub(super) unit: f64,
    pub(super) total: f64,
    /// Costs below this are as good as none.
    pub(super) floor: f64,
}

/// The entries in use of each set of pools: rules of items that can use no other pools.
pub(super) type Used = Vec<u32>;

/// The first `at` items are assigned.
#[derive(Clone)]
pub(super) struct Partial {
    pub(super) at: usize,
    pub(super) bound: f64,
    pub(super) loads: Vec<f64>,
    pub(super) doubt: f64,
    pub(super) used: Used,
}

impl Assignment {
    /// `pools` are the entries of each pool, and `most` those of all.
    pub(in crate::search) fn new(
        mut items: Vec<Item>,
        spread: Vec<f64>,
        pools: &[u32],
        most: u32,
        floor: f64,
    ) -> Assignment {
        items.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut by_doubt: Vec<usize> = (0..items.len()).collect();
        by_doubt.sort_by(|a, b| items[*b].doubt.total_cmp(&items[*a].doubt));
        let room = (0..1_u32 << pools.len())
            .map(|set| {
                let inside = pools.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
                inside.map(|(_, room)| *room).fold(0, u32::saturating_add).min(most)
            })
            .collect();
        let total = items.iter().map(|i| i.weight).sum();
        let unit = spread.iter().map(|s| s * (1.0 - s)).sum();
        Assignment { items, spread, room, by_doubt, unit, total, floor }
    }

    /// Whether one more item can have a rule, by Hall's theorem: no set of pools serves more items that depend
    /// on it than it has entries.
    pub(super) fn fits(&self, used: &Used, pools: u32) -> bool {
        let full = |set: usize| pools & !(set as u32) == 0 && used[set] >= self.room[set];
        pools != 0 && !(0..used.len()).any(full)
    }

    pub(super) fn take(used: &mut Used, pools: u32) {
        let within = used.iter_mut().enumerate().filter(|(set, _)| pools & !(*set as u32) == 0);
        within.for_each(|(_, used)| *used += 1);
    }

    pub(super) fn release(used: &mut Used, pools: u32) {
        let within = used.iter_mut().enumerate().filter(|(set, _)| pools & !(*set as u32) == 0);
        within.for_each(|(_, used)| *used -= 1);
    }

    pub(super) fn cost_of(&self, squares: f64, doubt: f64) -> f64 {
        let n = self.spread.len() as f64;
        ((squares + doubt * self.unit) / n - (self.total / n).powi(2)).max(0.0)
    }
}
