//! Well-formed packets and predicates about them, at random. Values are drawn from few, so that
//! tests and packets meet.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weever_graph::{Field, Predicate};

#[derive(Clone, Debug)]
pub(super) struct Packet {
    fields: BTreeMap<Field, u128>,
    label: Option<String>,
}

impl Packet {
    pub(super) fn get(&self, field: Field) -> Option<u128> {
        self.fields.get(&field).copied()
    }

    pub(super) fn label(&self, label: &str) -> Option<String> {
        self.label.clone().filter(|_| label == "app")
    }
}

/// Few values of each field, including the values that decide kinds.
fn value(field: Field) -> BoxedStrategy<u128> {
    match field {
        Field::EthType => prop::sample::select(vec![0x0800, 0x0806, 0x86dd, 0x88cc, 5]).boxed(),
        Field::Ip4Proto => prop::sample::select(vec![1, 6, 17, 132, 2, 58]).boxed(),
        Field::Ip6Next => prop::sample::select(vec![58, 6, 17, 132, 44, 1]).boxed(),
        Field::IpVersion => prop::sample::select(vec![4u128, 6]).boxed(),
        Field::Ip4Frag => prop::sample::select(vec![0, 0x2000, 1, 0x2001, 7]).boxed(),
        Field::VlanId => (0..4u128).boxed(),
        _ => prop::sample::select(vec![0, 1, 2, 3, 80, 200]).boxed(),
    }
}

pub(super) fn packet() -> impl Strategy<Value = Packet> {
    let all: Vec<_> = Field::ALL.into_iter().map(value).collect();
    let label = prop::option::of(prop::sample::select(vec!["a".to_string(), "b".to_string()]));
    (all, any::<bool>(), label).prop_map(|(values, tagged, label)| {
        let mut fields: BTreeMap<Field, u128> = Field::ALL.into_iter().zip(values).collect();
        fields.insert(Field::IpVersion, 4);
        let v = fields.clone();
        fields.retain(|field, _| present(*field, &v, tagged));
        Packet { fields, label }
    })
}

/// Which fields a packet with these values has, written down independently of `Kinds`.
fn present(field: Field, v: &BTreeMap<Field, u128>, tagged: bool) -> bool {
    let (ip4, ip6) = (v[&Field::EthType] == 0x0800, v[&Field::EthType] == 0x86dd);
    let first = v[&Field::Ip4Frag] & 0x1fff == 0;
    let proto = |p4: u128, p6: u128| {
        ip4 && first && v[&Field::Ip4Proto] == p4 || ip6 && v[&Field::Ip6Next] == p6
    };
    match field {
        Field::EthDst | Field::EthSrc | Field::EthType | Field::FrameLen => true,
        Field::VlanId => tagged,
        Field::ArpOp | Field::ArpTpa => v[&Field::EthType] == 0x0806,
        Field::Ip4Src | Field::Ip4Dst | Field::Ip4Proto | Field::Ip4Ttl => ip4,
        Field::IpVersion | Field::Ip4Frag => ip4,
        Field::Ip6Src | Field::Ip6Dst | Field::Ip6Next => ip6,
        Field::IcmpType | Field::IcmpCode => proto(1, 58),
        Field::L4Src | Field::L4Dst => proto(6, 6) || proto(17, 17) || proto(132, 132),
        Field::TcpFlags => proto(6, 6),
        _ => unreachable!("the algebra knows nothing of {field}"),
    }
}

/// A test of one field.
pub(super) fn leaf() -> impl Strategy<Value = Predicate> {
    let fields = vec![
        Field::EthType,
        Field::VlanId,
        Field::Ip4Src,
        Field::Ip4Proto,
        Field::Ip4Frag,
        Field::Ip6Next,
        Field::L4Src,
        Field::L4Dst,
        Field::TcpFlags,
        Field::IcmpType,
        Field::ArpOp,
        Field::IpVersion,
    ];
    prop::sample::select(fields).prop_flat_map(|field| {
        let mask = prop_oneof![
            3 => Just(field.full_mask()), 1 => prop::sample::select(vec![1u128, 2, 6, 0xfe, 0])
        ];
        let full = field.full_mask();
        prop_oneof![
            3 => (mask, value(field)).prop_map(move |(mask, value)| {
                Predicate::Match { field, mask: mask & full, value: value & mask & full }
            }),
            1 => (value(field), value(field)).prop_map(move |(a, b)| {
                Predicate::Range { field, lo: a.min(b), hi: a.max(b) }
            }),
            1 => prop::sample::select(vec!["a", "b"]).prop_map(|v| {
                Predicate::Atom { label: "app".into(), value: v.into() }
            }),
        ]
    })
}

pub(super) fn predicate() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|p| Predicate::Not(Box::new(p))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Predicate::And),
            prop::collection::vec(inner, 0..4).prop_map(Predicate::Or),
        ]
    })
}
