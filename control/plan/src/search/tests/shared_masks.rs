//! Ranges and types of packets where rules share a mask, and rules that could have one priority.

use weever_graph::Field;

use super::*;
use crate::flow::{Conj, Values};

fn udp() -> Conj {
    Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17)
}

fn linux(name: &str) -> Nic {
    Nic::linux_of(&weever_models::nic(name).unwrap()).unwrap().with_queues(4).unwrap()
}

/// Prefixes for three ports differ in their masks.
#[test]
fn a_range_becomes_a_rule_for_each_value() {
    let range = udp().having(Values::range(Field::L4Dst, 5001, 5003));
    let one = udp().with(Field::L4Dst, 80);
    let policy = Box::new(crate::policy::Pack::new(Measure::Flows, 1));
    let mut search = Search::new(linux("82599"), policy, Options::default());
    search.run(vec![Flow::of("range", vec![range]), Flow::of("one", vec![one])]);
    let plan = search.plan();
    assert_eq!(plan.flows[0].rules.len(), 3, "{:?}", plan.flows[0].refused);
    assert!(plan.flows.iter().all(|f| f.placement.queue().is_some()), "{:?}", plan.flows);
}

#[test]
fn rules_that_overlap_get_priorities_of_their_own() {
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(4).unwrap();
    let masked = |field, value| udp().having(Values::masked(field, 0xff00, value));
    let policy = Box::new(crate::policy::Pack::new(Measure::Flows, 1));
    let mut search = Search::new(nic, policy, Options::default());
    search.run(vec![
        Flow::of("to", vec![masked(Field::L4Dst, 0x1000)]),
        Flow::of("from", vec![masked(Field::L4Src, 0x2000)]),
    ]);
    let plan = search.plan();
    let priorities: Vec<u32> = plan.rules.iter().map(|r| r.rule.priority).collect();
    assert!(matches!(priorities[..], [a, b] if a != b), "{priorities:?}");
}
