//! What a partial assignment costs at least, however it is continued.
//!
//! Items without a place are taken for a fluid that fills the lowest queues as far as there are rules for them, and
//! hashed items for spread evenly. Rules are a matroid, so the items that have the greatest values together are
//! found one by one.

use super::assignment::{Assignment, Item, Partial};

/// Prices of the fluid that are tried for a bound.
const PRICES: u32 = 5;

/// Queues that a fluid has filled.
struct Filled {
    /// The sum of the squares of the loads.
    squares: f64,
    /// How much less it is for a bit more of fluid: that comes from an even share of all, to the lowest queues.
    gain: f64,
}

impl Assignment {
    /// No completion costs less.
    pub(super) fn bound(&self, partial: &Partial) -> f64 {
        let mut by_doubt: Vec<&Item> = Vec::with_capacity(self.items.len() - partial.at);
        by_doubt
            .extend(self.by_doubt.iter().filter(|i| **i >= partial.at).map(|i| &self.items[*i]));
        let steered: f64 = self.steered(partial, &by_doubt).map(|item| item.doubt).sum();
        let doubtful: f64 = by_doubt.iter().map(|item| item.doubt).sum();
        let by_weight: Vec<&Item> = self.items[partial.at..].iter().collect();
        let fluid = self.steered(partial, &by_weight).map(|item| item.weight).sum();
        let filled = self.filled(partial, fluid);
        let apart = self.cost_of(filled.squares, partial.doubt + doubtful - steered);
        apart.max(self.joint_bound(partial, by_weight, fluid))
    }

    /// The same entries cannot serve the most doubtful items and the heaviest at once. So fluid has a price, at which
    /// the items that are worth most are steered, by their doubt and their weight together (a Lagrangian relaxation):
    /// any price gives a bound, and the best one is where as much fluid is wanted as is steered. There is `most`.
    fn joint_bound(&self, partial: &Partial, mut items: Vec<&Item>, most: f64) -> f64 {
        let doubtful: f64 = partial.doubt + items.iter().map(|item| item.doubt).sum::<f64>();
        let (mut low, mut high, mut best) = (0.0, most, 0.0_f64);
        for _ in 0..PRICES {
            let wanted = (low + high) / 2.0;
            let filled = self.filled(partial, wanted);
            let price = filled.gain;
            let value = |item: &Item| self.unit * item.doubt + price * item.weight;
            items.sort_unstable_by(|a, b| value(b).total_cmp(&value(a)));
            let (mut worth, mut fluid) = (0.0, 0.0);
            for item in self.steered(partial, &items) {
                worth += value(item);
                fluid += item.weight;
            }
            let squares = filled.squares + price * wanted - worth;
            best = best.max(self.cost_of(squares, doubtful));
            if fluid > wanted { low = wanted } else { high = wanted }
        }
        best
    }

    /// The items that have rules if each gets one for which there is room, in this order.
    fn steered<'i>(&self, partial: &Partial, items: &[&'i Item]) -> impl Iterator<Item = &'i Item> {
        let mut used = partial.used.clone();
        items.iter().copied().filter(move |item| {
            let fits = self.fits(&used, item.pools);
            if fits {
                Self::take(&mut used, item.pools);
            }
            fits
        })
    }

    /// The queues if `fluid` of what is not assigned goes to the lowest ones, and the rest evenly to all. Hashed
    /// items raise all queues alike, but for the unevenness of the hash, which may fill low ones.
    fn filled(&self, partial: &Partial, fluid: f64) -> Filled {
        let n = self.spread.len() as f64;
        let rest: f64 = self.items[partial.at..].iter().map(|item| item.weight).sum();
        let least = self.spread.iter().copied().fold(1.0, f64::min);
        let mut fluid = (fluid + rest * (1.0 - least * n)).min(rest);
        let even = (rest - fluid) / n;
        let mut levels: Vec<f64> = partial.loads.iter().map(|load| load + even).collect();
        levels.sort_unstable_by(f64::total_cmp);
        let mut low = 1;
        while low < levels.len() && fluid > (levels[low] - levels[low - 1]) * low as f64 {
            fluid -= (levels[low] - levels[low - 1]) * low as f64;
            low += 1;
        }
        let level = levels[low - 1] + fluid / low as f64;
        let squares = levels.iter().map(|load| load.max(level).powi(2)).sum();
        // Once all is fluid, there is no more.
        let gain = if even > 0.0 { 2.0 * (self.total / n - level).max(0.0) } else { 0.0 };
        Filled { squares, gain }
    }
}
