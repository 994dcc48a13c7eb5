//! Why a table does not take a flow, and the limits that a device has shown by refusing rules and that
//! its model does not have.

use std::collections::HashMap;

use weever_graph::nic::{FlowType, Granularity, TableModel};
use weever_graph::{Field, Key};

use crate::config::Rule;
use crate::map::NewEntry;

/// Why a table does not take a flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The table has no queues to send to.
    #[error("its rules send packets to no queue")]
    NoQueues,
    /// The table's rules cannot drop.
    #[error("its rules cannot drop packets")]
    NoDrop,
    /// A rule that drops would match more than its flow.
    #[error("it cannot tell the flow apart, and its rule would drop packets of others")]
    DropsOthers,
    /// A rule that drops would take packets of another flow, which has no rule before it.
    #[error("its rule would drop packets of flow `{flow}`, for which no rule can come before it")]
    DropsFlow {
        /// The flow.
        flow: String,
    },
    /// Some packets of the flow are of no flow type of the table.
    #[error("it has no rules for packets of {}", names(missing, FlowType::name))]
    NoFlowType {
        /// The flow types of these packets.
        missing: Vec<FlowType>,
    },
    /// No rule of the table looks at these fields.
    #[error(
        "it cannot test {}: its rules would match packets of others",
        names(fields, Field::name)
    )]
    CannotTest {
        /// The fields.
        fields: Vec<Field>,
    },
    /// Its rules compare a field in another way than the flow needs.
    #[error("it can test `{field}` only {}: its rules would match packets of others", words(*granularity))]
    TooCoarse {
        /// The field.
        field: Field,
        /// How its rules compare the field.
        granularity: Granularity,
    },
    /// All fields can be tested, and a rule of this flow type matches other kinds of packets as well.
    #[error("its rules of `{flow_type}` match other kinds of packets than the flow's, too")]
    OtherKinds {
        /// The flow type.
        flow_type: FlowType,
    },
    /// The table wants a field that the flow leaves open.
    #[error("every rule has to say `{field}` exactly, and the flow leaves it open")]
    FieldOpen {
        /// The field.
        field: Field,
    },
    /// The table sees nothing by which the flow differs from all other traffic.
    #[error("it looks at none of the fields that tell the flow apart")]
    Indistinct,
    /// The flow would take too many rules.
    #[error("it takes more than {limit} rules to say")]
    TooManyRules {
        /// How many are allowed for one flow.
        limit: usize,
    },
    /// The table, or the pool that it draws on, is full.
    #[error("it is full: {needed} more of {capacity} entries are needed and {free} are left")]
    Full {
        /// How many entries the flow needs.
        needed: u32,
        /// The number of free entries.
        free: u32,
        /// The number of all entries.
        capacity: u32,
    },
    /// Linux numbers the rules of a device, and there are no more numbers.
    #[error("all {locations} locations that Linux has for rules of the device are taken")]
    NoLocation {
        /// The number of locations.
        locations: u32,
    },
    /// Other rules need other masks, and all rules of the table share one.
    #[error("its rules share one mask, and others use a different one")]
    MaskConflict,
    /// The hash gave up.
    #[error("its hash finds no free row in {probes} probes")]
    HashFull {
        /// The number of attempts.
        probes: u32,
    },
    /// An earlier rule takes these packets.
    #[error("an earlier rule, for flow `{flow}`, takes these packets")]
    Shadowed {
        /// The flow of that rule.
        flow: String,
    },
    /// An earlier rule of another program takes these packets.
    #[error("a rule that another program made takes these packets")]
    Foreign,
    /// No priority or location lies between the rules that have to come before and after.
    #[error("no place is left between rules that have to come before and after")]
    NoPlaceBetween,
    /// A rule for the same packets is there.
    #[error("flow `{flow}` has a rule for the same packets")]
    Duplicate {
        /// The flow of that rule.
        flow: String,
    },
    /// The table cannot express the flow exactly, and its closest rule catches many other flows.
    #[error("it cannot tell the flow apart: its rule would catch more than {limit} flows")]
    TooWide {
        /// How many flows a rule may catch that matches more than its own.
        limit: usize,
    },
    /// The device itself refused it.
    #[error("the device does not take its rule: {why}")]
    Device {
        /// Its message.
        why: String,
    },
    /// The search ran out of budget before it came to the flow.
    #[error("not tried: the search's budget of {steps} steps was used up by flows that overlap")]
    Budget {
        /// The budget.
        steps: u64,
    },
    /// The silicon could, but Linux does not expose the table.
    #[error("the NIC could, but Linux does not expose this table or this kind of rule")]
    NotExposed,
}

impl Refusal {
    /// Whether both can be counted as one in a summary.
    pub(crate) fn is_alike(&self, other: &Refusal) -> bool {
        let names = |r: &Refusal| {
            matches!(
                r,
                Refusal::NoFlowType { .. } | Refusal::CannotTest { .. } | Refusal::TooCoarse { .. }
            )
        };
        match names(self) {
            true => self == other,
            false => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

fn names<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> String {
    all.iter().map(|one| format!("`{}`", name(*one))).collect::<Vec<_>>().join(", ")
}

fn words(granularity: Granularity) -> &'static str {
    match granularity {
        Granularity::Bits => "by bits",
        Granularity::Prefix => "by prefix",
        Granularity::Whole | Granularity::Exact => "as a whole",
    }
}

/// More single rules of one kind are not refused one by one: the whole kind is.
const MOST_SINGLE: usize = 32;

/// The meaning of a refused rule for other rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing: it takes others that are like it.
    Rule,
    /// It takes no rule that tests the same bits.
    Kind,
    /// The table is full although its model has room left.
    Full {
        /// How many rules it takes, if that is known; otherwise it is one less than there are.
        room: Option<u32>,
    },
}

/// The table, flow type and masks of a rule.
type Kind = (usize, Option<FlowType>, Vec<u128>);

/// All that was learned. It holds for as long as the search lives.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Single refused rules, by their matched values.
    rules: HashMap<Kind, HashMap<Vec<u128>, String>>,
    kinds: HashMap<Kind, String>,
    /// The real capacity of a table, and the device's message.
    limits: HashMap<usize, (u32, String)>,
    /// The same for contexts.
    contexts: Option<(u32, String)>,
}

impl Learned {
    /// Takes in a refusal. Without the rule, its table has `left` rules.
    pub(crate) fn refuse(
        &mut self,
        model: &TableModel,
        rule: &NewEntry,
        what: Refused,
        left: u32,
        why: &str,
    ) {
        let (kind, values) = told(model, rule);
        match what {
            Refused::Full { room } => {
                let limit = room.unwrap_or(left).min(left);
                self.limits.insert(rule.table, (limit, why.into()));
            }
            Refused::Kind => drop(self.kinds.insert(kind, why.into())),
            Refused::Rule => {
                let single = self.rules.entry(kind.clone()).or_default();
                single.insert(values, why.into());
                if single.len() > MOST_SINGLE {
                    self.rules.remove(&kind);
                    self.kinds.insert(kind, why.into());
                }
            }
        }
    }

    /// Why the device would not take a rule, if that is known.
    pub(crate) fn objection(&self, model: &TableModel, rule: &NewEntry) -> Option<Refusal> {
        if self.rules.is_empty() && self.kinds.is_empty() {
            return None;
        }
        let (kind, values) = told(model, rule);
        let single = || self.rules.get(&kind)?.get(&values);
        let why = self.kinds.get(&kind).or_else(single)?;
        Some(Refusal::Device { why: why.clone() })
    }

    /// Limits the device's contexts to `limit`.
    pub(crate) fn limit_contexts(&mut self, limit: u32, why: &str) {
        self.contexts = Some((limit, why.into()));
    }

    /// The number of its contexts, if the model declares more.
    pub(crate) fn contexts(&self) -> Option<(u32, &str)> {
        self.contexts.as_ref().map(|(limit, why)| (*limit, why.as_str()))
    }

    /// The number of rules in a table, if its model declares more.
    pub(crate) fn limit(&self, table: usize) -> Option<(u32, &str)> {
        self.limits.get(&table).map(|(limit, why)| (*limit, why.as_str()))
    }
}

fn told(model: &TableModel, rule: &NewEntry) -> (Kind, Vec<u128>) {
    let said = Rule::of(model, rule.flow_type, &rule.conj);
    let (mask, value): (Vec<u128>, Vec<u128>) =
        said.keys.iter().map(|Key { mask, value }| (*mask, *value)).unzip();
    ((rule.table, rule.flow_type, mask), value)
}
