//! A plan's claims about a NIC hold for its driver.

use weever_graph::nic::{FlowType, TableOrder};
use weever_graph::{Field, Key};
use weever_plan::config::{Rss, Rule, Target};
use weever_plan::flow::{ClassId, Conj, Flow};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Isolate, Measure, Share};
use weever_plan::search::{Options, Plan, Search};

fn linux(model: &str) -> Nic {
    Nic::linux_of(&weever_models::nic(model).unwrap()).unwrap()
}

/// A plan that gives the flow a queue to itself.
fn exclusive(model: &str, conj: Conj) -> Plan {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let policy = Isolate::new(vec![
        ("rest".into(), Share::Shared, balance()),
        ("own".into(), Share::Exclusive(1), balance()),
    ]);
    let nic = linux(model).with_queues(4).unwrap();
    let mut search = Search::new(nic, Box::new(policy), Options::default());
    let mut flow = Flow::of("flow", vec![conj]);
    flow.class = ClassId(1);
    search.run(vec![flow]);
    search.plan()
}

fn types(plan: &Plan) -> Vec<Option<FlowType>> {
    let mut types: Vec<_> = plan.rules.iter().map(|r| r.rule.flow_type).collect();
    types.sort_unstable();
    types
}

#[test]
fn all_of_ipv4_takes_a_rule_for_each_type_that_rules_of_ip4_leave_out() {
    let from = || Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Src, 0x0a00_0001);
    for model in ["x710", "e810"] {
        let plan = exclusive(model, from());
        let all = [FlowType::Tcp4, FlowType::Udp4, FlowType::Sctp4, FlowType::Ip4];
        assert_eq!(types(&plan), all.map(Some), "{model}");
        assert!(plan.cost.is_acceptable(), "{model}: {:?}", plan.complaints);
        assert_eq!(plan.flows[0].placement.shares().count(), 1, "{model}");
    }
    assert_eq!(types(&exclusive("82599", from())), [Some(FlowType::Ip4)]);
}

#[test]
fn connectx_asks_rules_with_more_fields_first() {
    let nic = linux("connectx5");
    let table = &nic.tables[0].model;
    assert_eq!(table.order, TableOrder::MoreFields);
    let rank = |tests: &[(Field, u128)]| {
        let keys = table.matches.iter().map(|m| {
            let mask = tests.iter().find(|t| t.0 == m.field).map_or(0, |t| t.1);
            Key { mask, value: 0 }
        });
        let (flow_type, target) = (Some(FlowType::Ip4), Target::Queue(0));
        let rule = Rule { flow_type, keys: keys.collect(), target, priority: 0, location: 0 };
        rule.rank(table.order)
    };
    let host = rank(&[(Field::Ip4Src, 0xffff_ffff)]);
    let nets = rank(&[(Field::Ip4Src, 0xff00_0000), (Field::Ip4Dst, 0xff00_0000)]);
    assert!(nets < host, "two short prefixes come before one whole address");
}

#[test]
fn the_table_of_the_hash_is_the_one_that_ethtool_makes() {
    let nic = linux("x710");
    let first = Rss::over(&nic, &[0, 1, 2], None).table;
    assert_eq!(first[..7], [0, 1, 2, 0, 1, 2, 0], "equal");
    let others = Rss::over(&nic, &[1, 5, 6], None).table;
    let entries = others.len();
    assert_eq!(entries, 512);
    // The tool gives entry i to the nth queue while i < entries * n / queues.
    for (i, queue) in others.iter().enumerate() {
        let nth = (1..=3).find(|n| i < entries * n / 3).unwrap();
        assert_eq!(*queue, [1, 5, 6][nth - 1], "entry {i}");
    }
}
