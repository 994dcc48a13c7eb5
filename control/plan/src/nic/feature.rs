//! The features of a device: which a plan needs on or off, and what those that are on vouch for.

use std::collections::BTreeSet;

use weever_graph::nic::{FeatureModel, QueueRange, Work};
use weever_graph::{Attr, Field, Graph, Predicate};

use super::Nic;
use crate::config::Configuration;

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

impl Nic {
    /// The features that have to be on or off for the rules of a configuration to match what they test.
    pub fn settings(&self, configuration: &Configuration) -> Vec<Setting> {
        let hides = |feature: &&Feature| {
            let tested = self.tested(configuration, feature.behind);
            let mut work = feature.model.work.iter();
            work.any(|w| matches!(w, Work::Takes(field) if tested.contains(field)))
        };
        let off = |feature: &Feature| feature.setting(false);
        self.features.iter().filter(hides).filter_map(off).collect()
    }

    /// The names by which Linux switches what takes fields, such as tags, out of frames before software sees them.
    pub fn strips(&self) -> Vec<String> {
        let takes = |feature: &&Feature| {
            feature.model.work.iter().any(|work| matches!(work, Work::Takes(_)))
        };
        self.features.iter().filter(takes).flat_map(|f| f.model.ethtool.clone()).collect()
    }

    /// The features that have to be on for the device to do what nodes of a host's graph would do otherwise.
    pub fn used(&self, lpg: &Graph) -> Vec<Setting> {
        let nodes = || lpg.iter().filter(|(_, node)| node.has(&Attr::Offload));
        let has = |predicate: &Predicate| {
            nodes().any(|(_, node)| node.ports.iter().any(|port| port.predicate == *predicate))
        };
        let is_used = |feature: &&Feature| {
            let mut said = feature.model.work.iter().flat_map(stated);
            said.any(|predicate| has(&predicate))
        };
        self.features.iter().filter(is_used).filter_map(|f| f.setting(true)).collect()
    }

    /// Those of them that a device starts without.
    pub fn useful(&self, lpg: &Graph) -> Vec<Setting> {
        let starts_on = |name: &str| {
            let mut features = self.features.iter().filter(|feature| feature.name == name);
            features.any(|feature| feature.model.starts_on)
        };
        let mut used = self.used(lpg);
        used.retain(|setting| !starts_on(&setting.feature));
        used
    }

    /// What the features vouch for that a device starts with, with those of `settings` as they say.
    pub fn vouched(&self, settings: &[Setting]) -> Vouched {
        let mut vouched = Vouched::default();
        for feature in &self.features {
            let set = settings.iter().find(|setting| setting.feature == feature.name);
            if !set.map_or(feature.model.starts_on, |setting| setting.on) {
                continue;
            }
            for work in &feature.model.work {
                let list = match work {
                    Work::Vouches { always: false, .. } => &mut vouched.each,
                    Work::Fills(_) => &mut vouched.filled,
                    _ => &mut vouched.always,
                };
                list.extend(stated(work));
            }
        }
        vouched
    }

    /// The fields that rules test, in tables from the one at `first` on.
    fn tested(&self, configuration: &Configuration, first: usize) -> BTreeSet<Field> {
        let mut tested = BTreeSet::new();
        for (table, rules) in self.tables.iter().zip(&configuration.rules).skip(first) {
            for rule in rules {
                let keys = table.model.matches.iter().zip(&rule.keys);
                tested.extend(keys.filter(|(_, key)| key.mask != 0).map(|(m, _)| m.field));
            }
        }
        tested
    }
}

impl Feature {
    /// The setting that has it on or off; `None` if Linux cannot switch it.
    fn setting(&self, on: bool) -> Option<Setting> {
        let (feature, names) = (self.name.clone(), self.model.ethtool.clone());
        (!names.is_empty()).then_some(Setting { feature, names, on })
    }
}

/// The predicates that are true of packets, one for each fact of a conjunction.
fn stated(work: &Work) -> Vec<Predicate> {
    match work {
        Work::Vouches { predicate, .. } | Work::Fills(predicate) => facts(predicate),
        Work::Drops(predicate) => vec![Predicate::Not(Box::new(predicate.clone()))],
        Work::Cuts(_) | Work::Joins(_) | Work::Takes(_) | Work::Puts(_) | Work::Stamps => {
            Vec::new()
        }
    }
}

fn facts(predicate: &Predicate) -> Vec<Predicate> {
    match predicate {
        Predicate::And(all) => all.iter().flat_map(facts).collect(),
        one => vec![one.clone()],
    }
}

/// `LO .. HI`.
pub(super) fn range(text: &str) -> Option<QueueRange> {
    let (lo, hi) = text.split_once("..")?;
    let (lo, hi) = (lo.trim().parse().ok()?, hi.trim().parse().ok()?);
    (lo <= hi).then_some(QueueRange { lo, hi })
}
