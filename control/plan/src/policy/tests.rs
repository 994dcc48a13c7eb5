use weever_graph::Field;

use super::*;
use crate::flow::Conj;
use crate::map::WHOLE;

fn range(count: u32) -> QueueSet {
    (0..count).collect()
}

fn subject(class: u16, rate: u64) -> Subject {
    let class = Some(ClassId(class));
    Subject {
        class,
        app: Some(AppId(3)),
        core: Some(2),
        weight: 1,
        rate: Some(rate),
        yields: false,
    }
}

fn built_in() -> Vec<Box<dyn Policy>> {
    let balance = |m| -> Box<dyn Policy> { Box::new(Balance::new(m)) };
    let rate = Measure::Rate { assumed: 5 };
    vec![
        balance(Measure::Flows),
        balance(rate),
        Box::new(Pack::new(rate, 100)),
        Box::new(Locality::new(|q: u32, core: u16| q.abs_diff(u32::from(core)))),
        Box::new(Dedicated::new(AppId(3), 1)),
        Box::new(Isolate::new(vec![
            ("a".into(), Share::Exclusive(2), balance(Measure::Flows)),
            ("b".into(), Share::Shared, balance(rate)),
        ])),
        Box::new(Only::app(AppId(3), Pack::new(Measure::Flows, 2))),
        Box::new(Sum::new(vec![(2.0, balance(rate))])),
    ]
}

/// A policy keeps sums only: a flow that comes and goes leaves no trace.
#[test]
fn what_goes_leaves_no_trace() {
    let spread = crate::map::Spread {
        shares: vec![(0, WHOLE / 4), (3, WHOLE / 4 * 3)],
        dropped: 0,
        certain: false,
    };
    let places = [Placement::One(1), Placement::One(3), Placement::Spread(spread.into())];
    for mut policy in built_in() {
        policy.start(&range(4), 0);
        policy.apply(&subject(1, 10), &places[0], Change::Comes);
        let cost = policy.cost();
        let all = places.iter().zip([7u64, 1_000_000_007, 3]).enumerate();
        let all: Vec<_> = all.map(|(i, (p, rate))| (subject(i as u16 % 3, rate), p)).collect();
        all.iter().for_each(|(s, p)| policy.apply(s, p, Change::Comes));
        policy.apply(&Subject::OTHER, &places[0], Change::Comes);
        all.iter().for_each(|(s, p)| policy.apply(s, p, Change::Goes));
        policy.apply(&Subject::OTHER, &places[0], Change::Goes);
        assert_eq!(policy.cost(), cost);
    }
}

/// The shortcut has to find the same queue as trying every queue, ties included.
#[test]
fn the_best_queue_is_the_first_of_the_cheapest() {
    for mut policy in built_in() {
        policy.start(&range(6), 0);
        let among = QueueRange { lo: 1, hi: 4 };
        for i in 0..40u32 {
            let who = subject((i % 3) as u16, 1 + u64::from(i * 37 % 91));
            if let Some(best) = policy.best_queue(&who, among) {
                let cost = |q: u32, p: &mut dyn Policy| {
                    cost_with(p, &[(who, &Placement::One(q), Change::Comes)])
                };
                let first = (among.lo..=among.hi).min_by_key(|q| cost(*q, &mut *policy)).unwrap();
                assert_eq!(cost(best, &mut *policy), cost(first, &mut *policy), "flow {i}");
            }
            policy.apply(&who, &Placement::One(i * 7 % 6), Change::Comes);
        }
    }
}

#[test]
fn a_rejected_cost_is_more_than_any_accepted_one() {
    assert!(Cost::accept(1e300) < Cost::reject(1, 0.0));
    assert!(Cost::reject(1, 5.0) < Cost::reject(2, 0.0));
    assert_eq!(Cost::accept(1.0) + Cost::reject(2, 3.0), Cost::reject(2, 4.0));
}

#[test]
fn exclusive_queues_avoid_the_default_queue() {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let mut isolate = Isolate::new(vec![
        ("hp".into(), Share::Exclusive(2), balance()),
        ("be".into(), Share::Shared, balance()),
    ]);
    isolate.start(&range(4), 0);
    assert_eq!(isolate.queues_of(0).unwrap().to_string(), "1-2");
    assert_eq!(isolate.queues_of(1).unwrap().to_string(), "0,3");
    isolate.start(&range(2), 0);
    assert!(!isolate.cost().is_acceptable());
    assert_eq!(isolate.complaints(), ["class `hp` wants 2 queues of its own and gets 1"]);
}

fn class(name: &str, packets: Conj) -> Class {
    Class {
        name: name.into(),
        packets: vec![packets],
        app: None,
        queues: Queues::Shared,
        weight: 1,
        priority: 0,
        objective: None,
        mode: None,
        drop: false,
        ordered: false,
    }
}

#[test]
fn flows_get_the_class_with_the_highest_priority() {
    let mut web = class("web", Conj::all().with(Field::L4Dst, 80));
    (web.priority, web.weight) = (5, 3);
    let classes = vec![class("all", Conj::all()), web];
    let document = Document { classes, ..Document::default() };
    let classifier = document.classifier();
    let mut flow = Flow::of("f", vec![Conj::all().with(Field::L4Dst, 80)]);
    classifier.classify(&mut flow);
    assert_eq!((document.class_name(flow.class), flow.weight), ("web", 3));
    let mut other = Flow::of("g", vec![Conj::all().with(Field::L4Dst, 81)]);
    classifier.classify(&mut other);
    assert_eq!(document.class_name(other.class), "all");
}

/// Only `weever-policy` checks documents: a contradictory one costs a bad plan, no panic.
#[test]
fn a_document_that_nobody_checked_is_planned_for_all_the_same() {
    let of_queue_3 =
        |name: &str| Class { queues: Queues::Only(vec![3, 99]), ..class(name, Conj::all()) };
    let empty = Class { packets: Vec::new(), weight: 0, drop: true, ..of_queue_3("empty") };
    let none = Class { queues: Queues::Exclusive(0), ..class("none", Conj::all()) };
    let classes = vec![of_queue_3("a"), of_queue_3("a"), empty, none];
    let dedicate = vec![Dedication { app: 9, queue: 3 }; 2];
    let document = Document { classes, dedicate, ..Document::default() };
    let mut policy = document.policy(None);
    policy.start(&range(4), 0);
    let classifier = document.classifier();
    let mut flow = Flow::of("f", vec![Conj::all()]);
    classifier.classify(&mut flow);
    for queue in [0, 3] {
        policy.apply(&Subject::of(&flow), &Placement::One(queue), Change::Comes);
    }
    assert!(!policy.cost().is_acceptable());
    assert!(!document.standing_flows(&classifier).is_empty());
}

#[test]
fn a_class_of_an_application_has_its_flows_and_no_others() {
    let of_app = |app| Class { app: Some(AppId(app)), ..class("kv", Conj::all()) };
    let classes = vec![of_app(3), class("all", Conj::all())];
    let document = Document { classes, ..Document::default() };
    let classifier = document.classifier();
    let class_of = |app| {
        let mut flow = Flow::of("f", vec![Conj::all().with(Field::L4Dst, 80)]);
        flow.app = app;
        classifier.classify(&mut flow);
        document.class_name(flow.class).to_owned()
    };
    assert_eq!([Some(AppId(3)), Some(AppId(4)), None].map(class_of), ["kv", "all", "all"]);
}

/// An application's packets are known by its sockets only: a filter for all packets would take
/// those of others, too.
#[test]
fn a_class_of_an_application_needs_no_standing_flow() {
    let ordered = Class { app: Some(AppId(3)), ordered: true, ..class("kv", Conj::all()) };
    let dropped = Class { drop: true, ..class("bad", Conj::all().with(Field::L4Src, 19)) };
    let sharing = Some(Sharing { mode: SharingMode::Shared, threads: None, ordered: false });
    let document = Document { classes: vec![ordered, dropped], sharing, ..Document::default() };
    let standing = document.standing_flows(&document.classifier());
    assert_eq!(standing.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(), ["all of bad"]);
}

#[test]
fn an_objective_may_be_a_sum() {
    let sum = Objective::Sum(vec![(3, Objective::Balance), (2, Objective::BalanceRate)]);
    let cost = |objective| {
        let document = Document { objective, ..Document::default() };
        let mut policy = document.policy(None);
        policy.start(&range(2), 0);
        policy.apply(&subject(0, 10), &Placement::One(0), Change::Comes);
        policy.cost().value
    };
    let (flows, rates) = (cost(Objective::Balance), cost(Objective::BalanceRate));
    assert!(flows > 0.0 && rates > flows);
    assert_eq!(cost(sum), 3.0 * flows + 2.0 * rates);
}
