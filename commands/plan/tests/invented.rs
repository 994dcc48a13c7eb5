//! Plans for an invented NIC, given as Unicorn text and nothing else.

use std::collections::BTreeSet;

use weever_graph::{Graph, Predicate};
use weever_plan::Refusal;
use weever_plan::expanded::{expand, queues_of};
use weever_plan::flow::{Flow, conjunctions};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
use weever_plan::search::{Options, Plan, Search};
use weever_unicorn::{load, predicate};

/// A table of 16 rules with one mask per flow type, before an open hash that gives up after 2
/// probes of its 16 rows.
const TEXT: &str = "
graph Invented {
    queues Queue 0 .. 7
    node In { attr \"source\" port out[Masked] }
    config Masked {
        table {
            types udp4 tcp4
            match ip4.src bits match ip4.dst bits match l4.src bits match l4.dst bits
            mask per flowtype
            capacity 16
            priority location
            action queue 0 .. 7
        }
        port queues[Queue]
        port default[Hashed]
    }
    config Hashed {
        table {
            types udp4 tcp4
            match ip4.src exact match ip4.dst exact match l4.src exact match l4.dst exact
            capacity 16
            fails hash rows 16 probes 2
            action queue 0 .. 7
        }
        port queues[Queue]
        port default[Rss]
    }
    config Rss {
        rss { hash toeplitz key 40 entries 8 queues 0 .. 7 udp4 4tuple tcp4 4tuple ip4 2tuple }
        port queues[Queue]
    }
}";

fn graph() -> Graph {
    load(TEXT, "invented").unwrap_or_else(|e| panic!("{e}")).graph
}

fn connection(i: u32) -> Predicate {
    let text = format!(
        "ip and udp and src host 10.0.{}.{} and dst host 10.1.0.1 and src port {} and dst port 53",
        i / 200,
        i % 200 + 1,
        1000 + i
    );
    predicate::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn server(port: u16) -> Predicate {
    predicate::parse(&format!("ip and udp and dst host 10.1.0.1 and udp dst port {port}")).unwrap()
}

fn balanced(flows: &[Predicate]) -> (Nic, Plan) {
    plan(flows, Box::new(Balance::new(Measure::Flows)))
}

/// All flows are of one class, which has two queues for itself.
fn isolated(flows: &[Predicate]) -> (Nic, Plan) {
    let inside: Box<dyn Policy> = Box::new(Balance::new(Measure::Flows));
    let class = ("clients".to_string(), Share::Exclusive(2), inside);
    plan(flows, Box::new(Isolate::new(vec![class])))
}

fn plan(flows: &[Predicate], policy: Box<dyn Policy>) -> (Nic, Plan) {
    let nic = Nic::of(&graph()).unwrap_or_else(|e| panic!("{e}"));
    let flow =
        |(i, p): (usize, &Predicate)| Flow::of(format!("f{i}"), conjunctions(p, 64).unwrap());
    let mut search = Search::new(nic.clone(), policy, Options::default());
    search.run(flows.iter().enumerate().map(flow).collect());
    let plan = search.plan();
    (nic, plan)
}

fn rules_of(plan: &Plan, table: &str) -> usize {
    plan.rules.iter().filter(|r| r.table_name == table).count()
}

/// The plan's statement of every flow agrees with a walk of the whole graph.
fn agrees_with_the_walk(flows: &[Predicate], nic: &Nic, plan: &Plan) {
    let graph = expand(&graph(), nic, &plan.configuration(nic.tables.len())).unwrap();
    for (flow, planned) in flows.iter().zip(&plan.flows) {
        let said: BTreeSet<u32> = planned.placement.shares().map(|(q, _)| q).collect();
        assert_eq!(queues_of(&graph, flow).unwrap(), said, "{}", planned.name);
    }
}

#[test]
fn a_few_flows_are_balanced_over_its_queues() {
    let flows: Vec<Predicate> = (0..16).map(connection).collect();
    let (nic, plan) = balanced(&flows);
    let each: Vec<usize> =
        plan.queues.iter().map(|q| q.classes.iter().map(|c| c.1).sum()).collect();
    assert_eq!(each, [2; 8], "{plan:#?}");
    agrees_with_the_walk(&flows, &nic, &plan);
}

#[test]
fn its_tables_fill_and_its_hash_gives_up_before_it_is_full() {
    let flows: Vec<Predicate> = (0..32).map(|i| connection(i * 7)).collect();
    let (nic, plan) = balanced(&flows);
    assert_eq!(rules_of(&plan, "Masked"), 16);
    let hashed = rules_of(&plan, "Hashed");
    assert!((4..16).contains(&hashed), "{hashed} rules in 16 rows with 2 probes");
    let reasons: Vec<&Refusal> =
        plan.flows.iter().flat_map(|f| f.refused.iter().map(|(_, r)| r)).collect();
    assert!(reasons.iter().any(|r| matches!(r, Refusal::Full { capacity: 16, .. })), "{reasons:?}");
    assert!(reasons.iter().any(|r| matches!(r, Refusal::HashFull { probes: 2 })), "{reasons:?}");
    let unplaced = plan.flows.iter().filter(|f| !f.refused.is_empty()).count();
    assert_eq!(unplaced + 16 + hashed, 32);
    agrees_with_the_walk(&flows, &nic, &plan);
}

#[test]
fn rules_of_one_type_share_their_mask() {
    let flows = [server(53), server(54), connection(1), server(55)];
    let (nic, plan) = isolated(&flows);
    let masks: BTreeSet<Vec<u128>> = plan
        .rules
        .iter()
        .filter(|r| r.table_name == "Masked")
        .map(|r| r.rule.keys.iter().map(|k| k.mask).collect())
        .collect();
    assert_eq!(masks.len(), 1, "{masks:?}");
    assert_eq!(rules_of(&plan, "Masked"), 3, "the listening sockets have one mask");
    agrees_with_the_walk(&flows, &nic, &plan);
}
