//! Detects impossible tables and spreadings.

use super::{
    Actions, Cost, CostScope, Ethtool, Exposure, Failure, FieldMatch, FlowType, Granularity,
    KnownForms, MaskScope, QueueRange, Queues, RssFields, RssHash, RssModel, RssType, TableModel,
    TableOrder, Without,
};

/// The part of a model that a [`Problem`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The whole model.
    Whole,
    /// A field: its position in [`TableModel::matches`].
    Match(usize),
    /// The flow types.
    Types,
    /// A gap in a flow type: its position in [`TableModel::without`].
    Without(usize),
    /// The forms of packets.
    Forms,
    /// The scope of masks.
    Mask,
    /// The capacity.
    Capacity,
    /// A cost: its position.
    Cost(usize),
    /// The order of rules.
    Order,
    /// The line about insertions that fail.
    Fails,
    /// The queues among the actions.
    Queues,
    /// The part that Linux exposes.
    Linux,
    /// The hash function.
    Hash,
    /// The number of a hash table's entries.
    Entries,
    /// The queue of packets that are not hashed.
    Unhashed,
    /// The hashed fields of a flow type: its position in [`RssModel::types`].
    Hashed(usize),
    /// The state in which a feature starts.
    Start,
    /// A work of a feature: its position in [`FeatureModel::work`](super::FeatureModel::work).
    Work(usize),
}

/// Why a model is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The faulty part.
    pub part: Part,
    /// The fault, in one sentence.
    pub message: String,
    /// The remedy, if one is known.
    pub help: Option<String>,
}

#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl From<Problems> for Vec<Problem> {
    fn from(problems: Problems) -> Vec<Problem> {
        problems.0
    }
}

impl Problems {
    pub(super) fn add(&mut self, part: Part, message: impl Into<String>, help: &str) {
        let help = (!help.is_empty()).then(|| help.to_string());
        self.0.push(Problem { part, message: message.into(), help });
    }

    fn range(&mut self, part: Part, range: QueueRange, of: Option<QueueRange>) {
        if range.lo > range.hi {
            self.add(part, format!("the range {range} is reversed"), "write the smaller one first");
        } else if let Some(of) = of.filter(|of| !of.covers(range)) {
            let message = format!("queues {range} are not all among those declared, {of}");
            self.add(part, message, "widen the declaration of queues, or narrow this range");
        }
    }
}

impl TableModel {
    /// Everything that is impossible about the table on its own.
    pub fn check(&self) -> Vec<Problem> {
        self.checked(None)
    }

    /// The same check for a NIC with these queues.
    pub fn check_for(&self, queues: Queues) -> Vec<Problem> {
        self.checked(Some(queues.all))
    }

    fn checked(&self, declared: Option<QueueRange>) -> Vec<Problem> {
        let mut found = Problems(Vec::new());
        self.check_matches(&mut found);
        self.check_gaps(&mut found);
        self.check_forms(&mut found);
        self.check_capacity(&mut found);
        self.check_order(&mut found);
        self.check_actions(&mut found, declared);
        if let Exposure::Ethtool(ethtool) = &self.linux {
            self.check_ethtool(&mut found, ethtool);
        }
        found.0
    }

    fn check_matches(&self, found: &mut Problems) {
        if self.matches.is_empty() && self.flow_types.is_empty() {
            found.add(
                Part::Whole,
                "a rule of this table can match nothing",
                "add `match FIELD whole`",
            );
        }
        if let Some(twice) = repeated(&self.flow_types) {
            found.add(Part::Types, format!("the flow type {twice} is listed twice"), "");
        }
        for (i, m) in self.matches.iter().enumerate() {
            if self.matches[..i].iter().any(|other| other.field == m.field) {
                found.add(Part::Match(i), "the field is matched twice", "keep one of the two");
            }
            let open = |t: &FlowType| self.fields_of(Some(*t)).any(|f| f.field == m.field);
            if !self.flow_types.is_empty() && !self.flow_types.iter().any(open) {
                let types = list(&self.flow_types);
                let message =
                    format!("packets of the flow types {types} leave no choice of this field");
                found.add(Part::Match(i), message, "add a flow type that has it, or take it out");
            }
        }
    }

    fn check_gaps(&self, found: &mut Problems) {
        for (i, Without { flow_type, packets }) in self.without.iter().enumerate() {
            if !self.flow_types.contains(flow_type) {
                let message = format!("the table has no rules of the flow type {flow_type}");
                found.add(Part::Without(i), message, "name a flow type of the table");
            }
            let narrower = |t: &&FlowType| {
                let version = flow_type.ip_version().is_none_or(|v| t.ip_version() == Some(v));
                t != &flow_type && version && flow_type.protocol().is_none()
            };
            if let Some(other) = packets.iter().find(|t| !narrower(t)) {
                let message = format!("packets of {other} are not among those of {flow_type}");
                found.add(Part::Without(i), message, "name the more specific types, as `tcp4`");
            }
        }
    }

    fn check_forms(&self, found: &mut Problems) {
        let help = "leave it out: then plans claim nothing about such packets";
        let known: KnownForms = match self.forms == KnownForms::ALL {
            true => KnownForms::default(),
            false => self.forms,
        };
        known.check().for_each(|message| found.add(Part::Forms, message, help));
    }

    fn check_capacity(&self, found: &mut Problems) {
        let entries = self.capacity.entries;
        if entries == 0 {
            found.add(Part::Capacity, "a table of 0 entries holds nothing", "");
        }
        for (i, Cost { entries: cost, when }) in self.capacity.costs.iter().enumerate() {
            if *cost == 0 {
                found.add(Part::Cost(i), "a rule takes at least 1 entry", "");
            } else if *cost > entries && entries > 0 {
                let message = format!("a rule takes {cost} entries, but there are only {entries}");
                found.add(Part::Cost(i), message, "");
            }
            if let CostScope::Types(types) = when
                && let Some(other) = types.iter().find(|t| !self.flow_types.contains(t))
            {
                let message = format!("the table has no rules of the flow type {other}");
                found.add(Part::Cost(i), message, "name flow types of the table");
            }
        }
    }

    fn check_order(&self, found: &mut Problems) {
        if let TableOrder::Priority { lo, hi } = self.order
            && lo > hi
        {
            let message = format!("there is no priority from {lo} to {hi}");
            found.add(Part::Order, message, "write the lowest priority first");
        }
        if self.mask_scope == MaskScope::FlowType && self.flow_types.is_empty() {
            let help = "add `types …`, or write `mask per rule` or `mask per link`";
            found.add(Part::Mask, "the table has no flow types to have masks", help);
        }
        match self.fails {
            Failure::Hash { rows: 0, .. } | Failure::Hash { probes: 0, .. } => {
                found.add(Part::Fails, "a hash without rows or probes holds nothing", "");
            }
            Failure::Hash { rows, probes } if probes > rows => {
                let message = format!("{probes} probes are more than there are rows, {rows}");
                found.add(Part::Fails, message, "");
            }
            Failure::Hash { rows, .. } if self.capacity.entries > rows => {
                let entries = self.capacity.entries;
                let message = format!("{entries} entries do not fit {rows} rows");
                found.add(Part::Fails, message, "lower `capacity`");
            }
            _ => {}
        }
    }

    fn check_actions(&self, found: &mut Problems, declared: Option<QueueRange>) {
        if let Some(queues) = self.actions.queues {
            found.range(Part::Queues, queues, declared);
        }
        if self.actions == Actions::default() {
            let help = "add `action queue 0 .. 15`, or another action";
            found.add(Part::Whole, "a rule of this table can do nothing", help);
        }
    }

    fn check_ethtool(&self, found: &mut Problems, ethtool: &Ethtool) {
        if ethtool.flow_types.is_empty() {
            found.add(
                Part::Linux,
                "`ethtool` rules have a flow type",
                "add `types …`, or write `linux none`",
            );
        }
        let unknown = |t: &&FlowType| !self.flow_types.is_empty() && !self.flow_types.contains(t);
        if let Some(other) = ethtool.flow_types.iter().find(unknown) {
            let message = format!("Linux cannot expose {other}: the table has no such flow type");
            found.add(Part::Linux, message, "");
        }
        for FieldMatch { field, granularity } in &ethtool.matches {
            let finer = match self.granularity(*field) {
                None => true,
                Some(own) => !covers(own, *granularity),
            };
            if finer {
                let message = "`ethtool` cannot match a field more finely than the table does";
                found.add(Part::Linux, message, "");
            }
        }
        if ethtool.limit == Some(0) {
            found.add(Part::Linux, "a limit of 0 exposes nothing", "write `linux none`");
        }
        if ethtool.locations == Some(0) {
            found.add(Part::Linux, "a device of 0 locations takes no rule", "write `linux none`");
        }
        if ethtool.context && !self.actions.context {
            let message = "Linux cannot spread by a context if the table cannot";
            found.add(Part::Linux, message, "add `action context`");
        }
        if ethtool.context_types.iter().any(|t| !ethtool.flow_types.contains(t)) {
            let message = "rules that spread by a context are of types that Linux does not take";
            found.add(Part::Linux, message, "list the types before");
        }
        if ethtool.drop && !self.actions.drop {
            found.add(Part::Linux, "Linux cannot drop what the table cannot", "add `action drop`");
        }
    }
}

impl RssModel {
    /// Everything that is impossible about the spreading on its own.
    pub fn check(&self) -> Vec<Problem> {
        self.checked(None)
    }

    /// The same check for a NIC with these queues.
    pub fn check_for(&self, queues: Queues) -> Vec<Problem> {
        self.checked(Some(queues.all))
    }

    fn checked(&self, declared: Option<QueueRange>) -> Vec<Problem> {
        let mut found = Problems(Vec::new());
        if matches!(self.hash, RssHash::Toeplitz { key_len: 0, .. }) {
            found.add(Part::Hash, "a key of 0 bytes hashes nothing", "");
        }
        if self.entries == 0 {
            found.add(Part::Entries, "a table of 0 entries spreads nothing", "");
        }
        found.range(Part::Queues, self.queues, declared);
        if let Some(queue) = self.unhashed
            && declared.is_some_and(|all| !all.contains(queue))
        {
            found.add(
                Part::Unhashed,
                format!("queue {queue} of unhashed packets is not declared"),
                "",
            );
        }
        for (i, RssType { flow_type, choices }) in self.types.iter().enumerate() {
            if self.types[..i].iter().any(|t| t.flow_type == *flow_type) {
                let message = format!("the flow type {flow_type} is listed twice");
                found.add(Part::Hashed(i), message, "keep one of the two");
            }
            check_choices(&mut found, i, *flow_type, choices);
        }
        found.0
    }
}

fn check_choices(found: &mut Problems, i: usize, flow_type: FlowType, choices: &[RssFields]) {
    let part = Part::Hashed(i);
    if choices.is_empty() {
        found.add(
            part,
            format!("nothing is said about {flow_type}"),
            "write `none` if it is not hashed",
        );
    }
    if let Some(twice) = repeated(choices) {
        found.add(part, format!("`{}` is listed twice", twice.name()), "");
    }
    let possible = |fields: &RssFields| match fields {
        RssFields::FourTuple => flow_type.protocol().is_some(),
        RssFields::Addresses => flow_type.ip_version().is_some(),
        RssFields::None => true,
    };
    if let Some(other) = choices.iter().find(|c| !possible(c)) {
        let message = format!("packets of type {flow_type} have no {}", other.name());
        found.add(part, message, "write fields that they have");
    }
}

/// Whether rules of granularity `own` can do all that those of `other` can.
fn covers(own: Granularity, other: Granularity) -> bool {
    let reach = |g| match g {
        Granularity::Exact => 0,
        Granularity::Whole => 1,
        Granularity::Prefix => 2,
        Granularity::Bits => 3,
    };
    reach(other) <= reach(own)
}

fn repeated<T: PartialEq>(items: &[T]) -> Option<&T> {
    items.iter().enumerate().find(|(i, item)| items[..*i].contains(item)).map(|(_, item)| item)
}

fn list(types: &[FlowType]) -> String {
    types.iter().map(|t| t.name()).collect::<Vec<_>>().join(" ")
}
