//! The changes that a device needs to follow the search.

use std::collections::{BTreeMap, HashMap};

use weever_graph::Key;
use weever_graph::nic::FlowType;

use crate::config::Rule;
use crate::map::{Arena, Entry, NewEntry};
use crate::nic::Nic;

/// More steps than this are not collected; comparing everything is as cheap.
const MOST_STEPS: usize = 1 << 20;

/// A rule in a device's table. The same number never means two rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// A step from the device's configuration to the one that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// A rule is new.
    Insert {
        /// The table's position in [`Nic::tables`].
        table: usize,
        /// The rule's number from now on.
        id: RuleId,
        /// The rule.
        rule: Rule,
    },
    /// A rule goes.
    Remove {
        /// The table's position in [`Nic::tables`].
        table: usize,
        /// The rule's number.
        id: RuleId,
        /// The rule as it was.
        rule: Rule,
    },
    /// A rule sends its packets elsewhere.
    Retarget {
        /// The table's position in [`Nic::tables`].
        table: usize,
        /// The rule's number.
        id: RuleId,
        /// The present rule.
        rule: Rule,
    },
}

/// Collects changes. A rule that comes and goes between two calls of [`Changes::take`] is not
/// mentioned, and one that comes back unchanged is the same rule.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    log: Vec<Step>,
    /// The log is not to be trusted: compare everything.
    everything: bool,
    /// The rules that the device has.
    told: BTreeMap<RuleId, (usize, Rule)>,
    /// Insertions that restored one of the device's rules, and that rule.
    same_as: HashMap<u64, RuleId>,
}

#[derive(Debug)]
enum Step {
    Inserted(u32, u64),
    Removed(u64),
    Moved(u32, u64),
}

/// The properties that make two rules the same, apart from their queue.
type Identity = (usize, Option<FlowType>, Vec<Key>, u32, u32);

fn identity(table: usize, rule: &Rule) -> Identity {
    (table, rule.flow_type, rule.keys.clone(), rule.priority, rule.location)
}

pub(crate) fn rule_of(nic: &Nic, entry: &NewEntry) -> Rule {
    let rule = Rule::of(&nic.tables[entry.table].model, entry.flow_type, &entry.conj);
    let NewEntry { target, priority, location, .. } = *entry;
    Rule { target, priority, location, ..rule }
}

/// The rules that are the plan's own.
fn planned(entries: &Arena<Entry>) -> impl Iterator<Item = &Entry> {
    entries.iter().map(|(_, entry)| entry).filter(|entry| !entry.fixed)
}

impl Changes {
    pub(crate) fn inserted(&mut self, id: u32, entry: &Entry) {
        self.log(Step::Inserted(id, entry.seq));
    }

    pub(crate) fn removed(&mut self, entry: &Entry) {
        self.log(Step::Removed(entry.seq));
    }

    pub(crate) fn moved(&mut self, id: u32, entry: &Entry) {
        self.log(Step::Moved(id, entry.seq));
    }

    /// The device's present or future number for the rule that was inserted as `seq`.
    pub(crate) fn id_of(&self, seq: u64) -> RuleId {
        self.same_as.get(&seq).copied().unwrap_or(RuleId(seq))
    }

    /// All rules are new.
    pub(crate) fn started_over(&mut self) {
        self.everything = true;
        self.log.clear();
    }

    /// Bounded: without a caller of [`Changes::take`] the log does not grow for ever.
    fn log(&mut self, step: Step) {
        if self.everything {
            return;
        }
        self.log.push(step);
        if self.log.len() > MOST_STEPS {
            self.started_over();
        }
    }

    pub(crate) fn take(&mut self, nic: &Nic, entries: &Arena<Entry>) -> Vec<DeviceChange> {
        if std::mem::take(&mut self.everything) {
            return self.compare(nic, entries);
        }
        let log = std::mem::take(&mut self.log);
        let (mut removes, mut others) = (Vec::new(), Vec::new());
        for step in log {
            match step {
                Step::Removed(seq) => {
                    let id = self.same_as.remove(&seq).unwrap_or(RuleId(seq));
                    if let Some((table, rule)) = self.told.remove(&id) {
                        removes.push(DeviceChange::Remove { table, id, rule });
                    }
                }
                Step::Inserted(at, seq) | Step::Moved(at, seq) => {
                    let Some(entry) = entries.get(at).filter(|e| e.seq == seq) else { continue };
                    let id = self.id_of(seq);
                    others.extend(self.tell(nic, id, &entry.rule));
                }
            }
        }
        removes.extend(others);
        removes
    }

    /// The rules that [`take`](Self::take) would mention, and perhaps others.
    pub(crate) fn coming(&self, nic: &Nic, entries: &Arena<Entry>) -> Vec<(usize, Rule)> {
        let of = |entry: &Entry| (entry.rule.table, rule_of(nic, &entry.rule));
        if self.everything {
            let present = planned(entries).map(of);
            return present.chain(self.told.values().cloned()).collect();
        }
        let rule = |step: &Step| match *step {
            Step::Removed(seq) => self.told.get(&self.id_of(seq)).cloned(),
            Step::Inserted(at, seq) | Step::Moved(at, seq) => {
                entries.get(at).filter(|entry| entry.seq == seq).map(of)
            }
        };
        self.log.iter().filter_map(rule).collect()
    }

    fn tell(&mut self, nic: &Nic, id: RuleId, entry: &NewEntry) -> Option<DeviceChange> {
        let (table, rule) = (entry.table, rule_of(nic, entry));
        match self.told.insert(id, (table, rule.clone())) {
            None => Some(DeviceChange::Insert { table, id, rule }),
            Some((_, old)) if old.target == rule.target => None,
            Some(_) => Some(DeviceChange::Retarget { table, id, rule }),
        }
    }

    fn compare(&mut self, nic: &Nic, entries: &Arena<Entry>) -> Vec<DeviceChange> {
        let had = std::mem::take(&mut self.told);
        let mut had_as: HashMap<Identity, RuleId> =
            had.iter().map(|(id, (table, rule))| (identity(*table, rule), *id)).collect();
        self.same_as.clear();
        let mut present: Vec<(u64, &NewEntry)> =
            planned(entries).map(|e| (e.seq, &e.rule)).collect();
        present.sort_unstable_by_key(|(seq, _)| *seq);
        let mut others = Vec::new();
        for (seq, entry) in present {
            let same = had_as.remove(&identity(entry.table, &rule_of(nic, entry)));
            if let Some(id) = same {
                self.same_as.insert(seq, id);
                self.told.insert(id, had[&id].clone());
            }
            others.extend(self.tell(nic, same.unwrap_or(RuleId(seq)), entry));
        }
        let gone = had.into_iter().filter(|(id, _)| !self.told.contains_key(id));
        let removes = gone.map(|(id, (table, rule))| DeviceChange::Remove { table, id, rule });
        removes.chain(others).collect()
    }
}
