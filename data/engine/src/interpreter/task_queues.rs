//! The tasks that wait to run: woken ones first, then HIGH, then LOW.

use std::collections::VecDeque;

use weever_block::Priority;
use weever_packet::{BURST, Buffer, Burst, Mask, bits, first_n};

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

impl Batch {
    /// Tasks in a burst, of which some may have no buffer.
    #[inline]
    pub(crate) fn of(entry: Entry, burst: &Burst, tasks: Mask) -> Batch {
        let occupied = bits(tasks).fold(0, |m, i| m | u64::from(burst.get(i).is_some()) << i);
        Batch { entry, tasks, occupied }
    }
}

#[derive(Debug)]
pub(crate) struct Tasks {
    woken: Vec<VecDeque<Task>>,
    /// Entries with woken tasks, in the order in which they were woken.
    urgent: VecDeque<Entry>,
    woken_len: usize,
    high: PriorityQueue,
    low: PriorityQueue,
}

impl Tasks {
    pub(crate) fn new(entries: usize, limits: &Limits) -> Tasks {
        Tasks {
            woken: (0..entries).map(|_| VecDeque::new()).collect(),
            urgent: VecDeque::with_capacity(entries),
            woken_len: 0,
            high: PriorityQueue::new(entries, limits.high, limits.high_total, limits.batch),
            low: PriorityQueue::new(entries, limits.low, limits.low_total, limits.batch),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.woken_len == 0 && self.high.is_empty() && self.low.is_empty()
    }

    /// How many woken tasks have not run.
    pub(crate) fn woken(&self) -> usize {
        self.woken_len
    }

    pub(crate) fn queue(&mut self, priority: Priority) -> &mut PriorityQueue {
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
            self.woken.resize_with(entries, VecDeque::new);
            self.urgent.reserve(entries);
            self.high.widen(entries);
            self.low.widen(entries);
        }
    }

    /// How many tasks are queued for `entry`.
    pub(crate) fn queued(&self, entry: Entry) -> Queued {
        let [high, low] = [&self.high, &self.low].map(|queue| queue.queues[entry.index()].len());
        Queued { woken: self.woken[entry.index()].len(), high, low }
    }

    /// Removes every task queued for `entry`, in the order in which they would have run.
    pub(crate) fn take_all(&mut self, entry: Entry, each: impl FnMut(Priority, Task)) {
        let mut all = self.queued(entry);
        self.take_some(entry, &mut all, usize::MAX, each);
    }

    /// Removes up to `max` of the tasks that were queued for `entry` when they were counted, those first that
    /// run first, and takes them off the count. Returns how many.
    pub(crate) fn take_some(
        &mut self,
        entry: Entry,
        counted: &mut Queued,
        max: usize,
        mut each: impl FnMut(Priority, Task),
    ) -> usize {
        let Queued { woken, high, low } = counted;
        let queue = &mut self.woken[entry.index()];
        let mut taken = take_from(queue, woken, max, |task| each(Priority::High, task));
        self.woken_len -= taken;
        if taken > 0 && queue.is_empty() {
            self.urgent.retain(|urgent| *urgent != entry);
        }
        for (queue, counted, priority) in
            [(&mut self.high, high, Priority::High), (&mut self.low, low, Priority::Low)]
        {
            taken += queue.take_some(entry, counted, max - taken, |task| each(priority, task));
        }
        taken
    }

    /// Moves the next woken and HIGH tasks of one entry into the burst, at most `max` unless they were
    /// queued as a full burst, which is not split.
    #[inline]
    pub(crate) fn next_high(&mut self, burst: &mut Box<Burst>, max: usize) -> Option<Batch> {
        match self.urgent.front() {
            Some(entry) => Some(self.next_woken(*entry, burst, max)),
            None => next_of(&mut self.high, burst, max),
        }
    }

    /// The same for LOW tasks.
    pub(crate) fn next_low(&mut self, burst: &mut Box<Burst>, max: usize) -> Option<Batch> {
        next_of(&mut self.low, burst, max)
    }

    /// A batch of woken tasks is filled up with the entry's HIGH tasks.
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

/// Removes up to `max` of the first tasks, of which `counted` are wanted. Others of these have run already if the
/// queue is shorter.
fn take_from(
    queue: &mut VecDeque<Task>,
    counted: &mut usize,
    max: usize,
    each: impl FnMut(Task),
) -> usize {
    *counted = (*counted).min(queue.len());
    let n = max.min(*counted);
    *counted -= n;
    queue.drain(..n).for_each(each);
    n
}

#[inline]
fn next_of(queue: &mut PriorityQueue, burst: &mut Box<Burst>, max: usize) -> Option<Batch> {
    let entry = queue.first()?;
    let (end, occupied) = queue.take(entry, burst, 0, max.min(BURST));
    Some(Batch { entry, tasks: first_n(end), occupied })
}

/// The number of tasks of one entry, by the queues that they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    woken: usize,
    high: usize,
    low: usize,
}

impl Queued {
    pub(crate) fn is_empty(self) -> bool {
        self.woken + self.high + self.low == 0
    }
}

/// A queued task: its buffer, if it has one.
pub(crate) type Task = Option<Buffer>;

/// Tasks of one entry that were enqueued one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    entry: Entry,
    tasks: u32,
}

/// A full burst of 64 tasks, queued without moving its buffers.
#[derive(Debug)]
struct WholeBurst {
    burst: Box<Burst>,
    occupied: Mask,
}

#[derive(Debug, Default)]
struct EntryQueue {
    /// Runs before `tasks`.
    whole: Option<WholeBurst>,
    tasks: VecDeque<Task>,
    /// How many tasks already ran in an earlier batch, ahead of their turn.
    ahead: u32,
}

impl EntryQueue {
    fn len(&self) -> usize {
        self.tasks.len() + if self.whole.is_some() { BURST } else { 0 }
    }

    /// Splits a full burst into single tasks; returns the empty burst.
    #[cold]
    fn unpack(&mut self) -> Option<Box<Burst>> {
        let mut burst = self.whole.take()?.burst;
        for i in (0..BURST).rev() {
            self.tasks.push_front(burst.take(i));
        }
        Some(burst)
    }
}

/// The most full bursts queued at once; further ones are moved task by task.
const BURSTS: usize = 4;

/// The queues of one priority, one per entry. The entry with the oldest task is served first.
#[derive(Debug)]
pub(crate) struct PriorityQueue {
    queues: Vec<EntryQueue>,
    runs: VecDeque<Run>,
    /// Empty bursts to exchange for full ones.
    #[allow(clippy::vec_box, reason = "a box moves in and out as a pointer, not 512 bytes")]
    spare: Vec<Box<Burst>>,
    /// Tasks in all queues together.
    len: usize,
    /// The most tasks in one queue, and in all together.
    limits: [usize; 2],
}

impl PriorityQueue {
    /// Full bursts are queued as such if tasks may run in batches of that size.
    pub(crate) fn new(entries: usize, limit: usize, total: usize, batch: usize) -> PriorityQueue {
        let room = limit.min(BURST);
        let queue =
            |_| EntryQueue { tasks: VecDeque::with_capacity(room), ..EntryQueue::default() };
        let queues = (0..entries).map(queue).collect();
        let bursts = if batch < BURST { 0 } else { BURSTS };
        let spare = (0..bursts).map(|_| Box::default()).collect();
        let runs = VecDeque::with_capacity(BURST);
        PriorityQueue { queues, runs, spare, len: 0, limits: [limit, total] }
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
    pub(crate) fn room(&self, entry: Entry) -> usize {
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
        if tasks == Mask::MAX && self.take_whole(entry, burst, occupied) {
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

    /// Exchanges a full burst for an empty one, if the queue is empty.
    fn take_whole(&mut self, entry: Entry, burst: &mut Burst, occupied: Mask) -> bool {
        if self.room(entry) < BURST {
            return false;
        }
        let queue = &mut self.queues[entry.index()];
        if queue.len() > 0 {
            return false;
        }
        let Some(mut spare) = self.spare.pop() else { return false };
        std::mem::swap(burst, &mut *spare);
        queue.whole = Some(WholeBurst { burst: spare, occupied });
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

    /// Makes room for entries up to `entries`; the queues of new ones are empty.
    pub(crate) fn widen(&mut self, entries: usize) {
        self.queues.resize_with(entries.max(self.queues.len()), EntryQueue::default);
    }

    /// Removes up to `max` of the first tasks of an entry, of which `counted` are wanted; returns how many.
    fn take_some(
        &mut self,
        entry: Entry,
        counted: &mut usize,
        max: usize,
        each: impl FnMut(Task),
    ) -> usize {
        if max.min(*counted) == 0 {
            return 0;
        }
        let queue = &mut self.queues[entry.index()];
        self.spare.extend(queue.unpack());
        let taken = take_from(&mut queue.tasks, counted, max, each);
        queue.ahead += taken as u32;
        self.len -= taken;
        taken
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
    /// the slots filled and the mask of those with a buffer. A full burst at the head of the queue comes
    /// whole if `from` is 0.
    #[inline]
    pub(crate) fn take(
        &mut self,
        entry: Entry,
        burst: &mut Box<Burst>,
        from: usize,
        to: usize,
    ) -> (usize, Mask) {
        let queue = &mut self.queues[entry.index()];
        if from > 0 {
            self.spare.extend(queue.unpack());
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
        // One by one: to drain them at once costs what ten single ones do, and mostly there is one.
        for slot in from..end {
            if let Some(buffer) = queue.tasks.pop_front().flatten() {
                burst.put(slot, buffer);
                occupied |= 1 << slot;
            }
        }
        (end, occupied)
    }
}
