//! Flows that come and go, tables that fill, and the changes sent to the device.

use weever_graph::Field;
use weever_graph::nic::{Failure, TableOrder};

use super::super::*;
use super::balanced;
use crate::Refusal;
use crate::config::Configuration;
use crate::flow::{AppId, ClassId, Conj};
use crate::map::place;
use crate::policy::{Balance, Dedicated, Isolate, Measure, Share};
use crate::search::DeviceChange::{Insert, Remove};
use crate::testkit::*;

fn search(nic: Nic, policy: Box<dyn Policy>) -> Search {
    Search::new(nic, policy, Options::default())
}

fn isolated() -> Box<dyn Policy> {
    let balance = || Box::new(Balance::new(Measure::Flows));
    Box::new(Isolate::new(vec![
        ("hp".into(), Share::Exclusive(1), balance()),
        ("be".into(), Share::Shared, balance()),
    ]))
}

fn of_class(mut flow: Flow, class: u16) -> Flow {
    flow.class = ClassId(class);
    flow
}

/// The changes, which the search knows beforehand.
fn changes_foreseen(search: &mut Search) -> Vec<DeviceChange> {
    let (coming, changes) = (search.changing(), search.take_changes());
    for change in &changes {
        let (DeviceChange::Insert { table, rule, .. }
        | Remove { table, rule, .. }
        | DeviceChange::Retarget { table, rule, .. }) = change;
        assert!(coming.contains(&(*table, rule.clone())), "{change:?} is not in {coming:?}");
    }
    assert_eq!(search.changing(), [], "nothing is left to tell");
    changes
}

#[test]
fn a_stale_rule_stays_until_its_place_is_needed() {
    let mut search = search(nic(4, vec![five_tuple_filters(3)]), balanced());
    let ids = search.run(flows(0, 4));
    assert_eq!(changes_foreseen(&mut search).len(), 3);
    search.remove(ids[1]).unwrap();
    assert_eq!(search.take_changes(), [], "nothing to tell: the rule stays");
    assert_eq!(search.plan().rules.iter().filter(|r| r.flow.is_none()).count(), 1);
    let new = search.add(flows(9, 10).remove(0));
    let changes = changes_foreseen(&mut search);
    assert!(matches!(changes[..], [Remove { .. }, Insert { .. }]), "{changes:?}");
    assert!(search.placement(new).unwrap().queue().is_some());
    assert_eq!(search.cost(), Cost::accept(0.0));
}

#[test]
fn a_rule_that_would_leak_goes_at_once() {
    let policy = Box::new(Dedicated::new(AppId(7), 2));
    let mut search = search(nic(4, vec![five_tuple_filters(8)]), policy);
    let mut flow = flows(0, 1).remove(0);
    flow.app = Some(AppId(7));
    let id = search.add(flow);
    assert_eq!(search.placement(id).unwrap().queue(), Some(2));
    search.remove(id).unwrap();
    assert!(search.cost().is_acceptable());
    assert!(search.plan().rules.is_empty(), "strangers could send through it");
}

#[test]
fn a_removed_flow_is_known_no_longer() {
    let mut search = search(i82599(4), balanced());
    let id = search.add(flows(0, 1).remove(0));
    assert_eq!(search.remove(id).map(|f| f.name), Some("flow 0".into()));
    let again = search.add(flows(1, 2).remove(0));
    assert_ne!(id, again);
    assert!(search.remove(id).is_none() && search.placement(id).is_none());
    assert!(search.explain(id).is_none() && !search.replace(id) && !search.set_rate(id, None));
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let plan = || {
        let mut search = search(i82599(4), isolated());
        let all = flows(0, 300).into_iter().enumerate();
        search.run(all.map(|(i, f)| of_class(f, (i % 3 > 0).into())).collect());
        format!("{:?}", search.plan())
    };
    assert_eq!(plan(), plan());
}

#[test]
fn what_cannot_be_placed_is_named_with_the_reason() {
    let mut search = search(nic(4, vec![five_tuple_filters(3)]), isolated());
    search.run(flows(0, 8).into_iter().map(|f| of_class(f, 0)).collect());
    let plan = search.plan();
    assert!(!plan.is_acceptable());
    assert!(
        plan.complaints.iter().any(|c| c.contains("5 flows leave the queues of class `hp`")),
        "{plan:?}"
    );
    let [shortage] = &plan.shortages[..] else { panic!("{:?}", plan.shortages) };
    assert_eq!((shortage.class, shortage.flows), (ClassId(0), 5));
    assert_eq!(shortage.reason, Refusal::Full { needed: 1, free: 0, capacity: 3 });
}

#[test]
fn one_mask_for_all_rules_is_the_one_that_most_need() {
    let mut search = search(nic(4, vec![flow_director(100)]), balanced());
    let port = |p: u128| {
        let conj = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
        Flow::of(format!("port {p}"), vec![conj.with(Field::L4Dst, p)])
    };
    // The odd one comes first, and would set the mask in a search without look-ahead.
    search.run(std::iter::once(port(53)).chain(flows(0, 8)).collect());
    let plan = search.plan();
    assert_eq!(plan.flows.iter().filter(|f| f.rules.is_empty()).count(), 3, "{:?}", plan.flows);
    let odd = search.explain(plan.flows[0].id).unwrap();
    assert!(odd.rules.is_empty());
    assert_eq!(odd.refused, [("Table0".to_string(), Refusal::MaskConflict)]);
}

#[test]
fn a_hash_that_gives_up_refuses_before_the_table_is_full() {
    let mut table = five_tuple_filters(64);
    table.fails = Failure::Hash { rows: 64, probes: 2 };
    let mut search = search(nic(4, vec![table]), balanced());
    search.run(flows(0, 80));
    assert!((30..64).contains(&search.steered()), "{}", search.steered());
    let refused =
        search.plan().shortages.iter().any(|s| s.reason == Refusal::HashFull { probes: 2 });
    assert!(refused);
}

#[test]
fn an_earlier_rule_shadows_a_later_one_by_insertion() {
    let mut table = five_tuple_filters(64);
    table.order = TableOrder::Insertion;
    let mut search = search(nic(4, vec![table]), Box::new(Dedicated::new(AppId(1), 1)));
    let wide = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
    let mut wide = Flow::of("wide", vec![wide.with(Field::L4Dst, 11211)]);
    wide.app = Some(AppId(1));
    search.add(wide);
    let mut narrow = flows(0, 1).remove(0);
    narrow.app = Some(AppId(1));
    let id = search.add(narrow);
    let said = search.explain(id).unwrap();
    assert!(said.rules.is_empty());
    assert_eq!(said.refused, [("Table0".to_string(), Refusal::NoPlaceBetween)]);
    assert_eq!(said.chosen.placement.queue(), Some(1), "the wide rule takes it");
}

#[test]
fn an_explanation_names_the_runner_up_and_changes_nothing() {
    let mut search = search(nic(3, vec![five_tuple_filters(8)]), isolated());
    let all = flows(0, 4).into_iter().enumerate();
    let ids = search.run(all.map(|(i, f)| of_class(f, (i > 0).into())).collect());
    search.take_changes();
    let before = format!("{:?}", search.plan());
    let said = search.explain(ids[0]).unwrap();
    assert_eq!(said.chosen.placement.queue(), Some(1));
    assert_eq!(said.rules[0].target, Target::Queue(1));
    assert_eq!(said.why, "queue 0 is not one of class `hp` (queues 1)");
    assert_eq!(format!("{:?}", search.plan()), before);
    assert_eq!(search.take_changes(), []);
}

#[test]
fn the_plan_does_what_it_says() {
    let nic = with_rss(i82599(4), 16);
    let options = Options { rss_key: Some(vec![0x6d; 40]), ..Options::default() };
    let mut search = Search::new(nic.clone(), isolated(), options);
    search.run(
        flows(0, 60)
            .into_iter()
            .enumerate()
            .map(|(i, f)| of_class(f, (i % 4 > 0).into()))
            .collect(),
    );
    let plan = search.plan();
    assert!(plan.is_acceptable(), "{:?}", plan.complaints);
    let configuration: Configuration = plan.configuration(nic.tables.len());
    for (flow, planned) in flows(0, 60).iter().zip(&plan.flows) {
        assert_eq!(place(&nic, &configuration, &flow.parts[0]), planned.placement);
    }
    assert!(!plan.queues[1].other && plan.queues[0].other, "hashing stays off the class's queue");
}

#[test]
fn placing_anew_tells_only_what_is_different() {
    let mut search = search(i82599(4), balanced());
    search.run(flows(0, 40));
    search.take_changes();
    search.place_all();
    assert_eq!(changes_foreseen(&mut search), []);
}

#[test]
fn queues_stay_level_while_flows_of_unequal_rates_come_and_go() {
    let policy = Box::new(Balance::new(Measure::Rate { assumed: 1 }));
    let mut search = search(nic(8, vec![five_tuple_filters(1024)]), policy);
    let (mut live, mut random) = (Vec::new(), 7);
    for nth in 0..1_500 {
        random = crate::map::mix(random, u64::from(nth));
        if live.len() > 150 {
            let (id, rate) = live.swap_remove(random as usize % live.len());
            assert_eq!(search.remove(id).unwrap().rate, Some(rate));
        } else {
            let mut flow = flows(nth, nth + 1).remove(0);
            let rate = 1 + random % 1000;
            flow.rate = Some(rate);
            live.push((search.add(flow), rate));
        }
    }
    let mean = live.iter().map(|(_, rate)| *rate as f64).sum::<f64>() / 8.0;
    let deviation = search.cost().value.sqrt() / mean;
    assert!(deviation < 0.02, "{deviation}");
}

#[test]
fn a_search_for_all_follows_rates_and_keeps_what_is_not_worse() {
    let rate = || Box::new(Balance::new(Measure::Rate { assumed: 10 }));
    let mut search = search(nic(2, vec![five_tuple_filters(8)]), rate());
    let ids = search.run(flows(0, 4));
    search.take_changes();
    let queue = |search: &Search, id| search.placement(id).unwrap().queue().unwrap();
    assert!(!search.search_again(), "nothing is better");
    assert_eq!(search.take_changes(), [], "and nothing changes in the device");
    // The two of one queue become fast.
    let first = queue(&search, ids[0]);
    let (fast, slow): (Vec<FlowId>, Vec<FlowId>) =
        ids.iter().partition(|id| queue(&search, **id) == first);
    assert_eq!((fast.len(), slow.len()), (2, 2));
    fast.iter().for_each(|id| assert!(search.set_rate(*id, Some(1000))));
    assert!(!search.cost().eq(&Cost::accept(0.0)), "rates alone move nothing");
    assert!(search.search_again());
    assert_ne!(queue(&search, fast[0]), queue(&search, fast[1]));
    assert_ne!(queue(&search, slow[0]), queue(&search, slow[1]));
    assert_eq!(search.cost(), Cost::accept(0.0));
}
