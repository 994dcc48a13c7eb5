//! The configuration of a NIC: rules in its tables, and the spreading of the rest.

use weever_graph::nic::{FlowType, RssFields, RssModel, TableModel, TableOrder};
use weever_graph::{Field, Key};

use crate::flow::{Conj, Kinds, Values};
use crate::nic::Nic;

/// The destination of a rule's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Sends them to a queue.
    Queue(u32),
    /// Spreads them over the queues of a context: a position in [`Configuration::contexts`].
    Context(u32),
    /// Drops them.
    Drop,
}

/// A rule of a table. It matches the packets of its flow type that match all of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its flow type, if the table has flow types.
    pub flow_type: Option<FlowType>,
    /// One key per field of the table, in the table's order; a mask of 0 does not look.
    pub keys: Vec<Key>,
    /// The destination of its packets.
    pub target: Target,
    /// Its priority, for tables that have them; larger wins.
    pub priority: u32,
    /// Its location, for tables where it decides the order or Linux requires one; lower wins.
    pub location: u32,
}

/// A rule that somebody else made on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OthersRule {
    /// The table's position in the NIC.
    pub table: usize,
    /// The rule, at the location that it has.
    pub rule: Rule,
}

/// The spreading of packets that no rule matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// The queues that the hash points to, one for each entry of the model. Empty: all packets go to
    /// the default queue.
    pub table: Vec<u32>,
    /// The hash's key, if known. Without it, the queue of a hashed flow is unknown.
    pub key: Option<Vec<u8>>,
    /// The hashed fields, where they differ from the model's first choice.
    pub fields: Vec<(FlowType, RssFields)>,
}

/// The configuration of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The rules of each table of [`Nic::tables`], in the order of insertion.
    pub rules: Vec<Vec<Rule>>,
    /// The spreading of the rest.
    pub rss: Rss,
    /// Further tables of the hash, which rules may choose: the queues over which each spreads evenly.
    /// One without queues is not used.
    pub contexts: Vec<Vec<u32>>,
}

impl Configuration {
    /// How a context spreads: as the rest is, but over its own queues.
    pub fn context(&self, nic: &Nic, context: u32) -> Rss {
        let queues = self.contexts.get(context as usize).map_or(&[][..], |queues| queues);
        Rss { table: Rss::over(nic, queues, None).table, ..self.rss.clone() }
    }
}

impl Rss {
    /// Spreads evenly over `queues`, as far as the NIC's table can name them.
    pub fn over(nic: &Nic, queues: &[u32], key: Option<Vec<u8>>) -> Rss {
        let Some(model) = &nic.rss else { return Rss::default() };
        let named: Vec<u32> =
            queues.iter().copied().filter(|q| model.queues.contains(*q)).collect();
        Rss { table: Rss::table_over(&named, model.entries as usize), key, fields: Vec::new() }
    }

    /// The table of `entries` entries that `ethtool -X` makes for these queues, so that a plan with a known key
    /// holds for the commands that it prints: round robin over the first queues (`equal`), otherwise a block of
    /// entries for each queue (`weight`; `fill_indir_table` of the tool).
    pub fn table_over(queues: &[u32], entries: usize) -> Vec<u32> {
        let count = queues.len();
        if queues.iter().zip(0..).all(|(queue, nth)| *queue == nth) {
            return queues.iter().copied().cycle().take(entries).collect();
        }
        let mut table = Vec::with_capacity(entries);
        for (nth, queue) in queues.iter().enumerate() {
            table.resize(entries * (nth + 1) / count, *queue);
        }
        table
    }

    /// The queues of a table, in the order in which they come.
    pub fn queues_of(table: &[u32]) -> Vec<u32> {
        let mut queues = Vec::new();
        for queue in table {
            if !queues.contains(queue) {
                queues.push(*queue);
            }
        }
        queues
    }

    /// The same for its own table.
    pub fn queues(&self) -> Vec<u32> {
        Rss::queues_of(&self.table)
    }

    /// The fields that are hashed for packets of a flow type.
    pub fn fields_of(&self, model: &RssModel, flow_type: FlowType) -> RssFields {
        let chosen = self.fields.iter().find(|(t, _)| *t == flow_type);
        chosen.map_or_else(|| model.default_fields(flow_type), |(_, f)| *f)
    }
}

impl Rule {
    /// The packets that it matches.
    pub fn matches(&self, table: &TableModel) -> Conj {
        let kinds = Kinds::of_rules(table, self.flow_type);
        let asked = table.matches.iter().zip(&self.keys).filter(|(_, k)| k.mask != 0);
        let matched = asked.fold(Conj::of_kinds(kinds), |conj, (m, key)| {
            conj.having(Values::masked(m.field, key.mask, key.value))
        });
        matched.by_ports()
    }

    /// The number of bits that it looks at, those among them that its type decides: more bits make a rule more
    /// specific.
    pub fn bits(&self) -> u32 {
        let implied = self.flow_type.into_iter().flat_map(FlowType::implies);
        let of_type: u32 = implied.map(|(field, _)| field.bits()).sum();
        of_type + self.keys.iter().map(|k| k.mask.count_ones()).sum::<u32>()
    }

    /// A number for its type and masks: of rules that look at equally many bits, those with the lower number
    /// come first, so that rules with the same masks stay together.
    fn number_of_masks(&self) -> u32 {
        let of_type = self.flow_type.map_or(0, |t| 1 + t as u64);
        let words = self.keys.iter().flat_map(|k| [k.mask as u64, (k.mask >> 64) as u64]);
        let mix = |hash: u64, word: u64| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        words.fold(mix(0, of_type), mix) as u32
    }

    /// Its rank among the rules of its table; the lowest wins, and rules of equal rank win in the order
    /// of their insertion.
    pub fn rank(&self, order: TableOrder) -> i64 {
        match order {
            TableOrder::Priority { .. } => -i64::from(self.priority),
            TableOrder::MoreSpecific => {
                (-i64::from(self.bits()) << 32) + i64::from(self.number_of_masks())
            }
            TableOrder::MoreFields => -(self.keys.iter().filter(|k| k.mask != 0).count() as i64),
            TableOrder::Location => i64::from(self.location),
            TableOrder::Insertion => 0,
        }
    }

    /// The rule for a conjunction which `flow_type` and the table's fields can say.
    pub(crate) fn of(table: &TableModel, flow_type: Option<FlowType>, conj: &Conj) -> Rule {
        let given = |f: Field| flow_type.is_some_and(|t| t.implies().any(|(i, _)| i == f));
        let key = |field: Field| {
            if given(field) {
                return Key { mask: 0, value: 0 };
            }
            let said = conj.single(field).map(|value| Key { mask: field.full_mask(), value });
            let asked = conj.test(field).map(|v| Key { mask: v.mask, value: v.value });
            said.or(asked).unwrap_or(Key { mask: 0, value: 0 })
        };
        let keys = table.matches.iter().map(|m| key(m.field)).collect();
        let target = Target::Queue(0);
        Rule { flow_type, keys, target, priority: 0, location: 0 }
    }
}
