//! Counters of one engine, readable from any thread while it runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;

use crate::faults::{BLOCK_PANICKED, BLOCK_QUARANTINED, Fault, FaultLog};

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

/// A counter's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter(u32);

impl Counter {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// How many places it is after `first`; `None` if it is before.
    #[cfg(test)]
    pub(crate) fn places_after(self, first: Counter) -> Option<usize> {
        self.index().checked_sub(first.index())
    }

    /// The counter `n` places further on.
    pub(crate) fn plus(self, n: usize) -> Counter {
        Counter(self.0 + n as u32)
    }
}

/// Counts packets for all the steps inside a way of a shortcut at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayCounter(u32);

impl WayCounter {
    pub(crate) fn at(index: usize) -> WayCounter {
        WayCounter(index as u32)
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
struct Label {
    node: Arc<str>,
    kind: CounterKind,
    label: Arc<str>,
}

impl Label {
    /// Whether it counts packets at a port that leads nowhere.
    fn is_of_open_port(&self) -> bool {
        self.kind == CounterKind::Drop && self.label.ends_with(LEADS_NOWHERE)
    }
}

/// The counters that other workers of a team have.
pub(crate) struct Others<'a> {
    /// The counters of the whole graph, when compiling a part of it.
    pub(crate) layout: Option<&'a Layout>,
    /// Whether a node exists only in workers' parts of the graph, where it comes and goes.
    pub(crate) is_private: &'a dyn Fn(&str) -> bool,
}

impl Others<'_> {
    /// No other worker.
    #[cfg(test)]
    pub(crate) const NONE: Others<'static> = Others { layout: None, is_private: &|_| false };
}

/// The counters of a graph, assigned during compilation.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    labels: Vec<Label>,
    /// By way, the counters that a packet which takes it counts for.
    pub(crate) ways: Vec<Box<[Counter]>>,
}

impl Layout {
    /// Only the engine-wide counters.
    pub(crate) fn new() -> Layout {
        let mut layout = Layout { labels: Vec::new(), ways: Vec::new() };
        for name in total::NAMES {
            layout.add(&"".into(), CounterKind::Total, name);
        }
        layout
    }

    /// The counters of the steps inside a way.
    #[cfg(test)]
    pub(crate) fn counters_of(&self, way: WayCounter) -> &[Counter] {
        &self.ways[way.0 as usize]
    }

    pub(crate) fn add(&mut self, node: &Arc<str>, kind: CounterKind, label: &str) -> Counter {
        let place = Counter(self.labels.len() as u32);
        self.labels.push(Label { node: node.clone(), kind, label: label.into() });
        place
    }

    /// The index here of each counter of `old`. Counters that `others` may still use keep their
    /// values. Those of removed nodes are added to the counters of [`REMOVED`] with the same kind
    /// and label, so that no sum ever decreases.
    pub(crate) fn continuing(&mut self, old: &Layout, others: &Others<'_>) -> Box<[Counter]> {
        let whole = others.layout.iter().flat_map(|layout| &layout.labels);
        let whole: HashSet<&Label> = whole.collect();
        // A port may lead nowhere on one worker, or until the next change, and somewhere else.
        let nodes = self.labels.iter().chain(whole.iter().copied());
        let nodes: HashSet<Arc<str>> = nodes.map(|label| label.node.clone()).collect();
        let may_return = |label: &Label| label.is_of_open_port() && nodes.contains(&label.node);
        let is_elsewhere = |label: &Label| {
            let is_private = (others.is_private)(&label.node);
            &*label.node != REMOVED && (whole.contains(label) || is_private || may_return(label))
        };
        let mut places = self.places();
        let mut seen: HashMap<&Label, usize> = HashMap::new();
        let mut map = Vec::with_capacity(old.labels.len());
        let mut retired = 0;
        for label in &old.labels {
            let nth = seen.entry(label).or_default();
            let found = places.get(label).and_then(|places| places.get(*nth)).copied();
            *nth += 1;
            map.push(match found {
                Some(place) => place,
                None if is_elsewhere(label) => self.add(&label.node, label.kind, &label.label),
                None => self.retire(label, &mut places, &mut retired),
            });
        }
        map.into()
    }

    /// The counters by label; a node may use the same reason at several ports.
    fn places(&self) -> HashMap<Label, Vec<Counter>> {
        let mut places: HashMap<Label, Vec<Counter>> = HashMap::new();
        for (i, label) in self.labels.iter().enumerate() {
            places.entry(label.clone()).or_default().push(Counter(i as u32));
        }
        places
    }

    fn retire(
        &mut self,
        label: &Label,
        places: &mut HashMap<Label, Vec<Counter>>,
        retired_labels: &mut usize,
    ) -> Counter {
        // Labels come from graphs, which may change for years; so their number is bounded.
        let text =
            if *retired_labels >= MAX_RETIRED { "others".into() } else { label.label.clone() };
        let retired = Label { node: REMOVED.into(), kind: label.kind, label: text };
        if let Some(place) = places.get(&retired).and_then(|places| places.first()) {
            return *place;
        }
        *retired_labels += 1;
        let place = self.add(&retired.node, retired.kind, &retired.label);
        places.insert(retired, vec![place]);
        place
    }

    /// The counter of tasks dropped because their node was removed.
    pub(crate) fn removed(&mut self) -> Counter {
        let label =
            Label { node: REMOVED.into(), kind: CounterKind::Drop, label: NODE_WAS_REMOVED.into() };
        let found = self.labels.iter().position(|l| *l == label);
        let add = || self.add(&label.node, label.kind, &label.label);
        found.map_or_else(add, |i| Counter(i as u32))
    }
}

/// The node name under which the counters of removed nodes are kept, summed up.
pub const REMOVED: &str = "(removed)";

/// The drop reason of tasks that waited at a node when it was removed.
pub const NODE_WAS_REMOVED: &str = "node was removed";

/// The most distinct labels kept for removed nodes.
const MAX_RETIRED: usize = 1024;

/// A counter's name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The node; empty for [`CounterKind::Total`].
    pub node: Arc<str>,
    /// The kind of the counter.
    pub kind: CounterKind,
    /// Which of its kind: see [`CounterKind`].
    pub label: Arc<str>,
    /// Its value.
    pub value: u64,
}

/// The counter cells of one graph. The cells of its successor start from their values.
#[derive(Debug)]
pub(crate) struct Cells {
    cells: Box<[AtomicU64]>,
    labels: Vec<Label>,
    /// Packets by the way that they took; they count for every step inside it.
    ways: Box<[AtomicU64]>,
    /// By counter, the ways that count for it.
    ways_of: Box<[Vec<u32>]>,
}

impl Cells {
    pub(crate) fn new(layout: &Layout) -> Cells {
        let mut ways_of = vec![Vec::new(); layout.labels.len()];
        for (way, counters) in (0..).zip(&layout.ways) {
            for counter in counters {
                ways_of[counter.index()].push(way);
            }
        }
        Cells {
            cells: layout.labels.iter().map(|_| AtomicU64::new(0)).collect(),
            labels: layout.labels.clone(),
            ways: layout.ways.iter().map(|_| AtomicU64::new(0)).collect(),
            ways_of: ways_of.into(),
        }
    }

    /// Adds the values of `old`; `map` gives the index of each.
    pub(crate) fn go_on_from(&self, old: &Cells, map: &[Counter]) {
        for (i, place) in map.iter().enumerate() {
            self.add(*place, old.value(i));
        }
    }

    fn value(&self, i: usize) -> u64 {
        let ways = self.ways_of[i].iter().map(|way| self.ways[*way as usize].load(Relaxed));
        ways.fold(self.cells[i].load(Relaxed), u64::wrapping_add)
    }

    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        raise(&self.cells[counter.0 as usize], n);
    }

    /// Counts `n` packets for every step inside a way.
    #[inline]
    pub(crate) fn add_on_way(&self, way: WayCounter, n: u64) {
        raise(&self.ways[way.0 as usize], n);
    }

    #[inline]
    pub(crate) fn set(&self, counter: Counter, value: u64) {
        self.cells[counter.0 as usize].store(value, Relaxed);
    }

    fn readings(&self) -> impl Iterator<Item = (&Label, u64)> {
        self.labels.iter().enumerate().map(|(i, label)| (label, self.value(i)))
    }
}

/// There is one writer, so a load and a store suffice; a locked instruction would cost twenty times
/// as much.
#[inline]
fn raise(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

/// All counters of an engine. Only the engine writes; readers on any thread see each counter at
/// some recent value, not a snapshot of all. They survive graph changes: nodes that stay keep
/// counting, and the counts of removed nodes are summed up under the name [`REMOVED`].
#[derive(Debug)]
pub struct Counters {
    cells: ArcSwap<Cells>,
    faults: Arc<FaultLog>,
}

impl Counters {
    pub(crate) fn new(cells: Arc<Cells>, faults: Arc<FaultLog>) -> Counters {
        Counters { cells: ArcSwap::new(cells), faults }
    }

    /// Publishes `cells` to readers.
    pub(crate) fn publish(&self, cells: Arc<Cells>) {
        self.cells.store(cells);
    }

    /// Every counter with its name, node by node in the order of the graph; then those of blocks
    /// that have panicked.
    pub fn describe(&self) -> Vec<Reading> {
        let mut readings: Vec<Reading> = self.cells.load().readings().map(reading).collect();
        readings.extend(self.of_faults());
        readings
    }

    /// The nodes whose blocks have panicked, in the order of their first panic. Does not block the
    /// engine unless a further block panics meanwhile.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.faults()
    }

    fn of_faults(&self) -> impl Iterator<Item = Reading> {
        self.faults.faults().into_iter().flat_map(|fault| {
            let Fault { node, panics, lost, refused, .. } = fault;
            let reading = move |kind, label: &str, value| Reading {
                node: node.clone(),
                kind,
                label: label.into(),
                value,
            };
            [
                reading(CounterKind::Panics, "", panics),
                reading(CounterKind::Drop, BLOCK_PANICKED, lost),
                reading(CounterKind::Drop, BLOCK_QUARANTINED, refused),
            ]
        })
    }

    /// The counters of one node, in the same form.
    pub fn of_node(&self, node: &str) -> Vec<Reading> {
        let cells = self.cells.load();
        let of_node = cells.readings().filter(|(label, _)| &*label.node == node).map(reading);
        let of_faults = self.of_faults().filter(|reading| &*reading.node == node);
        of_node.chain(of_faults).collect()
    }

    /// The value of the counter of `kind` called `label` at `node`; `None` when there is none.
    pub fn get(&self, node: &str, kind: CounterKind, label: &str) -> Option<u64> {
        let is = |l: &Label| l.kind == kind && &*l.node == node && &*l.label == label;
        let cells = self.cells.load();
        let found = cells.readings().find(|(label, _)| is(label));
        found.map(|(_, value)| value).or_else(|| {
            let is = |r: &Reading| r.kind == kind && &*r.node == node && &*r.label == label;
            self.of_faults().find(is).map(|reading| reading.value)
        })
    }

    /// The value of the total called `label`: `tasks`, `batches`, `conflicts` (second
    /// dispositions, ignored), `unclaimed` (packets freed without a reason: nothing took them, and the way that they went
    /// has no end, such as an operator that stayed undecided),
    /// `blocked_now`, `delayed_now`, `relay_full` (packets of other workers dropped because the
    /// outbox of the link that is served here was full), `used` (packets that ended at a port where the
    /// graph says that they have done their duty). 0 for any other.
    pub fn total(&self, label: &str) -> u64 {
        self.get("", CounterKind::Total, label).unwrap_or(0)
    }
}

fn reading((label, value): (&Label, u64)) -> Reading {
    let Label { node, kind, label } = label.clone();
    Reading { node, kind, label, value }
}

/// Adds up the counters of several engines of one stack, in the order of the first, followed by
/// those that only others have. The engines may run different graphs.
pub fn sum(engines: &[Vec<Reading>]) -> Vec<Reading> {
    let mut total: Vec<Reading> = Vec::new();
    let mut places: HashMap<(Arc<str>, CounterKind, Arc<str>, usize), usize> = HashMap::new();
    for readings in engines {
        let mut seen: HashMap<(&str, CounterKind, &str), usize> = HashMap::new();
        for reading in readings {
            let nth = seen.entry((&reading.node, reading.kind, &reading.label)).or_default();
            let key = (reading.node.clone(), reading.kind, reading.label.clone(), *nth);
            *nth += 1;
            let place = *places.entry(key).or_insert(total.len());
            match total.get_mut(place) {
                Some(sum) => sum.value = sum.value.wrapping_add(reading.value),
                None => total.push(reading.clone()),
            }
        }
    }
    total
}
