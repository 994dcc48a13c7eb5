//! Random clauses of NIC models.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weever_graph::Field;
use weever_graph::nic::*;
use weever_unicorn::ast::*;

use super::{comments, ident, reference, tail, text};

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..20, Just(u32::MAX), any::<u32>()]
}

fn range() -> impl Strategy<Value = QueueRange> {
    (number(), number()).prop_map(|(lo, hi)| QueueRange { lo, hi })
}

fn types() -> impl Strategy<Value = Vec<FlowType>> {
    vec(select(FlowType::ALL.to_vec()), 1..4)
}

fn field_match() -> impl Strategy<Value = FieldMatch> {
    (select(Field::ALL.to_vec()), select(Granularity::ALL.to_vec()))
        .prop_map(|(field, granularity)| FieldMatch { field, granularity })
}

fn cost() -> impl Strategy<Value = Cost> {
    let when = prop_oneof![
        Just(CostScope::Always),
        types().prop_map(CostScope::Types),
        text().prop_map(|t| CostScope::Said(t.value)),
    ];
    (number(), when).prop_map(|(entries, when)| Cost { entries, when })
}

fn order() -> impl Strategy<Value = TableOrder> {
    prop_oneof![
        (number(), number()).prop_map(|(lo, hi)| TableOrder::Priority { lo, hi }),
        Just(TableOrder::MoreSpecific),
        Just(TableOrder::MoreFields),
        Just(TableOrder::Location),
        Just(TableOrder::Insertion),
    ]
}

fn exposure() -> impl Strategy<Value = Exposure> {
    let location = select(vec![Location::Any, Location::Mandatory]);
    let parts = (
        vec(select(FlowType::ALL.to_vec()), 0..9),
        vec(field_match(), 0..6),
        location,
        (option::of(number()), option::of(number())),
        (any::<(bool, bool)>(), vec(select(FlowType::ALL.to_vec()), 0..3)),
    );
    let ethtool = parts.prop_map(|(flow_types, matches, location, numbers, actions)| {
        let ((limit, locations), ((drop, context), of)) = (numbers, actions);
        let context_types = if context { of } else { Vec::new() };
        Exposure::Ethtool(Ethtool {
            flow_types,
            matches,
            location,
            limit,
            locations,
            drop,
            context,
            context_types,
        })
    });
    prop_oneof![1 => Just(Exposure::None), 3 => ethtool]
}

fn table_line() -> impl Strategy<Value = TableLine> {
    let scopes = vec![MaskScope::Rule, MaskScope::FlowType, MaskScope::Link];
    let action = prop_oneof![
        range().prop_map(Action::Queue),
        Just(Action::Drop),
        Just(Action::Context),
        Just(Action::None),
    ];
    let fails = prop_oneof![
        Just(Failure::Never),
        (number(), number()).prop_map(|(rows, probes)| Failure::Hash { rows, probes }),
    ];
    prop_oneof![
        types().prop_map(TableLine::Types),
        (select(FlowType::ALL.to_vec()), types()).prop_map(|(flow_type, packets)| {
            TableLine::Without(Without { flow_type, packets })
        }),
        (
            any::<bool>(),
            vec(select(Form::ALL.to_vec()), 1..4),
            prop_oneof![Just(Vec::new()), types()]
        )
            .prop_map(|(matched, forms, flow_types)| TableLine::Forms {
                matched,
                forms,
                flow_types
            }),
        field_match().prop_map(TableLine::Match),
        select(scopes).prop_map(TableLine::Mask),
        (number(), option::of(reference()))
            .prop_map(|(entries, shared_with)| { TableLine::Capacity { entries, shared_with } }),
        cost().prop_map(TableLine::Cost),
        order().prop_map(TableLine::Order),
        fails.prop_map(TableLine::Fails),
        action.prop_map(TableLine::Action),
        exposure().prop_map(TableLine::Linux),
    ]
}

fn rss_line() -> impl Strategy<Value = RssLine> {
    let hash = prop_oneof![
        (number(), any::<bool>())
            .prop_map(|(key_len, symmetric)| RssHash::Toeplitz { key_len, symmetric }),
        Just(RssHash::Own),
        Just(RssHash::Crc32),
        Just(RssHash::Xor),
    ];
    let choices = vec(select(RssFields::ALL.to_vec()), 1..4);
    prop_oneof![
        hash.prop_map(RssLine::Hash),
        number().prop_map(RssLine::Entries),
        range().prop_map(RssLine::Queues),
        number().prop_map(RssLine::Contexts),
        number().prop_map(RssLine::Unhashed),
        (select(FlowType::ALL.to_vec()), choices)
            .prop_map(|(flow_type, choices)| RssLine::Hashed(RssType { flow_type, choices })),
    ]
}

fn block<K: std::fmt::Debug>(line: impl Strategy<Value = K>) -> impl Strategy<Value = Block<K>> {
    let line = (line, comments()).prop_map(|(kind, comments)| Line {
        kind,
        comments,
        loc: Loc::default(),
    });
    (vec(line, 0..5), tail()).prop_map(|(lines, tail)| Block { lines, tail })
}

pub(super) fn table() -> impl Strategy<Value = Block<TableLine>> {
    block(table_line())
}

pub(super) fn rss() -> impl Strategy<Value = Block<RssLine>> {
    block(rss_line())
}

fn feature_line() -> impl Strategy<Value = FeatureLine> {
    let field = || select(Field::ALL.to_vec());
    prop_oneof![
        vec(text(), 1..3).prop_map(FeatureLine::Ethtool),
        any::<bool>().prop_map(FeatureLine::Starts),
        (any::<bool>(), text()).prop_map(|(always, text)| FeatureLine::Vouches { always, text }),
        text().prop_map(FeatureLine::Drops),
        text().prop_map(FeatureLine::Fills),
        types().prop_map(FeatureLine::Cuts),
        types().prop_map(FeatureLine::Joins),
        field().prop_map(FeatureLine::Takes),
        field().prop_map(FeatureLine::Puts),
        Just(FeatureLine::Stamps),
    ]
}

pub(super) fn feature() -> impl Strategy<Value = Block<FeatureLine>> {
    block(feature_line())
}

pub(super) fn queues() -> impl Strategy<Value = Node> {
    (ident(), range(), option::of(range()), comments()).prop_map(|(name, all, linux, comments)| {
        let kind = NodeKind::Queues(Queues { all, linux });
        Node { kind, name, body: Vec::new(), comments, tail: Vec::new() }
    })
}
