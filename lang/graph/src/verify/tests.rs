use super::*;
use crate::testkit::{add, add_kind, add_op, with_effects};
use crate::{Attr, ConfigSpec, Edge, Effects, Entry, Key, NodeId, NodeKind, Op, TableSpec};

fn kinds(graph: Graph) -> Vec<Kind> {
    verify(graph).expect_err("the graph is wrong").iter().map(|e| e.kind).collect()
}

fn warning_kinds(graph: Graph) -> Vec<Kind> {
    verify(graph).expect("the graph is right").warnings().map(|w| w.kind).collect()
}

const WRITER: Effects = Effects::READS.union(Effects::WRITES);

#[test]
fn order_follows_edges() {
    let mut g = Graph::new("g");
    let last = add(&mut g, "last", &[]);
    let mid = add(&mut g, "mid", &[("out", &[last])]);
    let first = add(&mut g, "first", &[("out", &[mid, last])]);
    let v = verify(g).unwrap();
    assert_eq!(v.order(), [first, mid, last]);
    assert_eq!(v.find("mid"), Some(mid));
}

#[test]
fn a_cycle_names_its_nodes_in_order() {
    let mut g = Graph::new("g");
    let a = add(&mut g, "a", &[("out", &[])]);
    let b = add(&mut g, "b", &[("out", &[a])]);
    let c = add(&mut g, "c", &[("out", &[b])]);
    add(&mut g, "outside", &[("out", &[c])]);
    g.node_mut(a).ports[0].targets.push(c);
    let errors = verify(g).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("`c` → `b` → `a` → `c`"), "{}", errors[0]);
}

#[test]
fn spawn_edges_may_form_cycles() {
    let mut g = Graph::new("g");
    let a = add(&mut g, "a", &[]);
    let edge = Edge { label: "again".into(), target: a, predicates: Vec::new() };
    g.node_mut(a).spawns.push(edge);
    assert!(verify(g).is_ok());
}

#[test]
fn names_and_ports_are_unique() {
    let mut g = Graph::new("g");
    add(&mut g, "a", &[("x", &[]), ("x", &[])]);
    add(&mut g, "a", &[]);
    assert_eq!(kinds(g), [Kind::DuplicatePort, Kind::DuplicateName]);
}

#[test]
fn an_edge_to_nowhere_is_an_error_and_no_panic() {
    let mut g = Graph::new("g");
    add(&mut g, "a", &[("x", &[NodeId(9)])]);
    assert_eq!(kinds(g), [Kind::DanglingEdge]);
}

#[test]
fn boolean_ports_lie_at_zero_and_one() {
    let mut g = Graph::new("g");
    add(&mut g, "f", &[("true", &[]), ("false", &[])]);
    let op = add_op(&mut g, "o", Op::And, &[("true", &[])]);
    add(&mut g, "x", &[("false", &[op]), ("true", &[op])]);
    assert_eq!(kinds(g), [Kind::BooleanPorts, Kind::BooleanPorts]);
}

#[test]
fn operands_come_from_boolean_ports_once_configured() {
    let mut g = Graph::new("g");
    let op = add_op(&mut g, "o", Op::Or, &[("false", &[]), ("true", &[])]);
    add(&mut g, "x", &[("out", &[op])]);
    assert!(verify_unconfigured(&g).iter().all(|f| f.severity() != Severity::Error));
    assert_eq!(kinds(g), [Kind::OperandPort]);
}

#[test]
fn config_nodes_are_not_executable() {
    let mut g = Graph::new("g");
    add_kind(&mut g, "c", NodeKind::Config(ConfigSpec::default()), &[("q0", &[])]);
    assert_eq!(verify_unconfigured(&g), []);
    assert_eq!(kinds(g), [Kind::NotConfigured]);
}

fn table(entry: Entry) -> NodeKind {
    let fields = vec![crate::Field::L4Dst];
    NodeKind::Table(TableSpec { fields, entries: vec![entry], miss: 0, capacity: 1 })
}

#[test]
fn a_table_fits_its_ports_fields_and_capacity() {
    let good = Entry { id: 1, keys: vec![Key { mask: 0xffff, value: 53 }], priority: 0, port: 1 };
    let ports: &[(&str, &[NodeId])] = &[("miss", &[]), ("hit", &[])];
    let of = |entry: Entry| {
        let mut g = Graph::new("g");
        add_kind(&mut g, "t", table(entry), ports);
        g
    };
    assert!(verify(of(good.clone())).is_ok());
    assert_eq!(kinds(of(Entry { port: 2, ..good.clone() })), [Kind::BadTable]);
    assert_eq!(kinds(of(Entry { keys: Vec::new(), ..good.clone() })), [Kind::BadTable]);
    let wide = vec![Key { mask: 0x1_0000, value: 0 }];
    assert_eq!(kinds(of(Entry { keys: wide, ..good })), [Kind::BadTable]);
}

/// `start.out` enables two nodes with the given effects.
fn two_branches(first: Effects, second: Effects) -> (Graph, NodeId, NodeId) {
    let mut g = Graph::new("g");
    let a = add(&mut g, "a", &[("out", &[])]);
    let b = add(&mut g, "b", &[("out", &[])]);
    add(&mut g, "start", &[("out", &[a, b])]);
    with_effects(&mut g, a, first);
    with_effects(&mut g, b, second);
    (g, a, b)
}

#[test]
fn parallel_readers_are_fine_and_a_writer_beside_a_reader_is_not() {
    assert!(verify(two_branches(Effects::READS, Effects::READS).0).is_ok());
    let conflict = [Kind::ConflictingEffects];
    assert_eq!(kinds(two_branches(Effects::READS, WRITER).0), conflict);
    assert_eq!(kinds(two_branches(Effects::CONSUMES, Effects::CONSUMES).0), conflict);
    assert_eq!(kinds(two_branches(Effects::MOVES_HEAD, Effects::READS).0), conflict);
}

#[test]
fn an_edge_orders_conflicting_nodes() {
    let (mut g, a, b) = two_branches(WRITER, WRITER);
    let between = add(&mut g, "between", &[("out", &[b])]);
    g.node_mut(a).ports[0].targets.push(between);
    assert!(verify(g).is_ok());
}

#[test]
fn exclusive_ports_separate_conflicting_nodes() {
    let mut g = Graph::new("g");
    let a = add(&mut g, "a", &[]);
    let b = add(&mut g, "b", &[]);
    let before_a = add(&mut g, "before_a", &[("out", &[a])]);
    add(&mut g, "choose", &[("x", &[before_a]), ("y", &[b])]);
    with_effects(&mut g, a, WRITER);
    with_effects(&mut g, b, WRITER);
    assert!(verify(g).is_ok());
}

#[test]
fn different_tasks_do_not_conflict() {
    let mut g = Graph::new("g");
    let sink = add(&mut g, "sink", &[]);
    let a = add(&mut g, "a", &[("out", &[sink])]);
    let b = add(&mut g, "b", &[("out", &[sink])]);
    with_effects(&mut g, a, WRITER);
    with_effects(&mut g, b, WRITER);
    assert!(verify(g).is_ok());
}

/// `len` and `sum` validate in parallel, `valid` joins them: its true port leads to a writer, its
/// false port to another one.
fn validators(op: Op) -> Graph {
    let mut g = Graph::new("g");
    let good = add(&mut g, "good", &[]);
    let bad = add(&mut g, "bad", &[]);
    let valid = add_op(&mut g, "valid", op, &[("false", &[bad]), ("true", &[good])]);
    let len = add(&mut g, "len", &[("false", &[valid]), ("true", &[valid])]);
    let sum = add(&mut g, "sum", &[("false", &[valid]), ("true", &[valid])]);
    add(&mut g, "start", &[("out", &[len, sum])]);
    for id in [len, sum] {
        with_effects(&mut g, id, Effects::READS);
    }
    for id in [good, bad] {
        with_effects(&mut g, id, WRITER | Effects::CONSUMES);
    }
    g
}

#[test]
fn operators_outcomes_are_exclusive_and_ordered_after_their_operands() {
    for op in [Op::And, Op::Or, Op::Nand, Op::Nor] {
        assert!(verify(validators(op)).is_ok(), "{op:?}");
    }
}

#[test]
fn a_branch_taken_only_if_an_operand_failed_excludes_what_follows_and() {
    // `reply` runs when `len` fails; `good` only when it does not.
    let mut g = validators(Op::And);
    let reply = add(&mut g, "reply", &[]);
    with_effects(&mut g, reply, WRITER);
    let len = g.find("len").unwrap();
    g.node_mut(len).ports[0].targets.push(reply);
    let messages: Vec<String> = verify(g).unwrap_err().into_iter().map(|e| e.message).collect();
    // `bad` runs then too and writes, and `sum` may still be reading.
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("`bad`") && messages[0].contains("`reply`"));
    assert!(messages[1].contains("`sum`") && messages[1].contains("`reply`"));
}

/// classify → `arp` → block → out; classify → broadcast → out. `extra` hangs on `at`, if given.
fn blocking(extra_at: Option<&str>) -> Graph {
    let mut g = Graph::new("g");
    let out = add(&mut g, "out", &[]);
    let block = add(&mut g, "block", &[("done", &[out])]);
    let before = add(&mut g, "before", &[("x", &[block]), ("broadcast", &[out])]);
    let extra = add(&mut g, "extra", &[]);
    with_effects(&mut g, block, Effects::BLOCKS);
    if let Some(port) = extra_at {
        let port = g.node(before).port(port).unwrap();
        g.node_mut(before).ports[port].targets.push(extra);
    }
    g
}

#[test]
fn a_blocking_node_must_be_all_that_is_left() {
    assert!(verify(blocking(None)).is_ok());
    assert!(verify(blocking(Some("broadcast"))).is_ok());
    assert_eq!(kinds(blocking(Some("x"))), [Kind::BlockingNotCut]);
}

#[test]
fn warnings_for_double_enabling_and_fed_init_nodes() {
    let mut g = Graph::new("g");
    let f = add(&mut g, "f", &[]);
    let a = add(&mut g, "a", &[("out", &[f])]);
    let start = add(&mut g, "start", &[("out", &[a, f])]);
    g.node_mut(start).attrs.push(Attr::Source);
    g.node_mut(a).attrs.push(Attr::Init);
    let kinds = warning_kinds(g);
    assert_eq!(kinds, [Kind::EnabledTwice, Kind::InitWithInput]);
}

#[test]
fn exclusive_edges_into_one_node_are_no_warning() {
    let mut g = Graph::new("g");
    let f = add(&mut g, "f", &[]);
    let inner = add(&mut g, "inner", &[("ok", &[f]), ("bad", &[])]);
    add(&mut g, "start", &[("p", &[inner]), ("q", &[f])]);
    assert_eq!(warning_kinds(g), []);
}

#[test]
fn notes_for_half_operands_unknown_attributes_and_unreachable_roots() {
    let mut g = Graph::new("g");
    let end = add(&mut g, "end", &[]);
    let op = add_op(&mut g, "op", Op::And, &[("false", &[end]), ("true", &[])]);
    let x = add(&mut g, "x", &[("false", &[]), ("true", &[op])]);
    add(&mut g, "lost", &[]);
    g.node_mut(x).attrs.extend([Attr::Source, Attr::Other("shiny".into())]);
    let v = verify(g).unwrap();
    let mut kinds: Vec<Kind> = v.notes().map(|n| n.kind).collect();
    kinds.sort_by_key(|k| format!("{k:?}"));
    let expected = [Kind::DeadEnd, Kind::HalfOperand, Kind::UnknownAttribute, Kind::Unreachable];
    assert_eq!(kinds, expected);
}

#[test]
fn nodes_of_a_feature_are_the_hosts_business() {
    let mut g = Graph::new("g");
    let source = add(&mut g, "source", &[]);
    let served = add(&mut g, "served", &[]);
    g.node_mut(source).attrs.push(Attr::Source);
    let notes = |g: &Graph| verify(g.clone()).unwrap().notes().count();
    assert_eq!(notes(&g), 1, "nothing leads there");
    g.node_mut(served).attrs.push(Attr::parse("for applications"));
    assert_eq!(notes(&g), 0);
}

#[test]
fn a_note_for_a_port_where_packets_end_for_no_stated_reason() {
    let mut g = Graph::new("g");
    let ports: &[(&str, &[NodeId])] = &[("out", &[]), ("stated", &[]), ("silent", &[])];
    let start = add(&mut g, "start", ports);
    assert_eq!(verify(g.clone()).unwrap().notes().count(), 0, "a fragment");
    g.node_mut(start).attrs.extend([Attr::Source, Attr::parse("drop stated: too late")]);
    let verified = verify(g).unwrap();
    let notes: Vec<String> = verified.notes().map(ToString::to_string).collect();
    let expected = "port `silent` of `start` leads nowhere, for no stated reason; connect it, or \
                    write `attr \"drop silent: REASON\"`";
    assert_eq!(notes, [expected]);

    let mut g = Graph::clone(&verified);
    let two = add(&mut g, "two", &[("a", &[]), ("b", &[]), ("done", &[])]);
    g.node_mut(two).attrs.extend([Attr::Source, Attr::parse("ends=done")]);
    let verified = verify(g).unwrap();
    let notes: Vec<String> = verified.notes().map(ToString::to_string).collect();
    assert!(notes[1].starts_with("ports `a`, `b` of `two` lead nowhere"), "{notes:?}");
    assert_eq!(notes.len(), 2, "one for each node");
}

#[test]
fn a_half_operand_whose_other_outcome_nobody_would_see_is_no_note() {
    for (op, noted) in
        [(Op::And, "false"), (Op::Or, "false"), (Op::Nand, "true"), (Op::Nor, "true")]
    {
        for follows in ["false", "true"] {
            let mut g = Graph::new("g");
            let end = add(&mut g, "end", &[]);
            let to = |port: &str| if port == follows { vec![end] } else { Vec::new() };
            let (no, yes) = (to("false"), to("true"));
            let op = add_op(&mut g, "op", op, &[("false", &no), ("true", &yes)]);
            add(&mut g, "x", &[("false", &[]), ("true", &[op])]);
            assert_eq!(verify(g).unwrap().notes().count(), usize::from(follows == noted));
        }
    }
}
