//! The features of a device: work that it does on packets.

use weever_graph::Predicate;
use weever_graph::nic::{FeatureModel, QueueRange};

/// The way of packets on which a feature stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// From the wire to a queue.
    Receive,
    /// From a queue to the wire.
    Send,
}

/// Work that a device does on packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The config node's full name.
    pub name: String,
    /// On which way it stands.
    pub side: Side,
    /// How many filter tables received packets meet before it.
    pub behind: usize,
    /// What it does.
    pub model: FeatureModel,
}

/// A feature that has to be on, or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The config node's full name.
    pub feature: String,
    /// The names by which Linux switches it.
    pub names: Vec<String>,
    /// Whether it has to be on.
    pub on: bool,
}

/// What the features that are on do for a host's graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vouched {
    /// True of every packet that is received.
    pub always: Vec<Predicate>,
    /// True of the received packets that carry the vouch.
    pub each: Vec<Predicate>,
    /// True of every packet that was sent, whatever the host left to the device.
    pub filled: Vec<Predicate>,
}

impl Vouched {
    /// Everything that is true of every received packet, as one predicate.
    pub fn always(&self) -> Predicate {
        all(&self.always)
    }

    /// Everything that is true of every sent packet, as one predicate.
    pub fn filled(&self) -> Predicate {
        all(&self.filled)
    }
}

fn all(predicates: &[Predicate]) -> Predicate {
    match predicates {
        [] => Predicate::True,
        [one] => one.clone(),
        all => Predicate::And(all.to_vec()),
    }
}

impl Feature {
    /// The setting that has it on or off; `None` if Linux cannot switch it.
    pub(crate) fn setting(&self, on: bool) -> Option<Setting> {
        let (feature, names) = (self.name.clone(), self.model.ethtool.clone());
        (!names.is_empty()).then_some(Setting { feature, names, on })
    }
}

/// `LO .. HI`.
pub(super) fn range(text: &str) -> Option<QueueRange> {
    let (lo, hi) = text.split_once("..")?;
    let (lo, hi) = (lo.trim().parse().ok()?, hi.trim().parse().ok()?);
    (lo <= hi).then_some(QueueRange { lo, hi })
}
