//! Which nodes run on one worker only.

use weever_block::{Registry, StateKind, WORKER};
use weever_graph::Node;

/// The home of what needs one and names none.
pub(crate) const DEFAULT: u16 = 0;

/// The workers of a stack, as far as graphs care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Homes {
    /// How many there are.
    pub(crate) workers: u16,
}

impl Homes {
    /// One worker, at which everything is at home.
    pub(crate) const ONE: Homes = Homes { workers: 1 };

    /// The worker that alone runs `node`: that of the attribute `worker=N`, or the default one for
    /// types whose state is single-homed. `None`: any worker runs it.
    pub(crate) fn of(self, node: &Node, registry: &Registry) -> Option<u16> {
        if self.workers < 2 {
            return None;
        }
        match node.param(WORKER).map(str::parse) {
            Some(Ok(worker)) => Some(worker),
            // Whoever checks the graph has said what is wrong with it.
            Some(Err(_)) => None,
            None => {
                let state = registry.type_of(node).map(|t| t.state).unwrap_or_default();
                (state == StateKind::SingleHomed).then_some(DEFAULT)
            }
        }
    }
}
