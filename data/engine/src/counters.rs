//! Counters of one engine, readable from any thread while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
            CounterKind::Drop => "drop",
            CounterKind::NoBuffer => "no_buffer",
            CounterKind::OutboxFull => "outbox_full",
            CounterKind::BlockFull => "block_full",
            CounterKind::Own => "own",
        }
    }
}

/// A counter's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter(u32);

impl Counter {
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
    pub(super) const NAMES: [&str; 6] =
        ["tasks", "batches", "conflicts", "unclaimed", "blocked_now", "delayed_now"];
}

/// What a counter is called.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    node: Arc<str>,
    kind: CounterKind,
    label: Arc<str>,
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
}

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

/// Every counter of an engine. Only the engine writes; readers may be anywhere and see each
/// counter at some recent value, not all of them at one instant.
#[derive(Debug)]
pub struct Counters {
    cells: Box<[AtomicU64]>,
    labels: Vec<Label>,
}

impl Counters {
    pub(crate) fn new(layout: Layout) -> Counters {
        let cells = layout.labels.iter().map(|_| AtomicU64::new(0)).collect();
        Counters { cells, labels: layout.labels }
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

    /// Every counter with its name, node by node in the order of the graph.
    pub fn describe(&self) -> Vec<Reading> {
        self.labels.iter().zip(&self.cells).map(reading).collect()
    }

    /// The counters of one node, in the same form.
    pub fn of_node(&self, node: &str) -> Vec<Reading> {
        let all = self.labels.iter().zip(&self.cells);
        all.filter(|(label, _)| &*label.node == node).map(reading).collect()
    }

    /// The value of the counter of `kind` called `label` at `node`; `None` when there is none.
    pub fn get(&self, node: &str, kind: CounterKind, label: &str) -> Option<u64> {
        let is = |l: &Label| l.kind == kind && &*l.node == node && &*l.label == label;
        let at = self.labels.iter().position(is)?;
        Some(self.cells[at].load(Relaxed))
    }

    /// The value of the total called `label`: `tasks`, `batches`, `conflicts` (second
    /// dispositions, ignored), `unclaimed` (packets freed because nothing took them),
    /// `blocked_now`, `delayed_now`. 0 for any other.
    pub fn total(&self, label: &str) -> u64 {
        self.get("", CounterKind::Total, label).unwrap_or(0)
    }
}

fn reading((label, cell): (&Label, &AtomicU64)) -> Reading {
    let Label { node, kind, label } = label.clone();
    Reading { node, kind, label, value: cell.load(Relaxed) }
}
