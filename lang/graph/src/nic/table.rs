//! Filter tables: the matches that a rule may contain, how many rules fit, and which of two that match
//! wins.

use super::{FlowType, FormsByType, KnownForms, QueueRange};
use crate::Field;

/// A table of steering rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableModel {
    /// The fields that a rule may match.
    pub matches: Vec<FieldMatch>,
    /// A rule is of exactly one of these; when there are none, a rule has no type.
    pub flow_types: Vec<FlowType>,
    /// Packets of a flow type that its rules do not match, because they are of these other types: a rule
    /// of `ip4` may leave out all TCP. No entry: rules match all packets of their type.
    pub without: Vec<Without>,
    /// The forms of packets that its rules match, as far as they are known.
    pub forms: KnownForms,
    /// The forms of which nothing is known in this table or another of the same NIC: plans claim nothing about
    /// them. Whoever joins tables to a NIC fills it in.
    pub unclaimed: FormsByType,
    /// The rules that have to agree on their masks.
    pub mask_scope: MaskScope,
    /// The number of rules that fit.
    pub capacity: Capacity,
    /// The order of precedence among rules that match a packet.
    pub order: TableOrder,
    /// Whether a rule may be refused although the table is not full.
    pub fails: Failure,
    /// The actions that a rule can have.
    pub actions: Actions,
    /// The part of the table that Linux exposes.
    pub linux: Exposure,
}

/// A gap in a flow type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Without {
    /// The type of the rules.
    pub flow_type: FlowType,
    /// The types of the packets that they do not match.
    pub packets: Vec<FlowType>,
}

/// A field that rules of a table may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldMatch {
    /// The field.
    pub field: Field,
    /// The possible masks of the field.
    pub granularity: Granularity,
}

/// The possible masks of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// The whole field or no bit of it.
    Whole,
    /// Any bits.
    Bits,
    /// The highest bits, in any number.
    Prefix,
    /// The whole field, in every rule for packets that have the field.
    Exact,
}

/// The rules that have to agree on their masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskScope {
    /// None: each has its own masks.
    Rule,
    /// The rules of one flow type.
    FlowType,
    /// All rules of the device's port.
    Link,
}

/// The number of rules that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The number of entries.
    pub entries: u32,
    /// The full name of the table that owns the entries, if the table has none of its own.
    pub shared_with: Option<String>,
    /// The entries that a rule takes, if not one; the first that applies counts.
    pub costs: Vec<Cost>,
}

/// The part of a table's capacity that some rules take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The number of entries.
    pub entries: u32,
    /// The rules that have this cost.
    pub when: CostScope,
}

/// The rules to which a [`Cost`] applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostScope {
    /// All rules.
    Always,
    /// The rules of these flow types.
    Types(Vec<FlowType>),
    /// All rules while a condition outside the rules holds, such as a configured tunnel.
    Said(String),
}

/// The order of precedence among rules that match a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableOrder {
    /// The one with the larger priority; then the earlier one.
    Priority {
        /// The lowest priority.
        lo: u32,
        /// The highest.
        hi: u32,
    },
    /// The rule that tests more bits; then the earlier one.
    MoreSpecific,
    /// The rule that tests more fields, however many bits of them; then the earlier one.
    MoreFields,
    /// The one with the lower location, which the user chooses.
    Location,
    /// The rule that was inserted first.
    Insertion,
}

/// Whether a rule may be refused although the table is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No rule is refused before the table is full.
    Never,
    /// The table is an open hash that gives up after some probes.
    Hash {
        /// The number of rows.
        rows: u32,
        /// The number of rows that are tried for a rule.
        probes: u32,
    },
}

/// An action of a rule on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Actions {
    /// Send it to one of these queues.
    pub queues: Option<QueueRange>,
    /// Drop it.
    pub drop: bool,
    /// Spread it by an RSS context.
    pub context: bool,
    /// Leave it to the tables that follow.
    pub none: bool,
}

/// The use of a table that Linux allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Nothing.
    None,
    /// Rules of `ethtool -N`.
    Ethtool(Ethtool),
}

/// How Linux exposes a table as `ethtool -N` rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethtool {
    /// The flow types that it takes.
    pub flow_types: Vec<FlowType>,
    /// The fields and masks that it takes, if fewer than the table's.
    pub matches: Vec<FieldMatch>,
    /// The side that chooses a rule's location.
    pub location: Location,
    /// How many rules it takes, if fewer than fit.
    pub limit: Option<u32>,
    /// The number of rules that all tables exposed by Linux take together, if it is less than the
    /// tables' own limits. Linux numbers the rules of a device once, over all tables.
    pub locations: Option<u32>,
    /// Whether it takes rules that drop.
    pub drop: bool,
    /// Whether it takes rules that spread by a context.
    pub context: bool,
    /// The flow types of such rules, if not all.
    pub context_types: Vec<FlowType>,
}

/// The side that chooses a rule's location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// The driver, if the user wants that.
    Any,
    /// Always the user.
    Mandatory,
}

impl Granularity {
    /// Every granularity.
    pub const ALL: [Granularity; 4] =
        [Granularity::Whole, Granularity::Bits, Granularity::Prefix, Granularity::Exact];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Granularity::Whole => "whole",
            Granularity::Bits => "bits",
            Granularity::Prefix => "prefix",
            Granularity::Exact => "exact",
        }
    }

    /// Whether a rule may look at the bits `mask` of `field`.
    pub fn allows(self, field: Field, mask: u128) -> bool {
        let full = field.full_mask();
        if mask & !full != 0 {
            return false;
        }
        match self {
            Granularity::Bits => true,
            Granularity::Whole => mask == 0 || mask == full,
            Granularity::Exact => mask == full,
            // The bits that are not looked at are the lowest ones.
            Granularity::Prefix => (!mask & full) & (!mask & full).wrapping_add(1) == 0,
        }
    }
}

impl Capacity {
    /// The number of entries that a rule of `flow_type` takes; `holds` evaluates a condition that no
    /// rule can express.
    pub fn cost(&self, flow_type: Option<FlowType>, holds: impl Fn(&str) -> bool) -> u32 {
        let applies = |cost: &&Cost| match &cost.when {
            CostScope::Always => true,
            CostScope::Types(types) => flow_type.is_some_and(|t| types.contains(&t)),
            CostScope::Said(condition) => holds(condition),
        };
        self.costs.iter().find(applies).map_or(1, |c| c.entries)
    }
}

impl TableModel {
    /// How the table matches `field`, if it does.
    pub fn granularity(&self, field: Field) -> Option<Granularity> {
        self.matches.iter().find(|m| m.field == field).map(|m| m.granularity)
    }

    /// The fields that a rule of `flow_type` may match. Ports belong to the flow types of
    /// transports, if the table has those; otherwise to the type of their IP version.
    pub fn fields_of(&self, flow_type: Option<FlowType>) -> impl Iterator<Item = FieldMatch> + '_ {
        let transports = self.flow_types.iter().any(|t| t.protocol().is_some());
        self.matches.iter().copied().filter(move |m| match flow_type {
            None => true,
            Some(t) => {
                let port = matches!(m.field, Field::L4Src | Field::L4Dst | Field::TcpFlags);
                t.leaves_open(m.field) && !(port && transports && t.protocol().is_none())
            }
        })
    }

    /// The types of the packets that rules of `flow_type` do not match although these are of that type.
    pub fn left_out(&self, flow_type: FlowType) -> impl Iterator<Item = FlowType> + '_ {
        let gaps = self.without.iter().filter(move |w| w.flow_type == flow_type);
        gaps.flat_map(|w| w.packets.iter().copied())
    }

    /// Whether rules of a flow type may spread by a context. Limits of Linux count for all, since a plan that nobody can
    /// bring to a device has no use for more.
    pub fn spreads(&self, flow_type: Option<FlowType>) -> bool {
        let is_taken = match &self.linux {
            Exposure::Ethtool(ethtool) if !ethtool.context_types.is_empty() => {
                flow_type.is_some_and(|t| ethtool.context_types.contains(&t))
            }
            _ => true,
        };
        self.actions.context && is_taken
    }

    /// The table as Linux exposes it, or nothing if it does not.
    pub fn as_linux(&self) -> Option<TableModel> {
        let Exposure::Ethtool(ethtool) = &self.linux else { return None };
        let mut seen = self.clone();
        seen.flow_types.clone_from(&ethtool.flow_types);
        if !ethtool.matches.is_empty() {
            seen.matches.clone_from(&ethtool.matches);
        }
        if let Some(limit) = ethtool.limit {
            seen.capacity.entries = seen.capacity.entries.min(limit);
        }
        seen.actions.drop &= ethtool.drop;
        seen.actions.context &= ethtool.context;
        Some(seen)
    }
}
