//! Random instances of the whole problem.

use weever_graph::Field;

use crate::flow::{AppId, ClassId, Conj, Flow, Values};
use crate::map::mix;
use crate::nic::Nic;
use crate::policy::{Balance, Dedicated, Isolate, Measure, Pack, Policy, Share, Sum};
use crate::testkit::*;

/// Numbers that look random and are the same on every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = mix(self.0, 1);
        (self.0 >> 16) % below
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

pub(crate) fn nic(dice: &mut Dice, queues: u32) -> Nic {
    let small = 1 + dice.roll(8) as u32;
    let tables = match dice.roll(4) {
        0 => vec![five_tuple_filters(small)],
        1 => vec![flow_director(small)],
        2 => vec![five_tuple_filters(small), flow_director(40)],
        _ => vec![five_tuple_filters(64)],
    };
    let nic = crate::testkit::nic(queues, tables);
    if dice.one_in(2) { with_rss(nic, 16) } else { nic }
}

pub(crate) fn conj(dice: &mut Dice) -> Conj {
    let mut conj = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
    for field in [Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst] {
        let value = 8 + u128::from(dice.roll(4));
        conj = match dice.roll(8) {
            0 => conj,
            1 => conj.having(Values::masked(field, field.full_mask() & !1, value)),
            _ => conj.with(field, value),
        };
    }
    conj
}

pub(crate) fn flow(dice: &mut Dice, nth: usize) -> Flow {
    let parts = (0..1 + dice.roll(8) / 7).map(|_| conj(dice)).collect();
    let mut flow = Flow::of(format!("f{nth}"), parts);
    flow.class = ClassId(dice.roll(3) as u16 / 2);
    flow.app = dice.one_in(4).then_some(AppId(1));
    flow.weight = 1 + dice.roll(3) as u32;
    flow.rate = dice.one_in(2).then(|| 1 + dice.roll(1000));
    flow
}

pub(crate) fn policy(kind: u64) -> Box<dyn Policy> {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let rates = || Box::new(Balance::new(Measure::Rate { assumed: 10 }));
    match kind % 5 {
        0 => balance(),
        1 => rates(),
        2 => Box::new(Isolate::new(vec![
            ("hp".into(), Share::Exclusive(1), balance()),
            ("be".into(), Share::Shared, rates()),
        ])),
        3 => Box::new(Pack::new(Measure::Flows, 4)),
        _ => {
            Box::new(Sum::new(vec![(1.0, Box::new(Dedicated::new(AppId(1), 1))), (0.5, balance())]))
        }
    }
}
