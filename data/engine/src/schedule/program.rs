//! The flat arrays. Compiled once, then only read.

use std::ops::Range;
use std::sync::Arc;

use weever_block::ShortcutType;
use weever_graph::NodeId;

use super::{Entry, Idp};
use crate::counters::Counter;
use crate::interpreter::Place;

/// The mask slot that is always empty.
pub(crate) const EMPTY_SLOT: u32 = 0;
/// The mask slot that holds the batch's tasks: the input of an entry's first step.
pub(crate) const TASKS_SLOT: u32 = 1;
/// Where the steps' slots begin.
pub(crate) const FIRST_STEP_SLOT: u32 = 2;

/// No node.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// Calls the node's block.
    Function,
    /// Evaluates an operator. `swap`: NAND and NOR, which exchange the ports.
    And { swap: bool },
    /// As [`StepKind::And`].
    Or { swap: bool },
}

/// One node in the order of one entry. Ranges index the program's arrays. From `place` on lie the
/// slots of its input and of its ports, in the order of the block type; from `counter` on its
/// counters, in the same order.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kind: StepKind,
    pub(crate) needs_buffer: bool,
    pub(crate) node: u32,
    /// The first slot that leads here and is not an operand's; few nodes have more.
    pub(crate) input: u32,
    pub(crate) more_inputs: Range<u32>,
    pub(crate) place: u32,
    pub(crate) ports: u32,
    pub(crate) operands: Range<u32>,
    pub(crate) counter: Counter,
    pub(crate) wakes: Range<u32>,
    pub(crate) drops: Range<u32>,
    /// What is tried first, in the program's `shortcuts`.
    pub(crate) shortcut: Option<u32>,
}

impl Step {
    /// Its slots: the input's and the ports'.
    #[inline]
    pub(crate) fn slots(&self) -> Range<usize> {
        self.place as usize..(self.place + 1 + self.ports) as usize
    }
}

/// An operand of an O-node: the mask slots in which its source node says true and false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) yes: u32,
    pub(crate) no: u32,
}

/// Which steps have something to do when tasks have left by a port: those of its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// The port's slot.
    pub(crate) slot: u32,
    /// Which word of [`Board::due`](super::Board) they are in, and their bits there. A port whose
    /// targets lie in two words has two of these.
    pub(crate) word: u32,
    pub(crate) steps: u64,
}

/// Steps of an entry that are in one word of the board's sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) word: u32,
    pub(crate) steps: u64,
}

/// A shortcut in an entry.
#[derive(Clone, Debug)]
pub(crate) struct ShortcutPlan {
    /// Which of the engine's shortcuts judges.
    pub(crate) number: u32,
    /// In the order in which it numbers them.
    pub(crate) ways: Range<u32>,
}

/// What it means that a task takes a way.
#[derive(Clone, Debug)]
pub(crate) struct WayPlan {
    /// The slots that it is in then: of the inputs and the ports of the steps that it passes.
    pub(crate) slots: Range<u32>,
    /// Those steps, and the ones that come next.
    pub(crate) passed: Range<u32>,
    pub(crate) ends: Range<u32>,
}

/// The steps that tasks of one start node walk.
#[derive(Clone, Debug)]
pub(crate) struct EntryPlan {
    /// [`NO_NODE`]: the node that the number stood for is gone, or is not part of this worker's graph.
    pub(crate) node: u32,
    /// The node's dispatch point.
    pub(crate) idp: Idp,
    /// The worker that alone runs it, if one does; without a node, the worker that has it.
    pub(crate) home: Option<u16>,
    pub(crate) steps: Range<u32>,
    /// How many mask slots it uses.
    pub(crate) slots: u32,
}

impl EntryPlan {
    /// The place of an entry whose node is gone. What starts here is dropped.
    pub(crate) fn hole() -> EntryPlan {
        EntryPlan { node: NO_NODE, idp: Idp::NONE, home: None, steps: 0..0, slots: FIRST_STEP_SLOT }
    }

    /// Whether there is no node here nor elsewhere.
    pub(crate) fn is_hole(&self) -> bool {
        self.node == NO_NODE && self.home.is_none()
    }
}

/// A port at which what nobody takes is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropSlot {
    pub(crate) slot: u32,
    pub(crate) reason: Counter,
}

/// Where a spawn edge leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnEdge {
    pub(crate) entry: Entry,
    pub(crate) spawned: Counter,
    pub(crate) full: Counter,
    /// Counts tasks that found the ring to another worker full.
    pub(crate) ring_full: Counter,
}

/// What is the same for a node in every entry. Edges are in the order of the block type.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) name: Arc<str>,
    /// The entry that starts here, if tasks can.
    pub(crate) entry: Option<Entry>,
    pub(crate) spawns: Box<[SpawnEdge]>,
    /// Where the tasks are blocked that the notify edges wake.
    pub(crate) notifies: Box<[Entry]>,
    /// The first of the block's own counters.
    pub(crate) own: Counter,
    pub(crate) no_buffer: Counter,
    pub(crate) outbox_full: Counter,
    pub(crate) block_full: Counter,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) entries: Vec<EntryPlan>,
    pub(crate) init: Vec<Entry>,
    pub(crate) steps: Vec<Step>,
    pub(crate) inputs: Vec<u32>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) wakes: Vec<Wake>,
    /// Where each shortcut begins.
    pub(crate) shortcut_types: Vec<(NodeId, &'static ShortcutType)>,
    pub(crate) shortcuts: Vec<ShortcutPlan>,
    /// `None`: the graph does not have that way.
    pub(crate) ways: Vec<Option<WayPlan>>,
    pub(crate) way_slots: Vec<u32>,
    pub(crate) way_steps: Vec<Steps>,
    pub(crate) drops: Vec<DropSlot>,
    pub(crate) nodes: Vec<NodePlan>,
    /// Where tasks of nodes go that are gone, the latest first.
    pub(crate) forwards: Vec<(Idp, Entry)>,
    /// Counts tasks whose node is gone; only used where graphs change or workers meet.
    pub(crate) dropped: Counter,
    /// Whether the graph is a part of that which the default worker runs.
    pub(crate) is_part: bool,
}

impl Program {
    pub(crate) fn entry(&self, node: &str) -> Option<Entry> {
        self.nodes.iter().find(|n| &*n.name == node)?.entry
    }

    pub(crate) fn steps(&self, entry: Entry) -> &[Step] {
        let steps = &self.entries[entry.index()].steps;
        &self.steps[steps.start as usize..steps.end as usize]
    }

    /// The worker that alone runs the node of `entry`, if one does.
    #[inline]
    pub(crate) fn home(&self, entry: Entry) -> Option<u16> {
        self.entries[entry.index()].home
    }

    /// What a place of this graph or an earlier one is here; `None`: its node is gone.
    pub(crate) fn at(&self, place: Place) -> Option<Entry> {
        let same = self.entries.get(place.entry.index()).is_some_and(|e| e.idp == place.idp);
        if same {
            return Some(place.entry);
        }
        let renumbered = || self.entries.iter().position(|e| e.idp == place.idp);
        let forwarded = || self.forwards.iter().find(|(idp, _)| *idp == place.idp);
        renumbered().map(|n| Entry(n as u32)).or_else(|| forwarded().map(|(_, entry)| *entry))
    }

    /// The most steps that any entry has.
    pub(crate) fn max_steps(&self) -> usize {
        self.entries.iter().map(|e| e.steps.len()).max().unwrap_or(0)
    }

    /// The most mask slots that any entry uses.
    pub(crate) fn max_slots(&self) -> usize {
        self.entries.iter().map(|e| e.slots as usize).max().unwrap_or(0)
    }
}

/// A range of positions in the program's arrays as indices.
#[inline]
pub(crate) fn span(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
