//! The findings of verification.

use crate::{NodeId, Span};

/// How much a [`Finding`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; often intended.
    Note,
    /// Probably a mistake, but the graph has a meaning.
    Warning,
    /// The graph cannot be executed.
    Error,
}

/// The subject of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Two nodes have the same full name.
    DuplicateName,
    /// Two ports of a node have the same name.
    DuplicatePort,
    /// An edge's target is not in the graph.
    DanglingEdge,
    /// Dataflow edges form a cycle.
    Cycle,
    /// A node's `true` and `false` are missing, not alone, or not at 1 and 0.
    BooleanPorts,
    /// An O-node's operand comes from a port that is neither `true` nor `false`.
    OperandPort,
    /// A C-node has no value yet.
    NotConfigured,
    /// A T-node's entries do not fit its fields, ports or capacity.
    BadTable,
    /// Two nodes with conflicting effects can run in one task, in no order.
    ConflictingEffects,
    /// A node may block its task while other nodes of the task are still to run.
    BlockingNotCut,
    /// An F-node can be enabled twice in one task.
    EnabledTwice,
    /// An `init` node has incoming dataflow edges.
    InitWithInput,
    /// An O-node without operands.
    NoOperands,
    /// An operand is connected by one of its two ports only.
    HalfOperand,
    /// An attribute without a meaning.
    UnknownAttribute,
    /// No task can reach the node.
    Unreachable,
    /// Packets end at a port for no stated reason.
    DeadEnd,
}

impl Kind {
    /// How much findings of this kind matter.
    pub fn severity(self) -> Severity {
        match self {
            Kind::EnabledTwice | Kind::InitWithInput | Kind::NoOperands => Severity::Warning,
            Kind::HalfOperand | Kind::UnknownAttribute | Kind::Unreachable | Kind::DeadEnd => {
                Severity::Note
            }
            _ => Severity::Error,
        }
    }
}

/// One result of verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its subject.
    pub kind: Kind,
    /// The node it is about.
    pub node: NodeId,
    /// Where that node was written; empty for a graph that was not read from text.
    pub span: Span,
    /// The fault, with names.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// A finding that makes a graph unfit for execution.
pub type GraphError = Finding;

impl Finding {
    /// The severity of the finding.
    pub fn severity(&self) -> Severity {
        self.kind.severity()
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Finding {}
