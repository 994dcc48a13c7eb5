//! The clauses of NIC models. Their values are those of the graph, as they were written.

use weever_graph::Field;
use weever_graph::nic::{
    Cost, Exposure, Failure, FieldMatch, FlowType, Form, MaskScope, QueueRange, RssHash, RssType,
    TableOrder, Without,
};

use super::text::{Comment, Comments, Loc, Reference, Text};

/// `WORD { … }`: lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<K> {
    /// The lines as written.
    pub lines: Vec<Line<K>>,
    /// The comments before the closing brace.
    pub tail: Vec<Comment>,
}

/// A line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<K> {
    /// Its contents.
    pub kind: K,
    /// The comments around it.
    pub comments: Comments,
    /// Its place in the source.
    pub loc: Loc,
}

/// A line of `table { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableLine {
    /// `types tcp4 udp4`.
    Types(Vec<FlowType>),
    /// `match FIELD GRANULARITY`.
    Match(FieldMatch),
    /// `without TYPES in TYPE`.
    Without(Without),
    /// `with FORMS [in TYPES]` and `without FORMS [in TYPES]`.
    Forms {
        /// Whether rules match them.
        matched: bool,
        /// The forms.
        forms: Vec<Form>,
        /// The types of the rules; of none, all of the table.
        flow_types: Vec<FlowType>,
    },
    /// `mask per SCOPE`.
    Mask(MaskScope),
    /// `capacity N [shared with NAME]`.
    Capacity {
        /// The number of entries.
        entries: u32,
        /// The table that shares them.
        shared_with: Option<Reference>,
    },
    /// `cost N per rule [when …]`.
    Cost(Cost),
    /// `priority …`.
    Order(TableOrder),
    /// `fails …`.
    Fails(Failure),
    /// `action …`.
    Action(Action),
    /// `linux …`.
    Linux(Exposure),
}

/// The words after `action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `queue LO .. HI`.
    Queue(QueueRange),
    /// `drop`.
    Drop,
    /// `context`.
    Context,
    /// `none`.
    None,
}

/// A line of `rss { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RssLine {
    /// `hash …`.
    Hash(RssHash),
    /// `entries N`.
    Entries(u32),
    /// `queues LO .. HI`.
    Queues(QueueRange),
    /// `contexts N`.
    Contexts(u32),
    /// `unhashed queue N`.
    Unhashed(u32),
    /// `tcp4 4tuple or 2tuple`.
    Hashed(RssType),
}

/// A line of `feature { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureLine {
    /// `ethtool "rx-checksum"`.
    Ethtool(Vec<Text>),
    /// `starts on` or `starts off`.
    Starts(bool),
    /// `vouches always "EXPR"` or `vouches each "EXPR"`.
    Vouches {
        /// Whether of every packet.
        always: bool,
        /// The predicate.
        text: Text,
    },
    /// `drops "EXPR"`.
    Drops(Text),
    /// `fills "EXPR"`.
    Fills(Text),
    /// `cuts tcp4 tcp6`.
    Cuts(Vec<FlowType>),
    /// `joins tcp4 tcp6`.
    Joins(Vec<FlowType>),
    /// `takes FIELD`.
    Takes(Field),
    /// `puts FIELD`.
    Puts(Field),
    /// `stamps`.
    Stamps,
}
