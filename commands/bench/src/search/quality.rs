//! Hard cases of the search: flows that overlap in every way, and flows that come and go.

use std::time::Instant;

use weever_graph::Field;
use weever_plan::flow::{Conj, Flow, Values};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure, Pack};
use weever_plan::search::{FlowId, Options, Search};

use super::rig;
use crate::{BenchError, Report, Samples};

/// Numbers that look random and are the same on every run (xorshift).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Deviations from the mean load that count as none, as a share of it: less than the rates of flows vary from
/// one second to the next.
pub(super) const NO_DEVIATION: f64 = 0.01;
/// Flows that come or go in the churn.
const CHURN: u32 = 10_000;

/// Adds the keys `nested_1024_ms` and `masks_2000_ms`, and the memory of the process by then.
pub(super) fn measure_overlap(report: &mut Report) -> Result<(), BenchError> {
    let cases = [
        ("nested_1024", "1,024 nested prefixes", rig::connectx5(true)?, nested(1024)),
        ("masks_2000", "2,000 random masks", rig::xdp()?, masks(2000)),
    ];
    for (key, name, nic, flows) in cases {
        let timed = timed(nic, flows);
        report.ratio(&format!("{key}_ms"), "ms", &timed.took);
        report.row(&format!("{name}, not tried"), "flows", &timed.skipped);
        report.row(&format!("{name}, most memory"), "MB", &Samples(vec![most_memory()?]));
    }
    Ok(())
}

/// The most memory that this process has had, in MB.
fn most_memory() -> Result<f64, BenchError> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(BenchError::of("memory"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.unwrap_or_default() * 1024.0 / 1e6)
}

/// Adds the key `cost_after_churn`.
pub(super) fn measure_churn(report: &mut Report) -> Result<(), BenchError> {
    let (mut churned, mut fresh, mut ratios) =
        (Samples::default(), Samples::default(), Samples::default());
    for seed in 1..=5 {
        let nic = rig::xdp()?.with_queues(8).map_err(BenchError::of("xdp"))?;
        let after = churn(nic, seed);
        churned.push(after.churned);
        fresh.push(after.fresh);
        ratios.push(after.ratio());
    }
    report.setup(format!(
        "churn: {CHURN} flows come or go on 8 queues; deviations below {} % of the mean load count as that",
        NO_DEVIATION * 100.0
    ));
    report.row("deviation from the mean load after churn", "%", &churned);
    report.row("deviation from the mean load of a fresh plan", "%", &fresh);
    let worst = ratios.summary().max;
    report.row("cost after churn : cost of a fresh plan", "ratio", &ratios);
    report.ratio("cost_after_churn", "ratio", &Samples(vec![worst]));
    Ok(())
}

struct Timed {
    took: Samples,
    /// Flows for which no rule was tried.
    skipped: Samples,
}

fn timed(nic: Nic, flows: Vec<Flow>) -> Timed {
    let policy = Box::new(Pack::new(Measure::Flows, 40));
    let mut search = Search::new(nic, policy, Options::default());
    let start = Instant::now();
    search.run(flows);
    let plan = search.plan();
    let took = start.elapsed().as_secs_f64() * 1e3;
    let skipped = plan.exhausted.map_or(0, |e| e.skipped) as f64;
    Timed { took: Samples(vec![took]), skipped: Samples(vec![skipped]) }
}

fn udp() -> Conj {
    Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17)
}

/// A lattice of prefixes of two addresses: all flows overlap.
fn nested(count: u32) -> Vec<Flow> {
    let prefix = |field, bits: u32, of: u128| {
        let mask = u128::from(u32::MAX << (32 - bits));
        Values::masked(field, mask, of & mask)
    };
    let flow = |i: u32| {
        let src = prefix(Field::Ip4Src, 1 + i % 32, 0x0a0a_0a0a);
        let dst = prefix(Field::Ip4Dst, 1 + i / 32 % 32, 0x0b0b_0b0b);
        Flow::of(format!("prefix {i}"), vec![udp().having(src).having(dst)])
    };
    (0..count).map(flow).collect()
}

fn masks(count: u32) -> Vec<Flow> {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut masked = |field: Field| {
        let mask = u128::from(dice.roll(1 << 32)) & field.full_mask();
        Values::masked(field, mask, u128::from(dice.roll(1 << 32)) & mask)
    };
    let mut flow = |i: u32| {
        let fields = [Field::Ip4Src, Field::Ip4Dst, Field::L4Dst];
        let conj = fields.into_iter().fold(udp(), |conj, field| conj.having(masked(field)));
        Flow::of(format!("mask {i}"), vec![conj])
    };
    (0..count).map(&mut flow).collect()
}

/// The standard deviations of the queues' loads, in percent of their mean.
struct AfterChurn {
    churned: f64,
    fresh: f64,
}

impl AfterChurn {
    /// The costs are squares of the deviations. A fresh plan deviates by next to nothing, and the quotient of
    /// two such costs would say nothing, so neither counts as less than [`NO_DEVIATION`].
    fn ratio(&self) -> f64 {
        let least = NO_DEVIATION * 100.0;
        (self.churned.max(least) / self.fresh.max(least)).powi(2)
    }
}

/// A plan after flows of unequal rates came and went, beside a fresh plan for the remaining ones.
fn churn(nic: Nic, seed: u64) -> AfterChurn {
    let policy = || Box::new(Balance::new(Measure::Rate { assumed: 1 }));
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut rated = |n: u32| {
        let mut flow = rig::flows(n, n + 1).remove(0);
        flow.rate = Some(1 + dice.roll(1000));
        (flow, dice.roll(1 << 32) as usize)
    };
    let mut search = Search::new(nic.clone(), policy(), Options::default());
    let mut live: Vec<(FlowId, Flow)> = Vec::new();
    for n in 0..CHURN {
        let (flow, pick) = rated(n);
        if live.len() > 100 && (pick % 2 == 0 || live.len() > 300) {
            let (id, _) = live.swap_remove(pick / 2 % live.len());
            search.remove(id);
        } else {
            live.push((search.add(flow.clone()), flow));
        }
    }
    let rates: u64 = live.iter().filter_map(|(_, flow)| flow.rate).sum();
    let mean = rates as f64 / f64::from(nic.queues.count());
    let mut fresh = Search::new(nic, policy(), Options::default());
    fresh.run(live.into_iter().map(|(_, flow)| flow).collect());
    let deviation = |search: &Search| 100.0 * search.cost().value.sqrt() / mean;
    AfterChurn { churned: deviation(&search), fresh: deviation(&fresh) }
}
