//! The interpreter: the reference speed of a graph.

mod blocked;
mod execute;
mod frame;
mod lane;
mod outbox;
mod peers;
mod relay;
mod runtime;
mod settle;
mod shortcut;
mod switch;
mod tasks;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod trace;

use std::collections::VecDeque;
use std::sync::Arc;

use weever_block::{Block, Priority, Shortcut};
use weever_packet::{BURST, Buffer, Burst, Mask, Nanos, PoolCache, bits};

use crate::counters::Cells;
use crate::schedule::Blueprint;
use crate::{Counters, Entry, Limits, Schedule};
use execute::Walk;
use frame::Frame;
pub(crate) use peers::{Outlet, Parcel, Peers, Place};
use runtime::Runtime;
use tasks::Batch;

/// Executes one worker's graph.
///
/// [`start`](Engine::start) once. Then in turns: [`inject`](Engine::inject) what was received,
/// [`run`](Engine::run) the tasks that follow from it, and send what lies in each
/// [`outbox`](Engine::outbox). When [`idle`](Engine::idle), nothing happens before
/// [`next_deadline`](Engine::next_deadline) unless something is injected. Nothing here blocks, and
/// nothing allocates once the queues have grown to what the traffic needs.
pub struct Engine {
    plan: Arc<Blueprint>,
    blocks: Vec<Option<Box<dyn Block>>>,
    shortcuts: Vec<Box<dyn Shortcut>>,
    frame: Frame,
    runtime: Runtime,
    /// What readers hold.
    counters: Arc<Counters>,
    /// Away while `run` uses it.
    burst: Option<Box<Burst>>,
    #[cfg(test)]
    pub(crate) trace: Option<trace::Trace>,
}

impl Engine {
    /// An engine for `schedule`, whose frames come from `pool`.
    pub fn new(schedule: Schedule, pool: PoolCache, limits: Limits) -> Engine {
        let Schedule { plan, blocks, shortcuts } = schedule;
        let cells = Arc::new(Cells::new(&plan.layout));
        let limits = Limits { batch: limits.batch.clamp(1, BURST), ..limits };
        Engine {
            frame: Frame::new(&plan.program),
            runtime: Runtime::new(plan.program.entries.len(), cells.clone(), pool, limits),
            counters: Arc::new(Counters::new(cells)),
            plan,
            blocks,
            shortcuts,
            burst: Some(Box::new(Burst::new())),
            #[cfg(test)]
            trace: None,
        }
    }

    /// Enqueues a HIGH task without a buffer for every node with the attribute `init` that is at home
    /// here.
    pub fn start(&mut self) {
        let program = &self.plan.program;
        for entry in &program.init {
            if !self.runtime.is_home(program.home(*entry)) {
                continue;
            }
            // A queue too small for one task is a bound like any other.
            let _ = self.runtime.tasks.lane(Priority::High).push(*entry, None);
        }
    }

    /// The entry at the node called `node`. Look it up once, not per packet.
    pub fn entry(&self, node: &str) -> Option<Entry> {
        self.plan.program.entry(node)
    }

    /// Runs `tasks` from `entry` to completion at once, before any queued task: the fast path for
    /// received packets. Their buffers are in the burst's slots of the same numbers (a task
    /// without one has none), and leave them empty. `entry` is of this engine.
    pub fn inject(&mut self, entry: Entry, burst: &mut Burst, tasks: Mask, now: Nanos) {
        if tasks == 0 {
            return;
        }
        let occupied = bits(tasks).fold(0, |m, i| m | u64::from(burst.get(i).is_some()) << i);
        self.walk(burst, Batch { entry, tasks, occupied }, now);
    }

    /// Runs queued tasks: those whose delay is over, then HIGH before LOW, until none is left or
    /// `budget` tasks have run. LOW ones get a batch per call even when HIGH ones use the budget
    /// up. Returns how many ran.
    pub fn run(&mut self, now: Nanos, budget: usize) -> usize {
        self.runtime.start_delayed(&self.plan.program, now);
        let mut burst = self.burst.take().unwrap_or_default();
        let (mut done, mut low) = (0, 0);
        while done < budget {
            let high = self.run_high(&mut burst, budget - done, now);
            let ran =
                if high > 0 { high } else { self.run_low(&mut burst, budget - done, low, now) };
            if ran == 0 {
                break;
            }
            low += if high > 0 { 0 } else { ran };
            done += ran;
        }
        if low == 0 && budget > 0 && done >= budget {
            done += self.run_low(&mut burst, usize::MAX, 0, now);
        }
        self.burst = Some(burst);
        done
    }

    fn run_high(&mut self, burst: &mut Box<Burst>, max: usize, now: Nanos) -> usize {
        let max = max.min(self.runtime.limits.batch);
        let batch = self.runtime.tasks.next_high(burst, max);
        batch.map_or(0, |batch| self.walk(burst, batch, now))
    }

    fn run_low(&mut self, burst: &mut Box<Burst>, max: usize, served: usize, now: Nanos) -> usize {
        let share = self.runtime.limits.low_share.saturating_sub(served);
        let max = max.min(share).min(self.runtime.limits.batch);
        if max == 0 {
            return 0;
        }
        let batch = self.runtime.tasks.next_low(burst, max);
        batch.map_or(0, |batch| self.walk(burst, batch, now))
    }

    fn walk(&mut self, burst: &mut Burst, batch: Batch, now: Nanos) -> usize {
        let Engine { plan, blocks, shortcuts, frame, runtime, .. } = self;
        let walk = Walk {
            program: &plan.program,
            blocks,
            shortcuts,
            frame,
            runtime,
            burst,
            batch,
            now,
            #[cfg(test)]
            trace: self.trace.as_mut(),
        };
        walk.run();
        batch.tasks.count_ones() as usize
    }

    /// The packets that wait for link number `link`, first in, first out. Take what can be sent.
    ///
    /// Panics when `link` is not below [`Limits::links`].
    pub fn outbox(&mut self, link: u16) -> &mut VecDeque<Buffer> {
        self.runtime.outboxes.of(link).expect("the engine was told how many links there are")
    }

    /// How many packets every outbox still takes. Inject no more than that at once, so that
    /// packets wait in the device and are not dropped here.
    pub fn outbox_room(&self) -> usize {
        self.runtime.outboxes.room()
    }

    /// The same for the links that `counts` chooses.
    pub(crate) fn room_of(&self, counts: impl Fn(usize) -> bool) -> usize {
        self.runtime.outboxes.room_of_those(counts)
    }

    /// Hands what waits for a link over to a worker that serves it, as far as there is room. `false`:
    /// nobody does.
    pub(crate) fn carry(&mut self, link: u16) -> bool {
        let Runtime { peers, outboxes, .. } = &mut self.runtime;
        match (peers, outboxes.of(link)) {
            (Some(peers), Some(outbox)) => peers.carry(link, outbox),
            _ => false,
        }
    }

    /// The frames, for links to receive into and to send from.
    pub fn pool(&mut self) -> &mut PoolCache {
        &mut self.runtime.pool
    }

    /// The pool together with link number `link`'s outbox: what [`weever_link::LinkQueue::tx`]
    /// takes. Panics as [`outbox`](Self::outbox) does.
    pub fn transmit(&mut self, link: u16) -> (&mut PoolCache, &mut VecDeque<Buffer>) {
        let outbox = self.runtime.outboxes.of(link);
        let outbox = outbox.expect("the engine was told how many links there are");
        (&mut self.runtime.pool, outbox)
    }

    /// When [`run`](Self::run) has to be called at the latest for the sake of delayed tasks.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.runtime.delayed.next_deadline()
    }

    /// Whether no task is ready to run. Delayed and blocked tasks, and outboxes, do not count.
    pub fn idle(&self) -> bool {
        self.runtime.tasks.is_empty()
    }

    /// The counters, readable from any thread.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// The bounds it runs under.
    pub fn limits(&self) -> &Limits {
        &self.runtime.limits
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} entries)", self.plan.program.entries.len())
    }
}
