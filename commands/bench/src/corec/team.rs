//! Threads with a router each, which receive until no packet is left; [`Servers`] are two of them.

use weever_packet::Pool;

use super::calm::Moment;
use super::crew::{Crew, Member};
use super::gateway::{Router, Work};
use super::queue::{Packet, Plain, Queue, Source, Spread, Taken, queues};
use crate::BenchError;

/// Packets of a table's run.
pub(super) const PACKETS: u64 = 30_000;

/// The packets of a run that measures the threads' present throughput.
const FEW: u64 = 1000;

/// Two threads, and the way in which packets come to them.
pub(super) trait Servers {
    /// They serve so many packets, `pause` nanoseconds apart on average, or as fast as they can if that is 0: on one
    /// queue for both, or with a queue each. Also returns how many packets were lost.
    fn serve(
        &mut self,
        is_shared: bool,
        spread: Spread,
        load: (u64, f64),
        seed: u64,
    ) -> Result<(Outcome, u64), BenchError>;

    /// The mean time between packets when the threads share a queue that always has some, in nanoseconds.
    fn busy(&mut self) -> Result<f64, BenchError> {
        let (outcome, _) = self.serve(true, Spread::Even, (FEW, 0.0), 0)?;
        Ok(outcome.seconds * 1e9 / outcome.left.len().max(1) as f64)
    }
}

/// A router for each thread, of one kind.
pub(super) struct Team {
    pub(super) routers: Vec<Router>,
}

/// The outcome of one run.
pub(super) struct Outcome {
    pub(super) seconds: f64,
    /// Nanoseconds from each packet's arrival until it left.
    pub(super) latencies: Vec<f64>,
    /// Nanoseconds in which its threads waited for a core.
    pub(super) lost: u64,
    /// When each packet left, and its number.
    pub(super) left: Vec<(u64, u64)>,
}

impl Team {
    pub(super) fn new(work: Work, threads: usize) -> Result<Team, BenchError> {
        Team::on(work, threads, None)
    }

    /// With routers whose packets lie in this pool.
    pub(super) fn on(work: Work, threads: usize, pool: Option<&Pool>) -> Result<Team, BenchError> {
        let router =
            |_| pool.map_or_else(|| Router::new(work), |pool| Router::on(work, pool.clone()));
        Ok(Team { routers: (0..threads).map(router).collect::<Result<_, _>>()? })
    }

    /// Has a thread receive from each source until nothing is left.
    pub(super) fn run(&mut self, sources: Vec<impl Source>) -> Result<Outcome, BenchError> {
        let thread = |(source, router)| move |member: &Member<'_>| receive(source, router, member);
        let results = Crew::run(sources.into_iter().zip(&mut self.routers).map(thread))?;
        let lost = results.iter().map(|(_, lost)| lost).sum();
        let served: Vec<Served> = results.into_iter().flat_map(|(served, _)| served).collect();
        let latency = |(left, packet): &Served| left.saturating_sub(packet.arrives) as f64;
        let latencies = served.iter().map(latency).collect();
        let left: Vec<_> = served.iter().map(|(left, packet)| (*left, packet.number)).collect();
        let last = left.iter().map(|(left, _)| *left).max().unwrap_or_default();
        Ok(Outcome { seconds: last as f64 / 1e9, latencies, lost, left })
    }

    /// Two threads on one queue or on one each.
    pub(super) fn pair(&mut self, queues: &[Queue]) -> Result<Outcome, BenchError> {
        self.run((0..2).map(|thread| &queues[thread % queues.len()]).collect())
    }

    /// Millions of packets a second by so many threads on one queue.
    pub(super) fn shared(&mut self, threads: usize) -> Result<f64, BenchError> {
        let queues = queues((threads, true), Spread::Even, (PACKETS, 0.0), 0);
        Ok(rate(&self.run(vec![&queues[0]; threads])?))
    }

    /// The same by one thread on a plain ring.
    pub(super) fn plain(&mut self) -> Result<f64, BenchError> {
        let packets = (0..PACKETS).map(|number| Packet { number, arrives: 0 }).collect();
        Ok(rate(&self.run(vec![Plain::new(packets)])?))
    }
}

/// On queues in memory.
impl Servers for Team {
    fn serve(
        &mut self,
        is_shared: bool,
        spread: Spread,
        load: (u64, f64),
        seed: u64,
    ) -> Result<(Outcome, u64), BenchError> {
        let queues = queues((2, is_shared), spread, load, seed);
        let outcome = self.pair(&queues)?;
        Ok((outcome, queues.iter().map(Queue::dropped).sum()))
    }
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.left.len() as f64 / outcome.seconds / 1e6
}

/// A packet, and when it left: in nanoseconds after the start.
type Served = (u64, Packet);

/// Receives until no packet is left, and returns the time for which it waited for a core. Packets of a
/// burst leave together.
fn receive(
    mut source: impl Source,
    router: &mut Router,
    member: &Member<'_>,
) -> Result<(Vec<Served>, u64), BenchError> {
    let mut taken: Taken = [Packet::default(); 64];
    let mut served = Vec::with_capacity(PACKETS as usize);
    member.begin();
    let began = Moment::now();
    while let Some(count) = source.receive(member.nanos(), &mut taken) {
        if count == 0 {
            std::hint::spin_loop();
            continue;
        }
        match source.frames() {
            Some(frames) => router.route(frames, count, 0)?,
            None => router.serve(&taken[..count], 0)?,
        }
        let left = member.nanos();
        served.extend(taken[..count].iter().map(|packet| (left, *packet)));
    }
    Ok((served, began.lost()))
}
