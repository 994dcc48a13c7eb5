//! Hard cases of the search: random instances beside the paper's Algorithm 1, flows that overlap in every
//! way, and flows that come and go.

use std::time::Instant;

use weever_graph::Field;
use weever_plan::flow::{ClassId, Conj, Flow, Values};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Pack, Policy, Share};
use weever_plan::reference::Reference;
use weever_plan::search::{FlowId, Options, Search};

use super::rig;
use crate::{BenchError, Report, Samples};

const INSTANCES: u64 = 200;

/// Numbers that look random and are the same on every run (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Adds the key `cost_vs_reference`: the worst of all instances' ratios.
pub(super) fn measure_random(report: &mut Report) -> Result<(), BenchError> {
    let nics = [rig::i82599()?, rig::xdp()?, rig::connectx5(true)?];
    let mut ratios = Samples::default();
    for seed in 1..=INSTANCES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let nic = &nics[dice.roll(nics.len() as u64) as usize];
        let nic = nic.with_queues(2 + dice.roll(6) as u32).map_err(BenchError::of("queues"))?;
        ratios.push(instance(nic, &mut dice));
    }
    let better = ratios.0.iter().filter(|r| **r < 1.0 - 1e-6).count();
    report.setup(format!("random instances beside Algorithm 1: {better} of {INSTANCES} cost less"));
    let worst = ratios.summary().max;
    report.row("cost : cost of Algorithm 1", "ratio", &ratios);
    report.ratio("cost_vs_reference", "ratio", &Samples(vec![worst]));
    Ok(())
}

/// One instance's cost as a share of the reference's.
fn instance(nic: Nic, dice: &mut Dice) -> f64 {
    let flows: Vec<Flow> = (0..4 + dice.roll(12)).map(|i| flow(dice, i)).collect();
    let kind = dice.roll(4);
    let make = || policy(kind);
    let reference = Reference::new(&nic, &make, None).greedy(&flows);
    let mut search = Search::new(nic, make(), Options::default());
    search.run(flows);
    let ours = search.cost();
    match ours.rejected.cmp(&reference.rejected) {
        std::cmp::Ordering::Less => 0.0,
        std::cmp::Ordering::Greater => f64::MAX,
        // Costs may be nought; a thousandth of a flow squared is no difference.
        std::cmp::Ordering::Equal => (ours.value + 1e-3) / (reference.value + 1e-3),
    }
}

fn flow(dice: &mut Dice, nth: u64) -> Flow {
    let mut conj = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
    for field in [Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst] {
        let value = 8 + u128::from(dice.roll(4));
        conj = match dice.roll(10) {
            0 => conj,
            1 => conj.having(Values::masked(field, field.full_mask() & !1, value)),
            _ => conj.with(field, value),
        };
    }
    let mut flow = Flow::of(format!("flow {nth}"), vec![conj]);
    flow.class = ClassId(u16::from(dice.roll(3) == 0));
    flow.weight = 1 + dice.roll(3) as u32;
    flow.rate = (dice.roll(2) == 0).then(|| 1 + dice.roll(1000));
    flow
}

fn policy(kind: u64) -> Box<dyn Policy> {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let rates = || Box::new(Balance::new(Measure::Rate { assumed: 10 }));
    match kind {
        0 => balance(),
        1 => rates(),
        2 => Box::new(Pack::new(Measure::Flows, 6)),
        _ => Box::new(Isolate::new(vec![
            ("best effort".into(), Share::Shared, balance()),
            ("high priority".into(), Share::Exclusive(1), balance()),
        ])),
    }
}

/// Flows that come or go in the churn.
const CHURN: u32 = 10_000;

/// Adds the keys `nested_1024_ms`, `masks_2000_ms` and `cost_after_churn`.
pub(super) fn measure_overlap(report: &mut Report) -> Result<(), BenchError> {
    let nested = timed(rig::connectx5(true)?, nested(1024));
    report.ratio("nested_1024_ms", "ms", &nested.took);
    report.row("1,024 nested prefixes, not tried", "flows", &nested.skipped);
    let masks = timed(rig::xdp()?, masks(2000));
    report.ratio("masks_2000_ms", "ms", &masks.took);
    report.row("2,000 random masks, not tried", "flows", &masks.skipped);
    let mut ratios = Samples::default();
    for seed in 1..=5 {
        ratios.push(churn(rig::xdp()?.with_queues(8).map_err(BenchError::of("xdp"))?, seed));
    }
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

/// The cost of a plan after flows of unequal rates came and went, as a ratio to a fresh plan for the
/// remaining ones.
fn churn(nic: Nic, seed: u64) -> f64 {
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
    let mut fresh = Search::new(nic, policy(), Options::default());
    fresh.run(live.into_iter().map(|(_, flow)| flow).collect());
    // Costs are variances of rates; one packet a second squared is no difference.
    (search.cost().value + 1.0) / (fresh.cost().value + 1.0)
}
