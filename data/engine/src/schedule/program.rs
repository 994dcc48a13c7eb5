//! The compiled graph, read-only after compilation: flat arrays for each entry, which the next graph
//! shares where nothing changes; and the masks that a batch writes.
//!
//! A node has a *place*: a number that it keeps from graph to graph, on every worker. Its block and its
//! plan are found there.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use weever_block::{BlockType, FlowOwners, RunProgram};
use weever_graph::{NodeId, Verified};
use weever_packet::Mask;

use super::ids::{Entry, EntryNumbers, Idp, NodeRef, Places};
use crate::slots::{Counter, Label, Layout, NodeCounters, WayCounters};

/// The mask slot that is always empty.
pub(crate) const EMPTY_SLOT: u32 = 0;
/// The mask slot that holds the batch's tasks: the input of an entry's first step.
pub(crate) const TASKS_SLOT: u32 = 1;
/// Where the steps' slots begin.
pub(crate) const FIRST_STEP_SLOT: u32 = 2;

/// No node.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// Calls the node's block.
    Function,
    /// The same, for tasks of flows that this worker owns.
    Sharded,
    /// Evaluates an operator. `swap`: NAND and NOR, which exchange the ports.
    And { swap: bool },
    /// As [`StepKind::And`].
    Or { swap: bool },
}

/// One node in the order of one entry. Ranges index the entry's arrays. From `first_slot` on are
/// the slots of its input and ports, in the order of the block type; from `counter` on the
/// counters, in the same order, followed by that of tasks without a packet.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kind: StepKind,
    pub(crate) needs_buffer: bool,
    /// Its place.
    pub(crate) node: u32,
    /// The first input slot that is not an operand's; few nodes have more.
    pub(crate) input: u32,
    pub(crate) more_inputs: Range<u32>,
    pub(crate) first_slot: u32,
    pub(crate) ports: u32,
    pub(crate) operands: Range<u32>,
    pub(crate) counter: Counter,
    pub(crate) wakes: Range<u32>,
    pub(crate) drops: Range<u32>,
    /// The shortcut to try first, in the entry's `shortcuts`.
    pub(crate) shortcut: Option<u32>,
}

impl Step {
    /// Its slots: the input's and the ports'.
    #[inline]
    pub(crate) fn slots(&self) -> Range<usize> {
        self.first_slot as usize..(self.first_slot + 1 + self.ports) as usize
    }
}

/// An operand of an O-node: the slots of its source node's true and false ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) yes: u32,
    pub(crate) no: u32,
}

/// The steps that are due when tasks have left by a port: those of its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// The port's slot.
    pub(crate) slot: u32,
    /// The word of [`TaskMasks::due`](super::TaskMasks) and the bits in it. A port whose targets
    /// are in two words has two of these.
    pub(crate) word: u32,
    pub(crate) steps: u64,
}

/// Where all tasks of a batch are when they have left by the same port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Next {
    pub(crate) place: NextPlace,
    /// The operators that have decided on the way there: the step, and the offset of the port's slot.
    pub(crate) through: Range<u32>,
}

/// See [`Next`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NextPlace {
    /// At this step, and nowhere else.
    Step(u32),
    /// At their end.
    End,
    /// At several steps, or at an operator that has not decided: their masks tell.
    #[default]
    Masks,
}

/// Steps of an entry that share a word in [`TaskMasks`](super::TaskMasks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) word: u32,
    pub(crate) steps: u64,
}

/// Where a shortcut begins, and the program of the run from which a worker gets one.
#[derive(Clone, Debug)]
pub(crate) struct ShortcutSource {
    /// The place of the node.
    pub(crate) place: u32,
    pub(crate) program: Arc<dyn RunProgram>,
}

/// What compiling at a node has found; the next graph takes it over while nothing has changed behind the node.
#[derive(Clone, Debug)]
pub(crate) struct KnownRun {
    /// What it depended on [before](weever_block::RunCompiler::before) the node.
    pub(crate) before: u64,
    /// The run, with places for nodes; `None`: nothing is gained there.
    pub(crate) found: Option<Run<u32>>,
}

/// A compiled run, with what stands for nodes: their numbers in a graph, or their places.
#[derive(Clone, Debug)]
pub(crate) struct Run<N> {
    /// The number of the shortcut.
    pub(crate) number: u32,
    /// By way, the nodes passed, each with the port by which it is left.
    pub(crate) ways: Arc<[Vec<(N, u32)>]>,
    /// The nodes whose own counters it adds to, each with the number of the counter.
    pub(crate) counters: Arc<[(N, u32)]>,
}

impl<N: Copy> Run<N> {
    /// The same run with other names of nodes; `None` if one has none.
    pub(crate) fn renamed<M>(&self, name: impl Fn(N) -> Option<M>) -> Option<Run<M>> {
        let rename = |(node, number): &(N, u32)| Some((name(*node)?, *number));
        let ways = self.ways.iter().map(|way| way.iter().map(rename).collect::<Option<Vec<_>>>());
        Some(Run {
            number: self.number,
            ways: ways.collect::<Option<_>>()?,
            counters: self.counters.iter().map(rename).collect::<Option<_>>()?,
        })
    }
}

/// A shortcut in an entry.
#[derive(Clone, Debug)]
pub(crate) struct ShortcutPlan {
    /// The engine's shortcut that classifies the packets.
    pub(crate) number: u32,
    /// Its ways, in its own numbering.
    pub(crate) ways: Range<u32>,
    /// The counters of blocks that it adds to, likewise.
    pub(crate) counters: Range<u32>,
}

/// The effect of taking a way. Most of the steps that it passes are *inside* it: no other step looks
/// at their masks, so they have none for these tasks, and one counter counts for all of them. The
/// steps at its border have masks as if they had run.
#[derive(Clone, Debug)]
pub(crate) struct WayPlan {
    /// Counts the tasks for the steps inside.
    pub(crate) counter: Counter,
    /// The input and port slots of the steps at the border.
    pub(crate) slots: Range<u32>,
    /// The steps at the border, and those of them that have ports where packets end.
    pub(crate) passed: Range<u32>,
    pub(crate) ending: Range<u32>,
    /// The steps that come next.
    pub(crate) ends: Range<u32>,
    /// The observers on the way, which must see its packets.
    pub(crate) observers: Range<u32>,
    /// The step that comes next, if there is no other and it needs no masks of steps at the border, and the
    /// counter of tasks for all steps of the way.
    pub(crate) whole: Option<(u32, Counter)>,
}

/// The steps that tasks of one start node walk, as flat arrays.
#[derive(Debug, Default)]
pub(crate) struct EntryCode {
    pub(crate) steps: Vec<Step>,
    pub(crate) inputs: Vec<u32>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) wakes: Vec<Wake>,
    pub(crate) drops: Vec<DropSlot>,
    /// By slot: meaningful for those of ports of functions.
    pub(crate) next: Vec<Next>,
    pub(crate) through: Vec<(u32, u32)>,
    pub(crate) shortcuts: Vec<ShortcutPlan>,
    /// `None`: the way does not exist in this graph.
    pub(crate) ways: Vec<Option<WayPlan>>,
    pub(crate) shortcut_counters: Vec<Counter>,
    pub(crate) way_slots: Vec<u32>,
    pub(crate) way_steps: Vec<Steps>,
    pub(crate) observers: Vec<u32>,
    pub(crate) way_counters: Arc<WayCounters>,
    /// How many mask slots it uses.
    pub(crate) slots: u32,
}

impl EntryCode {
    /// No steps.
    pub(crate) fn none() -> EntryCode {
        EntryCode { slots: FIRST_STEP_SLOT, ..EntryCode::default() }
    }
}

/// A node at which tasks may start.
#[derive(Clone, Debug)]
pub(crate) struct EntryPlan {
    /// Its place; [`NO_NODE`] if the node was removed, or is not in this worker's part of the graph.
    pub(crate) node: u32,
    /// The node's dispatch point.
    pub(crate) idp: Idp,
    /// The only worker that runs the node, if there is one; without a node, the worker that has it.
    pub(crate) home: Option<u16>,
    pub(crate) code: Arc<EntryCode>,
}

impl EntryPlan {
    /// The entry of a removed node. Tasks that start here are dropped.
    pub(crate) fn unused(code: &Arc<EntryCode>) -> EntryPlan {
        EntryPlan { node: NO_NODE, idp: Idp::NONE, home: None, code: code.clone() }
    }

    /// Whether no worker has the node.
    pub(crate) fn is_unused(&self) -> bool {
        self.node == NO_NODE && self.home.is_none()
    }
}

/// A port at which unclaimed packets are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropSlot {
    pub(crate) slot: u32,
    pub(crate) reason: Counter,
    pub(crate) end: End,
}

/// Why a packet ends at a port, in the order in which one that left by several is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The graph states a drop reason.
    Stated,
    /// The graph says that packets have done their duty here (`ends=PORT`).
    Used,
    /// The port leads nowhere.
    Nowhere,
}

/// Where a spawn edge leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnEdge {
    pub(crate) entry: Entry,
    pub(crate) spawned: Counter,
    pub(crate) full: Counter,
    /// Counts tasks dropped because the ring to another worker was full.
    pub(crate) ring_full: Counter,
}

/// The properties of a node that all entries share. Edges are in the order of the block type.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) name: Arc<str>,
    pub(crate) place: u32,
    pub(crate) block_type: Option<&'static BlockType>,
    /// The entry of this node, if it has one.
    pub(crate) entry: Option<Entry>,
    /// For each port of the graph's node, the number that the block gives it.
    pub(crate) ports: Box<[u32]>,
    /// Per port, in the block's numbering: the counter of packets that end there, and why they do.
    pub(crate) drops: Box<[Option<(Counter, End)>]>,
    pub(crate) needs_buffer: bool,
    pub(crate) spawns: Box<[SpawnEdge]>,
    /// The entries at which tasks wait for the notify edges.
    pub(crate) notifies: Box<[Entry]>,
    pub(crate) counters: Arc<NodeCounters>,
    /// The first of the block's own counters.
    pub(crate) own: Counter,
    pub(crate) no_buffer: Counter,
    pub(crate) outbox_full: Counter,
    pub(crate) block_full: Counter,
    /// Where flows have an owner: the owners, and the counters of tasks handed over to them and of
    /// those that found the ring full.
    pub(crate) flows: Option<Box<FlowPlan>>,
}

impl NodePlan {
    /// Gives the counters, which had the node's own numbering, their slots.
    pub(crate) fn count_with(&mut self, counters: Arc<NodeCounters>) {
        let slot = |counter: &mut Counter| *counter = counters.first.plus(counter.index());
        for (counter, end) in self.drops.iter_mut().flatten() {
            if *end != End::Used {
                slot(counter);
            }
        }
        for edge in &mut self.spawns {
            [&mut edge.spawned, &mut edge.full, &mut edge.ring_full].into_iter().for_each(slot);
        }
        if let Some(flows) = &mut self.flows {
            [&mut flows.handed_over, &mut flows.ring_full].into_iter().for_each(slot);
        }
        let NodePlan { own, no_buffer, outbox_full, block_full, .. } = self;
        [own, no_buffer, outbox_full, block_full].into_iter().for_each(slot);
        self.counters = counters;
    }
}

/// The part of a node's plan for flows that have an owner.
#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    pub(crate) owners: Arc<FlowOwners>,
    pub(crate) handed_over: Counter,
    pub(crate) ring_full: Counter,
}

/// The program of a graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) entries: Vec<EntryPlan>,
    pub(crate) init: Vec<Entry>,
    /// By place; places of nodes that are not in this graph have the plan of another node.
    pub(crate) nodes: Vec<Arc<NodePlan>>,
    /// The shortcuts by number. One that an entry still uses keeps its number from graph to graph.
    pub(crate) shortcuts: Vec<Option<ShortcutSource>>,
    /// The compiled runs, by the place of their first nodes.
    pub(crate) runs: HashMap<u32, KnownRun>,
    /// The targets for tasks of removed nodes, the latest removal first.
    pub(crate) forwards: Vec<(Idp, Entry)>,
    /// Counts tasks whose node was removed; used only if the graph changes or there are several
    /// workers.
    pub(crate) dropped: Counter,
    /// The nodes whose flows have an owner.
    pub(crate) sharded: Vec<u32>,
}

impl Program {
    pub(crate) fn entry(&self, node: &str) -> Option<Entry> {
        let is = |entry: &&EntryPlan| {
            entry.node != NO_NODE && &*self.nodes[entry.node as usize].name == node
        };
        let entry = self.entries.iter().find(is)?;
        self.nodes[entry.node as usize].entry
    }

    pub(crate) fn steps(&self, entry: Entry) -> &[Step] {
        &self.entries[entry.index()].code.steps
    }

    /// The place of the node of `entry`; `None`: it is not in this part of the graph.
    #[inline]
    pub(crate) fn node_of(&self, entry: Entry) -> Option<u32> {
        Some(self.entries[entry.index()].node).filter(|node| *node != NO_NODE)
    }

    /// The only worker that runs the node of `entry`, if there is one.
    #[inline]
    pub(crate) fn home(&self, entry: Entry) -> Option<u16> {
        self.entries[entry.index()].home
    }

    /// The entry here of a node named by any worker; `None`: it was removed.
    pub(crate) fn at(&self, place: NodeRef) -> Option<Entry> {
        let same = self.entries.get(place.entry.index()).is_some_and(|e| e.idp == place.idp);
        if same {
            return Some(place.entry);
        }
        let renumbered = || self.entries.iter().position(|e| e.idp == place.idp);
        let forwarded = || self.forwards.iter().find(|(idp, _)| *idp == place.idp);
        renumbered().map(|n| Entry(n as u32)).or_else(|| forwarded().map(|(_, entry)| *entry))
    }

    /// Forgets the compiled runs that no entry uses any more, so that their numbers are free.
    pub(crate) fn forget_unused_runs(&mut self) {
        let plans = self.entries.iter().flat_map(|entry| &entry.code.shortcuts);
        let used: HashSet<u32> = plans.map(|plan| plan.number).collect();
        for (number, source) in (0..).zip(&mut self.shortcuts) {
            if !used.contains(&number) {
                *source = None;
            }
        }
        self.runs.retain(|_, run| run.found.as_ref().is_none_or(|run| used.contains(&run.number)));
    }

    /// The most steps that any entry has.
    pub(crate) fn max_steps(&self) -> usize {
        self.entries.iter().map(|e| e.code.steps.len()).max().unwrap_or(0)
    }

    /// The most mask slots that any entry uses.
    pub(crate) fn max_slots(&self) -> usize {
        self.entries
            .iter()
            .map(|e| e.code.slots as usize)
            .max()
            .unwrap_or(0)
            .max(FIRST_STEP_SLOT as usize)
    }
}

/// A compiled graph, without blocks: the same for every worker that runs it.
#[derive(Debug)]
pub(crate) struct CompiledGraph {
    pub(crate) graph: Verified,
    pub(crate) program: Program,
    pub(crate) layout: Arc<Layout>,
    /// The same for every worker of a team.
    pub(crate) numbers: EntryNumbers,
    pub(crate) places: Arc<Places>,
    /// By node.
    pub(crate) nodes: Vec<Arc<NodePlan>>,
}

impl CompiledGraph {
    /// The entry of the node called `name`, here or on another worker.
    pub(crate) fn start_of(&self, name: &str) -> Option<Entry> {
        let entry = self.numbers.get(name)?;
        (!self.program.entries[entry.index()].is_unused()).then_some(entry)
    }

    /// The plan of the node called `name`.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<NodePlan>> {
        self.graph.find(name).map(|id| &self.nodes[id.index()])
    }

    /// Whether there is a counter of this name.
    pub(crate) fn counts(&self, label: &Label) -> bool {
        let node = self.node(&label.node);
        node.is_some_and(|node| node.counters.find(label.kind, &label.label, 0).is_some())
            || self.layout.has_other(label)
    }

    /// The node at a place, if it is of this graph.
    pub(crate) fn id_at(&self, place: u32) -> Option<NodeId> {
        let node = self.program.nodes.get(place as usize).filter(|node| node.place == place)?;
        self.graph.find(&node.name)
    }

    /// Every entry of this worker with its node's name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, Entry)> {
        let entries = self.program.entries.iter().enumerate();
        let entries = entries.filter(|(_, plan)| plan.node != NO_NODE);
        entries.map(|(i, plan)| {
            let name = &*self.program.nodes[plan.node as usize].name;
            (name, Entry(i as u32))
        })
    }
}

/// The tasks at each node and port. Empty between two batches: its last reader clears the written
/// masks, which are few, as most batches visit a small part of a graph.
#[derive(Debug, Default)]
pub(crate) struct TaskMasks {
    /// The tasks that reached each node and left by each port, by slot number.
    pub(crate) slots: Box<[Mask]>,
    /// The entry's steps that have tasks and have not run, one bit each.
    pub(crate) due: Box<[u64]>,
    /// The steps that tasks have passed, except those inside a way.
    pub(crate) passed: Box<[u64]>,
    /// The steps that tasks have left by a port where packets end unless another node takes them.
    pub(crate) ending: Box<[u64]>,
}

impl TaskMasks {
    pub(crate) fn new(program: &Program) -> TaskMasks {
        let steps = vec![0; program.max_steps().div_ceil(64)];
        TaskMasks {
            slots: vec![0; program.max_slots()].into(),
            due: steps.clone().into(),
            passed: steps.clone().into(),
            ending: steps.into(),
        }
    }
}

/// Converts a range of an entry's arrays to indices.
#[inline]
pub(crate) fn span(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
