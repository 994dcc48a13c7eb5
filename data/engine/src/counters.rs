//! Counters of one engine, readable from any thread while it runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CounterKind {
    /// Of the whole engine; the label says what.
    Total,
    /// Tasks that a node has run for.
    Packets,
    /// Tasks that left by a port; the label is the port's name.
    Port,
    /// Tasks asked for along a spawn edge, those that found no room included; the label is the edge's.
    Spawned,
    /// Tasks dropped at a spawn edge because their queue was full; the label is the edge's.
    SpawnFull,
    /// Tasks dropped at a spawn edge because the ring to the worker where they belong was full; the
    /// label is the edge's.
    RingFull,
    /// Packets dropped for a stated reason; the label is the reason.
    Drop,
    /// Tasks without a buffer that reached a node which needs one.
    NoBuffer,
    /// Packets dropped at a node because the link's outbox was full, or no such link is there.
    OutboxFull,
    /// Tasks dropped at a node because too many were blocked.
    BlockFull,
    /// A block's own counter; the label is its name.
    Own,
}

impl CounterKind {
    /// A short name for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            CounterKind::Total => "total",
            CounterKind::Packets => "packets",
            CounterKind::Port => "port",
            CounterKind::Spawned => "spawned",
            CounterKind::SpawnFull => "spawn_full",
            CounterKind::RingFull => "ring_full",
            CounterKind::Drop => "drop",
            CounterKind::NoBuffer => "no_buffer",
            CounterKind::OutboxFull => "outbox_full",
            CounterKind::BlockFull => "block_full",
            CounterKind::Own => "own",
        }
    }
}

/// A counter's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter(u32);

impl Counter {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// The counter `n` places further on.
    pub(crate) fn plus(self, n: usize) -> Counter {
        Counter(self.0 + n as u32)
    }
}

/// The counters that every engine has, at the front.
pub(crate) mod total {
    use super::Counter;

    pub(crate) const TASKS: Counter = Counter(0);
    pub(crate) const BATCHES: Counter = Counter(1);
    pub(crate) const CONFLICTS: Counter = Counter(2);
    pub(crate) const UNCLAIMED: Counter = Counter(3);
    pub(crate) const BLOCKED: Counter = Counter(4);
    pub(crate) const DELAYED: Counter = Counter(5);
    pub(crate) const RELAY_FULL: Counter = Counter(6);
    pub(super) const NAMES: [&str; 7] =
        ["tasks", "batches", "conflicts", "unclaimed", "blocked_now", "delayed_now", "relay_full"];
}

/// What a counter is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Label {
    node: Arc<str>,
    kind: CounterKind,
    label: Arc<str>,
}

/// What other workers of a team may count.
pub(crate) struct Others<'a> {
    /// The counters of the whole graph, for a part of it.
    pub(crate) layout: Option<&'a Layout>,
    /// Whether a node is in no whole graph but in parts, where it comes and goes.
    pub(crate) is_private: &'a dyn Fn(&str) -> bool,
}

impl Others<'_> {
    /// There are none.
    #[cfg(test)]
    pub(crate) const NONE: Others<'static> = Others { layout: None, is_private: &|_| false };
}

/// Which counters there are; made by compilation.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    labels: Vec<Label>,
}

impl Layout {
    /// The totals.
    pub(crate) fn new() -> Layout {
        let mut layout = Layout { labels: Vec::new() };
        for name in total::NAMES {
            layout.add(&"".into(), CounterKind::Total, name);
        }
        layout
    }

    pub(crate) fn add(&mut self, node: &Arc<str>, kind: CounterKind, label: &str) -> Counter {
        let place = Counter(self.labels.len() as u32);
        self.labels.push(Label { node: node.clone(), kind, label: label.into() });
        place
    }

    /// Where each counter of `old` goes on here. Those that `others` may go on counting keep what was
    /// counted here. Those of nodes that are gone become part of [`REMOVED`]'s, kind by kind and label by
    /// label, so that no sum ever goes down.
    pub(crate) fn continuing(&mut self, old: &Layout, others: &Others<'_>) -> Box<[Counter]> {
        let whole = others.layout.iter().flat_map(|layout| &layout.labels);
        let whole: HashSet<&Label> = whole.collect();
        let is_elsewhere = |label: &Label| {
            &*label.node != REMOVED && (whole.contains(label) || (others.is_private)(&label.node))
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

    /// A node may count for the same reason at several ports.
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
        // A text comes from a graph, and graphs may come and go for years.
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

    /// What counts the tasks that waited at removed nodes.
    pub(crate) fn removed(&mut self) -> Counter {
        let label =
            Label { node: REMOVED.into(), kind: CounterKind::Drop, label: NODE_WAS_REMOVED.into() };
        let found = self.labels.iter().position(|l| *l == label);
        let add = || self.add(&label.node, label.kind, &label.label);
        found.map_or_else(add, |i| Counter(i as u32))
    }
}

/// The name under which the counters of nodes that were removed go on, summed up.
pub const REMOVED: &str = "(removed)";

/// The reason for which tasks are dropped that wait at a node when it goes.
pub const NODE_WAS_REMOVED: &str = "node was removed";

/// How many different counters of removed nodes are told apart.
const MAX_RETIRED: usize = 1024;

/// A counter's name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The node; empty for [`CounterKind::Total`].
    pub node: Arc<str>,
    /// What is counted.
    pub kind: CounterKind,
    /// Which of its kind: see [`CounterKind`].
    pub label: Arc<str>,
    /// Its value.
    pub value: u64,
}

/// The counters of one graph. The next graph has cells of its own, which go on from these.
#[derive(Debug)]
pub(crate) struct Cells {
    cells: Box<[AtomicU64]>,
    labels: Vec<Label>,
}

impl Cells {
    pub(crate) fn new(layout: &Layout) -> Cells {
        let cells = layout.labels.iter().map(|_| AtomicU64::new(0)).collect();
        Cells { cells, labels: layout.labels.clone() }
    }

    /// Goes on from what `old` has counted; `map` says where.
    pub(crate) fn go_on_from(&self, old: &Cells, map: &[Counter]) {
        for (cell, place) in old.cells.iter().zip(map) {
            self.add(*place, cell.load(Relaxed));
        }
    }

    /// One writer, so a load and a store suffice; a locked instruction would cost twenty times as
    /// much.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        let cell = &self.cells[counter.0 as usize];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    pub(crate) fn set(&self, counter: Counter, value: u64) {
        self.cells[counter.0 as usize].store(value, Relaxed);
    }

    fn readings(&self) -> impl Iterator<Item = (&Label, &AtomicU64)> {
        self.labels.iter().zip(&self.cells)
    }
}

/// Every counter of an engine. Only the engine writes; readers may be anywhere and see each
/// counter at some recent value, not all of them at one instant. They stay valid when the graph
/// changes: nodes that stay go on counting, and what was counted at nodes that are gone is summed up
/// under the name [`REMOVED`].
#[derive(Debug)]
pub struct Counters {
    cells: ArcSwap<Cells>,
}

impl Counters {
    pub(crate) fn new(cells: Arc<Cells>) -> Counters {
        Counters { cells: ArcSwap::new(cells) }
    }

    /// From now on, `cells` is what readers see.
    pub(crate) fn publish(&self, cells: Arc<Cells>) {
        self.cells.store(cells);
    }

    /// Every counter with its name, node by node in the order of the graph.
    pub fn describe(&self) -> Vec<Reading> {
        self.cells.load().readings().map(reading).collect()
    }

    /// The counters of one node, in the same form.
    pub fn of_node(&self, node: &str) -> Vec<Reading> {
        let cells = self.cells.load();
        cells.readings().filter(|(label, _)| &*label.node == node).map(reading).collect()
    }

    /// The value of the counter of `kind` called `label` at `node`; `None` when there is none.
    pub fn get(&self, node: &str, kind: CounterKind, label: &str) -> Option<u64> {
        let is = |l: &Label| l.kind == kind && &*l.node == node && &*l.label == label;
        let cells = self.cells.load();
        let found = cells.readings().find(|(label, _)| is(label));
        found.map(|(_, cell)| cell.load(Relaxed))
    }

    /// The value of the total called `label`: `tasks`, `batches`, `conflicts` (second
    /// dispositions, ignored), `unclaimed` (packets freed because nothing took them),
    /// `blocked_now`, `delayed_now`, `relay_full` (packets of other workers dropped because the
    /// outbox of the link that is served here was full). 0 for any other.
    pub fn total(&self, label: &str) -> u64 {
        self.get("", CounterKind::Total, label).unwrap_or(0)
    }
}

fn reading((label, cell): (&Label, &AtomicU64)) -> Reading {
    let Label { node, kind, label } = label.clone();
    Reading { node, kind, label, value: cell.load(Relaxed) }
}

/// What several engines of one stack have counted, added up counter by counter: in the order of the
/// first, then what only others have. They need not run the same graph yet.
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
