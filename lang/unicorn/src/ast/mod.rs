//! The syntax tree. It keeps the information for printing: the order of clauses, and comments.
//!
//! Two trees are equal when they say the same: places ([`Loc`]) do not count.

mod nic;
mod text;

use weever_graph::ConfigType;
use weever_graph::nic::Queues;

pub use nic::{Action, Block, FeatureLine, Line, RssLine, TableLine};
pub use text::{Comment, Comments, Ident, Loc, Raw, Reference, Text};

/// A whole file: one graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ast {
    /// The graph's name.
    pub name: Ident,
    /// SMT-LIB declarations.
    pub helpers: Option<Helpers>,
    /// Nodes and clusters.
    pub items: Vec<Item>,
    /// The comments before and after the graph.
    pub comments: Comments,
    /// The comments before the brace that closes the graph.
    pub tail: Vec<Comment>,
}

/// `helpers { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helpers {
    /// The script.
    pub body: Raw,
    /// The comments around it.
    pub comments: Comments,
}

/// An item of a graph or cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A node of any kind.
    Node(Node),
    /// A cluster.
    Cluster(Cluster),
}

/// `cluster NAME { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its own name.
    pub name: Ident,
    /// Nodes and clusters.
    pub items: Vec<Item>,
    /// The comments around it.
    pub comments: Comments,
    /// The comments before its closing brace.
    pub tail: Vec<Comment>,
}

/// The word that declares a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// `node`.
    Node,
    /// `boolean`.
    Boolean,
    /// `and`.
    And,
    /// `nand`.
    Nand,
    /// `or`.
    Or,
    /// `nor`.
    Nor,
    /// `config`.
    Config,
    /// `queues`: it has a range instead of a body.
    Queues(Queues),
}

impl NodeKind {
    /// Every kind that has a body.
    pub const ALL: [NodeKind; 7] = [
        NodeKind::Node,
        NodeKind::Boolean,
        NodeKind::And,
        NodeKind::Nand,
        NodeKind::Or,
        NodeKind::Nor,
        NodeKind::Config,
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            NodeKind::Node => "node",
            NodeKind::Boolean => "boolean",
            NodeKind::And => "and",
            NodeKind::Nand => "nand",
            NodeKind::Or => "or",
            NodeKind::Nor => "nor",
            NodeKind::Config => "config",
            NodeKind::Queues(_) => "queues",
        }
    }

    /// The kind with a body that `word` declares.
    pub fn from_word(word: &str) -> Option<NodeKind> {
        NodeKind::ALL.into_iter().find(|k| k.word() == word)
    }
}

/// `node NAME { … }`, or another kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Its own name.
    pub name: Ident,
    /// Its clauses as written.
    pub body: Vec<Clause>,
    /// The comments around it.
    pub comments: Comments,
    /// The comments before its closing brace.
    pub tail: Vec<Comment>,
}

/// One line of a node's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Its contents.
    pub kind: ClauseKind,
    /// The comments around it.
    pub comments: Comments,
    /// Its place in the source.
    pub loc: Loc,
}

/// The contents of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClauseKind {
    /// `port p q [A B]`.
    Port {
        /// The ports, possibly none.
        names: Vec<Ident>,
        /// The targets of each.
        targets: Vec<Reference>,
    },
    /// `spawn label Target [predicate "…"]`.
    Spawn {
        /// The edge's label.
        label: Ident,
        /// The node at which the task starts.
        target: Reference,
        /// The conditions on its packets.
        predicates: Vec<Text>,
    },
    /// `notify label Target`.
    Notify {
        /// The edge's label.
        label: Ident,
        /// The node at which tasks are blocked.
        target: Reference,
    },
    /// `effects reads …`.
    Effects(Vec<Ident>),
    /// `attr "text"`.
    Attr(Text),
    /// `implementation Name`.
    Implementation(Ident),
    /// `function name`.
    Function(Ident),
    /// `type T`.
    Type(ConfigType),
    /// `table { … }`.
    Table(Block<TableLine>),
    /// `rss { … }`.
    Rss(Block<RssLine>),
    /// `feature { … }`.
    Feature(Block<FeatureLine>),
    /// `constraint port "EXPR"`.
    Constraint {
        /// The port.
        port: Ident,
        /// The condition there.
        text: Text,
    },
    /// `predicate port "EXPR"`.
    Predicate {
        /// The port.
        port: Ident,
        /// The condition there.
        text: Text,
    },
    /// `semantics p q { term }`.
    Semantics {
        /// The ports.
        ports: Vec<Ident>,
        /// The SMT-LIB term.
        body: Raw,
    },
}
