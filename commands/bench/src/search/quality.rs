//! The cost of our plans beside those of the paper's Algorithm 1, on random instances.

use weever_graph::Field;
use weever_plan::flow::{ClassId, Conj, Flow, Values};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Pack, Policy, Share};
use weever_plan::reference::Reference;
use weever_plan::search::{Options, Search};

use super::rig;
use crate::{BenchError, Report, Samples};

const INSTANCES: u64 = 200;

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

/// Adds the key `cost_vs_reference`: the worst of all instances' ratios.
pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
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
