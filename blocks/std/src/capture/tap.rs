//! Captures, and where blocks find theirs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_graph::Predicate;
use weever_packet::{Burst, Mask, Nanos};

use super::ring::{Reader, Writer, ring};
use crate::by_predicate::Test;
use crate::table::fields::Frame;

/// The settings of a capture.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// The condition on packets that are copied. Labels have no value here, and sets no members, so tests of
    /// them fail.
    pub filter: Predicate,
    /// At most so many bytes of each.
    pub snaplen: usize,
    /// Bytes that each block's ring has.
    pub room: usize,
    /// The clock that copies are timed by, in the worker's time. Without one it is the time at which
    /// the worker's turn began, the same for a request and its answer.
    pub clock: Option<fn() -> Nanos>,
}

impl Default for TapConfig {
    /// Every packet, whole, a megabyte of them.
    fn default() -> TapConfig {
        TapConfig { filter: Predicate::True, snaplen: 1 << 18, room: 1 << 20, clock: None }
    }
}

/// A copied packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The worker's time when it was copied.
    pub time: Nanos,
    /// The place parameter of the block that copied it.
    pub place: u16,
    /// The number of the link that it goes to, if it has been routed; else of the one that it came
    /// from.
    pub link: u16,
    /// How long the packet was.
    pub original: u32,
    /// Its bytes, up to the capture's length.
    pub data: Vec<u8>,
}

/// A capture: the copies made by its blocks, until a reader collects them.
pub struct Tap {
    config: TapConfig,
    filter: Test,
    readers: Mutex<Vec<Reader>>,
    missed: AtomicU64,
}

impl Tap {
    /// A capture to which no block belongs yet.
    pub fn new(config: TapConfig) -> Tap {
        let never = |_| Test::Constant(false);
        let filter = Test::compile(&without_open(&config.filter), "a capture");
        let filter = filter.unwrap_or_else(never);
        Tap { config, filter, readers: Mutex::default(), missed: AtomicU64::new(0) }
    }

    /// The settings of the capture.
    pub fn config(&self) -> &TapConfig {
        &self.config
    }

    /// Takes out the copied packets, at most `most` of each block, the oldest first. Does not wait;
    /// packets of several blocks are in order only within one call.
    pub fn collect(&self, most: usize) -> Vec<Captured> {
        let mut readers = self.readers();
        let mut all: Vec<Captured> = Vec::new();
        for reader in readers.iter_mut() {
            let records = std::iter::from_fn(|| reader.next()).take(most);
            all.extend(records.map(|(header, data)| Captured {
                time: header.time,
                place: header.place,
                link: header.link,
                original: header.original,
                data,
            }));
        }
        readers.retain(|reader| !reader.is_over());
        all.sort_by_key(|packet| packet.time);
        all
    }

    /// How many packets matched and found no room, so far.
    pub fn missed_so_far(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Whether there is no block that copies.
    pub fn is_idle(&self) -> bool {
        self.readers().is_empty()
    }

    pub(super) fn open(&self, place: u16) -> Writer {
        let (writer, reader) = ring(self.config.room, place);
        self.readers().push(reader);
        writer
    }

    /// The tasks of `input` whose packets match, whatever is recorded of them.
    pub(super) fn wants(&self, burst: &Burst, input: Mask) -> Mask {
        self.filter.holds::<Frame>(burst, input, None)
    }

    /// The time of copies that are made now; `turn` is when the worker's turn began.
    pub(super) fn time(&self, turn: Nanos) -> Nanos {
        self.config.clock.map_or(turn, |clock| clock())
    }

    pub(super) fn snaplen(&self) -> usize {
        self.config.snaplen
    }

    pub(super) fn missed(&self, packets: u64) {
        if packets > 0 {
            self.missed.fetch_add(packets, Relaxed);
        }
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A filter whose tests of labels and sets are replaced by their outcome: they fail.
fn without_open(filter: &Predicate) -> Predicate {
    let all = |parts: &[Predicate]| parts.iter().map(without_open).collect();
    match filter {
        Predicate::Atom { .. } | Predicate::Member { .. } => Predicate::False,
        Predicate::Not(inner) => Predicate::Not(Box::new(without_open(inner))),
        Predicate::And(parts) => Predicate::And(all(parts)),
        Predicate::Or(parts) => Predicate::Or(all(parts)),
        test => test.clone(),
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The captures of a stack, by number. Blocks look theirs up when they are built.
#[derive(Debug, Default)]
pub struct Taps {
    inside: Mutex<(u32, HashMap<u32, Arc<Tap>>)>,
}

impl Taps {
    /// Enters a capture, and says its number.
    pub fn add(&self, tap: Arc<Tap>) -> u32 {
        let mut inside = self.inside();
        let number = inside.0;
        inside.0 += 1;
        inside.1.insert(number, tap);
        number
    }

    /// Forgets a capture. Blocks that belong to it go on until they leave the graph.
    pub fn remove(&self, number: u32) {
        self.inside().1.remove(&number);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inside().1.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Tap>> {
        self.inside().1.get(&number).cloned()
    }

    fn inside(&self) -> MutexGuard<'_, (u32, HashMap<u32, Arc<Tap>>)> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
