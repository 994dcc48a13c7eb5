//! The filters that can take TCP segments, and those among them that change.

use std::collections::HashMap;

use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};
use weever_plan::config::{Configuration, Rule, Target};
use weever_plan::flow::Conj;
use weever_plan::nic::{Nic, Table};
use weever_plan::watch::FiveTuple;

const TCP: u8 = 6;

/// A filter without its destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FilterId {
    table: usize,
    flow_type: Option<FlowType>,
    keys: Vec<Key>,
    priority: u32,
    location: u32,
}

/// A filter's packets and destination.
#[derive(Clone, Debug)]
struct Filter {
    packets: Conj,
    target: Target,
    /// The queues of a target that is a context.
    context: Vec<u32>,
}

/// The filters of a configuration that can take TCP segments.
#[derive(Debug, Default)]
pub(super) struct Filters(HashMap<FilterId, Filter>);

impl Filters {
    /// Those of a configuration.
    pub(super) fn of(nic: &Nic, configuration: &Configuration) -> Filters {
        let filter = |table: &Table, rule: &Rule| Filter {
            packets: rule.matches(&table.model),
            target: rule.target,
            context: match rule.target {
                Target::Context(context) => {
                    configuration.contexts.get(context as usize).cloned().unwrap_or_default()
                }
                Target::Queue(_) | Target::Drop => Vec::new(),
            },
        };
        let mut all = HashMap::new();
        for (number, (table, rules)) in nic.tables.iter().zip(&configuration.rules).enumerate() {
            for rule in rules.iter().filter(|rule| may_take_tcp(table, rule)) {
                let Rule { flow_type, keys, priority, location, .. } = rule.clone();
                let id = FilterId { table: number, flow_type, keys, priority, location };
                all.insert(id, filter(table, rule));
            }
        }
        Filters(all)
    }

    /// Whether a filter takes segments of more than one connection.
    pub(super) fn is_wide(nic: &Nic, table: usize, rule: &Rule) -> bool {
        let Some(table) = nic.tables.get(table) else { return false };
        may_take_tcp(table, rule) && FiveTuple::of(&rule.matches(&table.model)).is_none()
    }

    /// The packets of the filters that come, go, or change their destination towards `next`.
    pub(super) fn changes<'a>(&'a self, next: &'a Filters) -> impl Iterator<Item = Conj> + 'a {
        let differs = |one: &Filters, id: &FilterId, filter: &Filter| {
            let same =
                |other: &Filter| (other.target, &other.context) == (filter.target, &filter.context);
            !one.0.get(id).is_some_and(same)
        };
        let come = next.0.iter().filter(move |(id, filter)| differs(self, id, filter));
        let gone = self.0.iter().filter(|(id, _)| !next.0.contains_key(*id));
        come.chain(gone).map(|(_, filter)| filter.packets.clone())
    }
}

/// Whether a filter may take TCP segments. Sorts the many filters of other flows out before anything is made
/// of them.
fn may_take_tcp(table: &Table, rule: &Rule) -> bool {
    if let Some(protocol) = rule.flow_type.and_then(FlowType::protocol) {
        return protocol == TCP;
    }
    let is_protocol = |field| matches!(field, Field::Ip4Proto | Field::Ip6Next);
    let full = |field: Field, mask| mask == field.full_mask();
    let mut keys = table.model.matches.iter().zip(&rule.keys);
    keys.all(|(m, key)| {
        !is_protocol(m.field) || !full(m.field, key.mask) || key.value == TCP.into()
    })
}
