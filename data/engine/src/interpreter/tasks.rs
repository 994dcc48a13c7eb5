//! The tasks that wait to run: woken ones, then HIGH, then LOW (DESIGN §4.3).

use std::collections::VecDeque;

use weever_block::Priority;
use weever_packet::{BURST, Burst, Mask, first_n};

use super::lane::{Lane, Task};
use crate::Limits;
use crate::schedule::Entry;

/// Tasks with the same start node, placed in a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) entry: Entry,
    pub(crate) tasks: Mask,
    /// Those that have a buffer.
    pub(crate) occupied: Mask,
}

#[derive(Debug)]
pub(crate) struct Tasks {
    woken: Box<[VecDeque<Task>]>,
    /// Entries with woken tasks, in the order of waking.
    urgent: VecDeque<Entry>,
    woken_len: usize,
    high: Lane,
    low: Lane,
}

impl Tasks {
    pub(crate) fn new(entries: usize, limits: &Limits) -> Tasks {
        Tasks {
            woken: (0..entries).map(|_| VecDeque::new()).collect(),
            urgent: VecDeque::with_capacity(entries),
            woken_len: 0,
            high: Lane::new(entries, limits.high, limits.high_total),
            low: Lane::new(entries, limits.low, limits.low_total),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.woken_len == 0 && self.high.is_empty() && self.low.is_empty()
    }

    /// How many woken tasks have not run.
    pub(crate) fn woken(&self) -> usize {
        self.woken_len
    }

    pub(crate) fn lane(&mut self, priority: Priority) -> &mut Lane {
        match priority {
            Priority::High => &mut self.high,
            Priority::Low => &mut self.low,
        }
    }

    /// Adds a task that was blocked. It runs before every HIGH task, after those woken earlier.
    pub(crate) fn wake(&mut self, entry: Entry, task: Task) {
        let queue = &mut self.woken[entry.index()];
        if queue.is_empty() {
            self.urgent.push_back(entry);
        }
        queue.push_back(task);
        self.woken_len += 1;
    }

    /// Makes room for entries up to `entries`.
    pub(crate) fn widen(&mut self, entries: usize) {
        if entries > self.woken.len() {
            let mut woken = std::mem::take(&mut self.woken).into_vec();
            woken.resize_with(entries, VecDeque::new);
            self.woken = woken.into();
            self.urgent.reserve(entries);
            self.high.widen(entries);
            self.low.widen(entries);
        }
    }

    /// Takes every task that waits to run at `entry` out, in the order in which they would have run.
    pub(crate) fn take_all(&mut self, entry: Entry, mut each: impl FnMut(Priority, Task)) {
        let woken = std::mem::take(&mut self.woken[entry.index()]);
        if !woken.is_empty() {
            self.woken_len -= woken.len();
            self.urgent.retain(|urgent| *urgent != entry);
            woken.into_iter().for_each(|task| each(Priority::High, task));
        }
        self.high.take_all(entry, |task| each(Priority::High, task));
        self.low.take_all(entry, |task| each(Priority::Low, task));
    }

    /// Moves the next woken and HIGH tasks of one entry into the burst, at most `max`.
    #[inline]
    pub(crate) fn next_high(&mut self, burst: &mut Box<Burst>, max: usize) -> Option<Batch> {
        match self.urgent.front() {
            Some(entry) => Some(self.next_woken(*entry, burst, max)),
            None => next_of(&mut self.high, burst, max),
        }
    }

    /// Moves the next LOW tasks of one entry into the burst, at most `max`.
    pub(crate) fn next_low(&mut self, burst: &mut Box<Burst>, max: usize) -> Option<Batch> {
        next_of(&mut self.low, burst, max)
    }

    /// A batch of woken tasks is filled up with the entry's HIGH ones.
    #[cold]
    fn next_woken(&mut self, entry: Entry, burst: &mut Box<Burst>, max: usize) -> Batch {
        let queue = &mut self.woken[entry.index()];
        let n = max.min(BURST).min(queue.len());
        let mut occupied = 0;
        for (slot, task) in queue.drain(..n).enumerate() {
            if let Some(buffer) = task {
                burst.put(slot, buffer);
                occupied |= 1 << slot;
            }
        }
        if queue.is_empty() {
            self.urgent.pop_front();
        }
        self.woken_len -= n;
        let (end, more) = self.high.take(entry, burst, n, max);
        Batch { entry, tasks: first_n(end), occupied: occupied | more }
    }
}

#[inline]
fn next_of(lane: &mut Lane, burst: &mut Box<Burst>, max: usize) -> Option<Batch> {
    let entry = lane.first()?;
    let (end, occupied) = lane.take(entry, burst, 0, max.min(BURST));
    Some(Batch { entry, tasks: first_n(end), occupied })
}
