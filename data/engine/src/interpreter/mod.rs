//! The interpreter: runs a compiled graph on batches of tasks.

mod batch;
mod contain;
mod count;
mod course;
mod exchange;
mod flows;
mod following;
mod leaving;
mod listing;
mod moving;
mod peers;
mod requests;
mod runtime;
mod switch;
mod task_queues;
#[cfg(test)]
mod tests;
mod together;
#[cfg(test)]
pub(crate) mod trace;
mod waiting;
mod walk;

use std::collections::VecDeque;
use std::sync::Arc;

use weever_block::{Block, Priority, Shortcut};
use weever_packet::{BURST, Buffer, Burst, Mask, Nanos, PoolCache, number_of};

use crate::counters::Cells;
use crate::faults::Faults;
use crate::schedule::{BlockMaker, CompiledGraph};
use crate::{Counters, Entry, Limits, Schedule};
use batch::BatchState;
pub(crate) use moving::Reception;
pub(crate) use peers::{Message, PeerSender, Peers};
pub(crate) use runtime::Offered;
use runtime::Runtime;
use task_queues::Batch;
use walk::Walk;

/// Executes one worker's graph.
///
/// Call [`start`](Engine::start) once. Then repeatedly: [`inject`](Engine::inject) received
/// packets, [`run`](Engine::run) the tasks they cause, and send the packets in each
/// [`outbox`](Engine::outbox). When [`idle`](Engine::idle), nothing happens before
/// [`next_deadline`](Engine::next_deadline) unless something is injected. No call blocks, and none
/// allocates once the queues have grown to the size that the traffic needs.
///
/// ```
/// use weever_block::{Block, BlockType, Burst, Cx, Env, Mask, Ports, Registry, StateKind};
/// use weever_engine::{Engine, Limits, Schedule};
/// use weever_graph::{Attr, Effects, Graph, Node, NodeKind, verify};
/// use weever_packet::{Pool, PoolConfig};
///
/// /// Sends its packets to link 0.
/// struct Send;
///
/// impl Block for Send {
///     fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
///         cx.transmit(0, input);
///     }
/// }
///
/// static SEND: BlockType = BlockType {
///     name: "Send",
///     summary: "Sends to link 0.",
///     ports: &[],
///     spawns: &[],
///     notifies: &[],
///     effects: Effects::READS,
///     state: StateKind::None,
///     params: &[],
///     counters: &[],
///     make: |_| Ok(Box::new(Send)),
/// };
///
/// let mut node = Node::new("Out", NodeKind::Function);
/// node.implementation = Some("Send".into());
/// node.attrs.push(Attr::Source);
/// let mut graph = Graph::new("send");
/// graph.add(node);
///
/// let registry = Registry::new().with(&[&SEND]);
/// registry.annotate(&mut graph)?;
/// let graph = verify(graph).expect("it is sound");
/// let schedule = Schedule::compile(&graph, &registry, &Env::new())?;
/// let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() })?;
/// let mut engine = Engine::new(schedule, pool.cache(), Limits::default());
///
/// let mut burst = Burst::new();
/// burst.put(0, engine.pool().alloc().expect("frames are free"));
/// let entry = engine.entry("Out").expect("the graph has it");
/// engine.inject(entry, &mut burst, 0b1, 0);
/// assert_eq!(engine.outbox(0).len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    plan: Arc<CompiledGraph>,
    /// By place.
    blocks: Vec<Option<Box<dyn Block>>>,
    shortcuts: Vec<Option<Box<dyn Shortcut>>>,
    /// Makes the successors of blocks that panicked.
    maker: Arc<BlockMaker>,
    faults: Faults,
    state: BatchState,
    runtime: Runtime,
    /// Shared with readers on other threads.
    counters: Arc<Counters>,
    /// `None` while `run` uses it.
    burst: Option<Box<Burst>>,
    #[cfg(test)]
    pub(crate) trace: Option<trace::Trace>,
}

impl Engine {
    /// An engine for `schedule`, whose frames come from `pool`.
    pub fn new(schedule: Schedule, pool: PoolCache, limits: Limits) -> Engine {
        let Schedule { plan, blocks, shortcuts, maker } = schedule;
        let faults = Faults::default();
        let slots = plan.layout.slots();
        let cells = Arc::new(Cells::new(plan.layout.clone(), slots));
        let limits = Limits { batch: limits.batch.clamp(1, BURST), ..limits };
        Engine {
            state: BatchState::new(&plan.program),
            runtime: Runtime::new(plan.program.entries.len(), cells.clone(), pool, limits),
            counters: Arc::new(Counters::new(cells, faults.log())),
            plan,
            blocks,
            shortcuts,
            maker,
            faults,
            burst: Some(Box::new(Burst::new())),
            #[cfg(test)]
            trace: None,
        }
    }

    /// Enqueues a HIGH task without a buffer for every node with the attribute `init` that runs on
    /// this worker.
    pub fn start(&mut self) {
        let program = &self.plan.program;
        for entry in &program.init {
            if !self.runtime.is_home(program.home(*entry)) {
                continue;
            }
            // A queue too small for one task is a bound like any other.
            let _ = self.runtime.tasks.queue(Priority::High).push(*entry, None);
        }
    }

    /// The entry at the node called `node`. Look it up once, not per packet.
    pub fn entry(&self, node: &str) -> Option<Entry> {
        self.plan.program.entry(node)
    }

    /// Runs `tasks` from `entry` to completion at once, before any queued task: the fast path for
    /// received packets. A task's buffer is in the burst's slot of the same number; a task need not
    /// have one. All slots are empty afterwards. `entry` must be one of this engine's.
    pub fn inject(&mut self, entry: Entry, burst: &mut Burst, tasks: Mask, now: Nanos) {
        if tasks == 0 {
            return;
        }
        self.walk(burst, Batch::of(entry, burst, tasks), now);
    }

    /// As [`inject`](Self::inject), and runs the tasks that this causes, up to `budget`. Returns how many of those
    /// ran.
    pub fn receive(
        &mut self,
        entry: Entry,
        burst: &mut Burst,
        tasks: Mask,
        now: Nanos,
        budget: usize,
    ) -> usize {
        let mut ran = 0;
        if tasks != 0 {
            let batch = Batch::of(entry, burst, tasks);
            ran = self.walker(burst, batch, now).run_on(0, budget);
        }
        let left = budget.saturating_sub(ran);
        if self.runtime.tasks.is_empty() { ran } else { ran + self.run_queued(now, left) }
    }

    /// Polls blocks whose deadlines have come, and runs queued tasks, delayed ones that are due first, then HIGH before LOW, until none is left
    /// or `budget` tasks have run; a full burst is not split, so that up to 63 more may run. One batch of
    /// LOW tasks runs even if HIGH tasks use up the budget. Returns how many tasks ran.
    pub fn run(&mut self, now: Nanos, budget: usize) -> usize {
        self.runtime.start_delayed(&self.plan.program, now);
        let polled = self.poll_blocks(now);
        if self.runtime.tasks.is_empty() { polled } else { polled + self.run_queued(now, budget) }
    }

    fn run_queued(&mut self, now: Nanos, budget: usize) -> usize {
        let mut burst = self.burst.take().unwrap_or_default();
        let (mut done, mut low) = (0, 0);
        while done < budget && !self.runtime.tasks.is_empty() {
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

    /// Runs one batch of queued tasks, HIGH before LOW. Returns how many tasks ran.
    pub(crate) fn run_batch(&mut self, now: Nanos) -> usize {
        let mut burst = self.burst.take().unwrap_or_default();
        let high = self.run_high(&mut burst, BURST, now);
        let ran = if high > 0 { high } else { self.run_low(&mut burst, BURST, 0, now) };
        self.burst = Some(burst);
        ran
    }

    fn run_high(&mut self, burst: &mut Box<Burst>, budget: usize, now: Nanos) -> usize {
        let max = budget.min(self.runtime.limits.batch);
        let Some(batch) = self.runtime.tasks.next_high(burst, max) else { return 0 };
        self.walker(burst, batch, now).run_on(number_of(batch.tasks) as usize, budget)
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
        self.walker(burst, batch, now).run();
        number_of(batch.tasks) as usize
    }

    #[inline]
    fn walker<'a>(&'a mut self, burst: &'a mut Burst, batch: Batch, now: Nanos) -> Walk<'a> {
        let Engine { plan, blocks, shortcuts, maker, faults, state, runtime, .. } = self;
        Walk {
            plan,
            program: &plan.program,
            blocks,
            shortcuts,
            maker,
            faults,
            state,
            runtime,
            burst,
            batch,
            now,
            #[cfg(test)]
            trace: self.trace.as_mut(),
        }
    }

    /// The packets queued for link number `link`, oldest first. Remove those that were sent.
    ///
    /// Panics when `link` is not below [`Limits::links`].
    pub fn outbox(&mut self, link: u16) -> &mut VecDeque<Buffer> {
        self.runtime.outboxes.of(link).expect("the engine was told how many links there are")
    }

    /// The free room of the fullest outbox. Packets injected beyond that may be dropped where they
    /// are to be sent.
    pub fn outbox_room(&self) -> usize {
        self.runtime.outboxes.room()
    }

    /// The same for the links selected by `counts`.
    pub(crate) fn room_of(&self, counts: impl Fn(usize) -> bool) -> usize {
        self.runtime.outboxes.room_of_those(counts)
    }

    /// Hands the packets queued for a link over to a worker that serves it, as far as there is
    /// room. `false`: no worker serves it.
    pub(crate) fn send_by_peer(&mut self, link: u16) -> bool {
        let part = runtime::common_part(&self.plan.program);
        let Runtime { peers, outboxes, .. } = &mut self.runtime;
        match (peers, outboxes.of(link)) {
            (Some(peers), Some(outbox)) => peers.send_by_peer(link, outbox, part),
            _ => false,
        }
    }

    /// The frame cache, for links to receive into and to send from.
    pub fn pool(&mut self) -> &mut PoolCache {
        &mut self.runtime.pool
    }

    /// The pool together with link number `link`'s outbox: the arguments of
    /// [`weever_link::LinkQueue::tx`]. Panics as [`outbox`](Self::outbox) does.
    pub fn transmit(&mut self, link: u16) -> (&mut PoolCache, &mut VecDeque<Buffer>) {
        let outbox = self.runtime.outboxes.of(link);
        let outbox = outbox.expect("the engine was told how many links there are");
        (&mut self.runtime.pool, outbox)
    }

    /// The latest time to call [`run`](Self::run) for delayed tasks and deadlines of blocks.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let Runtime { delayed, deadlines, .. } = &self.runtime;
        [delayed.timed.next_deadline(), deadlines.next()].into_iter().flatten().min()
    }

    /// Whether no task is ready to run. Delayed and blocked tasks, and outboxes, do not count.
    pub fn idle(&self) -> bool {
        self.runtime.tasks.is_empty()
    }

    /// The counters, readable from any thread.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// The bounds of its queues.
    pub fn limits(&self) -> &Limits {
        &self.runtime.limits
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} entries)", self.plan.program.entries.len())
    }
}
