//! Where the packets of a flow arrive: a weighted set of queues.

use std::sync::Arc;

/// The weight of a whole flow: the number of parts in which shares are counted.
pub const WHOLE: u32 = 1 << 16;

/// The queues at which a flow's packets arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All packets at one queue.
    One(u32),
    /// Packets at several queues.
    Spread(Arc<Spread>),
}

/// A weighted set of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The queues, ascending, each with its share of [`WHOLE`]. A share of 0 means that packets arrive,
    /// but too few to count.
    pub shares: Vec<(u32, u32)>,
    /// The share of packets that are dropped; not 0 if any is.
    pub dropped: u32,
    /// Whether the flow's packets really go to all of these queues. Otherwise all of them go to one, by
    /// an unknown hash, and a share is a probability.
    pub certain: bool,
}

impl Placement {
    /// The queues with their shares of [`WHOLE`].
    pub fn shares(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (one, many) = match self {
            Placement::One(queue) => (Some((*queue, WHOLE)), [].as_slice()),
            Placement::Spread(spread) => (None, spread.shares.as_slice()),
        };
        one.into_iter().chain(many.iter().copied())
    }

    /// The approximate steps of work to add it up, or to report it to a policy.
    pub(crate) fn steps(&self) -> usize {
        match self {
            Placement::One(_) => 1,
            Placement::Spread(spread) => 1 + spread.shares.len() / 8,
        }
    }

    /// Nowhere: all packets are dropped.
    pub fn nowhere() -> Placement {
        Placement::Spread(Arc::new(Spread { shares: Vec::new(), dropped: WHOLE, certain: true }))
    }

    /// The share of [`WHOLE`] that is dropped; not 0 if any packet is.
    pub fn dropped(&self) -> u32 {
        match self {
            Placement::One(_) => 0,
            Placement::Spread(spread) => spread.dropped,
        }
    }

    /// The only queue, if there is only one.
    pub fn queue(&self) -> Option<u32> {
        match self {
            Placement::One(queue) => Some(*queue),
            Placement::Spread(_) => None,
        }
    }

    /// Whether packets can arrive at `queue`.
    pub fn reaches(&self, queue: u32) -> bool {
        self.shares().any(|(q, _)| q == queue)
    }

    /// Whether any packet arrives at all.
    pub fn arrives(&self) -> bool {
        self.shares().next().is_some()
    }

    /// Whether it is known where each packet goes, or that the flow's packets go everywhere.
    pub fn is_certain(&self) -> bool {
        match self {
            Placement::One(_) => true,
            Placement::Spread(spread) => spread.certain,
        }
    }
}

/// Gathers shares in any unit.
#[derive(Debug)]
pub(crate) struct PlacementSum {
    /// The share of each queue; NaN where no packet arrives.
    shares: Vec<f64>,
    /// A placement that was merged last, with its scale: many pieces of a flow are placed alike.
    pending: Option<(Arc<Spread>, f64)>,
    /// The share that is dropped, if any.
    dropped: Option<f64>,
    pub(crate) certain: bool,
}

impl Default for PlacementSum {
    fn default() -> PlacementSum {
        PlacementSum { shares: Vec::new(), pending: None, dropped: None, certain: true }
    }
}

impl PlacementSum {
    pub(crate) fn add(&mut self, queue: u32, share: f64) {
        let at = queue as usize;
        if self.shares.len() <= at {
            self.shares.resize(at + 1, f64::NAN);
        }
        let sum = &mut self.shares[at];
        *sum = if sum.is_nan() { share } else { *sum + share };
    }

    pub(crate) fn drop(&mut self, share: f64) {
        *self.dropped.get_or_insert(0.0) += share;
    }

    /// Adds a placement's shares, scaled.
    pub(crate) fn merge(&mut self, placement: &Placement, scale: f64) {
        match placement {
            Placement::One(queue) => self.add(*queue, scale),
            Placement::Spread(spread) => match &mut self.pending {
                Some((pending, sum)) if Arc::ptr_eq(pending, spread) => *sum += scale,
                _ => {
                    self.settle();
                    self.pending = Some((spread.clone(), scale));
                }
            },
        }
    }

    fn settle(&mut self) {
        let Some((spread, scale)) = self.pending.take() else { return };
        self.certain &= spread.certain;
        for (queue, share) in &spread.shares {
            self.add(*queue, f64::from(*share) / f64::from(WHOLE) * scale);
        }
        if spread.dropped > 0 {
            self.drop(f64::from(spread.dropped) / f64::from(WHOLE) * scale);
        }
    }

    /// The placement, with shares that add up to [`WHOLE`]. The rounding error goes to the largest
    /// share.
    pub(crate) fn finish(mut self) -> Placement {
        self.settle();
        let present = || self.shares.iter().enumerate().filter(|(_, s)| !s.is_nan());
        match (present().next(), present().nth(1), self.dropped) {
            (Some((queue, _)), None, None) => return Placement::One(queue as u32),
            (None, _, Some(_)) => return Placement::nowhere(),
            _ => {}
        }
        let lost = self.dropped.unwrap_or_default();
        let sum = lost + present().map(|(_, s)| s).sum::<f64>();
        let scale = if sum > 0.0 { f64::from(WHOLE) / sum } else { 0.0 };
        let mut shares: Vec<(u32, u32)> =
            present().map(|(q, s)| (q as u32, (s * scale) as u32)).collect();
        let dropped = self.dropped.map_or(0, |s| ((s * scale) as u32).max(1));
        let left = WHOLE.saturating_sub(dropped + shares.iter().map(|(_, s)| s).sum::<u32>());
        // The first of the largest, so that the result does not depend on the order of adding.
        if let Some((_, largest)) = shares.iter_mut().rev().max_by_key(|(_, s)| *s) {
            *largest += left;
        }
        Placement::Spread(Arc::new(Spread { shares, dropped, certain: self.certain }))
    }
}
