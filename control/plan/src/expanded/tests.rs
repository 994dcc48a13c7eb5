use std::collections::BTreeSet;

use proptest::prelude::*;
use weever_graph::nic::{
    Actions, Capacity, Exposure, Failure, FieldMatch, FlowType, Granularity, MaskScope, QueueRange,
    Queues, RssFields, RssHash, RssModel, RssType, TableModel, TableOrder,
};
use weever_graph::nic::{FormsByType, KnownForms};
use weever_graph::{Attr, ConfigSpec, Field, Graph, Key, Node, NodeId, NodeKind, Port, Predicate};

use super::*;
use crate::config::{Rss, Rule, Target};
use crate::flow::{Flow, conjunctions};
use crate::map::place;
use crate::nic::Table;
use crate::policy::{Balance, Measure};
use crate::search::{FlowId, Options, Search};

/// Numbers from a seed, the same on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn some_of<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().copied().filter(|_| self.one_in(2)).collect()
    }
}

const FIELDS: [Field; 8] = [
    Field::Ip4Src,
    Field::Ip4Dst,
    Field::L4Src,
    Field::L4Dst,
    Field::VlanId,
    Field::Ip6Dst,
    Field::Ip4Proto,
    Field::EthType,
];
const TYPES: [FlowType; 5] =
    [FlowType::Udp4, FlowType::Tcp4, FlowType::Ip4, FlowType::Udp6, FlowType::Ether];
const QUEUES: QueueRange = QueueRange { lo: 0, hi: 5 };

/// A value from a small range, so that values meet often.
fn value(dice: &mut Dice, field: Field) -> u128 {
    let common: &[u128] = match field {
        Field::Ip4Proto => &[6, 17, 1],
        Field::EthType => &[0x0800, 0x86dd, 0x0806],
        _ => &[0, 1, 2, 3],
    };
    common[dice.below(common.len() as u64) as usize]
}

fn mask(dice: &mut Dice, field: Field) -> u128 {
    match dice.below(4) {
        0 => 0,
        1 => field.full_mask() & !1,
        2 => 3,
        _ => field.full_mask(),
    }
}

fn table(dice: &mut Dice, name: usize) -> Table {
    let orders = [
        TableOrder::Priority { lo: 0, hi: 3 },
        TableOrder::MoreSpecific,
        TableOrder::Location,
        TableOrder::Insertion,
    ];
    let fields = dice.some_of(&FIELDS);
    let match_of = |field| FieldMatch { field, granularity: Granularity::Bits };
    let model = TableModel {
        matches: fields.into_iter().map(match_of).collect(),
        flow_types: if dice.one_in(3) { Vec::new() } else { dice.some_of(&TYPES) },
        without: Vec::new(),
        forms: KnownForms::ALL,
        unclaimed: FormsByType::default(),
        mask_scope: MaskScope::Rule,
        capacity: Capacity { entries: 99, shared_with: None, costs: Vec::new() },
        order: orders[dice.below(4) as usize],
        fails: Failure::Never,
        actions: Actions { queues: Some(QUEUES), ..Actions::default() },
        linux: Exposure::None,
    };
    Table { name: format!("T{name}"), model, pool: name }
}

fn rule(dice: &mut Dice, table: &TableModel) -> Rule {
    let types = &table.flow_types;
    let flow_type = (!types.is_empty()).then(|| types[dice.below(types.len() as u64) as usize]);
    let mut key = |field: Field| {
        let said = table.fields_of(flow_type).any(|m| m.field == field);
        let mask = if said { mask(dice, field) } else { 0 };
        Key { mask, value: value(dice, field) & mask }
    };
    let keys = table.matches.iter().map(|m| key(m.field)).collect();
    let target = match dice.below(8) {
        6 => Target::Context(dice.below(2) as u32),
        7 => Target::Drop,
        queue => Target::Queue(queue as u32),
    };
    let (priority, location) = (dice.below(4) as u32, dice.below(4) as u32);
    Rule { flow_type, keys, target, priority, location }
}

fn rss(dice: &mut Dice) -> RssModel {
    let mut types = Vec::new();
    for flow_type in [FlowType::Udp4, FlowType::Ip4, FlowType::Tcp6, FlowType::Ip6] {
        if dice.one_in(2) {
            let fields = RssFields::ALL[dice.below(3) as usize];
            let ports = flow_type.protocol().is_some() || fields != RssFields::FourTuple;
            let choices = vec![if ports { fields } else { RssFields::Addresses }];
            types.push(RssType { flow_type, choices });
        }
    }
    let hash = RssHash::Toeplitz { key_len: 40, symmetric: false };
    let unhashed = dice.one_in(3).then(|| dice.below(u64::from(QUEUES.hi) + 1) as u32);
    RssModel { hash, entries: 4, unhashed, queues: QUEUES, types, contexts: 0 }
}

fn nic(dice: &mut Dice) -> Nic {
    let tables = (0..1 + dice.below(3) as usize).map(|i| table(dice, i)).collect();
    let rss = (!dice.one_in(4)).then(|| rss(dice));
    let (name, off) = ("random".into(), Vec::new());
    Nic {
        name,
        queues: QUEUES,
        tables,
        rss,
        hash_key: None,
        locations: None,
        default_queue: 0,
        off,
        disturbances: Vec::new(),
        features: Vec::new(),
        wanted: Vec::new(),
        sends: None,
    }
}

fn configuration(dice: &mut Dice, nic: &Nic) -> Configuration {
    let rules = nic.tables.iter().map(|t| {
        let count = dice.below(5);
        (0..count).map(|_| rule(dice, &t.model)).collect()
    });
    let rules = rules.collect();
    let used = nic.rss.is_some() && !dice.one_in(4);
    let table = (0..if used { 4 } else { 0 }).map(|_| dice.below(6) as u32).collect();
    let contexts = vec![vec![1, 4], vec![0, 2, 5]];
    Configuration { rules, rss: Rss { table, key: None, fields: Vec::new() }, contexts }
}

fn flow(dice: &mut Dice) -> Predicate {
    let mut parts = Vec::new();
    for field in dice.some_of(&FIELDS) {
        let mask = mask(dice, field);
        if mask != 0 {
            parts.push(Predicate::Match { field, mask, value: value(dice, field) & mask });
        }
    }
    Predicate::And(parts)
}

/// The PRG from which [`Nic::of`] reads the same.
fn prg(nic: &Nic) -> Graph {
    let mut g = Graph::new(nic.name.clone());
    let mut queue = Node::new("Queue", NodeKind::Function);
    queue.queues = Some(Queues { all: nic.queues, linux: None });
    let queue = g.add(queue);
    let port =
        |name: &str, to: NodeId| Port { name: name.into(), targets: vec![to], ..Port::default() };
    let mut next = queue;
    if let Some(rss) = &nic.rss {
        let spec = ConfigSpec { rss: Some(Box::new(rss.clone())), ..ConfigSpec::default() };
        let ports = vec![port("queues", queue)];
        next = g.add(Node { ports, ..Node::new("Rss", NodeKind::Config(spec)) });
    }
    for table in nic.tables.iter().rev() {
        let model = Some(Box::new(table.model.clone()));
        let spec = ConfigSpec { table: model, ..ConfigSpec::default() };
        let ports = vec![port("queues", queue), port("default", next)];
        let node = Node::new(table.name.clone(), NodeKind::Config(spec));
        next = g.add(Node { ports, ..node });
    }
    let mut source = Node::new("In", NodeKind::Function);
    source.attrs.push(Attr::Source);
    source.ports.push(port("out", next));
    g.add(source);
    g
}

fn rule_for(nic: &Nic, keys: &[(Field, u128)], queue: u32) -> Rule {
    let key = |field: Field| {
        let given = keys.iter().find(|(f, _)| *f == field);
        given.map_or(Key { mask: 0, value: 0 }, |(f, v)| Key { mask: f.full_mask(), value: *v })
    };
    let keys = nic.tables[0].model.matches.iter().map(|m| key(m.field)).collect();
    Rule {
        flow_type: Some(FlowType::Udp4),
        keys,
        target: Target::Queue(queue),
        priority: 0,
        location: 0,
    }
}

fn udp(port: u128) -> Predicate {
    Predicate::And(vec![Predicate::eq(Field::Ip4Proto, 17), Predicate::eq(Field::L4Dst, port)])
}

/// The figure of the paper: three 5-tuple filters, and the default queue.
fn figure() -> (Nic, Configuration) {
    let mut dice = Dice(7);
    let mut table = table(&mut dice, 0);
    table.model.flow_types = vec![FlowType::Udp4];
    table.model.order = TableOrder::Insertion;
    let whole = |field| FieldMatch { field, granularity: Granularity::Whole };
    table.model.matches = vec![whole(Field::Ip4Src), whole(Field::L4Dst)];
    let nic = Nic {
        name: "figure 1".into(),
        queues: QUEUES,
        tables: vec![table],
        rss: None,
        hash_key: None,
        locations: None,
        default_queue: 0,
        off: Vec::new(),
        disturbances: Vec::new(),
        features: Vec::new(),
        wanted: Vec::new(),
        sends: None,
    };
    let rules = [(1053, 1), (67, 2), (53, 1)]
        .map(|(port, queue)| rule_for(&nic, &[(Field::L4Dst, port)], queue))
        .to_vec();
    (nic, Configuration { rules: vec![rules], ..Default::default() })
}

#[test]
fn the_papers_example_is_a_chain_of_filters() {
    let (nic, configuration) = figure();
    let graph = expand(&prg(&nic), &nic, &configuration).unwrap();
    let names: BTreeSet<&str> = graph.iter().map(|(_, n)| n.name.as_str()).collect();
    let expected = ["In", "Queue0", "Queue1", "Queue2", "T0_0", "T0_1", "T0_2"];
    assert_eq!(names, expected.into_iter().collect());
    for (port, queue) in [(1053, 1), (67, 2), (53, 1), (80, 0)] {
        assert_eq!(queues_of(&graph, &udp(port)).unwrap(), [queue].into());
    }
    assert_eq!(queues_of(&graph, &Predicate::True).unwrap(), [0, 1, 2].into());
    assert!(weever_graph::verify(graph).is_ok());
}

#[test]
fn a_table_that_the_view_hides_stays_empty() {
    let (mut nic, configuration) = figure();
    let prg = prg(&nic);
    nic.tables.clear();
    let hidden = Configuration { rules: Vec::new(), ..configuration };
    let graph = expand(&prg, &nic, &hidden).unwrap();
    assert_eq!(queues_of(&graph, &udp(53)).unwrap(), [0].into());
}

/// The queues at which a flow arrives according to a search.
fn said(search: &Search, id: FlowId) -> BTreeSet<u32> {
    search.placement(id).unwrap().shares().map(|(q, _)| q).collect()
}

/// Holds every flow's placement against a walk. A flow that shares packets with others does not
/// count those of the narrower ones as its own, so the walk may find more.
fn agree(search: &mut Search, prg: &Graph, flows: &[(FlowId, Predicate)]) {
    let nic = search.nic().clone();
    let configuration = search.plan().configuration(nic.tables.len());
    let graph = expand(prg, &nic, &configuration).unwrap();
    let parts: Vec<_> = flows.iter().map(|(_, p)| conjunctions(p, 64).unwrap()).collect();
    for (i, (id, flow)) in flows.iter().enumerate() {
        let walked = queues_of(&graph, flow).unwrap();
        let placed = said(search, *id);
        assert!(placed.is_subset(&walked), "{flow:?}: {placed:?} {walked:?} {configuration:?}");
        let apart = |other: &Vec<_>| {
            parts[i].iter().all(|a: &crate::flow::Conj| other.iter().all(|b| a.disjoint(b)))
        };
        if parts.iter().enumerate().all(|(j, other)| i == j || apart(other)) {
            assert_eq!(placed, walked, "{flow:?} {configuration:?}");
        }
    }
}

/// Mostly connections, which share nothing.
fn some_flow(dice: &mut Dice) -> Predicate {
    if dice.one_in(4) {
        return flow(dice);
    }
    let mut parts = vec![Predicate::eq(Field::EthType, 0x0800)];
    for field in [Field::Ip4Proto, Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst] {
        parts.push(Predicate::eq(field, value(dice, field)));
    }
    Predicate::And(parts)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The placements that a search keeps while flows come and go equal those of the graph.
    #[test]
    fn flows_arrive_where_the_graph_sends_them(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let nic = nic(&mut dice);
        let prg = prg(&nic);
        let policy = Box::new(Balance::new(Measure::Flows));
        let mut search = Search::new(nic, policy, Options::default());
        let mut flows: Vec<(FlowId, Predicate)> = Vec::new();
        for _ in 0..10 {
            if !flows.is_empty() && dice.one_in(4) {
                let at = dice.below(flows.len() as u64) as usize;
                let (gone, _) = flows.remove(at);
                search.remove(gone);
            } else {
                let flow = some_flow(&mut dice);
                if let Ok(new) = Flow::new("f", &flow)
                    && !new.parts.is_empty()
                {
                    flows.push((search.add(new), flow));
                }
            }
            agree(&mut search, &prg, &flows);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The indexed placement and the walk of the graph find the same queues.
    #[test]
    fn placing_is_walking(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let nic = nic(&mut dice);
        let configuration = configuration(&mut dice, &nic);
        let graph = expand(&prg(&nic), &nic, &configuration).unwrap();
        for _ in 0..4 {
            // The graph shows filters by their fields; those by ports leave first fragments alone.
            let first = Predicate::eq(Field::Ip4Frag, 0x2000);
            let flow = Predicate::And(vec![flow(&mut dice), Predicate::Not(Box::new(first))]);
            let parts = conjunctions(&flow, 64).unwrap();
            let placed: BTreeSet<u32> = parts
                .iter()
                .flat_map(|conj| place(&nic, &configuration, conj).shares().map(|(q, _)| q).collect::<Vec<_>>())
                .collect();
            let walked = queues_of(&graph, &flow).unwrap();
            prop_assert_eq!(placed, walked, "{:?}\n{:?}\n{:?}", flow, nic, configuration);
        }
    }
}

#[test]
fn features_that_are_on_say_at_their_ports_what_they_vouch_for() {
    use weever_graph::nic::{FeatureModel, Work};
    let right = Predicate::Atom { label: "udp.checksum".into(), value: "right".into() };
    let mut prg = Graph::new("n");
    let mut queue = Node::new("Queue", NodeKind::Function);
    let all = QueueRange { lo: 0, hi: 0 };
    queue.queues = Some(Queues { all, linux: None });
    let queue = prg.add(queue);
    let port = |to| Port { name: "out".into(), targets: vec![to], ..Port::default() };
    let mut add = |name: &str, starts_on, to| {
        let work = vec![Work::Vouches { always: false, predicate: right.clone() }];
        let model = FeatureModel { ethtool: Vec::new(), starts_on, work };
        let spec = ConfigSpec { feature: Some(Box::new(model)), ..ConfigSpec::default() };
        let mut node = Node::new(name, NodeKind::Config(spec));
        node.ports.push(port(to));
        prg.add(node)
    };
    let off = add("Off", false, queue);
    let on = add("On", true, off);
    let mut source = Node::new("in", NodeKind::Function);
    source.attrs.push(Attr::Source);
    source.ports.push(port(on));
    prg.add(source);
    let nic = Nic::of(&prg).unwrap();
    let graph = expand(&prg, &nic, &Configuration::default()).unwrap();
    let names: Vec<&str> = graph.iter().map(|(_, node)| &*node.name).collect();
    assert!(!names.contains(&"Off") && !names.contains(&"On"), "{names:?}");
    let node = graph.node(graph.find("On_on").unwrap());
    let ports: Vec<_> = node.ports.iter().map(|p| (&*p.name, &p.predicate)).collect();
    assert_eq!(ports, [("vouched", &right), ("open", &Predicate::True)]);
    assert_eq!(queues_of(&graph, &Predicate::True).unwrap().len(), 1);
}
