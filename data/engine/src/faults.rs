//! Blocks that panicked: the damage, and whether they still run.
//!
//! The engine contains a panic at the batch: the packets that no other node has taken are dropped
//! and counted, the block is replaced by a fresh one, and the worker goes on. A block that panics
//! again and again is taken out of service (*quarantined*), because each panic costs a batch and the
//! time of an unwinding.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_packet::Nanos;

/// The drop reason of packets whose batch ended in a panic.
pub const BLOCK_PANICKED: &str = "block panicked";

/// The drop reason of packets that reached a node without a working block.
pub const BLOCK_QUARANTINED: &str = "block is quarantined";

/// This many panics of one node within [`PANIC_WINDOW`] quarantine it.
const MAX_PANICS: u32 = 3;

/// The time in nanoseconds after which a panic no longer counts towards quarantine.
const PANIC_WINDOW: Nanos = 60_000_000_000;

/// The most nodes with a record of their own; the records of further ones share the last.
const MAX_RECORDS: usize = 1024;

/// The panics of one node's block since the engine was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The node.
    pub node: Arc<str>,
    /// How often its block panicked.
    pub panics: u64,
    /// Packets dropped because of these panics.
    pub lost: u64,
    /// Packets dropped because the node has no working block.
    pub refused: u64,
    /// Whether the node has no working block: its packets are dropped until it is replaced.
    pub quarantined: bool,
    /// The message of the latest panic.
    pub message: String,
}

#[derive(Debug)]
pub(crate) struct Record {
    node: Arc<str>,
    panics: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    quarantined: AtomicBool,
    message: Mutex<String>,
}

impl Record {
    fn new(node: Arc<str>) -> Record {
        Record {
            node,
            panics: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            quarantined: AtomicBool::new(false),
            message: Mutex::default(),
        }
    }

    fn fault(&self) -> Fault {
        Fault {
            node: self.node.clone(),
            panics: self.panics.load(Relaxed),
            lost: self.lost.load(Relaxed),
            refused: self.refused.load(Relaxed),
            quarantined: self.quarantined.load(Relaxed),
            message: lock(&self.message).clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The records of an engine, for readers on other threads. The engine locks it only when a node
/// panics for the first time; afterwards it writes atomics.
#[derive(Debug, Default)]
pub(crate) struct FaultLog(Mutex<Vec<Arc<Record>>>);

impl FaultLog {
    pub(crate) fn faults(&self) -> Vec<Fault> {
        lock(&self.0).iter().map(|record| record.fault()).collect()
    }

    fn record(&self, node: &Arc<str>) -> Arc<Record> {
        let mut records = lock(&self.0);
        let full = records.len() >= MAX_RECORDS;
        let found = records.iter().find(|record| record.node == *node);
        match found.or_else(|| records.last().filter(|_| full)) {
            Some(record) => record.clone(),
            None => {
                let record = Arc::new(Record::new(node.clone()));
                records.push(record.clone());
                record
            }
        }
    }
}

/// The engine's side: which nodes panicked, and when.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    log: Arc<FaultLog>,
    nodes: HashMap<Arc<str>, Node>,
}

#[derive(Debug)]
struct Node {
    record: Arc<Record>,
    /// The time of the panic at which the window began, and the panics since.
    since: Nanos,
    recent: u32,
}

impl Faults {
    pub(crate) fn log(&self) -> Arc<FaultLog> {
        self.log.clone()
    }

    /// Records a panic of a node's block. Returns whether the node may have another block.
    pub(crate) fn panicked(
        &mut self,
        node: &Arc<str>,
        now: Nanos,
        panic: &(dyn Any + Send),
    ) -> bool {
        let Faults { log, nodes } = self;
        let new = || Node { record: log.record(node), since: now, recent: 0 };
        let node = nodes.entry(node.clone()).or_insert_with(new);
        if now.saturating_sub(node.since) > PANIC_WINDOW {
            (node.since, node.recent) = (now, 0);
        }
        node.recent += 1;
        add(&node.record.panics, 1);
        *lock(&node.record.message) = message(panic);
        node.recent < MAX_PANICS
    }

    /// Records that a node has no working block any more.
    pub(crate) fn quarantine(&mut self, node: &Arc<str>) {
        if let Some(node) = self.nodes.get(node) {
            node.record.quarantined.store(true, Relaxed);
        }
    }

    /// Records that a node has a new block, by a change of the graph.
    pub(crate) fn replaced(&mut self, node: &str) {
        if let Some(node) = self.nodes.remove(node) {
            node.record.quarantined.store(false, Relaxed);
        }
    }

    /// Counts packets that a node lost.
    pub(crate) fn count(&self, node: &str, loss: Loss, packets: u64) {
        let Some(node) = self.nodes.get(node) else { return };
        match loss {
            Loss::Panic => add(&node.record.lost, packets),
            Loss::Quarantine => add(&node.record.refused, packets),
        }
    }

    /// Whether no node has panicked since it got its block.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes that have panicked since they got their blocks.
    pub(crate) fn nodes(&self) -> Vec<Arc<str>> {
        self.nodes.keys().cloned().collect()
    }
}

/// Why a node lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Panic,
    Quarantine,
}

/// There is one writer.
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_panics_do_not_count_towards_quarantine() {
        let mut faults = Faults::default();
        let node: Arc<str> = "N".into();
        let panic: Box<dyn Any + Send> = Box::new("text");
        for round in 0..10 {
            assert!(faults.panicked(&node, round * (PANIC_WINDOW + 1), &*panic));
        }
        let now = 10 * (PANIC_WINDOW + 1);
        assert!(faults.panicked(&node, now, &*panic));
        assert!(faults.panicked(&node, now + 1, &*panic));
        assert!(!faults.panicked(&node, now + 2, &*panic), "the third within the window");
        assert_eq!(faults.log().faults()[0].panics, 13);
        assert_eq!(faults.log().faults()[0].message, "text");
    }
}
