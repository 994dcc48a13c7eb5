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

/// Sixty-four tasks that were handed over as they were.
#[derive(Debug)]
struct Whole {
    burst: Box<Burst>,
    occupied: Mask,
}

#[derive(Debug, Default)]
struct Queue {
    /// Comes before `tasks`.
    whole: Option<Whole>,
    tasks: VecDeque<Task>,
    /// How many tasks were served before their run came first, in a batch with earlier ones.
    ahead: u32,
}

impl Queue {
    fn len(&self) -> usize {
        self.tasks.len() + if self.whole.is_some() { BURST } else { 0 }
    }

    /// Makes single tasks of a whole burst; returns the burst.
    #[cold]
    fn break_up(&mut self) -> Option<Box<Burst>> {
        let mut burst = self.whole.take()?.burst;
        for i in (0..BURST).rev() {
            self.tasks.push_front(burst.take(i));
        }
        Some(burst)
    }
}

/// How many bursts may lie in a lane's queues; further ones are moved task by task.
const BURSTS: usize = 4;

/// Queues of all entries. The entry whose first task has waited longest is served first.
#[derive(Debug)]
pub(crate) struct Lane {
    queues: Box<[Queue]>,
    runs: VecDeque<Run>,
    /// Empty bursts, to be exchanged for full ones.
    #[allow(clippy::vec_box, reason = "a box moves in and out as a pointer, not 512 bytes")]
    spare: Vec<Box<Burst>>,
    /// Tasks in all queues together.
    len: usize,
    /// How many may be in one queue, and in all.
    limits: [usize; 2],
}

impl Lane {
    pub(crate) fn new(entries: usize, limit: usize, total: usize) -> Lane {
        let room = limit.min(BURST);
        let queue = |_| Queue { tasks: VecDeque::with_capacity(room), ..Queue::default() };
        let queues = (0..entries).map(queue).collect();
        let spare = (0..BURSTS).map(|_| Box::default()).collect();
        let runs = VecDeque::with_capacity(BURST);
        Lane { queues, runs, spare, len: 0, limits: [limit, total] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the entry's queue takes one more task.
    pub(crate) fn has_room(&self, entry: Entry) -> bool {
        self.room(entry) > 0
    }

    /// How many more tasks the entry's queue takes.
    #[inline]
    fn room(&self, entry: Entry) -> usize {
        let [limit, total] = self.limits;
        let queued = self.queues[entry.index()].len();
        limit.saturating_sub(queued).min(total.saturating_sub(self.len))
    }

    /// Appends a task; gives it back when the entry's queue is full.
    pub(crate) fn push(&mut self, entry: Entry, task: Task) -> Result<(), Task> {
        if self.room(entry) == 0 {
            return Err(task);
        }
        self.queues[entry.index()].tasks.push_back(task);
        self.lengthen(entry, 1);
        Ok(())
    }

    /// Appends tasks with their buffers from the burst, in order, and returns those that found the
    /// queue full. Their buffers stay in the burst. `occupied`: the slots that hold a buffer.
    #[inline]
    pub(crate) fn push_all(
        &mut self,
        entry: Entry,
        burst: &mut Burst,
        tasks: Mask,
        occupied: Mask,
    ) -> Mask {
        if tasks == Mask::MAX && self.hand_over(entry, burst, occupied) {
            return 0;
        }
        let room = self.room(entry);
        let queue = &mut self.queues[entry.index()];
        let mut refused = 0;
        let mut accepted = 0;
        for i in bits(tasks) {
            if accepted == room {
                refused |= 1 << i;
                continue;
            }
            queue.tasks.push_back(burst.take(i));
            accepted += 1;
        }
        if accepted > 0 {
            self.lengthen(entry, accepted as u32);
        }
        refused
    }

    /// Takes a full burst as it is and leaves an empty one, if nothing waits there yet.
    fn hand_over(&mut self, entry: Entry, burst: &mut Burst, occupied: Mask) -> bool {
        if self.room(entry) < BURST {
            return false;
        }
        let queue = &mut self.queues[entry.index()];
        if queue.len() > 0 {
            return false;
        }
        let Some(mut spare) = self.spare.pop() else { return false };
        std::mem::swap(burst, &mut *spare);
        queue.whole = Some(Whole { burst: spare, occupied });
        self.lengthen(entry, BURST as u32);
        true
    }

    #[inline]
    fn lengthen(&mut self, entry: Entry, tasks: u32) {
        self.len += tasks as usize;
        match self.runs.back_mut().filter(|run| run.entry == entry) {
            Some(run) => run.tasks += tasks,
            None => self.runs.push_back(Run { entry, tasks }),
        }
    }

    /// Makes room for entries up to `entries`. Nobody waits for new ones.
    pub(crate) fn widen(&mut self, entries: usize) {
        let mut queues = std::mem::take(&mut self.queues).into_vec();
        queues.resize_with(entries.max(queues.len()), Queue::default);
        self.queues = queues.into();
    }

    /// Takes every task of an entry out, in order.
    pub(crate) fn take_all(&mut self, entry: Entry, mut each: impl FnMut(Task)) {
        let queue = &mut self.queues[entry.index()];
        if queue.len() == 0 {
            return;
        }
        self.spare.extend(queue.break_up());
        let tasks = std::mem::take(&mut queue.tasks);
        queue.ahead += tasks.len() as u32;
        self.len -= tasks.len();
        tasks.into_iter().for_each(&mut each);
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
        burst: &mut Box<Burst>,
        from: usize,
        to: usize,
    ) -> (usize, Mask) {
        let queue = &mut self.queues[entry.index()];
        if from > 0 || to < BURST {
            self.spare.extend(queue.break_up());
        } else if let Some(whole) = queue.whole.take() {
            queue.ahead += BURST as u32;
            self.len -= BURST;
            self.spare.push(std::mem::replace(burst, whole.burst));
            return (BURST, whole.occupied);
        }
        let end = to.min(from + queue.tasks.len());
        queue.ahead += (end - from) as u32;
        self.len -= end - from;
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
