//! Limits that a device has shown by refusing rules, and that its model does not have.

use std::collections::HashMap;

use weever_graph::Key;
use weever_graph::nic::{FlowType, TableModel};

use super::Refusal;
use crate::config::Rule;
use crate::map::NewEntry;

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
