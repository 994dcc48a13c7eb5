//! Why a graph is no NIC.

/// Why [`Nic::of`](super::Nic::of) does not take a graph, or a view of a NIC cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NicError {
    /// No node is marked as the source.
    #[error("`{graph}` has no node with `attr \"source\"`, at which packets arrive")]
    NoSource {
        /// The graph.
        graph: String,
    },
    /// More than one node is marked as the source.
    #[error("`{first}` and `{second}` are both marked as the source; a NIC has one")]
    TwoSources {
        /// The first node.
        first: String,
        /// Another.
        second: String,
    },
    /// No node represents the queues.
    #[error("`{graph}` declares no queues; write for instance `queues Queue 0 .. 15`")]
    NoQueues {
        /// The graph.
        graph: String,
    },
    /// More than one node represents queues.
    #[error("`{first}` and `{second}` both declare queues; declare all of them in one")]
    TwoQueues {
        /// The first node.
        first: String,
        /// Another.
        second: String,
    },
    /// The node does not fit a pipeline.
    #[error("`{node}` does not fit the pipeline of a NIC: {reason}")]
    NotPipeline {
        /// The node.
        node: String,
        /// The property of the node that is unexpected.
        reason: String,
    },
    /// No packet can fulfil the table's conditions.
    #[error("the table `{table}` is impossible: {reason}")]
    Impossible {
        /// The table.
        table: String,
        /// Why.
        reason: String,
    },
    /// The NIC has fewer queues.
    #[error("`{nic}` has {has} queues{of}, not {wanted}")]
    QueueCount {
        /// The NIC.
        nic: String,
        /// The number it has.
        has: u32,
        /// The requested number.
        wanted: u32,
        /// The view in which they are missing, if that matters.
        of: &'static str,
    },
}
