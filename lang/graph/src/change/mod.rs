//! Changes of a graph, as data (design/0000 §4.4; Dragonet thesis §3.5).
//!
//! A running graph is never edited. A [`ChangeSet`] lists the differences, by names, so that
//! it means the same on every worker; [`apply`] makes the graph that results, which then is verified
//! as a whole like any other. [`diff`] finds the change set that leads from one graph to another.
//! Both are pure: a wrong change is found before anything has happened.

mod apply;
mod diff;
mod error;

use crate::{Node, Predicate};

pub use apply::apply;
pub use diff::{diff, same_implementation};
pub use error::ChangeError;

/// The point at which an edge leaves its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outlet {
    /// Dataflow, at the port of this name.
    Port(String),
    /// The spawn edge with this label.
    Spawn(String),
    /// The notify edge with this label.
    Notify(String),
}

impl Outlet {
    /// The port called `name`.
    pub fn port(name: impl Into<String>) -> Outlet {
        Outlet::Port(name.into())
    }

    /// The spawn edge labelled `label`.
    pub fn spawn(label: impl Into<String>) -> Outlet {
        Outlet::Spawn(label.into())
    }

    /// The notify edge labelled `label`.
    pub fn notify(label: impl Into<String>) -> Outlet {
        Outlet::Notify(label.into())
    }
}

/// An edge, by the names of its ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeName {
    /// The node it starts at.
    pub from: String,
    /// The point at which it leaves that node.
    pub at: Outlet,
    /// The node it leads to.
    pub to: String,
}

impl EdgeName {
    /// The edge from `from`, left at `at`, to `to`.
    pub fn new(from: impl Into<String>, at: Outlet, to: impl Into<String>) -> EdgeName {
        EdgeName { from: from.into(), at, to: to.into() }
    }
}

/// The treatment of tasks that wait at a removed node: queued, delayed or blocked there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// They are dropped and counted.
    #[default]
    Drop,
    /// They start at the node of this name instead.
    To(String),
}

/// The treatment of a block's state when the block is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// The new block is offered it.
    #[default]
    Keep,
    /// The new block starts afresh.
    Drop,
}

/// One step of a change. Steps are carried out in order, and none is seen without the others.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Gives the graph another name or other SMT-LIB declarations.
    Describe {
        /// The graph's name.
        name: String,
        /// Its declarations.
        helpers: Option<String>,
    },
    /// Adds a node, without its edges: ids mean nothing outside their graph.
    Add {
        /// The node.
        node: Box<Node>,
    },
    /// Removes a node and every edge from and to it.
    Remove {
        /// Its name.
        node: String,
        /// The destination of its waiting tasks.
        waiting: Waiting,
    },
    /// Adds an edge.
    Bind {
        /// The edge.
        edge: EdgeName,
        /// The conditions on packets that take it; for spawn and notify edges.
        predicates: Vec<Predicate>,
    },
    /// Removes an edge.
    Unbind {
        /// The edge.
        edge: EdgeName,
    },
    /// Adds a node in the middle of a dataflow edge: the edge then leads to the node, and the node's
    /// port to where the edge has led.
    Splice {
        /// The node.
        node: Box<Node>,
        /// The port by which packets go on.
        out: String,
        /// The edge.
        edge: EdgeName,
    },
    /// Gives the node of the same name other contents: kind, implementation, attributes, ports. Edges
    /// stay, except those of ports that it has no more.
    Replace {
        /// The node as it shall be.
        node: Box<Node>,
        /// Whether the new node takes over the state.
        state: Handover,
    },
    /// Sets a parameter of a node.
    Set {
        /// The node's name.
        node: String,
        /// The parameter.
        key: String,
        /// Its value.
        value: String,
    },
}

/// Changes that happen all together or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeSet {
    /// The steps, in order.
    pub changes: Vec<Change>,
}

impl ChangeSet {
    /// No change.
    pub fn new() -> ChangeSet {
        ChangeSet::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// The change set with one more step.
    #[must_use]
    pub fn and(mut self, change: Change) -> ChangeSet {
        self.changes.push(change);
        self
    }

    /// Adds a step that adds a node.
    #[must_use]
    pub fn insert(self, node: Node) -> ChangeSet {
        self.and(Change::Add { node: Box::new(node) })
    }

    /// Adds a step that removes a node.
    #[must_use]
    pub fn remove(self, node: impl Into<String>, waiting: Waiting) -> ChangeSet {
        self.and(Change::Remove { node: node.into(), waiting })
    }

    /// Adds a step that adds an edge.
    #[must_use]
    pub fn bind(self, edge: EdgeName) -> ChangeSet {
        self.and(Change::Bind { edge, predicates: Vec::new() })
    }

    /// Adds a step that removes an edge.
    #[must_use]
    pub fn unbind(self, edge: EdgeName) -> ChangeSet {
        self.and(Change::Unbind { edge })
    }

    /// Adds a step that puts `node` into a dataflow edge; packets leave it by its port `out`.
    #[must_use]
    pub fn splice(self, node: Node, out: impl Into<String>, edge: EdgeName) -> ChangeSet {
        self.and(Change::Splice { node: Box::new(node), out: out.into(), edge })
    }

    /// Adds a step that replaces the node of `node`'s name.
    #[must_use]
    pub fn replace(self, node: Node, state: Handover) -> ChangeSet {
        self.and(Change::Replace { node: Box::new(node), state })
    }

    /// Adds a step that sets a parameter.
    #[must_use]
    pub fn set(
        self,
        node: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> ChangeSet {
        self.and(Change::Set { node: node.into(), key: key.into(), value: value.into() })
    }
}
