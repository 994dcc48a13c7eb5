//! Which features and switches of a device a plan needs on or off, and what those that are on vouch for.

use std::collections::BTreeSet;

use weever_graph::nic::Work;
use weever_graph::{Attr, Effects, Field, Graph, Node, Predicate};

use crate::config::{Configuration, Rule};
use crate::nic::{Effect, Feature, Nic, Setting, Side, Touched, Vouched};

impl Nic {
    /// The NIC with the features wanted on that a host's graph uses, that are off, and whose switching disturbs nobody:
    /// the model has to say that it disturbs nothing.
    #[must_use]
    pub fn with_useful(mut self, lpg: &Graph) -> Nic {
        let disturbs_nothing = |name: &String| {
            let fact = self.disturbed_by(&Touched::Feature(name.clone()));
            fact.is_some_and(|fact| fact.effects.is_empty())
        };
        let mut useful = self.useful(lpg);
        useful.retain(|setting| setting.names.iter().all(disturbs_nothing));
        self.wanted = useful;
        self
    }

    /// The features that have to be on or off for the rules of a configuration to match what they test, and those that are
    /// wanted for a host's graph.
    pub fn settings(&self, configuration: &Configuration) -> Vec<Setting> {
        let hides = |feature: &&Feature| {
            let tested = self.tested(configuration, feature.behind);
            let mut work = feature.model.work.iter();
            work.any(|w| matches!(w, Work::Takes(field) if tested.contains(field)))
        };
        let off = |feature: &Feature| feature.setting(false);
        let off = self.features.iter().filter(hides).filter_map(off);
        off.chain(self.wanted.iter().cloned()).collect()
    }

    /// Whether a rule of a table tests a field that the feature called `name` takes out of frames before.
    pub fn hides(&self, name: &str, table: usize, rule: &Rule) -> bool {
        let tests = |field: &Field| {
            let keys = self.tables[table].model.matches.iter().zip(&rule.keys);
            keys.filter(|(_, key)| key.mask != 0).any(|(m, _)| m.field == *field)
        };
        let mut features = self.features.iter().filter(|f| f.behind <= table);
        features.any(|feature| {
            let mut work = feature.model.work.iter();
            feature.model.ethtool.iter().any(|n| n == name)
                && work.any(|w| matches!(w, Work::Takes(field) if tests(field)))
        })
    }

    /// Whether a plan has the hash keep packets from queues, or knows where it sends them, so that rules of the driver's
    /// own would break it.
    pub fn relies_on_hash(configuration: &Configuration) -> bool {
        !configuration.rss.table.is_empty() || configuration.rss.key.is_some()
    }

    /// Whether rules have to be on although there are none: while they are off, the driver makes rules of its own, which
    /// take packets that a plan has the hash spread.
    pub fn needs_rules_on(&self, configuration: &Configuration) -> bool {
        let off = self.disturbed_by(&Touched::RulesOff);
        Nic::relies_on_hash(configuration) && off.is_some_and(|off| off.has(&Effect::Atr))
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
        // Nodes that make a predicate true are the send side's, nodes that find out whether it is the other's.
        let fills = |node: &Node| node.effects.is_some_and(|e| e.contains(Effects::WRITES));
        let has = |side: Side, predicate: &Predicate| {
            let mut nodes = lpg.iter().map(|(_, node)| node).filter(|n| n.has(&Attr::Offload));
            nodes.any(|node| {
                fills(node) == (side == Side::Send)
                    && node.ports.iter().any(|port| port.predicate == *predicate)
            })
        };
        let is_used = |feature: &&Feature| {
            let mut said = feature.model.work.iter().flat_map(stated);
            said.any(|predicate| has(feature.side, &predicate))
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
