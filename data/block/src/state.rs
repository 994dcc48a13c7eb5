//! Where the state of a block lives when several workers run its graph.

/// How the state of a block type lives (DESIGN §4.4). Every worker has a block of its own for each
/// node, and this says which tasks that block sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StateKind {
    /// There is none.
    #[default]
    None,
    /// Each worker's block has its own, or all of them look at one that the environment shares. Any
    /// worker may run it for any packet.
    Replicated,
    /// Each worker's block has that of the flows which its queues receive. A flow stays with its
    /// worker as long as the device sends it there.
    Sharded,
    /// There is one, at the node's home: tasks for it are handed over to that worker.
    SingleHomed,
}

impl StateKind {
    /// Its name in the manual.
    pub fn name(self) -> &'static str {
        match self {
            StateKind::None => "none",
            StateKind::Replicated => "replicated",
            StateKind::Sharded => "sharded",
            StateKind::SingleHomed => "single-homed",
        }
    }
}
