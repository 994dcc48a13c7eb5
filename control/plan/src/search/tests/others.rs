//! Rules that others made on the device.

use super::random::{self, Dice};
use super::{balanced, tuple_rule};
use crate::Refusal;
use crate::config::{Rule, Target};
use crate::flow::ClassId;
use crate::map::{Placement, place};
use crate::policy::{Isolate, Share};
use crate::testkit::*;

use super::super::*;

fn others(rules: Vec<Rule>) -> Vec<OthersRule> {
    rules.into_iter().map(|rule| OthersRule { table: 0, rule }).collect()
}

#[test]
fn they_take_room_and_are_no_part_of_the_plan() {
    let mut search =
        Search::new(nic(4, vec![five_tuple_filters(8)]), balanced(), Options::default());
    assert!(search.plan_around(others((100..105).map(|port| tuple_rule(port, 1)).collect())));
    search.run(flows(0, 12));
    let plan = search.plan();
    assert_eq!((plan.rules.len(), plan.others.len()), (3, 5), "{:?}", plan.rules);
    assert_eq!(search.take_changes().len(), 3);
    assert_eq!(plan.configuration(1).rules[0].len(), 3);
    assert_eq!(plan.whole_configuration(1).rules[0].len(), 8);
    let full = plan.flows.iter().flat_map(|flow| &flow.refused);
    assert!(full.clone().any(|(_, why)| matches!(why, Refusal::Full { .. })), "{:?}", plan.flows);
    // Flows come and go, and they stay.
    let first = plan.flows[0].id;
    search.remove(first);
    search.add(flows(20, 21).remove(0));
    search.search_again();
    assert_eq!((search.plan().others.len(), search.plan().rules.len()), (5, 3));
    // They go, and there is room.
    assert!(search.plan_around(Vec::new()) && !search.plan_around(Vec::new()));
    assert_eq!(search.plan().rules.len(), 8);
}

#[test]
fn where_rules_share_a_mask_theirs_is_the_mask() {
    let director = || nic(4, vec![flow_director(100)]);
    let by_source = Rule {
        flow_type: Some(weever_graph::nic::FlowType::Udp4),
        keys: vec![
            weever_graph::Key { mask: 0xffff_ffff, value: 0x0a09_0909 },
            weever_graph::Key { mask: 0, value: 0 },
            weever_graph::Key { mask: 0, value: 0 },
            weever_graph::Key { mask: 0, value: 0 },
        ],
        target: Target::Queue(1),
        priority: 0,
        location: 0,
    };
    let mut free = Search::new(director(), balanced(), Options::default());
    free.run(flows(0, 8));
    assert!(free.plan().rules.iter().all(|r| r.rule.keys.iter().all(|key| key.mask != 0)));
    let mut bound = Search::new(director(), balanced(), Options::default());
    bound.plan_around(others(vec![by_source.clone()]));
    bound.run(flows(0, 8));
    let masks = |rule: &Rule| rule.keys.iter().map(|key| key.mask).collect::<Vec<_>>();
    assert!(bound.plan().rules.iter().all(|r| masks(&r.rule) == masks(&by_source)));
}

#[test]
fn what_they_take_arrives_where_they_send_it() {
    let make = || {
        let policy = Box::new(Isolate::new(classes()));
        Search::new(nic(4, vec![five_tuple_filters(8)]), policy, Options::default())
    };
    let mut flow = flows(0, 1).remove(0);
    flow.class = ClassId(1);
    // A rule for the same five-tuple, to another queue, and to one that the plan does not have.
    for queue in [1, 9] {
        let mut search = make();
        search.plan_around(others(vec![tuple_rule(1000, queue)]));
        search.run(vec![flow.clone()]);
        let plan = search.plan();
        assert!(!plan.is_acceptable());
        let placement = &plan.flows[0].placement;
        match queue {
            1 => assert_eq!(*placement, Placement::One(1)),
            _ => assert!(!placement.arrives()),
        }
        let whys: Vec<_> = plan.flows[0].refused.iter().map(|(_, why)| why.clone()).collect();
        assert!(whys.contains(&Refusal::Foreign), "{whys:?}");
        search.plan_around(Vec::new());
        assert_eq!(search.plan().flows[0].placement, Placement::One(2));
    }
}

fn classes() -> Vec<(String, Share, Box<dyn Policy>)> {
    vec![
        ("rest".into(), Share::Shared, balanced()),
        ("own".into(), Share::Queues([2].into_iter().collect()), balanced()),
    ]
}

#[test]
fn flows_arrive_where_the_whole_configuration_sends_them() {
    let mut met = 0;
    for seed in 0..60 {
        let mut dice = Dice(seed + 77);
        let queues = 2 + dice.roll(4) as u32;
        let nic = random::nic(&mut dice, queues);
        // The rules of another plan are those of others.
        let mut before = Search::new(nic.clone(), balanced(), Options::default());
        before.run((0..6).map(|i| random::flow(&mut dice, i)).collect());
        let theirs = before.plan().rules.into_iter().take(4);
        let theirs = theirs.map(|r| OthersRule { table: r.table, rule: r.rule });
        let is_spread = |r: &OthersRule| matches!(r.rule.target, Target::Context(_));
        let theirs: Vec<OthersRule> = theirs.filter(|r| !is_spread(r)).collect();
        let mut search = Search::new(nic.clone(), balanced(), Options::default());
        search.plan_around(theirs);
        search.run((0..8).map(|i| random::flow(&mut dice, i)).collect());
        let plan = search.plan();
        let whole = plan.whole_configuration(nic.tables.len());
        for (index, _) in search.map.flows.iter() {
            let parts: Vec<_> = search.map.parts_of(index).cloned().collect();
            let [part] = &parts[..] else { continue };
            // Wider flows do not see the rules of narrower ones.
            let mut others = search.map.flows.iter().filter(|(other, _)| *other != index);
            if others.any(|(other, _)| search.map.parts_of(other).any(|p| !p.disjoint(part))) {
                continue;
            }
            met += usize::from(!plan.others.is_empty());
            let placed = place(&nic, &whole, part);
            let here = &search.map.flows[index].placement;
            let at =
                |p: &Placement| (p.shares().map(|(q, _)| q).collect::<Vec<_>>(), p.dropped() > 0);
            assert_eq!(at(here), at(&placed), "seed {seed}: {part:?}\n{whole:?}");
        }
    }
    assert!(met > 100, "{met}");
}
