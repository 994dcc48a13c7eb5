//! Runs plans as programs and compares their hits with the planner's placements. Without the rights for
//! it each test prints so and returns.

use std::collections::HashMap;

use weever_ebpf::sys::XdpAction;
use weever_ebpf::xdp::classify::Sink;
use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};
use weever_plan::config::{Rule, Target};
use weever_plan::flow::{ClassId, Conj, Flow, Kinds};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
use weever_plan::search::{DeviceChange, Options, RuleId, Search};

use super::*;

const QUEUES: u32 = 4;

fn nic() -> Nic {
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap();
    nic.with_queues(QUEUES).unwrap()
}

fn search() -> Search {
    Search::new(nic(), Box::new(Balance::new(Measure::Flows)), Options::default())
}

/// Applies the changes to the program, and lets the search plan around its refusals.
fn follow(steering: &mut XdpSteering, search: &mut Search) -> ProgramReport {
    let mut all = ProgramReport::default();
    loop {
        let outcome = steering.apply(&search.take_changes()).unwrap();
        outcome.tell(search);
        let is_done = outcome.failed.is_empty();
        all.add(outcome);
        if is_done {
            return all;
        }
    }
}

fn flow(n: u16) -> Flow {
    let udp = Conj::of_kinds(Kinds::of(FlowType::Udp4));
    let from = udp.with(Field::Ip4Src, 0x0a00_0000 + u128::from(n)).with(Field::L4Src, 7);
    let conj = from.with(Field::Ip4Dst, 0x0a00_ff01).with(Field::L4Dst, 11211);
    Flow::of(format!("f{n}"), vec![conj])
}

/// A datagram of flow `n`.
fn frame(n: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend(n.to_be_bytes());
    frame.extend([10, 0, 0xff, 1, 0, 7]);
    frame.extend(11211u16.to_be_bytes());
    frame.extend([0; 22]);
    frame
}

fn steering(search: &Search, capacity: u32) -> Option<XdpSteering> {
    let targets = (0..QUEUES).collect();
    match XdpSteering::new(search.nic(), search.rss(), Sink::Count, targets, capacity) {
        Ok(steering) => Some(steering),
        Err(XdpError::Bpf(e)) if e.is_denied() => {
            println!("skipped: needs CAP_NET_ADMIN and CAP_BPF");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn run(steering: &XdpSteering, n: u16) {
    steering.classifier().program().run(&frame(n), 1).unwrap();
}

#[test]
fn a_plan_is_carried_out_and_its_hits_are_told_by_rule() {
    let mut search = search();
    let Some(mut steering) = steering(&search, 64) else { return };
    let ids = search.run((1..=20).map(flow).collect());
    let outcome = steering.apply(&search.take_changes()).unwrap();
    assert!(outcome.failed.is_empty() && outcome.exchanged, "{outcome:?}");
    let plan = search.plan();
    assert_eq!(outcome.inserted, plan.rules.len());
    assert_eq!(steering.rules(), plan.rules.len());
    for n in 1..=20 {
        (0..n).for_each(|_| run(&steering, n));
    }
    let mut hits: Vec<u64> = steering.take_hits().unwrap().iter().map(|(_, hits)| *hits).collect();
    hits.sort_unstable();
    assert_eq!(hits, (1..=20).collect::<Vec<u64>>(), "each flow hits its own rule");
    assert!(steering.take_hits().unwrap().is_empty());
    assert_eq!(steering.classifier().missed().unwrap(), 0);

    search.add(flow(21));
    let outcome = steering.apply(&search.take_changes()).unwrap();
    assert_eq!((outcome.inserted, outcome.exchanged), (1, false), "one update of a map");
    search.remove(ids[4]);
    search.replace(ids[5]);
    let outcome = steering.apply(&search.take_changes()).unwrap();
    assert!(outcome.failed.is_empty() && !outcome.exchanged, "{outcome:?}");
    assert_eq!(steering.taken().unwrap(), (1..=20).sum::<u64>(), "those that are gone included");
}

#[test]
fn hits_survive_that_a_rule_sends_elsewhere() {
    let mut search = search();
    let Some(mut steering) = steering(&search, 64) else { return };
    search.run(vec![flow(1)]);
    let changes = search.take_changes();
    steering.apply(&changes).unwrap();
    run(&steering, 1);
    let [DeviceChange::Insert { table, id, rule }] = &changes[..] else { panic!("{changes:?}") };
    let Target::Queue(queue) = rule.target else { panic!("{rule:?}") };
    let rule = Rule { target: Target::Queue((queue + 1) % QUEUES), ..rule.clone() };
    let changes = [DeviceChange::Retarget { table: *table, id: *id, rule }];
    let outcome = steering.apply(&changes).unwrap();
    assert_eq!((outcome.retargeted, outcome.exchanged), (1, false));
    run(&steering, 1);
    assert_eq!(steering.hits().unwrap(), [(*id, 2)]);
}

#[test]
fn rules_with_priorities_are_asked_in_their_order() {
    let search = search();
    let Some(mut steering) = steering(&search, 64) else { return };
    let table = 1;
    let model = &search.nic().tables[table].model;
    let of = |priority, mask: u128| {
        let key = |field| match field {
            Field::Ip4Src => Key { mask, value: 0x0a00_0000 & mask },
            _ => Key { mask: 0, value: 0 },
        };
        let keys = model.matches.iter().map(|m| key(m.field)).collect();
        Rule {
            flow_type: Some(FlowType::Udp4),
            keys,
            target: Target::Queue(1),
            priority,
            location: 0,
        }
    };
    let insert = |id, rule| DeviceChange::Insert { table, id: RuleId(id), rule };
    let all = [insert(1, of(1, 0xff00_0000)), insert(2, of(9, 0xffff_fff0)), insert(3, of(5, 0))];
    let outcome = steering.apply(&all).unwrap();
    assert_eq!((outcome.inserted, outcome.failed.len()), (3, 0));
    run(&steering, 3);
    run(&steering, 300);
    let hits: HashMap<RuleId, u64> = steering.hits().unwrap().into_iter().collect();
    assert_eq!([1, 2, 3].map(|id| hits[&RuleId(id)]), [0, 1, 1]);
    let gone = DeviceChange::Remove { table, id: RuleId(3), rule: of(5, 0) };
    assert_eq!(steering.apply(&[gone]).unwrap().removed, 1);
    run(&steering, 300);
    let hits: HashMap<RuleId, u64> = steering.hits().unwrap().into_iter().collect();
    assert_eq!((hits[&RuleId(1)], hits[&RuleId(2)]), (1, 1), "counts survive the exchange");
}

#[test]
fn a_flood_of_flows_is_placed_as_far_as_there_is_room() {
    let mut search = search();
    let Some(mut steering) = steering(&search, 1000) else { return };
    search.run((0..5000).map(flow).collect());
    let outcome = steering.apply(&search.take_changes()).unwrap();
    assert_eq!((outcome.inserted, outcome.failed.len()), (1000, search.steered() - 1000));
    assert!(outcome.failed[0].1.to_string().contains("no room"), "{}", outcome.failed[0].1);
}

#[test]
fn rules_for_the_same_packets_and_queues_that_are_not_there_are_refused() {
    let mut search = search();
    let Some(mut steering) = steering(&search, 64) else { return };
    search.run(vec![flow(1)]);
    let changes = search.take_changes();
    steering.apply(&changes).unwrap();
    let [DeviceChange::Insert { table, rule, .. }] = &changes[..] else { panic!("{changes:?}") };
    let again = DeviceChange::Insert { table: *table, id: RuleId(77), rule: rule.clone() };
    let far = Rule { target: Target::Queue(9), ..rule.clone() };
    let far = DeviceChange::Insert { table: *table, id: RuleId(78), rule: far };
    let outcome = steering.apply(&[again, far]).unwrap();
    assert!(matches!(outcome.failed[0].1, XdpError::Duplicate));
    assert!(matches!(outcome.failed[1].1, XdpError::Queue { queue: 9, queues: 4 }));
    assert_eq!(steering.rules(), 1);
}

#[test]
fn cpus_that_are_not_there_are_named() {
    if steering(&search(), 1).is_none() {
        return;
    }
    let error = cpu_map(&[0, 9999]).unwrap_err().to_string();
    assert!(error.contains("9999"), "{error}");
    assert!(matches!(cpu_map(&[]), Err(XdpError::NoCpu)));
}

#[test]
fn what_the_policy_drops_is_dropped_and_the_rest_is_not() {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let classes = vec![
        ("noise".to_string(), Share::Nowhere, balance() as Box<dyn Policy>),
        ("rest".to_string(), Share::Shared, balance()),
    ];
    let mut search = Search::new(nic(), Box::new(Isolate::new(classes)), Options::default());
    let cpus = XdpSteering::onto_cpus(search.nic(), search.rss(), &[0], 64);
    let mut steering = match cpus {
        Err(XdpError::Bpf(e)) if e.is_denied() => {
            println!("skipped: needs CAP_NET_ADMIN and CAP_BPF");
            return;
        }
        steering => steering.unwrap(),
    };
    let mut flows: Vec<Flow> = (1..=2).map(flow).collect();
    flows[1].class = ClassId(1);
    search.run(flows);
    assert!(search.cost().is_acceptable());
    let outcome = follow(&mut steering, &mut search);
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    let verdict = |n| steering.classifier().program().run(&frame(n), 1).unwrap().value;
    let (drop, redirect) = (XdpAction::Drop as u32, XdpAction::Redirect as u32);
    assert_eq!([verdict(1), verdict(2), verdict(3)], [drop, redirect, redirect]);
    assert!(steering.taken().unwrap() >= 1, "drops are hits of their rule");
}

#[test]
fn what_does_not_fit_the_maps_is_planned_around() {
    let mut search = search();
    let Some(mut steering) = steering(&search, 8) else { return };
    search.run((1..=40).map(flow).collect());
    let wanted = search.plan().rules.len();
    let outcome = follow(&mut steering, &mut search);
    assert!(!outcome.failed.is_empty(), "{wanted} rules do not fit a map of 8");
    let plan = search.plan();
    assert_eq!(steering.rules(), plan.rules.len(), "the program has the plan's rules");
    let of_table = |table| plan.rules.iter().filter(|r| r.table == table).count();
    assert_eq!((of_table(0), of_table(1)), (8, wanted - 8), "the others are asked in order");
    assert!(follow(&mut steering, &mut search).failed.is_empty(), "nothing is tried again");
}

/// A set of masks for each set of fields; the program has maps for sixteen.
#[test]
fn a_set_of_masks_too_many_does_not_keep_others_out() {
    let balance: Box<dyn Policy> = Box::new(Balance::new(Measure::Flows));
    let policy = Isolate::new(vec![("own".into(), Share::Exclusive(1), balance)]);
    let mut search = Search::new(nic(), Box::new(policy), Options::default());
    let Some(mut steering) = steering(&search, 64) else { return };
    let of = |kind: FlowType, set: usize| {
        let fields = match kind {
            FlowType::Udp4 => [Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst],
            _ => [Field::Ip6Src, Field::Ip6Dst, Field::L4Src, Field::L4Dst],
        };
        let named = fields.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        let conj = Conj::of_kinds(Kinds::of(kind));
        let conj = named.fold(conj, |conj, (_, field)| conj.with(*field, 1000 + set as u128));
        Flow::of(format!("{} {set}", kind.name()), vec![conj])
    };
    let sets = |kind| (1..16).rev().map(move |set| of(kind, set));
    search.run(sets(FlowType::Udp4).chain(sets(FlowType::Udp6)).collect());
    let outcome = follow(&mut steering, &mut search);
    assert!(!outcome.failed.is_empty(), "thirty sets");
    assert!(search.cost().is_acceptable(), "{:?}", search.plan().complaints);
    let exact = |search: &mut Search| search.plan().rules.iter().filter(|r| r.table == 0).count();
    let before = exact(&mut search);
    assert!(before >= 16, "{before}");
    for n in 1..=20 {
        search.add(flow(n));
    }
    assert!(follow(&mut steering, &mut search).failed.is_empty());
    assert_eq!(exact(&mut search), before + 20, "their masks are in use");
}
