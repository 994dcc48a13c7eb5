//! The contents of a NIC's tables, as far as they decide which other rules fit. Some tables are open
//! hashes and refuse rules before they are full.

use std::collections::HashMap;

use weever_graph::Field;
use weever_graph::nic::{Failure, FlowType, MaskScope, TableModel};

use super::order::Locations;
use super::refusal::Learned;
use crate::config::Rule;
use crate::flow::Conj;
use crate::map::{Entry, NewEntry, mix};
use crate::nic::Nic;

/// A mask that rules share, and how many use it.
#[derive(Clone, Debug)]
pub(crate) struct SharedMask {
    /// The flow type of the rules that share it, if not all rules of the table do.
    pub(crate) flow_type: Option<FlowType>,
    pub(crate) masks: Vec<u128>,
    pub(crate) live: u32,
    pub(crate) stale: u32,
}

/// The state of one table.
#[derive(Debug)]
pub(crate) struct TableState {
    pub(crate) masks: Vec<SharedMask>,
    pub(crate) rows: Option<Rows>,
    /// Which of [`State::locations`] numbers its rules.
    numbering: usize,
    /// The best mask for the table, if it is free to choose.
    pub(crate) wanted: Option<Vec<u128>>,
    /// Whether rules with other masks are refused, or widened, until one has it.
    pub(crate) insists: bool,
    /// Rules in this table alone, which Linux may limit to fewer than the pool holds.
    pub(crate) rules: u32,
}

/// The state of all tables.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tables: Vec<TableState>,
    /// The entries taken from each pool, by the position of the pool's table.
    pub(crate) taken: Vec<u32>,
    /// Free locations: one range for all tables if the device numbers rules, or one for each table.
    locations: Vec<Locations>,
    /// The device's refusals so far.
    pub(crate) learned: Learned,
}

impl State {
    pub(crate) fn new(nic: &Nic) -> State {
        let table = |(at, model): (usize, &TableModel)| TableState {
            masks: Vec::new(),
            rows: match model.fails {
                Failure::Never => None,
                Failure::Hash { rows, probes } => Some(Rows::new(rows, probes)),
            },
            numbering: if nic.locations.is_some() { 0 } else { at },
            wanted: None,
            insists: false,
            rules: 0,
        };
        let models = || nic.tables.iter().map(|t| &t.model);
        let locations = match nic.locations {
            Some(count) => vec![Locations::new(count)],
            None => models().map(|m| Locations::new(m.capacity.entries)).collect(),
        };
        let taken = vec![0; nic.tables.len()];
        let tables = models().enumerate().map(table).collect();
        State { tables, taken, locations, learned: Learned::default() }
    }

    /// Forgets the rules, but keeps the limits learned from the device.
    pub(crate) fn start_over(&mut self, nic: &Nic) {
        let learned = std::mem::take(&mut self.learned);
        *self = State { learned, ..State::new(nic) };
    }

    /// The locations that rules of a table can have.
    pub(crate) fn locations(&self, table: usize) -> &Locations {
        &self.locations[self.tables[table].numbering]
    }

    /// How many rules there are in all tables.
    pub(crate) fn rules(&self) -> u32 {
        self.tables.iter().map(|t| t.rules).sum()
    }

    pub(crate) fn inserted(&mut self, nic: &Nic, id: u32, rule: &NewEntry) {
        let table = &nic.tables[rule.table];
        let state = &mut self.tables[rule.table];
        state.rules += 1;
        self.taken[table.pool] += cost(&table.model, rule.flow_type);
        self.locations[state.numbering].take(rule.location);
        if let Some(rows) = &mut state.rows {
            rows.insert(id, &rule.conj);
        }
        if let Some((key, masks)) = shared_mask(&table.model, rule) {
            match state.masks.iter_mut().find(|m| m.flow_type == key && m.masks == masks) {
                Some(mask) => mask.live += 1,
                None => state.masks.push(SharedMask { flow_type: key, masks, live: 1, stale: 0 }),
            }
        }
    }

    /// The rule's flow went away and the rule stays.
    pub(crate) fn staled(&mut self, nic: &Nic, rule: &NewEntry) {
        self.with_mask(nic, rule, |mask| {
            mask.live -= 1;
            mask.stale += 1;
        });
    }

    pub(crate) fn removed(&mut self, nic: &Nic, id: u32, entry: &Entry) {
        let rule = &entry.rule;
        let table = &nic.tables[rule.table];
        let state = &mut self.tables[rule.table];
        state.rules -= 1;
        self.taken[table.pool] -= cost(&table.model, rule.flow_type);
        self.locations[state.numbering].give_back(rule.location);
        if let Some(rows) = &mut state.rows {
            rows.remove(id);
        }
        let stale = entry.is_stale();
        self.with_mask(nic, rule, |mask| {
            let users = if stale { &mut mask.stale } else { &mut mask.live };
            *users -= 1;
        });
        self.tables[rule.table].masks.retain(|m| m.live + m.stale > 0);
    }

    fn with_mask(&mut self, nic: &Nic, rule: &NewEntry, change: impl Fn(&mut SharedMask)) {
        let Some((key, masks)) = shared_mask(&nic.tables[rule.table].model, rule) else { return };
        let all = &mut self.tables[rule.table].masks;
        if let Some(mask) = all.iter_mut().find(|m| m.flow_type == key && m.masks == masks) {
            change(mask);
        }
    }
}

/// The entries that a rule takes from its pool. Conditions that no rule can express do not hold.
pub(crate) fn cost(model: &TableModel, flow_type: Option<FlowType>) -> u32 {
    model.capacity.cost(flow_type, |_| false)
}

/// The group of rules (by flow type) with which a rule has to agree on masks, and its masks; nothing
/// if the masks are its own.
pub(crate) fn shared_mask(
    model: &TableModel,
    rule: &NewEntry,
) -> Option<(Option<FlowType>, Vec<u128>)> {
    let key = match model.mask_scope {
        MaskScope::Rule => return None,
        MaskScope::FlowType => rule.flow_type,
        MaskScope::Link => None,
    };
    Some((key, masks_with_type(model, rule.flow_type, &rule.conj)))
}

/// The masks of a rule, one for each field. One mask for all rules of a link includes the protocol of
/// layer 4 (`ixgbe_add_ethtool_fdir_entry`: `mask.formatted.flow_type`), so that rules with
/// and without it exclude each other: then the last mask is that of the protocol.
pub(crate) fn masks_with_type(
    model: &TableModel,
    flow_type: Option<FlowType>,
    conj: &Conj,
) -> Vec<u128> {
    let said = Rule::of(model, flow_type, conj);
    let masks = said.keys.iter().map(|k| k.mask);
    let is_protocol = |(field, _)| matches!(field, Field::Ip4Proto | Field::Ip6Next);
    let by_type = (model.mask_scope == MaskScope::Link)
        .then(|| u128::from(flow_type.is_some_and(|t| t.implies().any(is_protocol))));
    masks.chain(by_type).collect()
}

/// The rows of such a table. The hash is not the NIC's own, but it fails as often: double hashing with
/// an odd step and a bounded number of probes.
#[derive(Debug)]
pub(crate) struct Rows {
    used: Vec<bool>,
    probes: u32,
    of_entry: HashMap<u32, usize>,
}

impl Rows {
    pub(crate) fn new(rows: u32, probes: u32) -> Rows {
        Rows { used: vec![false; rows.max(1) as usize], probes, of_entry: HashMap::new() }
    }

    /// A row for a rule that matches `conj`, unless the hash gives up.
    pub(crate) fn find(&self, conj: &Conj) -> Option<usize> {
        let hash = conj.tests().fold(conj.kinds().hash_word(), |h, t| {
            mix(mix(h, t.value as u64), (t.value >> 64) as u64)
        });
        let step = (hash >> 32 << 1 | 1) as usize;
        let rows = self.used.len();
        let row = |i: u32| (hash as usize).wrapping_add(step.wrapping_mul(i as usize)) % rows;
        (0..self.probes).map(row).find(|r| !self.used[*r])
    }

    pub(crate) fn insert(&mut self, entry: u32, conj: &Conj) {
        if let Some(row) = self.find(conj) {
            self.used[row] = true;
            self.of_entry.insert(entry, row);
        }
    }

    pub(crate) fn remove(&mut self, entry: u32) {
        if let Some(row) = self.of_entry.remove(&entry) {
            self.used[row] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 82599 takes rules of ip4, or of tcp4 and udp4, and not of both.
    #[test]
    fn one_mask_for_all_rules_includes_the_protocol() {
        let nic = Nic::linux_of(&weever_models::nic("82599").unwrap()).unwrap();
        let to = Conj::all().with(Field::Ip4Dst, 9);
        let masks = |t| masks_with_type(&nic.tables[0].model, Some(t), &to);
        assert_eq!(masks(FlowType::Udp4), masks(FlowType::Tcp4));
        assert_ne!(masks(FlowType::Udp4), masks(FlowType::Ip4));
    }
}
