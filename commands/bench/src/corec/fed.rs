//! What it costs to take packets off a shared ring while a producer fills it, as a device would.
//!
//! A consumer that finds less than a batch waits for the producer, and its time is the producer's: the report says
//! how often. The producer needs a core of its own. So on two cores there is one consumer; how several contend is
//! measured on a ring that was filled before ([`claims`](super::claims)), and here where there are more cores.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};

use weever_testbed::allowed_cores;

use super::claims::{BATCH, Feed, Kind, Ring, THREADS, each_once, plain, pop};
use super::crew::{Crew, Member};
use crate::samples::Samples;
use crate::{BenchError, Report};

/// Slots of the ring, as of a large device queue.
const RING: u32 = 4096;
/// What the producer puts in before it lets consumers see it: as many as the kernel handles in a poll of a device.
const AT_ONCE: u64 = 64;
/// Packets of a run.
const PACKETS: u64 = if cfg!(test) { 1 << 14 } else { 1 << 19 };
/// Runs in a round.
const RUNS: usize = 3;

/// A thread of a run.
enum Role<T> {
    Take(T),
    Give(Feed),
}

/// What a thread took.
#[derive(Default)]
struct Taken {
    count: u64,
    sum: u64,
    takes: u64,
    /// Takes of less than a batch.
    short: u64,
    nanos: u64,
}

/// Nanoseconds of the team for each packet, and the percentage of takes that found less than a batch.
type Cost = (f64, f64);

/// Has consumers take what a producer gives.
fn run<T>(consumers: impl IntoIterator<Item = T>, feed: Feed) -> Result<Cost, BenchError>
where
    T: FnMut(&mut [u64; BATCH]) -> usize + Send,
{
    let over = AtomicBool::new(false);
    let roles = consumers.into_iter().map(Role::Take).chain([Role::Give(feed)]);
    let thread = |role| {
        let over = &over;
        move |member: &Member<'_>| {
            member.begin();
            Ok(match role {
                Role::Take(take) => {
                    let taken = consume(take, over);
                    Taken { nanos: member.nanos(), ..taken }
                }
                Role::Give(feed) => {
                    produce(feed);
                    over.store(true, Ordering::Release);
                    Taken::default()
                }
            })
        }
    };
    let all = Crew::run(roles.map(thread))?;
    let total = |of: fn(&Taken) -> u64| all.iter().map(of).sum::<u64>();
    each_once(PACKETS, total(|taken| taken.count), total(|taken| taken.sum))?;
    let longest = all.iter().map(|taken| taken.nanos).max().unwrap_or_default();
    let short = total(|taken| taken.short) as f64 / total(|taken| taken.takes).max(1) as f64;
    Ok((longest as f64 / PACKETS as f64, short * 100.0))
}

/// Gives the numbers of all packets.
fn produce(mut feed: Feed) {
    let mut numbers = [0; AT_ONCE as usize];
    for first in (0..PACKETS).step_by(AT_ONCE as usize) {
        (first..).zip(&mut numbers).for_each(|(number, place)| *place = number);
        let mut left = &numbers[..];
        while !left.is_empty() {
            left = &left[feed.give(left)..];
            spin_loop();
        }
    }
}

/// Takes until the producer has ended and nothing is left.
fn consume(mut take: impl FnMut(&mut [u64; BATCH]) -> usize, over: &AtomicBool) -> Taken {
    let (mut out, mut all) = ([0; BATCH], Taken::default());
    loop {
        let is_last = over.load(Ordering::Acquire);
        let taken = take(&mut out);
        if taken == 0 && is_last {
            return all;
        }
        all.takes += 1;
        all.short += u64::from(taken < BATCH);
        all.count += taken as u64;
        all.sum += black_box(&out[..taken]).iter().sum::<u64>();
    }
}

/// The costs of a kind of ring with some consumers.
#[derive(Default)]
struct Costs {
    nanos: Samples,
    short: Samples,
}

impl Costs {
    fn push(&mut self, (nanos, short): Cost) {
        self.nanos.push(nanos);
        self.short.push(short);
    }

    fn report(&self, report: &mut Report, name: &str) {
        report.row(&format!("claim beside a producer: {name}"), "ns/packet", &self.nanos);
        report.row(&format!("takes of less than a batch: {name}"), "%", &self.short);
    }
}

/// The costs of all kinds.
pub(super) struct Fed {
    cores: Vec<usize>,
    plain: Costs,
    /// By the number of consumers, as many as there are cores for.
    shared: Vec<(usize, [Costs; Kind::ALL.len()])>,
}

impl Fed {
    pub(super) fn new() -> Result<Fed, BenchError> {
        let cores = allowed_cores().map_err(BenchError::of("cores"))?;
        let fitting = THREADS.into_iter().filter(|consumers| *consumers < cores.len());
        let shared = fitting.map(|consumers| (consumers, Default::default())).collect();
        Ok(Fed { cores, plain: Costs::default(), shared })
    }

    /// A round of all of them: some short runs.
    pub(super) fn round(&mut self) -> Result<(), BenchError> {
        for _ in 0..RUNS {
            let (mut ring, feed) = plain(RING);
            self.plain.push(run([|out: &mut [u64; BATCH]| pop(&mut ring, out)], feed)?);
            for (consumers, costs) in &mut self.shared {
                for (kind, costs) in Kind::ALL.into_iter().zip(costs) {
                    let (ring, feed) = Ring::new(kind, RING);
                    let ring = &ring;
                    let takes = (0..*consumers).map(|_| |out: &mut [u64; BATCH]| ring.take(out));
                    costs.push(run(takes, feed)?);
                }
            }
        }
        Ok(())
    }

    pub(super) fn report(&self, report: &mut Report) {
        let Some((most, _)) = self.shared.last() else { return };
        report.setup(format!(
            "claims beside a producer: a ring of {RING}, {AT_ONCE} packets at once; consumers from core {} on, the producer \
             on core {}; with {} cores, up to {most} consumers have one each",
            self.cores[0],
            self.cores[*most],
            self.cores.len(),
        ));
        self.plain.report(report, "plain ring, one consumer");
        for (consumers, costs) in &self.shared {
            for (kind, costs) in Kind::ALL.into_iter().zip(costs) {
                costs.report(report, &format!("{}, consumers: {consumers}", kind.name()));
            }
        }
        let (_, [claims, mutex, spinlock]) = &self.shared[0];
        let mut ratio = |key, peer: &Costs| {
            report.ratio(key, "ratio", &claims.nanos.ratio(&peer.nanos));
        };
        ratio("claim_fed_vs_plain", &self.plain);
        ratio("claim_fed_vs_mutex", mutex);
        ratio("claim_fed_vs_spinlock", spinlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_taken_once_beside_the_producer() {
        for kind in Kind::ALL {
            for consumers in [1, 2] {
                let (ring, feed) = Ring::new(kind, RING);
                let ring = &ring;
                let takes = (0..consumers).map(|_| |out: &mut [u64; BATCH]| ring.take(out));
                let (nanos, short) = run(takes, feed).unwrap();
                assert!(nanos > 0.0 && (0.0..=100.0).contains(&short), "{kind:?} {consumers}");
            }
        }
    }

    #[test]
    fn a_consumer_that_loses_packets_is_noticed() {
        let (mut ring, feed) = plain(RING);
        let loses = |out: &mut [u64; BATCH]| pop(&mut ring, out).saturating_sub(1);
        assert!(run([loses], feed).is_err());
    }

    #[test]
    fn the_report_says_how_often_the_ring_ran_dry() {
        let mut fed = Fed::new().unwrap();
        fed.cores = vec![3, 4];
        fed.shared = vec![(1, Default::default())];
        fed.plain.push((2.0, 10.0));
        for costs in &mut fed.shared[0].1 {
            costs.push((4.0, 20.0));
        }
        let mut report = Report::new("any");
        fed.report(&mut report);
        assert!(report.to_string().contains("the producer on core 4; with 2 cores"), "{report}");
        assert_eq!(report.ratios["claim_fed_vs_plain"], 2.0);
        let short = |row: &&crate::report::Row| row.name.starts_with("takes of less");
        assert_eq!(report.rows.iter().filter(short).count(), 4);
    }
}
