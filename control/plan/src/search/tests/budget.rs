//! Flows with every kind of overlap cost a bounded amount of work and memory, and the plan is marked.

use weever_graph::Field;

use super::*;
use crate::flow::{ClassId, Conj, Values};
use crate::policy::{Isolate, Measure, Pack, Share};

/// A lattice of prefixes: every flow overlaps every other.
fn lattice(count: u32) -> Vec<Flow> {
    let prefix = |field, bits: u32, of: u128| {
        let mask = u128::from(u32::MAX << (32 - bits));
        Values::masked(field, mask, of & mask)
    };
    let flow = |i: u32| {
        let src = prefix(Field::Ip4Src, 1 + i % 32, 0x0a0a_0a0a);
        let dst = prefix(Field::Ip4Dst, 1 + i / 32 % 32, 0x0b0b_0b0b);
        let conj = Conj::all().with(Field::EthType, 0x0800).having(src).having(dst);
        Flow::of(format!("prefix {i}"), vec![conj])
    };
    (0..count).map(flow).collect()
}

fn search(budget: u64) -> Search {
    let nic = Nic::linux_of(&weever_models::nic("connectx5").unwrap()).unwrap();
    let options = Options { budget, ..Options::default() };
    let policy = Box::new(Pack::new(Measure::Flows, 40));
    Search::new(nic.with_queues(8).unwrap(), policy, options)
}

#[test]
fn a_plan_that_ran_out_of_budget_says_so_and_names_the_flows() {
    let mut search = search(20_000);
    search.run(lattice(200));
    let plan = search.plan();
    let exhausted = plan.exhausted.expect("200 flows that all overlap take more");
    assert!(exhausted.skipped > 0, "{exhausted:?}");
    let refused = plan.flows.iter().filter(|f| f.refused.iter().any(|(_, r)| is_budget(r)));
    assert_eq!(refused.count(), exhausted.skipped);
    assert!(search.map.work.steps() < 400_000, "{} steps", search.map.work.steps());
}

fn is_budget(refusal: &crate::oracle::Refusal) -> bool {
    matches!(refusal, crate::oracle::Refusal::Budget { .. })
}

#[test]
fn a_plan_within_the_budget_does_not_say_so() {
    let mut search = search(Options::default().budget);
    search.run(lattice(6));
    assert_eq!(search.plan().exhausted, None);
}

#[test]
fn rough_placements_leave_the_policy_s_sums_whole() {
    for budget in [0, 3_000, 30_000] {
        let mut search = search(budget);
        let ids = search.run(lattice(120));
        let mut fresh = Pack::new(Measure::Flows, 40);
        let queues = search.nic().queues;
        fresh.start(&(queues.lo..=queues.hi).collect(), search.nic().default_queue);
        search.plan();
        for (_, member) in search.map.flows.iter() {
            fresh.apply(&Subject::of(&member.flow), &member.placement, Change::Comes);
        }
        assert_eq!(search.cost(), fresh.cost(), "budget {budget}");
        ids.into_iter().for_each(|id| drop(search.remove(id)));
        assert!(search.is_empty());
    }
}

#[test]
fn a_thousand_masks_take_little_memory() {
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap();
    let mut search = Search::new(nic, Box::new(Pack::new(Measure::Flows, 40)), Options::default());
    let mut dice = Dice(7);
    let mut value = || u128::from(dice.roll(1 << 32));
    let flow = |i| {
        let (mask, at) = (value(), value());
        let src = Values::masked(Field::Ip4Src, mask, at & mask);
        Flow::of(format!("mask {i}"), vec![Conj::all().with(Field::EthType, 0x0800).having(src)])
    };
    search.run((0..1000).map(flow).collect());
    assert!(search.map.places() < 1 << 20, "{} places in the indexes", search.map.places());
}

/// Removing flows of one queue leaves another with more: filters move, one for each change at most.
#[test]
fn what_is_left_after_churn_is_balanced() {
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(2).unwrap();
    let mut search = Search::new(nic, balanced(), Options::default());
    let ids = search.run(flows(0, 26));
    let at_first = ids.iter().filter(|id| search.placement(**id) == Some(&Placement::One(0)));
    let at_first: Vec<FlowId> = at_first.copied().collect();
    search.take_changes();
    for (nth, id) in at_first.into_iter().enumerate() {
        search.remove(id);
        let loads: Vec<f64> = search.plan().queues.iter().map(|q| q.flows).collect();
        assert!((loads[0] - loads[1]).abs() <= 1.0, "{loads:?} after {nth}");
        let moved = |c: &&DeviceChange| matches!(c, DeviceChange::Retarget { .. });
        assert!(search.take_changes().iter().filter(moved).count() <= 1);
    }
}

/// A thousand classes, queues of which each belongs to one, so many masks, and flows that all overlap.
fn anything(count: u32, masks: u32) {
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(128).unwrap();
    let class = |at: u16| -> (String, Share, Box<dyn Policy>) {
        let share = if at.is_multiple_of(10) { Share::Exclusive(1) } else { Share::Shared };
        (format!("class {at}"), share, balanced())
    };
    let policy = Isolate::new((0..1000).map(class).collect());
    let options = Options { budget: 200_000, ..Options::default() };
    let mut search = Search::new(nic, Box::new(policy), options);
    let mut dice = Dice(3);
    let flows = (0..count).map(|i| {
        // The mask has the number in it, so that no two are equal.
        let mask = u128::from((i % masks).reverse_bits() | 1);
        let src = Values::masked(Field::Ip4Src, mask, u128::from(dice.roll(1 << 32)) & mask);
        let conj = Conj::all().with(Field::EthType, 0x0800).having(src);
        Flow { class: ClassId((i % 1000) as u16), ..Flow::of(format!("mask {i}"), vec![conj]) }
    });
    search.run(flows.collect());
    let plan = search.plan();
    assert!(plan.exhausted.is_some() || plan.is_acceptable());
    // A step may begin within the budget and end beyond it, and each flow costs a few in any case.
    let most = 40 * 200_000 + 100 * u64::from(count);
    assert!(search.map.work.steps() < most, "{} steps", search.map.work.steps());
    assert!(search.map.places() < 1 << 22, "{} places in the indexes", search.map.places());
    assert_eq!(plan.flows.len(), count as usize);
}

#[test]
fn a_plan_for_anything_ends_within_the_budget() {
    anything(2_000, 2_000);
}

/// As much as anybody has asked for, in a test that is compiled for speed: `cargo test --release -p weever-plan`.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes unless it is compiled for speed")]
fn a_plan_for_a_hundred_thousand_flows_of_ten_thousand_masks_ends_within_the_budget() {
    anything(100_000, 10_000);
}
