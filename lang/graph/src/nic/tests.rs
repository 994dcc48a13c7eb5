use super::*;
use crate::Field;

fn table(types: &[FlowType], fields: &[Field]) -> TableModel {
    let whole = |field: &Field| FieldMatch { field: *field, granularity: Granularity::Whole };
    TableModel {
        matches: fields.iter().map(whole).collect(),
        flow_types: types.to_vec(),
        without: Vec::new(),
        forms: KnownForms::ALL,
        unclaimed: FormsByType::default(),
        mask_scope: MaskScope::Rule,
        capacity: Capacity { entries: 9, shared_with: None, costs: Vec::new() },
        order: TableOrder::Insertion,
        fails: Failure::Never,
        actions: Actions { drop: true, ..Actions::default() },
        linux: Exposure::None,
    }
}

fn fields(table: &TableModel, flow_type: FlowType) -> Vec<Field> {
    table.fields_of(Some(flow_type)).map(|m| m.field).collect()
}

#[test]
fn flow_types_have_names_and_say_what_they_imply() {
    for flow_type in FlowType::ALL {
        assert_eq!(FlowType::from_name(flow_type.name()), Some(flow_type));
        assert!(flow_type.implies().all(|(field, _)| !flow_type.leaves_open(field)));
    }
    let implied: Vec<_> = FlowType::Udp6.implies().collect();
    assert_eq!(implied, [(Field::EthType, 0x86dd), (Field::Ip6Next, 17)]);
    assert_eq!(FlowType::Ether.implies().count(), 0);
    assert!(!FlowType::Udp4.leaves_open(Field::TcpFlags));
    assert!(!FlowType::Udp4.leaves_open(Field::Ip6Src));
}

#[test]
fn ports_belong_to_transports_where_a_table_tells_them_apart() {
    let all = [Field::Ip4Src, Field::Ip4Proto, Field::L4Dst];
    let apart = table(&[FlowType::Udp4, FlowType::Ip4], &all);
    assert_eq!(fields(&apart, FlowType::Udp4), [Field::Ip4Src, Field::L4Dst]);
    assert_eq!(fields(&apart, FlowType::Ip4), [Field::Ip4Src, Field::Ip4Proto]);
    assert_eq!(fields(&table(&[FlowType::Ip4], &all), FlowType::Ip4), all);
}

#[test]
fn masks_are_held_against_the_granularity() {
    let allowed = |granularity: Granularity| {
        [0u128, 0xffff, 0xff00, 0x00ff, 0x1_0000].map(|m| granularity.allows(Field::L4Dst, m))
    };
    assert_eq!(allowed(Granularity::Whole), [true, true, false, false, false]);
    assert_eq!(allowed(Granularity::Exact), [false, true, false, false, false]);
    assert_eq!(allowed(Granularity::Prefix), [true, true, true, false, false]);
    assert_eq!(allowed(Granularity::Bits), [true, true, true, true, false]);
    assert!(Granularity::Prefix.allows(Field::Ip6Src, 0));
    assert!(Granularity::Prefix.allows(Field::Ip6Src, u128::MAX << 64));
}

#[test]
fn the_first_cost_that_applies_counts() {
    let cost = |entries, when| Cost { entries, when };
    let costs = vec![
        cost(4, CostScope::Types(vec![FlowType::Tcp6])),
        cost(2, CostScope::Said("a tunnel".into())),
    ];
    let capacity = Capacity { entries: 9, shared_with: None, costs };
    assert_eq!(capacity.cost(Some(FlowType::Tcp6), |_| true), 4);
    assert_eq!(capacity.cost(Some(FlowType::Tcp4), |said| said == "a tunnel"), 2);
    assert_eq!(capacity.cost(None, |_| false), 1);
}

#[test]
fn linux_sees_less() {
    let mut silicon = table(&[], &[Field::Ip4Src, Field::L4Dst]);
    assert_eq!(silicon.as_linux(), None);
    let exact = FieldMatch { field: Field::L4Dst, granularity: Granularity::Exact };
    silicon.linux = Exposure::Ethtool(Ethtool {
        flow_types: vec![FlowType::Udp4],
        matches: vec![exact],
        location: Location::Any,
        limit: Some(4),
        locations: None,
        drop: false,
        context: false,
        context_types: Vec::new(),
    });
    let linux = silicon.as_linux().unwrap();
    assert_eq!((linux.matches, linux.flow_types), (vec![exact], vec![FlowType::Udp4]));
    assert_eq!((linux.capacity.entries, linux.actions.drop), (4, false));
}

#[test]
fn a_transport_is_hashed_as_its_network_if_nothing_else_is_said() {
    let two = RssType {
        flow_type: FlowType::Udp4,
        choices: vec![RssFields::Addresses, RssFields::FourTuple],
    };
    let ip = RssType { flow_type: FlowType::Ip4, choices: vec![RssFields::FourTuple] };
    let rss = RssModel {
        hash: RssHash::Crc32,
        entries: 128,
        unhashed: None,
        queues: QueueRange { lo: 0, hi: 15 },
        types: vec![two, ip],
        contexts: 0,
    };
    assert_eq!(rss.default_fields(FlowType::Udp4), RssFields::Addresses);
    assert_eq!(rss.default_fields(FlowType::Tcp4), RssFields::FourTuple);
    assert_eq!(rss.default_fields(FlowType::Ip6), RssFields::None);
    assert_eq!(RssFields::Addresses.of_version(6), [Field::Ip6Src, Field::Ip6Dst]);
}

#[test]
fn ranges_of_queues() {
    let range = |lo, hi| QueueRange { lo, hi };
    assert_eq!(range(0, 15).and(range(8, 63)), Some(range(8, 15)));
    assert_eq!(range(0, 7).and(range(8, 63)), None);
    assert!(range(0, 63).covers(range(0, 15)) && !range(0, 15).covers(range(0, 63)));
    assert_eq!(range(3, 5).count(), 3);
}
