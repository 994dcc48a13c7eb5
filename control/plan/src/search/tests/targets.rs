//! Rules that do something else than to send to a queue: spread by a context, and drop.

use weever_graph::Field;
use weever_graph::nic::{FlowType, Granularity, QueueRange, TableOrder};

use super::super::*;
use super::balanced;
use crate::Refusal;
use crate::flow::{ClassId, Conj, Kinds};
use crate::policy::{Balance, Isolate, Measure, Share};
use crate::testkit::*;

/// A NIC with one table in which rules can do everything.
fn able(queues: u32, contexts: u32) -> Nic {
    let mut model = five_tuple_filters(64);
    (model.actions.context, model.actions.drop) = (true, true);
    let mut nic = with_rss(nic(queues, vec![model]), 64);
    nic.rss.as_mut().unwrap().contexts = contexts;
    nic
}

fn to_port(port: u16) -> Conj {
    Conj::of_kinds(Kinds::of(FlowType::Udp4)).with(Field::L4Dst, port.into())
}

fn of_class(name: &str, conj: Conj, class: u16) -> Flow {
    Flow { class: ClassId(class), ..Flow::of(name, vec![conj]) }
}

fn classes(shares: &[Share]) -> Box<dyn Policy> {
    let part = |(i, share): (usize, &Share)| {
        let inner: Box<dyn Policy> = Box::new(Balance::new(Measure::Flows));
        (format!("c{i}"), share.clone(), inner)
    };
    Box::new(Isolate::new(shares.iter().enumerate().map(part).collect()))
}

fn search(nic: Nic, policy: Box<dyn Policy>) -> Search {
    Search::new(nic, policy, Options::default())
}

#[test]
fn a_wide_flow_is_spread_over_all_queues_of_its_class() {
    let policy = classes(&[Share::Exclusive(3), Share::Shared]);
    let mut search = search(able(6, 1), policy);
    let ids = search.run(vec![
        of_class("service", to_port(11211), 0),
        of_class("client", udp(1, 2, 3, 11211), 0),
        of_class("rest", to_port(53), 1),
    ]);
    let plan = search.plan();
    assert!(plan.is_acceptable(), "{:?}", plan.complaints);
    assert_eq!(plan.contexts, [vec![1, 2, 3]]);
    let placed = |id: FlowId| plan.flows.iter().find(|f| f.id == id).unwrap();
    let queues: Vec<u32> = placed(ids[0]).placement.shares().map(|(q, _)| q).collect();
    assert_eq!(queues, [1, 2, 3]);
    let rule = &plan.rules[placed(ids[0]).rules[0]].rule;
    assert_eq!((rule.target, plan.reached_by(rule)), (Target::Context(0), vec![1, 2, 3]));
    assert!(placed(ids[1]).placement.queue().is_some(), "one connection has one hash");
    let said = search.explain(ids[0]).unwrap();
    assert_eq!(said.chosen.table.as_deref(), Some("Table0"));
    assert!(said.runner_up.unwrap().placement.queue().is_some(), "{}", said.why);
    assert_eq!(search.plan().contexts, [vec![1, 2, 3]], "explaining changes nothing");
}

#[test]
fn contexts_run_out_and_are_used_again() {
    let shares = [Share::Exclusive(2), Share::Exclusive(2), Share::Shared];
    let mut search = search(able(6, 1), classes(&shares));
    let ids = search.run(vec![of_class("a", to_port(1), 0), of_class("b", to_port(2), 1)]);
    let plan = search.plan();
    assert!(plan.is_acceptable());
    assert_eq!(plan.contexts, [vec![1, 2]], "there is one");
    assert!(search.placement(ids[1]).unwrap().queue().is_some(), "so the other has one queue");
    search.remove(ids[0]);
    search.place_all();
    assert_eq!(search.plan().contexts, [vec![3, 4]]);
    assert!(search.refuse_contexts(0, "the driver has none"));
    let plan = search.plan();
    assert!(plan.is_acceptable() && plan.contexts.iter().all(Vec::is_empty));
    assert!(search.placement(ids[1]).unwrap().queue().is_some());
    assert!(!search.refuse_contexts(0, "the driver has none"), "there are none left to refuse");
}

#[test]
fn a_device_with_fewer_contexts_than_its_model_says_gets_as_many_as_it_has() {
    let shares = [Share::Exclusive(2), Share::Exclusive(2), Share::Exclusive(2), Share::Shared];
    let mut search = search(able(8, 4), classes(&shares));
    let of = |class: u16| of_class(&format!("c{class}"), to_port(class + 1), class);
    search.run((0..3).map(of).collect());
    let used = |search: &mut Search| {
        search.plan().contexts.iter().filter(|queues| !queues.is_empty()).count()
    };
    assert_eq!(used(&mut search), 3);
    // They are requested again with the same queues, and are still too many.
    assert!(search.refuse_contexts(1, "there is one"));
    assert_eq!(used(&mut search), 1);
    assert!(search.plan().is_acceptable());
    assert!(!search.refuse_contexts(1, "there is one"), "nothing is left to give up");
    search.place_all();
    assert_eq!(used(&mut search), 1);
}

#[test]
fn without_contexts_plans_are_as_before() {
    let shares = [Share::Exclusive(2), Share::Shared];
    let mut search = search(able(4, 0), classes(&shares));
    search.run(vec![of_class("a", to_port(1), 0)]);
    let plan = search.plan();
    assert!(plan.is_acceptable() && plan.contexts.is_empty());
}

#[test]
fn what_is_to_be_dropped_is_and_nothing_else() {
    let policy = || classes(&[Share::Nowhere, Share::Shared]);
    let mut search = search(able(4, 0), policy());
    // A connection inside the port that is dropped belongs to the class that is not.
    let kept = of_class("kept", udp(1, 2, 3, 19), 1);
    let ids = search.run(vec![of_class("noise", to_port(19), 0), kept]);
    let plan = search.plan();
    assert!(plan.is_acceptable(), "{:?} {:?}", plan.complaints, plan.rules);
    assert_eq!(search.placement(ids[0]), Some(&Placement::nowhere()));
    assert!(search.placement(ids[1]).unwrap().queue().is_some(), "its rule comes first");
    let drops = |plan: &Plan| plan.rules.iter().filter(|r| r.rule.target == Target::Drop).count();
    assert_eq!(drops(&plan), 1);
    search.remove(ids[0]).unwrap();
    assert_eq!(drops(&search.plan()), 0, "a rule that drops never stays behind");
    assert!(search.take_changes().len() <= 2);
}

#[test]
fn what_no_table_can_drop_is_told() {
    let mut nic = able(4, 0);
    nic.tables[0].model.actions.drop = false;
    let mut search = search(nic, classes(&[Share::Nowhere, Share::Shared]));
    search.run(vec![of_class("noise", to_port(19), 0)]);
    let plan = search.plan();
    assert_eq!(plan.complaints, ["1 flow of class `c0` is not dropped"]);
    assert_eq!(plan.shortages[0].reason, Refusal::NoDrop);
    // A mask that is too coarse would drop packets of other senders.
    let mut coarse = able(4, 0);
    coarse.tables[0].model.matches.iter_mut().for_each(|m| m.granularity = Granularity::Whole);
    let mut search = self::search(coarse, classes(&[Share::Nowhere, Share::Shared]));
    let some = crate::flow::Values::masked(Field::Ip4Src, 0x00ff_00ff, 7);
    search.run(vec![of_class("noise", to_port(19).having(some), 0)]);
    let plan = search.plan();
    assert_eq!(plan.shortages[0].reason, Refusal::DropsOthers, "{:?}", plan.rules);
}

#[test]
fn a_narrow_flow_under_a_rule_that_drops_is_missed() {
    // No order among rules: the earlier one wins, and the table has no place before it.
    let mut nic = able(2, 0);
    nic.tables[0].model.order = TableOrder::Insertion;
    let mut search = search(nic, classes(&[Share::Nowhere, Share::Shared]));
    let noise = search.add(of_class("noise", to_port(19), 0));
    search.add(of_class("kept", udp(1, 2, 3, 19), 1));
    let plan = search.plan();
    assert!(plan.is_acceptable(), "all were placed anew: {:?}", plan.complaints);
    assert!(!search.placement(noise).unwrap().arrives());
}

#[test]
fn numbers_that_tables_share_are_counted_once() {
    let two = vec![five_tuple_filters(6), five_tuple_filters(6)];
    let mut nic = nic(4, two);
    nic.locations = Some(7);
    nic.tables[1].model.order = TableOrder::Location;
    nic.tables[1].model.actions.queues = Some(QueueRange { lo: 0, hi: 3 });
    let mut search = search(nic, balanced());
    let ids = search.run(flows(0, 20));
    let plan = search.plan();
    assert_eq!(plan.rules.len(), 7);
    let numbers: std::collections::BTreeSet<u32> =
        plan.rules.iter().map(|r| r.rule.location).collect();
    assert_eq!(numbers, (0..7).collect(), "each once, whatever the table");
    let full = Refusal::NoLocation { locations: 7 };
    assert!(plan.shortages.iter().any(|s| s.reason == full), "{:?}", plan.shortages);
    // A stale rule of another table makes room.
    let steered =
        ids.iter().find(|id| plan.flows.iter().any(|f| f.id == **id && !f.rules.is_empty()));
    search.remove(*steered.unwrap());
    search.add(flows(50, 51).remove(0));
    assert_eq!(search.plan().rules.len(), 7);
}

#[test]
fn what_others_need_is_kept_out_of_a_drop() {
    // An exception that one table alone can express, behind one that could drop.
    let mut exact = five_tuple_filters(64);
    exact.matches.iter_mut().for_each(|m| m.granularity = Granularity::Whole);
    let mut masked = five_tuple_filters(64);
    masked.matches.iter_mut().for_each(|m| m.granularity = Granularity::Bits);
    for model in [&mut exact, &mut masked] {
        model.actions.drop = true;
    }
    let nic = with_rss(nic(4, vec![exact, masked]), 64);
    let mut search = search(nic, classes(&[Share::Nowhere, Share::Shared]));
    let net = |n: u128| crate::flow::Values::masked(Field::Ip4Src, 0xffff_0000, n << 16);
    let mut all: Vec<Flow> =
        (1..6).map(|n| of_class(&format!("net {n}"), to_port(19).having(net(n)), 1)).collect();
    all.push(of_class("noise", to_port(19), 0));
    let ids = search.run(all);
    let plan = search.plan();
    assert!(plan.is_acceptable(), "{:?} {:?}", plan.complaints, plan.rules);
    assert_eq!(search.placement(ids[5]), Some(&Placement::nowhere()));
    assert!(ids[..5].iter().all(|id| search.placement(*id).unwrap().dropped() == 0));
    // If the exceptions have no room, nothing is dropped, and the reason is reported.
    let mut small = five_tuple_filters(3);
    small.matches.iter_mut().for_each(|m| m.granularity = Granularity::Bits);
    small.actions.drop = true;
    let nic = with_rss(crate::testkit::nic(4, vec![small]), 64);
    let mut search = self::search(nic, classes(&[Share::Nowhere, Share::Shared]));
    let mut all: Vec<Flow> =
        (1..6).map(|n| of_class(&format!("net {n}"), to_port(19).having(net(n)), 1)).collect();
    all.push(of_class("noise", to_port(19), 0));
    search.run(all);
    let plan = search.plan();
    assert_eq!(plan.complaints, ["1 flow of class `c0` is not dropped"]);
    let reasons: Vec<&Refusal> = plan.shortages.iter().map(|s| &s.reason).collect();
    assert!(matches!(reasons[..], [Refusal::DropsFlow { .. }]), "{reasons:?}");
}

#[test]
fn flows_lose_what_they_share_with_a_class_that_comes_first() {
    let balance = || Box::new(Balance::new(Measure::Flows)) as Box<dyn Policy>;
    let classes = vec![
        ("noise".to_string(), Share::Nowhere, balance()),
        ("rest".to_string(), Share::Shared, balance()),
    ];
    let policy = Isolate::new(classes).with_priorities(vec![1, 0]);
    let mut search = search(able(4, 0), Box::new(policy));
    let from = Conj::of_kinds(Kinds::of(FlowType::Udp4)).with(Field::L4Src, 19);
    let service = Flow { yields: true, ..of_class("service", to_port(11211), 1) };
    let ids = search.run(vec![service, of_class("noise", from, 0)]);
    let plan = search.plan();
    assert!(plan.is_acceptable(), "{:?} {:?}", plan.complaints, plan.rules);
    let service = search.placement(ids[0]).unwrap();
    assert!(service.arrives() && service.dropped() > 0, "{service:?}");
    assert_eq!(search.placement(ids[1]), Some(&Placement::nowhere()));
}

#[test]
fn a_flow_without_packets_of_the_class_before_loses_none_to_one_behind() {
    let balance = || Box::new(Balance::new(Measure::Flows)) as Box<dyn Policy>;
    let classes = ["first", "own", "last"].map(|name| {
        let share = if name == "own" { Share::Shared } else { Share::Nowhere };
        (name.to_string(), share, balance())
    });
    let policy = Isolate::new(classes.into()).with_priorities(vec![2, 1, 0]);
    // Rules are evaluated in the order of insertion, and there is room for one.
    let mut model = five_tuple_filters(1);
    (model.actions.drop, model.order) = (true, TableOrder::Insertion);
    let nic = with_rss(nic(4, vec![model]), 64);
    let from =
        |port: u16| Conj::of_kinds(Kinds::of(FlowType::Udp4)).with(Field::L4Src, port.into());
    let mut search = search(nic, Box::new(policy));
    let last = of_class("last", from(99), 2);
    let ids = search.run(vec![of_class("own", to_port(7), 1), last]);
    let plan = search.plan();
    assert!(!plan.is_acceptable(), "{:?}", plan.rules);
    assert_eq!(search.placement(ids[0]).unwrap().dropped(), 0, "{:?}", plan.complaints);
}

#[test]
fn who_came_by_the_rule_of_a_flow_that_goes_gets_one_of_its_own() {
    let mut nic = able(4, 0);
    nic.tables[0].model.actions.drop = false;
    let mut search = search(nic, classes(&[Share::Exclusive(1), Share::Shared]));
    let service = search.add(of_class("service", to_port(7), 0));
    let clients: Vec<FlowId> = (1..4)
        .map(|n| search.add(of_class(&format!("client {n}"), udp(n, 5000, 9, 7), 0)))
        .collect();
    assert!(search.plan().is_acceptable());
    assert_eq!(search.steered(), 1, "all come by the rule of the service");
    search.remove(service).unwrap();
    let plan = search.plan();
    assert!(plan.is_acceptable(), "{:?}", plan.complaints);
    assert!(clients.iter().all(|id| search.placement(*id).unwrap().queue() == Some(1)));
    assert!(!plan.queues[1].other, "a stale rule lets no other traffic in");
}
