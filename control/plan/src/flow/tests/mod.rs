//! Conjunctions and disjunctions against packets, and against a SAT solver.

mod packets;
mod sat;

use proptest::prelude::*;
use weever_graph::{Field, OpenTest, Predicate, Set};

use super::*;
use packets::{Packet, packet, predicate};

fn holds(packet: &Packet, predicate: &Predicate) -> bool {
    let label = |test: OpenTest<'_>| match test {
        OpenTest::Label { label, value } => packet.label(label).is_some_and(|v| v == value),
        OpenTest::Member { .. } => false,
    };
    predicate.eval(&|f| packet.get(f), &label)
}

fn in_any(packet: &Packet, conjs: &[Conj]) -> bool {
    conjs.iter().any(|c| holds(packet, &c.to_predicate()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_predicate_and_its_conjunctions_hold_of_the_same_packets(
        p in predicate(), packets in prop::collection::vec(packet(), 32),
    ) {
        let Ok(conjs) = conjunctions(&p, 4096) else { return Ok(()) };
        let Ok(not) = conjunctions_of_not(&p, 4096) else { return Ok(()) };
        for packet in &packets {
            prop_assert_eq!(in_any(packet, &conjs), holds(packet, &p), "{:?}", packet);
            prop_assert_eq!(in_any(packet, &not), !holds(packet, &p), "{:?}", packet);
        }
    }

    #[test]
    fn operations_mean_what_they_say(
        p in predicate(), q in predicate(), packets in prop::collection::vec(packet(), 32),
    ) {
        let (Ok(ps), Ok(qs)) = (conjunctions(&p, 512), conjunctions(&q, 512)) else { return Ok(()) };
        for (a, b) in ps.iter().zip(&qs) {
            let both = a.and(b);
            let minus = a.minus(b, 4096);
            prop_assert_eq!(both.is_empty(), a.disjoint(b));
            for packet in &packets {
                let is_in = |c: &Conj| holds(packet, &c.to_predicate());
                let (in_a, in_b) = (is_in(a), is_in(b));
                prop_assert_eq!(is_in(&both), in_a && in_b);
                prop_assert!(!(a.implies(b) && in_a && !in_b));
                if let Some(pieces) = &minus {
                    let count = pieces.iter().filter(|p| is_in(p)).count();
                    prop_assert_eq!(count, usize::from(in_a && !in_b));
                }
            }
            if let Some(pieces) = minus {
                prop_assert_eq!(pieces.is_empty(), a.implies(b), "{:?} {:?}", a, b);
            }
        }
    }
}

#[test]
fn a_port_implies_a_transport() {
    let port = Conj::all().with(Field::L4Dst, 80);
    assert!(port.clone().with(Field::EthType, 0x0806).is_empty());
    assert!(port.clone().with(Field::Ip4Proto, 1).is_empty());
    assert!(port.clone().with(Field::Ip4Frag, 5).is_empty());
    let tcp = Conj::all().with(Field::TcpFlags, 2);
    assert!(tcp.implies(&Conj::of_kinds(Kinds::with(Field::L4Dst))));
    assert_eq!(port.clone().with(Field::Ip4Proto, 17).single(Field::EthType), Some(0x0800));
    assert_eq!(port.single(Field::Ip4Proto), None);
}

#[test]
fn negation_includes_packets_without_the_field() {
    let not_80 = Predicate::Not(Box::new(Predicate::eq(Field::L4Dst, 80)));
    let flow = Flow::new("all but web", &not_80).unwrap();
    let arp = Conj::all().with(Field::EthType, 0x0806);
    assert!(flow.parts.iter().any(|p| arp.implies(p)));
    assert!(flow.parts.iter().all(|p| p.disjoint(&Conj::all().with(Field::L4Dst, 80))));
}

#[test]
fn a_five_tuple_is_four_tests_in_place() {
    let conj = crate::testkit::udp(1, 2, 3, 4);
    assert_eq!(conj.tests().count(), 4);
    assert_eq!(conj.single(Field::Ip4Proto), Some(17));
}

#[test]
fn what_is_too_complex_says_so() {
    let odd = |bit: u32| Predicate::Match { field: Field::L4Src, mask: 1 << bit, value: 1 << bit };
    let pair = |i: u32| Predicate::Or(vec![odd(2 * i), odd(2 * i + 1)]);
    let p = Predicate::And((0..8).map(pair).collect());
    assert_eq!(Flow::new("xor", &p), Err(TooComplex { limit: MAX_PARTS }));
}

#[test]
fn impossible_tests_are_empty() {
    for p in [
        Predicate::Match { field: Field::VlanId, mask: 0xffff, value: 0x8000 },
        Predicate::Match { field: Field::L4Src, mask: 1, value: 2 },
        Predicate::Range { field: Field::L4Src, lo: 5, hi: 4 },
        Predicate::Range { field: Field::L4Src, lo: 1 << 20, hi: 1 << 21 },
    ] {
        assert_eq!(conjunctions(&p, 64), Ok(Vec::new()), "{p:?}");
        assert_eq!(conjunctions_of_not(&p, 64).map(|c| c.iter().any(Conj::is_all)), Ok(true));
    }
}

/// A field that only a stack knows has one value in a packet; nothing else is known of it.
#[test]
fn derived_fields_and_sets_are_labels() {
    let length = |value| Predicate::eq(Field::UdpLen, value);
    let both = Predicate::And(vec![length(8), length(9)]);
    assert_eq!(conjunctions(&both, 8), Ok(Vec::new()));
    let ours = || Predicate::Member { field: Field::Ip4Dst, set: Set::Ours };
    let not = |p| Predicate::Not(Box::new(p));
    let never = Predicate::And(vec![ours(), not(ours())]);
    assert_eq!(conjunctions(&never, 8), Ok(Vec::new()));
    let possible = Predicate::And(vec![ours(), not(length(8)), Predicate::eq(Field::Ip4Dst, 7)]);
    assert_eq!(conjunctions(&possible, 8).map(|all| all.len()), Ok(1));
}

#[test]
fn opaque_labels_have_one_value() {
    let atom = |value: &str| Predicate::Atom { label: "app".into(), value: value.into() };
    let not = |p| Predicate::Not(Box::new(p));
    let sat = |p: Vec<Predicate>| !conjunctions(&Predicate::And(p), 64).unwrap().is_empty();
    assert!(!sat(vec![atom("a"), atom("b")]));
    assert!(!sat(vec![atom("a"), not(atom("a"))]));
    assert!(sat(vec![atom("a"), not(atom("b"))]));
    assert!(sat(vec![not(atom("a")), not(atom("b"))]));
}
