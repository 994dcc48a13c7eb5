//! Which counters there are, and where: each has a slot, the same in the cells of every engine of a team,
//! and keeps it for as long as its node is there with the same counters. So a change of the graph
//! touches the counters of the nodes that it touches, and no others.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The kinds of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CounterKind {
    /// A counter of the whole engine; the label names it.
    Total,
    /// Packets that reached a node.
    Packets,
    /// Packets that left by a port; the label is the port's name.
    Port,
    /// Tasks without a packet, such as timers, that reached a node.
    Timer,
    /// Tasks requested along a spawn edge, including those that were dropped because the queue was
    /// full; the label is the edge's.
    Spawned,
    /// Tasks dropped at a spawn edge because their queue was full; the label is the edge's.
    SpawnFull,
    /// Tasks dropped at a spawn edge because the ring to the worker that runs the target was full;
    /// the label is the edge's.
    RingFull,
    /// Packets that ended at a port and that no node took; the label is the reason that the graph
    /// states, or says that the port leads nowhere.
    Drop,
    /// Tasks without a buffer that reached a node which needs one.
    NoBuffer,
    /// Packets dropped at a node because the link's outbox was full, or the link does not exist.
    OutboxFull,
    /// Tasks dropped at a node because too many were blocked.
    BlockFull,
    /// A block's own counter; the label is its name.
    Own,
    /// Panics of a node's block. Only nodes whose block has panicked have this counter.
    Panics,
}

impl CounterKind {
    /// A short name for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            CounterKind::Total => "total",
            CounterKind::Packets => "packets",
            CounterKind::Port => "port",
            CounterKind::Timer => "timer",
            CounterKind::Spawned => "spawned",
            CounterKind::SpawnFull => "spawn_full",
            CounterKind::RingFull => "ring_full",
            CounterKind::Drop => "drop",
            CounterKind::NoBuffer => "no_buffer",
            CounterKind::OutboxFull => "outbox_full",
            CounterKind::BlockFull => "block_full",
            CounterKind::Own => "own",
            CounterKind::Panics => "panics",
        }
    }
}

/// The reason of drops at a port without targets for which the graph states none.
pub(crate) fn leads_nowhere(port: &str) -> String {
    format!("port `{port}` {LEADS_NOWHERE}")
}

const LEADS_NOWHERE: &str = "leads nowhere";

/// A counter's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Counter(u32);

impl Counter {
    pub(crate) fn at(slot: usize) -> Counter {
        Counter(slot as u32)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// The counter `n` slots further on.
    #[inline]
    pub(crate) fn plus(self, n: usize) -> Counter {
        Counter(self.0 + n as u32)
    }
}

/// The engine-wide counters, which come first.
pub(crate) mod total {
    use super::Counter;

    pub(crate) const TASKS: Counter = Counter(0);
    pub(crate) const BATCHES: Counter = Counter(1);
    pub(crate) const CONFLICTS: Counter = Counter(2);
    pub(crate) const UNCLAIMED: Counter = Counter(3);
    pub(crate) const BLOCKED: Counter = Counter(4);
    pub(crate) const DELAYED: Counter = Counter(5);
    pub(crate) const RELAY_FULL: Counter = Counter(6);
    pub(crate) const USED: Counter = Counter(7);
    pub(super) const NAMES: [&str; 8] = [
        "tasks",
        "batches",
        "conflicts",
        "unclaimed",
        "blocked_now",
        "delayed_now",
        "relay_full",
        "used",
    ];
}

/// A counter's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    pub(crate) node: Arc<str>,
    pub(crate) kind: CounterKind,
    pub(crate) label: Arc<str>,
}

impl Label {
    /// Whether it counts packets at a port that leads nowhere.
    fn is_of_open_port(&self) -> bool {
        self.kind == CounterKind::Drop && self.label.ends_with(LEADS_NOWHERE)
    }
}

/// The counters of a node, in slots that follow each other.
#[derive(Debug)]
pub(crate) struct NodeCounters {
    pub(crate) node: Arc<str>,
    pub(crate) labels: Box<[(CounterKind, Arc<str>)]>,
    pub(crate) first: Counter,
}

impl Default for NodeCounters {
    fn default() -> NodeCounters {
        NodeCounters { node: "".into(), labels: Box::default(), first: Counter(0) }
    }
}

impl NodeCounters {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Label, Counter)> + '_ {
        let named = |(i, (kind, label)): (usize, &(CounterKind, Arc<str>))| {
            let (node, kind, label) = (self.node.clone(), *kind, label.clone());
            (Label { node, kind, label }, self.first.plus(i))
        };
        self.labels.iter().enumerate().map(named)
    }

    /// The counter with this label, the `nth` of several: a node may state a reason at several ports.
    pub(crate) fn find(&self, kind: CounterKind, label: &str, nth: usize) -> Option<Counter> {
        let is = |(_, (k, l)): &(usize, &(CounterKind, Arc<str>))| *k == kind && **l == *label;
        self.labels.iter().enumerate().filter(is).nth(nth).map(|(i, _)| self.first.plus(i))
    }

    fn slots(&self) -> Range<u32> {
        self.first.0..self.first.0 + self.labels.len() as u32
    }
}

/// The counters of the ways of an entry: each way has a slot, which counts packets for every step inside
/// it at once.
#[derive(Debug, Default)]
pub(crate) struct WayCounters {
    pub(crate) first: Counter,
    /// By way, the counters that a packet which takes it counts for.
    pub(crate) of: Box<[Box<[Counter]>]>,
}

impl WayCounters {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Counter, &[Counter])> {
        self.of.iter().enumerate().map(|(i, counters)| (self.first.plus(i), &**counters))
    }

    fn slots(&self) -> Range<u32> {
        self.first.0..self.first.0 + self.of.len() as u32
    }
}

/// Assigns slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// The first slot and the number of each range in use.
    used: HashMap<u32, u32>,
    /// Ranges to be used again, by their length.
    free: HashMap<u32, Vec<u32>>,
    len: u32,
}

impl Slots {
    /// Only the engine-wide counters have theirs.
    pub(crate) fn new() -> Slots {
        Slots { used: HashMap::new(), free: HashMap::new(), len: total::NAMES.len() as u32 }
    }

    /// The slots of a layout are in use.
    #[cfg(test)]
    pub(crate) fn of(layout: &Layout) -> Slots {
        let used = layout.ranges().map(|range| (range.start, range.end - range.start)).collect();
        Slots { used, free: HashMap::new(), len: layout.slots() as u32 }
    }

    /// Slots that follow each other and that nothing uses.
    pub(crate) fn take(&mut self, n: usize) -> Counter {
        let n = n as u32;
        let again = self.free.get_mut(&n).and_then(Vec::pop);
        let first = again.unwrap_or_else(|| {
            self.len += n;
            self.len - n
        });
        self.used.insert(first, n);
        Counter(first)
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Has the slots that no layout uses assigned again from the next change on.
    pub(crate) fn keep<'a>(&mut self, layouts: impl Iterator<Item = &'a Layout>) {
        let mut is_kept = vec![false; self.len as usize];
        for slots in layouts.flat_map(Layout::ranges) {
            is_kept[slots.start as usize] = true;
        }
        let free = &mut self.free;
        self.used.retain(|first, n| {
            let keeps = is_kept[*first as usize];
            if !keeps {
                free.entry(*n).or_default().push(*first);
            }
            keeps
        });
    }
}

/// The counters of an engine that runs a graph.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Those of the whole engine.
    totals: Arc<NodeCounters>,
    /// By node.
    pub(crate) nodes: Vec<Arc<NodeCounters>>,
    /// Counters that this engine has used and that only other engines still have, and those of
    /// [`REMOVED`].
    others: Vec<(Label, Counter)>,
    pub(crate) ways: Vec<Arc<WayCounters>>,
}

/// The counters that other workers of a team have.
pub(crate) struct Others<'a> {
    /// Whether the whole graph has a counter, when compiling a part of it.
    pub(crate) has: &'a dyn Fn(&Label) -> bool,
    /// Whether this graph or the whole one has a node.
    pub(crate) has_node: &'a dyn Fn(&str) -> bool,
    /// Whether a node exists only in workers' parts of the graph, where it comes and goes.
    pub(crate) is_private: &'a dyn Fn(&str) -> bool,
}

/// The work that remains for an engine's cells when the graph changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recount {
    /// Counters that lie elsewhere now: where they were, in this order, and where their values go.
    pub(crate) moves: Vec<(Counter, Counter)>,
    /// Ways that are gone, and for each the counters to which its packets are added.
    pub(crate) ways: Vec<(Counter, Box<[Counter]>)>,
}

impl Layout {
    /// Only the engine-wide counters.
    pub(crate) fn new() -> Layout {
        let labels = total::NAMES.iter().map(|name| (CounterKind::Total, (*name).into())).collect();
        let totals = NodeCounters { node: "".into(), labels, first: Counter(0) };
        Layout { totals: Arc::new(totals), nodes: Vec::new(), others: Vec::new(), ways: Vec::new() }
    }

    /// Every counter, node by node.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Label, Counter)> + '_ {
        let nodes = std::iter::once(&self.totals).chain(&self.nodes);
        nodes.flat_map(|node| node.iter()).chain(self.others.iter().cloned())
    }

    /// The counters of one node, first those that it has in this graph.
    pub(crate) fn of_node<'a>(
        &'a self,
        node: &'a str,
    ) -> impl Iterator<Item = (Label, Counter)> + 'a {
        let nodes = std::iter::once(&self.totals).chain(&self.nodes);
        let nodes = nodes.filter(move |counters| &*counters.node == node);
        let others = self.others.iter().filter(move |(label, _)| &*label.node == node).cloned();
        nodes.flat_map(|node| node.iter()).chain(others)
    }

    /// Whether there is a counter of this name besides those of the nodes in the graph.
    pub(crate) fn has_other(&self, label: &Label) -> bool {
        self.others.iter().any(|(other, _)| other == label)
    }

    /// One more than the last slot.
    pub(crate) fn slots(&self) -> usize {
        self.ranges().map(|slots| slots.end as usize).max().unwrap_or(0).max(total::NAMES.len())
    }

    /// The slots of each node, of each entry's ways, and of single counters.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let nodes = self.nodes.iter().map(|node| node.slots());
        let others = self.others.iter().map(|(_, slot)| slot.0..slot.0 + 1);
        let ways = self.ways.iter().map(|ways| ways.slots());
        nodes.chain(others).chain(ways).filter(|slots| !slots.is_empty())
    }

    /// The counter of tasks dropped because their node was removed, the same as in the graph before.
    pub(crate) fn removed(&mut self, before: Option<&Layout>, slots: &mut Slots) -> Counter {
        let label = removed(CounterKind::Drop, NODE_WAS_REMOVED.into());
        let known = before.iter().flat_map(|before| &before.others);
        let known = known.into_iter().find(|(known, _)| *known == label).map(|(_, slot)| *slot);
        let slot = known.unwrap_or_else(|| slots.take(1));
        self.others.push((label, slot));
        slot
    }

    /// Goes on from the counters of `old`. Those that `others` may still use keep their values. Those
    /// of removed nodes are added to the counters of [`REMOVED`] with the same kind and label, so that
    /// no sum ever decreases. `of_node` finds the counters of a node in this graph.
    pub(crate) fn go_on_from<'a>(
        &mut self,
        old: &Layout,
        slots: &mut Slots,
        others: &Others<'_>,
        of_node: impl Fn(&str) -> Option<&'a NodeCounters>,
    ) -> Recount {
        let now: HashSet<u32> = self.ranges().map(|range| range.start).collect();
        let mut successors =
            Successors { others, slots, of_node, layout: self, found: HashMap::new(), retired: 0 };
        let mut recount = Recount::default();
        for (label, slot) in &old.others {
            let to = successors.of(label, 0, Some(*slot));
            if to != *slot {
                recount.moves.push((*slot, to));
            }
        }
        let mut went: HashMap<Counter, Counter> = HashMap::new();
        for node in old.nodes.iter().filter(|node| !now.contains(&node.first.0)) {
            let mut seen: HashMap<Label, usize> = HashMap::new();
            for (label, slot) in node.iter() {
                let nth = seen.entry(label.clone()).or_default();
                let to = successors.of(&label, *nth, None);
                *nth += 1;
                went.insert(slot, to);
                recount.moves.push((slot, to));
            }
        }
        for ways in old.ways.iter().filter(|ways| !now.contains(&ways.first.0)) {
            for (way, counters) in ways.iter() {
                let to = |counter| *went.get(counter).unwrap_or(counter);
                recount.ways.push((way, counters.iter().map(to).collect()));
            }
        }
        recount.moves.sort_unstable_by_key(|(from, _)| *from);
        recount
    }
}

/// Finds where counters go on.
struct Successors<'a, F> {
    others: &'a Others<'a>,
    slots: &'a mut Slots,
    of_node: F,
    layout: &'a mut Layout,
    /// The slots of counters that are not of a node of this graph.
    found: HashMap<Label, Counter>,
    /// How many labels of removed nodes were added.
    retired: usize,
}

impl<'n, F: Fn(&str) -> Option<&'n NodeCounters>> Successors<'_, F> {
    /// Where a counter of the old graph goes on; `slot`, if it can stay there.
    fn of(&mut self, label: &Label, nth: usize, slot: Option<Counter>) -> Counter {
        let in_graph = || (self.of_node)(&label.node)?.find(label.kind, &label.label, nth);
        if *label.node == *REMOVED {
            return self.keep(label.clone(), slot);
        }
        if let Some(counter) = in_graph() {
            return counter;
        }
        let Others { has, has_node, is_private } = self.others;
        // A port may lead nowhere on one worker, or until the next change, and somewhere else.
        let may_return = || label.is_of_open_port() && has_node(&label.node);
        if has(label) || is_private(&label.node) || may_return() {
            return self.keep(label.clone(), slot);
        }
        // Labels come from graphs, which may change for years; so their number is bounded.
        let full = self.retired >= MAX_RETIRED;
        let retired = removed(label.kind, if full { "others".into() } else { label.label.clone() });
        self.keep(retired, None)
    }

    fn keep(&mut self, label: Label, slot: Option<Counter>) -> Counter {
        if self.found.is_empty() {
            self.found.extend(self.layout.others.iter().cloned());
        }
        if let Some(found) = self.found.get(&label) {
            return *found;
        }
        self.retired += usize::from(*label.node == *REMOVED);
        let slot = slot.unwrap_or_else(|| self.slots.take(1));
        self.layout.others.push((label.clone(), slot));
        self.found.insert(label, slot);
        slot
    }
}

fn removed(kind: CounterKind, label: Arc<str>) -> Label {
    Label { node: REMOVED.into(), kind, label }
}

/// The node name under which the counters of removed nodes are kept, summed up.
pub const REMOVED: &str = "(removed)";

/// The drop reason of tasks that waited at a node when it was removed.
pub const NODE_WAS_REMOVED: &str = "node was removed";

/// The most distinct labels kept for removed nodes.
const MAX_RETIRED: usize = 1024;
