//! Why a table does not take a flow.

use weever_graph::Field;

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
    /// No flow type of the table fits.
    #[error("it has no flow type for these packets")]
    NoFlowType,
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
