//! One priority's queues: a FIFO of tasks per entry, and the order in which entries are served.

use std::collections::VecDeque;

use weever_packet::{BURST, Buffer, Burst, Mask, bits};

use crate::schedule::Entry;

/// A task that waits for its entry: its buffer, if it has one.
pub(crate) type Task = Option<Buffer>;

/// Tasks of one entry that were enqueued one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    entry: Entry,
    tasks: u32,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// How many tasks were served before their run came first, in a batch with earlier ones.
    ahead: u32,
}

/// Queues of all entries. The entry whose first task has waited longest is served first.
#[derive(Debug)]
pub(crate) struct Lane {
    queues: Box<[Queue]>,
    runs: VecDeque<Run>,
    limit: usize,
}

impl Lane {
    pub(crate) fn new(entries: usize, limit: usize) -> Lane {
        let queue = |_| Queue { tasks: VecDeque::with_capacity(limit.min(BURST)), ahead: 0 };
        let queues = (0..entries).map(queue).collect();
        Lane { queues, runs: VecDeque::with_capacity(BURST), limit }
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Runs that were served ahead may linger; they are skipped when they come first.
        self.runs.iter().all(|run| self.queues[run.entry.index()].tasks.is_empty())
    }

    /// Appends a task; gives it back when the entry's queue is full.
    pub(crate) fn push(&mut self, entry: Entry, task: Task) -> Result<(), Task> {
        let queue = &mut self.queues[entry.index()].tasks;
        if queue.len() >= self.limit {
            return Err(task);
        }
        queue.push_back(task);
        self.lengthen(entry, 1);
        Ok(())
    }

    /// Appends tasks with their buffers from the burst, in order, and returns those that found the
    /// queue full. Their buffers stay in the burst.
    #[inline]
    pub(crate) fn push_all(&mut self, entry: Entry, burst: &mut Burst, tasks: Mask) -> Mask {
        let queue = &mut self.queues[entry.index()].tasks;
        let room = self.limit.saturating_sub(queue.len());
        let mut refused = 0;
        let mut accepted = 0;
        for i in bits(tasks) {
            if accepted == room {
                refused |= 1 << i;
                continue;
            }
            queue.push_back(burst.take(i));
            accepted += 1;
        }
        if accepted > 0 {
            self.lengthen(entry, accepted as u32);
        }
        refused
    }

    #[inline]
    fn lengthen(&mut self, entry: Entry, tasks: u32) {
        match self.runs.back_mut().filter(|run| run.entry == entry) {
            Some(run) => run.tasks += tasks,
            None => self.runs.push_back(Run { entry, tasks }),
        }
    }

    /// The entry whose first task has waited longest.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<Entry> {
        while let Some(run) = self.runs.front_mut() {
            let ahead = &mut self.queues[run.entry.index()].ahead;
            let served = run.tasks.min(*ahead);
            run.tasks -= served;
            *ahead -= served;
            if run.tasks > 0 {
                return Some(run.entry);
            }
            self.runs.pop_front();
        }
        None
    }

    /// Moves the entry's tasks into the burst's slots from `from` up to `to`; returns the end of
    /// the slots filled and the mask of those with a buffer.
    #[inline]
    pub(crate) fn take(
        &mut self,
        entry: Entry,
        burst: &mut Burst,
        from: usize,
        to: usize,
    ) -> (usize, Mask) {
        let queue = &mut self.queues[entry.index()];
        let end = to.min(from + queue.tasks.len());
        queue.ahead += (end - from) as u32;
        let mut occupied = 0;
        for (slot, task) in (from..end).zip(queue.tasks.drain(..end - from)) {
            if let Some(buffer) = task {
                burst.put(slot, buffer);
                occupied |= 1 << slot;
            }
        }
        (end, occupied)
    }
}
