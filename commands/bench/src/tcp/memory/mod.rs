//! The engine beside smoltcp, in memory and on one thread: IPv4 packets in buffers, all checksums written
//! and verified, payload copied into the sender's region, out of it, and into the receiver's. A link holds 64
//! packets, as a batch of the graph does.

mod engine;
mod smoltcp;

use std::time::{Duration, Instant};

use weever_net::random::Random;

pub(crate) use self::engine::Weever;
use self::engine::{MESSAGE, MTU, TURN};
pub(crate) use self::smoltcp::Smoltcp;
use crate::samples::Plan;
use crate::{Report, Samples};

/// The connections of which a random one has a transaction: many, and few.
const MANY: usize = 100_000;
const FEW: usize = 100;
/// Octets and transactions between two looks at the clock.
const OCTETS: u64 = 1 << 20;
const TRANSACTIONS: usize = 500;

/// Adds the keys that need no device.
pub(super) fn measure(plan: Plan, report: &mut Report) {
    measure_with(plan, MANY, report);
}

fn measure_with(plan: Plan, many: usize, report: &mut Report) {
    report.setup(format!(
        "in memory: both hosts on one thread, packets of {MTU} bytes, sums written and verified, \
         messages of {MESSAGE} bytes; {FEW} and {many} connections"
    ));
    let mut ours = Weever::connected(1);
    let (mut few, mut most) = (Weever::connected(FEW), Weever::connected(many));
    // Each connection rests equally long between its transactions, so that both send the same segments (a
    // delayed acknowledgement among them) and set the same timers.
    few.rest(TURN * (many / FEW) as u64);
    let mut random = Random::new(5);
    let mut reached: [Samples; 6] = Default::default();
    for _ in plan.rounds() {
        let each = plan.each;
        let mut theirs = Fresh::default();
        let round = [
            gigabits(each, || ours.bulk(OCTETS)),
            gigabits(each, || theirs.host(OCTETS).bulk(OCTETS)),
            nanoseconds(each, || ours.transactions(TRANSACTIONS, &mut random)),
            nanoseconds(each, || theirs.host(0).transactions(TRANSACTIONS)),
            nanoseconds(each, || few.transactions(TRANSACTIONS, &mut random)),
            nanoseconds(each, || most.transactions(TRANSACTIONS, &mut random)),
        ];
        reached.iter_mut().zip(round).for_each(|(samples, sample)| samples.push(sample));
    }
    let [bulk, their_bulk, one, their_one, few, most] = &reached;
    report.row("in memory, bulk, weever", "Gbit/s", bulk);
    report.row("in memory, bulk, smoltcp", "Gbit/s", their_bulk);
    report.row("in memory, transaction, weever", "ns", one);
    report.row("in memory, transaction, smoltcp", "ns", their_one);
    report.row(&format!("in memory, transaction on one of {FEW}, weever"), "ns", few);
    report.row(&format!("in memory, transaction on one of {many}, weever"), "ns", most);
    report.ratio("bulk_vs_smoltcp", "", &bulk.ratio(their_bulk));
    report.ratio("rr_vs_smoltcp", "", &their_one.ratio(one));
    report.ratio("rr_growth", "", &most.ratio(few));
}

/// smoltcp's hosts, with another connection after each GiB: smoltcp 0.14 was seen to stop on one that had carried
/// several, for a reason that was not looked for.
#[derive(Default)]
struct Fresh {
    hosts: Option<Smoltcp>,
    carried: u64,
}

impl Fresh {
    /// Hosts that are about to carry so many octets.
    fn host(&mut self, octets: u64) -> &mut Smoltcp {
        self.carried += octets;
        if self.carried > 1 << 30 {
            (self.hosts, self.carried) = (None, octets);
        }
        self.hosts.get_or_insert_with(Smoltcp::connected)
    }
}

/// Repeats some work for about so long: seconds for each time.
fn seconds(each: Duration, mut work: impl FnMut()) -> f64 {
    let (started, mut times) = (Instant::now(), 0);
    loop {
        work();
        times += 1;
        let elapsed = started.elapsed();
        if elapsed >= each {
            return elapsed.as_secs_f64() / f64::from(times);
        }
    }
}

fn gigabits(each: Duration, bulk: impl FnMut()) -> f64 {
    OCTETS as f64 * 8.0 / seconds(each, bulk) / 1e9
}

fn nanoseconds(each: Duration, transactions: impl FnMut()) -> f64 {
    seconds(each, transactions) / TRANSACTIONS as f64 * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_goes_through() {
        let mut report = Report::new("tcp");
        measure_with(Plan { rounds: 1, each: Duration::from_micros(1) }, 1000, &mut report);
        for key in ["bulk_vs_smoltcp", "rr_vs_smoltcp", "rr_growth"] {
            assert!(report.ratios[key] > 0.0, "{report}");
        }
    }
}
