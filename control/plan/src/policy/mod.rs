//! Policies: the objective for a flow map, as a cost.
//!
//! A [`Policy`] is informed of every flow that arrives somewhere or no longer does, keeps its state as
//! sums, and computes [`Policy::cost`] from them. A candidate is judged by applying it, asking for the
//! cost, and undoing it, so that every built-in policy takes the same time however many flows there are
//! (design/0000 §4.6). Policies add up ([`Sum`]), and one may express an application's own wishes
//! ([`Only`]).
//!
//! All sums are integers: applying and taking back leaves no trace, and the order of flows does not
//! show in the result.

mod balance;
mod cost;
mod document;
mod isolate;
mod locality;
mod pack;
mod paths;
mod sharing;
mod sum;
#[cfg(test)]
mod tests;

pub use balance::{Balance, Measure};
pub use cost::{Cost, QueueSet};
pub use document::{
    Class, Classifier, CoreLocality, Dedication, Document, Objective, QueueMode, Queues,
    can_be_kept,
};
pub use isolate::{Isolate, Share};
pub use locality::{Dedicated, Distance, Locality};
pub use pack::Pack;
pub(crate) use paths::NodeSet;
pub use paths::{GraphCosts, PathCosts, Paths};
pub use sharing::{Divergence, InOrder, Sharing, SharingMode};
pub use sum::{Only, Sum};

use weever_graph::nic::QueueRange;

use crate::flow::{AppId, ClassId, Flow};
use crate::map::Placement;

/// A flow, or the rest of the traffic, as policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its class; nothing for unregistered traffic.
    pub class: Option<ClassId>,
    /// Its application.
    pub app: Option<AppId>,
    /// The core on which that runs.
    pub core: Option<u16>,
    /// Its weight in the cost.
    pub weight: u32,
    /// Its rate, if known.
    pub rate: Option<u64>,
    /// Whether it may lose some of its packets: see [`Flow::yields`].
    pub yields: bool,
}

impl Subject {
    /// All unregistered traffic. A policy is informed of each queue that it reaches.
    pub const OTHER: Subject =
        Subject { class: None, app: None, core: None, weight: 0, rate: None, yields: false };

    /// A flow, as policies see it.
    pub fn of(flow: &Flow) -> Subject {
        let weight = flow.weight.min(Flow::MAX_WEIGHT);
        let class = Some(flow.class);
        let Flow { app, core, rate, yields, .. } = *flow;
        Subject { class, app, core, weight, rate, yields }
    }

    /// Whether it is the unregistered traffic.
    pub fn is_other(&self) -> bool {
        self.class.is_none()
    }
}

/// Whether a flow is added to a placement or removed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The flow is added there.
    Comes,
    /// The flow is removed from there.
    Goes,
}

impl Change {
    /// The opposite change.
    #[must_use]
    pub fn reversed(self) -> Change {
        match self {
            Change::Comes => Change::Goes,
            Change::Goes => Change::Comes,
        }
    }

    /// `value` to be added.
    pub(crate) fn signed(self, value: i128) -> i128 {
        match self {
            Change::Comes => value,
            Change::Goes => -value,
        }
    }
}

/// The objective for a flow map.
///
/// Implementations keep state. They learn of changes by [`Policy::apply`], at any time, and their
/// answers depend only on [`Policy::start`] and the changes applied since.
pub trait Policy: Send {
    /// Forgets everything and receives the existing queues, and the one for unsteered packets.
    fn start(&mut self, queues: &QueueSet, default_queue: u32);

    /// A flow, or part of `other`, is added to a placement or removed from it. Constant time for a
    /// placement at one queue.
    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change);

    /// The cost of all flows that were added and not removed.
    fn cost(&self) -> Cost;

    /// Whether no placement of the same flows, each at one queue, costs less. A search then stops
    /// looking.
    fn is_at_best(&self) -> bool {
        false
    }

    /// The queue in `among` at which a further flow, all of it, costs least; of equals the lowest.
    /// Nothing if trying all queues is the only way to find it.
    fn best_queue(&self, _subject: &Subject, _among: QueueRange) -> Option<u32> {
        None
    }

    /// The queues over which it is best to spread the flow, if its packets may go to several; a NIC
    /// that can spread some flows over some queues then gets such a context. Nothing if one queue is
    /// best.
    fn spread_over(&self, _subject: &Subject) -> Option<QueueSet> {
        None
    }

    /// Whether the NIC is to drop the flow's packets. They arrive nowhere then
    /// ([`Placement::nowhere`]); a policy that returns true rejects every other placement of them.
    fn drops(&self, _subject: &Subject) -> bool {
        false
    }

    /// The queue from which it is best to move a flow like `subject` elsewhere, if the policy can tell.
    fn crowded_queue(&self, _subject: &Subject) -> Option<u32> {
        None
    }

    /// Flows with the smallest keys are placed first, if the policy wants an order.
    fn order_key(&self, _subject: &Subject) -> Option<i64> {
        None
    }

    /// Whether unregistered traffic may arrive at `queue`. Where the NIC spreads, it
    /// spreads over these.
    fn takes_other(&self, _queue: u32) -> bool {
        true
    }

    /// Why a placement is unacceptable for a flow, if it is.
    fn objection(&self, _subject: &Subject, _placement: &Placement) -> Option<String> {
        None
    }

    /// The reasons why the present map is unacceptable as a whole, in words. Empty if it is acceptable.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The cost if the changes were applied.
pub(crate) fn cost_with(
    policy: &mut dyn Policy,
    changes: &[(Subject, &Placement, Change)],
) -> Cost {
    changes.iter().for_each(|(s, p, c)| policy.apply(s, p, *c));
    let cost = policy.cost();
    changes.iter().rev().for_each(|(s, p, c)| policy.apply(s, p, c.reversed()));
    cost
}
