//! Flows with state move between two workers while their packets arrive as fast as the workers take them, over any
//! link.
//!
//! The source sends as long as the link takes packets. In memory the link takes what the workers have room for; on a veth
//! the source is limited by its own system calls, and what the workers do not take in time the devices drop. The rate of
//! flows at rest is measured first, in the same way. While flows move, no more
//! packets are under way than a worker may hold for a state ([`Limits::held`]): further ones
//! would be dropped, and counted at the node, when a worker has no core for some milliseconds.
//!
//! A packet counts as lost by a move if it was sent, is not among those that arrived in order, and no device has
//! counted it as dropped.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weever_block::{Env, Registry};
use weever_engine::{
    CounterKind, Counters, Limits, Member, MemberQueue, Mode, Publisher, Team, TeamError, Waker,
    Worker, WorkerStats,
};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Pool, PoolCache};

use super::flood::pool;
use super::sequence::{ARRIVE, COUNTERS, IN_ORDER, SEQUENCE, graph, key, packet};
use crate::{BenchError, Report, Samples};

const FAILED: &str = "moves";
pub(super) const WORKERS: usize = 2;
pub(super) const FLOWS: usize = 5;
pub(super) const MOVES: usize = 1000;
/// How long packets of flows at rest are counted.
pub(super) const AT_REST: Duration = Duration::from_millis(500);
/// How long a move may take on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the last packets may take to arrive; those that have not by then are lost.
const LAST: Duration = Duration::from_secs(1);
/// After this time without progress, the devices are asked for packets that they have dropped.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// A link between the source and the workers, with a queue for each of these.
pub(super) struct Cable<'a> {
    /// The workers' ends.
    pub(super) near: Vec<Box<dyn LinkQueue>>,
    /// The source's ends, in the same order.
    pub(super) far: Vec<Box<dyn LinkQueue>>,
    /// The pools of both ends.
    pub(super) pools: [Pool; 2],
    /// How many packets the devices have dropped between the ends so far.
    pub(super) dropped: &'a (dyn Fn() -> Result<u64, BenchError> + Sync),
}

/// What is done with the flows while their packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// They rest for so long.
    Rest(Duration),
    /// They move to and fro, at least so often.
    Moves(usize),
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) moved: usize,
    pub(super) sent: u64,
    pub(super) in_order: u64,
    /// Packets that were reordered, or answered by a worker without the state.
    wrong: u64,
    /// Packets that the devices have dropped.
    pub(super) dropped: u64,
    pub(super) seconds: f64,
}

impl Outcome {
    /// Packets that were lost, less those that the devices have dropped; and those that were reordered, or answered by
    /// a worker without the state. A device may also have dropped a few of the kernel's.
    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.in_order + self.wrong + self.dropped) + self.wrong
    }

    /// Millions of packets per second that arrived in order.
    fn mpps(&self) -> f64 {
        self.in_order as f64 / self.seconds / 1e6
    }

    /// Adds rows with the rates at rest and of moving flows and the duration of a move, and the figures of packets lost
    /// by moves and of the rate.
    pub(super) fn show(&self, at_rest: &Outcome, on: &str, to: &str, report: &mut Report) {
        let rates = [at_rest.mpps(), self.mpps()];
        for (what, rate) in ["at rest", "that move"].into_iter().zip(rates) {
            report.row(&format!("{on}packets of flows {what}"), "Mpps", &Samples(vec![rate]));
        }
        let each = self.seconds / self.moved.max(1) as f64 * 1e6;
        report.row(&format!("{on}a move of five flows, per flow"), "µs", &Samples(vec![each]));
        report.ratio(
            &format!("flow_moves_lost{to}"),
            "packets",
            &Samples(vec![self.lost() as f64]),
        );
        report.ratio(&format!("flow_moves_rate{to}"), "", &Samples(vec![rates[1] / rates[0]]));
    }
}

pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    let at_rest = run(in_memory(&pool()?)?, Job::Rest(AT_REST))?;
    let outcome = run(in_memory(&pool()?)?, Job::Moves(MOVES))?;
    report.setup(format!(
        "flow_moves_lost: {FLOWS} flows with state, {} moves between {WORKERS} workers, memory link; the rate is what \
         the workers take; flow_moves_rate: moving : at rest",
        outcome.moved
    ));
    outcome.show(&at_rest, "", "", report);
    Ok(())
}

/// A link in memory, which drops nothing.
fn in_memory(pool: &Pool) -> Result<Cable<'static>, BenchError> {
    let config = MemoryConfig { queues: WORKERS as u16, ring: 512, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).map_err(BenchError::of(FAILED))?;
    Ok(Cable {
        near: left.take_queues(),
        far: right.take_queues(),
        pools: [pool.clone(), pool.clone()],
        dropped: &|| Ok(0),
    })
}

/// Does the job while packets of the flows arrive.
pub(super) fn run(cable: Cable<'_>, job: Job) -> Result<Outcome, BenchError> {
    let Cable { near, mut far, pools: [pool, far_pool], dropped } = cable;
    let limits = Limits::within(pool.frames());
    let window = if matches!(job, Job::Moves(_)) { limits.held as u64 } else { u64::MAX };
    let team = team(near, &pool, limits).map_err(BenchError::of("team"))?;
    let Team { mut workers, publisher } = team;
    let wakers: Vec<Waker> = workers.iter().map(Worker::waker).collect();
    let counters: Vec<_> = workers.iter_mut().map(|worker| worker.engine().counters()).collect();
    let way = Way {
        arrives_at: Default::default(),
        sent: Default::default(),
        stats: workers.iter().map(Worker::stats).collect(),
        dropped,
        before: dropped()?,
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop_workers = StopOnDrop(&stop, &wakers);
        for worker in &mut workers {
            let stop = &stop;
            scope.spawn(move || worker.run(stop, Mode::default(), |_| ()));
        }
        let (cache, next) = (far_pool.cache(), [0; FLOWS]);
        let (full_since, known) = (None, 0);
        let mut source = Source {
            queues: &mut far,
            cache,
            next,
            counters: &counters,
            window,
            full_since,
            known,
        };
        let started = Instant::now();
        // Every flow begins where it arrives.
        (0..FLOWS).try_for_each(|flow| source.send(flow, &way, 1))?;
        let mover = scope.spawn(|| match job {
            Job::Moves(wanted) => mover(&publisher, &way, wanted),
            Job::Rest(time) => {
                std::thread::sleep(time);
                Ok(0)
            }
        });
        let mut flow = 0;
        while !mover.is_finished() {
            flow = (flow + 1) % FLOWS;
            source.send(flow, &way, 64)?;
        }
        let moved = mover.join().map_err(|_| BenchError::of(FAILED)("the mover panicked"))??;
        let until = Instant::now() + LAST;
        while source.under_way() > way.dropped()? && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seconds = started.elapsed().as_secs_f64();
        let in_order = counted(&counters, &COUNTERS[IN_ORDER..=IN_ORDER]);
        let (sent, wrong) = (source.sent(), counted(&counters, COUNTERS) - in_order);
        Ok(Outcome { moved, sent, in_order, wrong, dropped: way.dropped()?, seconds })
    })
}

/// The packets that all workers have counted under these names.
fn counted(workers: &[Arc<Counters>], names: &[&str]) -> u64 {
    let count = |counters: &Arc<Counters>, name| counters.get("Sequence", CounterKind::Own, name);
    let all = workers.iter().flat_map(|counters| names.iter().map(move |name| (counters, name)));
    all.filter_map(|(counters, name)| count(counters, name)).sum()
}

/// The way of packets from the source to the workers.
struct Way<'a> {
    /// By flow, the queue at which its packets arrive.
    arrives_at: [Mutex<usize>; FLOWS],
    /// By queue: the packets sent to it so far.
    sent: [AtomicU64; WORKERS],
    stats: Vec<Arc<WorkerStats>>,
    dropped: &'a (dyn Fn() -> Result<u64, BenchError> + Sync),
    /// Packets that had been dropped before.
    before: u64,
}

impl Way<'_> {
    fn queue_of(&self, flow: usize) -> std::sync::MutexGuard<'_, usize> {
        self.arrives_at[flow].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> Result<u64, BenchError> {
        Ok((self.dropped)()? - self.before)
    }

    /// Waits until workers have received what was sent until now, as far as it was not dropped: the last packets
    /// of the old way may still be in the kernel when their sender has sent them.
    fn await_sent(&self) -> Result<(), BenchError> {
        let sent: u64 = self.sent.iter().map(|sent| sent.load(Relaxed)).sum();
        let started = Instant::now();
        loop {
            let received: u64 = self.stats.iter().map(|stats| stats.received()).sum();
            let waited = started.elapsed();
            if received >= sent || waited > LOOK_AFTER && received + self.dropped()? >= sent {
                return Ok(());
            }
            if waited > PATIENCE {
                return Err(stuck("packets have not arrived, and no device has dropped them"));
            }
            std::thread::yield_now();
        }
    }
}

fn stuck(what: &str) -> BenchError {
    BenchError::of(FAILED)(what.to_owned())
}

fn mover(publisher: &Arc<Publisher>, way: &Way<'_>, wanted: usize) -> Result<usize, BenchError> {
    let owners = publisher.flow_owners("Sequence").map_err(BenchError::of(FAILED))?;
    let until = Instant::now() + PATIENCE;
    while owners.len() < FLOWS {
        if Instant::now() > until {
            return Err(stuck("not every flow has begun"));
        }
        std::thread::yield_now();
    }
    let mut moved = 0;
    while moved < wanted {
        let to = |flow: usize| (1 - *way.queue_of(flow)) as u16;
        let moves: Vec<_> = (0..FLOWS).map(|flow| (key(flow as u64), to(flow))).collect();
        let moves = publisher.begin_moves("Sequence", &moves).map_err(BenchError::of(FAILED))?;
        if !moves.wait_begun(PATIENCE) {
            return Err(stuck("a worker has not begun a move"));
        }
        for flow in 0..FLOWS {
            let mut at = way.queue_of(flow);
            *at = 1 - *at;
        }
        way.await_sent()?;
        moves.redirected();
        let outcome = moves.wait(PATIENCE);
        if outcome.open > 0 {
            return Err(stuck("a flow has not arrived"));
        }
        moved += outcome.moved;
    }
    Ok(moved)
}

/// Makes the flows' packets.
struct Source<'a> {
    queues: &'a mut [Box<dyn LinkQueue>],
    cache: PoolCache,
    /// By flow: the position of its next packet.
    next: [u64; FLOWS],
    counters: &'a [Arc<Counters>],
    /// Packets that may be under way at once, over all flows.
    window: u64,
    /// Since when as many have been.
    full_since: Option<Instant>,
    /// Packets that the devices are known to have dropped.
    known: u64,
}

impl Source<'_> {
    fn sent(&self) -> u64 {
        self.next.iter().sum()
    }

    /// Packets that were sent and have not reached their block.
    fn under_way(&self) -> u64 {
        self.sent() - counted(self.counters, COUNTERS)
    }

    /// Whether so many more packets may be under way. Asking the devices takes time, so they are only asked when
    /// nothing has come through for a while.
    fn may_send(&mut self, way: &Way<'_>, packets: u64) -> Result<bool, BenchError> {
        if self.window == u64::MAX || self.under_way() - self.known + packets <= self.window {
            self.full_since = None;
            return Ok(true);
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        if since.elapsed() > LOOK_AFTER {
            self.known = way.dropped()?;
        }
        Ok(false)
    }

    /// Sends packets of a flow to where they are to arrive now, as far as there is room.
    fn send(&mut self, flow: usize, way: &Way<'_>, packets: u64) -> Result<(), BenchError> {
        if !self.may_send(way, packets)? {
            std::thread::yield_now();
            return Ok(());
        }
        let mut frames = VecDeque::new();
        for position in self.next[flow]..self.next[flow] + packets {
            let Some(mut buffer) = self.cache.alloc() else { break };
            let fits = buffer.append(&packet(flow as u64, position));
            debug_assert!(fits, "sixty bytes fit a frame");
            frames.push_back(buffer);
        }
        // Held while it is sent: packets sent before a redirection are counted by then.
        let at = way.queue_of(flow);
        let queue = &mut self.queues[*at];
        let sent = queue.tx(&mut self.cache, &mut frames).map_err(BenchError::of(FAILED))?;
        while queue.unsent() {
            queue.flush(&mut self.cache).map_err(BenchError::of(FAILED))?;
        }
        way.sent[*at].fetch_add(sent as u64, Relaxed);
        drop(at);
        self.next[flow] += sent as u64;
        frames.into_iter().for_each(|frame| self.cache.free(frame));
        Ok(())
    }
}

/// Ends the workers, also after an error.
struct StopOnDrop<'a>(&'a AtomicBool, &'a [Waker]);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.iter().for_each(Waker::wake);
    }
}

/// `Arrive` and `Sequence` on workers with a queue each.
fn team(queues: Vec<Box<dyn LinkQueue>>, pool: &Pool, limits: Limits) -> Result<Team, TeamError> {
    let member = |(i, queue)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits,
        queues: vec![MemberQueue { link: 0, source: "Arrive".into(), queue }],
    };
    let members = queues.into_iter().enumerate().map(member).collect();
    let registry = Registry::new().with(&[&ARRIVE, &SEQUENCE]);
    Team::build(graph(), registry, Arc::new(Env::new()), members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_flows_lose_nothing() {
        let outcome = run(in_memory(&pool().unwrap()).unwrap(), Job::Moves(25)).unwrap();
        assert!(outcome.moved >= 25 && outcome.sent > 0, "{outcome:?}");
        assert_eq!(outcome.sent, outcome.in_order, "{outcome:?}");
    }

    #[test]
    fn flows_at_rest_lose_nothing_without_a_window() {
        let at_rest = Job::Rest(Duration::from_millis(20));
        let outcome = run(in_memory(&pool().unwrap()).unwrap(), at_rest).unwrap();
        assert!(outcome.moved == 0 && outcome.sent > 0, "{outcome:?}");
        assert_eq!(outcome.sent, outcome.in_order, "{outcome:?}");
    }
}
