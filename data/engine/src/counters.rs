//! Counters of one engine, readable from any thread while it runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use arc_swap::ArcSwap;

use crate::faults::{BLOCK_PANICKED, BLOCK_QUARANTINED, Fault, FaultLog};
use crate::slots::{Counter, CounterKind, Label, Layout, Recount};

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

/// The cells of an engine's counters, and the counters of the graph that it runs. The next graph's
/// counters lie in the same cells.
#[derive(Debug)]
pub(crate) struct Cells {
    /// The slots of the first graph, and some more.
    first: Arc<[AtomicU64]>,
    /// Further slots.
    more: Vec<Arc<[AtomicU64]>>,
    layout: Arc<Layout>,
}

impl Cells {
    /// Cells for so many slots.
    pub(crate) fn new(layout: Arc<Layout>, slots: usize) -> Cells {
        Cells { first: zeros(slots + slots / 4), more: Vec::new(), layout }
    }

    /// The same cells, with those of further slots, for another graph.
    pub(crate) fn continued(&self, layout: Arc<Layout>, slots: usize) -> Cells {
        let mut more = self.more.clone();
        let present = self.first.len() + more.iter().map(|cells| cells.len()).sum::<usize>();
        if slots > present {
            more.push(zeros((slots - present).max(present / 2)));
        }
        Cells { first: self.first.clone(), more, layout }
    }

    #[inline]
    fn cell(&self, counter: Counter) -> &AtomicU64 {
        match self.first.get(counter.index()) {
            Some(cell) => cell,
            None => self.later(counter.index() - self.first.len()),
        }
    }

    /// Panics for a slot that was never assigned.
    #[cold]
    fn later(&self, mut place: usize) -> &AtomicU64 {
        for cells in &self.more {
            match cells.get(place) {
                Some(cell) => return cell,
                None => place -= cells.len(),
            }
        }
        panic!("a counter has no slot")
    }

    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        raise(self.cell(counter), n);
    }

    #[inline]
    pub(crate) fn set(&self, counter: Counter, value: u64) {
        self.cell(counter).store(value, Relaxed);
    }

    /// Carries out a change, in the cells of counters that go: most of them have counted nothing. A slot
    /// that no counter has is 0, so that counters which come need no work.
    pub(crate) fn recount(&self, recount: &Recount) {
        for (from, to) in &recount.moves {
            let count = self.take(*from);
            if count != 0 {
                self.add(*to, count);
            }
        }
        for (way, counters) in &recount.ways {
            let packets = self.take(*way);
            if packets != 0 {
                counters.iter().for_each(|counter| self.add(*counter, packets));
            }
        }
    }

    /// The value of a counter, which becomes 0.
    #[inline]
    fn take(&self, counter: Counter) -> u64 {
        let cell = self.cell(counter);
        let count = cell.load(Relaxed);
        if count != 0 {
            cell.store(0, Relaxed);
        }
        count
    }

    fn read(&self, label: Label, counter: Counter, on_ways: u64) -> Reading {
        let Label { node, kind, label } = label;
        let value = self.cell(counter).load(Relaxed).wrapping_add(on_ways);
        Reading { node, kind, label, value }
    }

    fn readings(&self) -> Vec<Reading> {
        let mut on_ways: HashMap<Counter, u64> = HashMap::new();
        for (way, counters) in self.layout.ways.iter().flat_map(|ways| ways.iter()) {
            let packets = self.cell(way).load(Relaxed);
            for counter in counters {
                let sum = on_ways.entry(*counter).or_default();
                *sum = sum.wrapping_add(packets);
            }
        }
        let on_ways = |counter: &Counter| on_ways.get(counter).copied().unwrap_or(0);
        let counters = self.layout.iter();
        counters.map(|(label, counter)| self.read(label, counter, on_ways(&counter))).collect()
    }

    fn of_node(&self, node: &str) -> Vec<Reading> {
        let counters = self.layout.of_node(node);
        counters.map(|(label, counter)| self.read(label, counter, self.on_ways(counter))).collect()
    }

    fn get(&self, node: &str, kind: CounterKind, label: &str) -> Option<u64> {
        let is = |(l, _): &(Label, Counter)| l.kind == kind && *l.label == *label;
        let (label, counter) = self.layout.of_node(node).find(is)?;
        Some(self.read(label, counter, self.on_ways(counter)).value)
    }

    /// The packets that took a way which counts for a counter.
    fn on_ways(&self, counter: Counter) -> u64 {
        let ways = self.layout.ways.iter().flat_map(|ways| ways.iter());
        let ways = ways.filter(|(_, counters)| counters.contains(&counter));
        ways.map(|(way, _)| self.cell(way).load(Relaxed)).fold(0, u64::wrapping_add)
    }
}

fn zeros(n: usize) -> Arc<[AtomicU64]> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

/// There is one writer, so a load and a store suffice; a locked instruction would cost twenty times
/// as much.
#[inline]
fn raise(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

/// How often a reader begins again because the graph changes meanwhile: a worker that is preempted
/// during a change does not hold readers up.
const MAX_ATTEMPTS: usize = 1000;

/// All counters of an engine. Only the engine writes; readers on any thread see each counter at
/// some recent value, not a snapshot of all. They survive graph changes: nodes that stay keep
/// counting, and the counts of removed nodes are summed up under the name [`REMOVED`](crate::REMOVED).
#[derive(Debug)]
pub struct Counters {
    cells: ArcSwap<Cells>,
    /// Goes up before and after a change: odd while counts move from one cell to another.
    changes: AtomicU64,
    faults: Arc<FaultLog>,
}

impl Counters {
    pub(crate) fn new(cells: Arc<Cells>, faults: Arc<FaultLog>) -> Counters {
        Counters { cells: ArcSwap::new(cells), changes: AtomicU64::new(0), faults }
    }

    /// Goes on with other counters. Called by the engine.
    pub(crate) fn change(&self, cells: Arc<Cells>, recount: &Recount) {
        raise(&self.changes, 1);
        fence(Release);
        cells.recount(recount);
        self.cells.store(cells);
        self.changes.store(self.changes.load(Relaxed).wrapping_add(1), Release);
    }

    /// Reads at a time when no counts are on their way.
    fn read<T>(&self, read: impl Fn(&Cells) -> T) -> T {
        for _ in 0..MAX_ATTEMPTS {
            let before = self.changes.load(Acquire);
            if before.is_multiple_of(2) {
                let value = read(&self.cells.load());
                fence(Acquire);
                if self.changes.load(Relaxed) == before {
                    return value;
                }
            }
            std::thread::yield_now();
        }
        read(&self.cells.load())
    }

    /// Every counter with its name, node by node in the order of the graph; then those of blocks
    /// that have panicked.
    pub fn describe(&self) -> Vec<Reading> {
        let mut readings = self.read(Cells::readings);
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
        let mut readings = self.read(|cells| cells.of_node(node));
        readings.extend(self.of_faults().filter(|reading| &*reading.node == node));
        readings
    }

    /// The value of the counter of `kind` called `label` at `node`; `None` when there is none.
    pub fn get(&self, node: &str, kind: CounterKind, label: &str) -> Option<u64> {
        self.read(|cells| cells.get(node, kind, label)).or_else(|| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::total;

    /// So a counter that is given the slot later begins at 0.
    #[test]
    fn slots_of_counters_that_go_are_empty() {
        let cells = Cells::new(Arc::new(Layout::new()), 40);
        let [gone, heir, way] = [10, 11, 12].map(Counter::at);
        cells.add(gone, 5);
        cells.add(heir, 1);
        cells.add(way, 3);
        let ways = vec![(way, [heir, total::USED].into())];
        cells.recount(&Recount { moves: vec![(gone, heir)], ways });
        assert_eq!([gone, heir, way, total::USED].map(|slot| cells.take(slot)), [0, 9, 0, 3]);
    }
}
