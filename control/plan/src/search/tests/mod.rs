mod budget;
mod lifecycle;
mod others;
pub(crate) mod random;
mod refused;
mod shared_masks;
mod targets;

use super::*;
use crate::policy::{Balance, Measure};
use crate::reference::Reference;
use crate::testkit::*;
use random::Dice;

/// A five-tuple rule for the flow of [`flows`] with this source port.
fn tuple_rule(port: u16, queue: u32) -> crate::config::Rule {
    let conj = udp(0x0a00_0000, port, 0x0a01_0001, 11211);
    let rule = crate::config::Rule::of(&five_tuple_filters(8), None, &conj);
    crate::config::Rule { target: crate::config::Target::Queue(queue), priority: 3, ..rule }
}

fn balanced() -> Box<dyn Policy> {
    Box::new(Balance::new(Measure::Flows))
}

#[test]
fn many_flows_are_balanced() {
    let mut search = Search::new(with_rss(i82599(10), 128), balanced(), Options::default());
    search.run(flows(0, 500));
    assert_eq!(search.cost(), Cost::accept(0.0));
    let plan = search.plan();
    assert!(plan.queues.iter().all(|q| q.flows == 50.0), "{:?}", plan.queues);
    assert!(plan.flows.iter().all(|f| f.placement.queue().is_some()));
}

/// `a` at most `b`, but for rounding.
fn at_most(a: Cost, b: Cost) -> bool {
    a.rejected < b.rejected || a.rejected == b.rejected && a.value <= b.value * (1.0 + 1e-9) + 1e-9
}

#[test]
fn never_worse_than_algorithm_1() {
    let mut better = 0;
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let queues = 2 + dice.roll(5) as u32;
        let nic = random::nic(&mut dice, queues);
        let flows: Vec<Flow> =
            (0..3 + dice.roll(9)).map(|i| random::flow(&mut dice, i as usize)).collect();
        let kind = dice.roll(5);
        let rss_key = dice.one_in(2).then(|| vec![0x6d; 40]);
        let make = || random::policy(kind);
        let reference = Reference::new(&nic, &make, rss_key.clone()).greedy(&flows);
        let mut search = Search::new(nic, make(), Options { rss_key, ..Options::default() });
        search.run(flows);
        let cost = search.cost();
        assert!(at_most(cost, reference), "seed {seed} policy {kind}: {cost} > {reference}");
        better += u32::from(!at_most(reference, cost));
    }
    assert!(better > 0, "it looks again, which Algorithm 1 does not");
}

#[test]
fn small_instances_against_brute_force() {
    let (mut optimal, mut all) = (0, 0);
    for seed in 0..14 {
        let mut dice = Dice(seed + 1_000_000);
        let nic = random::nic(&mut dice, 2 + seed as u32 % 2);
        let flows: Vec<Flow> = (0..4).map(|i| random::flow(&mut dice, i)).collect();
        let kind = dice.roll(5);
        let make = || random::policy(kind);
        let best = Reference::new(&nic, &make, None).brute_force(&flows);
        let mut search = Search::new(nic, make(), Options::default());
        search.run(flows);
        let cost = search.cost();
        all += 1;
        optimal += u32::from(at_most(cost, best));
        assert!(cost.is_acceptable() || !best.is_acceptable(), "seed {seed}: {cost}, best {best}");
    }
    assert!(optimal * 5 >= all * 4, "{optimal} of {all}");
}
