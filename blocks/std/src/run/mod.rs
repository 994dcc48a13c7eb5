//! Runs of nodes compiled together from the predicates of their ports.
//!
//! ```text
//!  start ─► facts ─► next node: do its predicates follow? ── yes ─► it is passed, by that port
//!                      ▲                └─ no ─► a tile whose outcomes decide it (or its own tests) ─┐
//!                      └────────────────────── for each outcome: what is known besides ◄──────────────┘
//! ```
//!
//! The result is a tree of looks at a packet; each leaf is a way, that is the nodes passed with their ports. A
//! node can be passed if its text says all that it does (`BY_PREDICATE`), or if its block is listed in `rules`
//! with the metadata that it records. A run passes observers, too, and the engine shows them the packets that
//! passed them. A way ends at every other node: a NAT splits a run, and the next one begins behind it.

mod acts;
mod facts;
mod looks;
mod plan;
mod program;
mod rules;
mod tiles;

use std::sync::Arc;

use weever_block::{BlockType, CompiledRun, MAX_COUNTERS, NodeWay, RunCompiler, RunStart};

use plan::Planner;
use program::Program;

use crate::udp::VALID_CHECKSUM;

/// The fewest nodes with blocks of their own that the longest way of a run must pass: a shorter one costs as
/// much as the nodes.
const MIN_NODES: usize = 3;

/// The compiler of this crate's registry: programs that an interpreter runs for one packet after the other.
#[derive(Debug)]
pub struct Compiler;

impl RunCompiler for Compiler {
    fn compile(&self, start: &RunStart<'_>) -> Option<CompiledRun> {
        let tree = Planner::new(start)?.plan()?;
        let counts =
            |node| (start.type_of)(node).is_some_and(|of| std::ptr::eq(of, &VALID_CHECKSUM));
        let (program, ways, counters) = Program::of(tree, &counts);
        let tested = |node| !(start.type_of)(node).is_some_and(BlockType::is_observer);
        let passed = |way: &NodeWay| way.iter().filter(|(node, _)| tested(*node)).count();
        let longest = ways.iter().map(passed).max()?;
        // A run adds to so many counters only: where a graph checks datagrams at more nodes, there is none.
        let gains = longest >= MIN_NODES && counters.len() <= MAX_COUNTERS;
        gains.then(|| CompiledRun { ways, counters, program: Arc::new(program) })
    }

    fn before(&self, start: &RunStart<'_>) -> u64 {
        Planner::new(start).map_or(0, |planner| planner.recorded().into())
    }
}
