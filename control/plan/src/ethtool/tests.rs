use weever_graph::nic::{
    Actions, Capacity, Ethtool, Failure, FieldMatch, Granularity, MaskScope, QueueRange, RssFields,
    RssHash, RssModel,
};
use weever_graph::nic::{FormsByType, KnownForms};
use weever_graph::{Field, Key};

use super::*;
use crate::config::{Rss, Target};

const FIELDS: [Field; 5] =
    [Field::Ip4Src, Field::L4Dst, Field::VlanId, Field::EthType, Field::TcpFlags];

fn table(location: Location) -> Table {
    let field = |field| FieldMatch { field, granularity: Granularity::Bits };
    let types = vec![FlowType::Udp4, FlowType::Ether];
    let ethtool = Ethtool {
        flow_types: types.clone(),
        matches: Vec::new(),
        location,
        limit: None,
        locations: None,
        drop: false,
        context: false,
        context_types: Vec::new(),
    };
    let model = TableModel {
        matches: FIELDS.map(field).to_vec(),
        flow_types: [types, vec![FlowType::Tcp4]].concat(),
        without: Vec::new(),
        forms: KnownForms::ALL,
        unclaimed: FormsByType::default(),
        mask_scope: MaskScope::Rule,
        capacity: Capacity { entries: 9, shared_with: None, costs: Vec::new() },
        order: TableOrder::Insertion,
        fails: Failure::Never,
        actions: Actions::default(),
        linux: Exposure::Ethtool(ethtool),
    };
    Table { name: "T".into(), model, pool: 0 }
}

fn nic(table: Table) -> Nic {
    let queues = QueueRange { lo: 0, hi: 7 };
    let hash = RssHash::Toeplitz { key_len: 2, symmetric: false };
    let rss = RssModel { hash, entries: 4, unhashed: None, queues, types: Vec::new(), contexts: 0 };
    Nic {
        name: "n".into(),
        queues,
        tables: vec![table],
        rss: Some(rss),
        hash_key: None,
        locations: None,
        default_queue: 0,
        off: Vec::new(),
        disturbances: Vec::new(),
        features: Vec::new(),
        wanted: Vec::new(),
        sends: None,
    }
}

fn rule(flow_type: FlowType, keys: &[(Field, u128, u128)]) -> Rule {
    let key = |field: Field| {
        let given = keys.iter().find(|(f, ..)| *f == field);
        given.map_or(Key { mask: 0, value: 0 }, |(_, value, mask)| Key {
            mask: *mask,
            value: *value,
        })
    };
    let keys = FIELDS.map(key).to_vec();
    Rule { flow_type: Some(flow_type), keys, target: Target::Queue(3), priority: 0, location: 17 }
}

fn line(location: Location, rule: Rule) -> String {
    let configuration = Configuration { rules: vec![vec![rule]], ..Default::default() };
    commands(&nic(table(location)), &configuration, "eth0").pop().unwrap()
}

#[test]
fn rules_are_ntuple_commands() {
    let udp = rule(
        FlowType::Udp4,
        &[(Field::L4Dst, 53, 0xffff), (Field::Ip4Src, 0x0a00_0000, 0xff00_0000)],
    );
    let expected =
        "ethtool -N eth0 flow-type udp4 src-ip 10.0.0.0 m 0.255.255.255 dst-port 53 action 3";
    assert_eq!(line(Location::Any, udp.clone()), expected);
    assert_eq!(line(Location::Mandatory, udp), format!("{expected} loc 17"));
    let ether =
        rule(FlowType::Ether, &[(Field::EthType, 0x88cc, 0xffff), (Field::VlanId, 5, 0xfff)]);
    let expected = "ethtool -N eth0 flow-type ether vlan 5 m 61440 proto 0x88cc action 3";
    assert_eq!(line(Location::Any, ether), expected);
}

#[test]
fn what_linux_does_not_take_is_a_comment() {
    let tcp = line(Location::Any, rule(FlowType::Tcp4, &[(Field::L4Dst, 53, 0xffff)]));
    assert!(tcp.starts_with("# cannot be expressed: T to queue 3: tcp4 dst-port 53; "), "{tcp}");
    assert!(tcp.ends_with("Linux does not take rules of type tcp4 here"), "{tcp}");
    let flags = line(Location::Any, rule(FlowType::Udp4, &[(Field::TcpFlags, 2, 2)]));
    assert!(flags.contains("tcp.flags 0x2/0x2; `ethtool` has no option"), "{flags}");
    let mut hidden = table(Location::Any);
    hidden.model.linux = Exposure::None;
    let rules = vec![vec![rule(FlowType::Udp4, &[])]];
    let lines = commands(&nic(hidden), &Configuration { rules, ..Default::default() }, "eth0");
    assert_eq!(lines.len(), 2, "no rule, so nothing to switch on: {lines:?}");
    assert!(lines[1].ends_with("Linux does not expose this table"));
}

#[test]
fn the_hash_spreads_equally_or_by_weights() {
    let spread = |table: &[u32], key: Option<Vec<u8>>| {
        let rss = Rss { table: table.to_vec(), key, fields: Vec::new() };
        let configuration = Configuration { rules: vec![Vec::new()], rss, ..Default::default() };
        commands(&nic(table_without_rules()), &configuration, "eth0")
    };
    let first = |lines: Vec<String>| lines.into_iter().nth(1).unwrap();
    assert_eq!(first(spread(&[0, 1, 2, 0], None)), "ethtool -X eth0 equal 3");
    assert_eq!(first(spread(&[2, 3, 2, 3], None)), "ethtool -X eth0 weight 0 0 1 1");
    assert_eq!(first(spread(&[0, 0, 0, 1], None)), "ethtool -X eth0 weight 3 1");
    let keyed = first(spread(&[0, 1, 0, 1], Some(vec![0x6d, 0x5a])));
    assert_eq!(keyed, "ethtool -X eth0 equal 2 hkey 6d:5a");
    assert_eq!(spread(&[], None), ["ethtool -L eth0 combined 8"]);
}

#[test]
fn what_is_hashed_is_a_command_of_its_own() {
    let fields = vec![(FlowType::Udp4, RssFields::FourTuple), (FlowType::Tcp4, RssFields::None)];
    let rss = Rss { table: vec![0, 1], key: None, fields };
    let configuration = Configuration { rules: vec![Vec::new()], rss, ..Default::default() };
    let lines = commands(&nic(table_without_rules()), &configuration, "eth0");
    assert_eq!(lines[2], "ethtool -N eth0 rx-flow-hash udp4 sdfn");
    assert!(lines[3].starts_with("# cannot be expressed: nothing of tcp4"), "{lines:?}");
}

fn table_without_rules() -> Table {
    table(Location::Any)
}
