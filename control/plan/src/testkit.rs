//! NICs and flows for tests, written by hand so that tests do not depend on the models.

use weever_graph::Field;
use weever_graph::nic::{
    Actions, Capacity, Exposure, Failure, FieldMatch, FlowType, Granularity, MaskScope, QueueRange,
    RssFields, RssHash, RssModel, RssType, TableModel, TableOrder,
};
use weever_graph::nic::{FormsByType, KnownForms};

use crate::flow::{Conj, Flow};
use crate::nic::{Nic, Table};

/// A NIC with these tables and `queues` queues, without spreading.
pub(crate) fn nic(queues: u32, tables: Vec<TableModel>) -> Nic {
    let all = QueueRange { lo: 0, hi: queues - 1 };
    let table = |(i, mut model): (usize, TableModel)| {
        model.actions.queues = model.actions.queues.and_then(|q| q.and(all));
        Table { name: format!("Table{i}"), model, pool: i }
    };
    let tables = tables.into_iter().enumerate().map(table).collect();
    let (name, off) = ("Test".into(), Vec::new());
    Nic {
        name,
        queues: all,
        tables,
        rss: None,
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

pub(crate) fn with_rss(mut nic: Nic, entries: u32) -> Nic {
    let fields = |flow_type, fields| RssType { flow_type, choices: vec![fields] };
    nic.rss = Some(RssModel {
        hash: RssHash::Toeplitz { key_len: 40, symmetric: false },
        entries,
        unhashed: None,
        queues: nic.queues,
        types: vec![
            fields(FlowType::Tcp4, RssFields::FourTuple),
            fields(FlowType::Udp4, RssFields::FourTuple),
            fields(FlowType::Ip4, RssFields::Addresses),
        ],
        contexts: 0,
    });
    nic
}

pub(crate) fn table(entries: u32, matches: &[(Field, Granularity)]) -> TableModel {
    let matches = matches.iter().map(|(field, g)| FieldMatch { field: *field, granularity: *g });
    TableModel {
        matches: matches.collect(),
        flow_types: Vec::new(),
        without: Vec::new(),
        forms: KnownForms::ALL,
        unclaimed: FormsByType::default(),
        mask_scope: MaskScope::Rule,
        capacity: Capacity { entries, shared_with: None, costs: Vec::new() },
        order: TableOrder::Priority { lo: 1, hi: 7 },
        fails: Failure::Never,
        actions: Actions {
            queues: Some(QueueRange { lo: 0, hi: 1023 }),
            drop: false,
            context: false,
            none: false,
        },
        linux: Exposure::None,
    }
}

/// The five fields of IPv4 five-tuples.
pub(crate) fn tuple(granularity: Granularity) -> Vec<(Field, Granularity)> {
    let fields = [Field::Ip4Src, Field::Ip4Dst, Field::Ip4Proto, Field::L4Src, Field::L4Dst];
    fields.into_iter().map(|f| (f, granularity)).collect()
}

/// The five-tuple filters of the 82599.
pub(crate) fn five_tuple_filters(entries: u32) -> TableModel {
    table(entries, &tuple(Granularity::Whole))
}

/// Its flow director: one mask for all rules.
pub(crate) fn flow_director(entries: u32) -> TableModel {
    let fields = [Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst];
    let fields: Vec<_> = fields.into_iter().map(|f| (f, Granularity::Bits)).collect();
    TableModel {
        flow_types: vec![FlowType::Tcp4, FlowType::Udp4, FlowType::Sctp4, FlowType::Ip4],
        mask_scope: MaskScope::Link,
        order: TableOrder::Insertion,
        ..table(entries, &fields)
    }
}

/// Two tables like those of the 82599.
pub(crate) fn i82599(queues: u32) -> Nic {
    nic(queues, vec![five_tuple_filters(128), flow_director(8190)])
}

pub(crate) fn udp(src: u32, sport: u16, dst: u32, dport: u16) -> Conj {
    Conj::all()
        .with(Field::EthType, 0x0800)
        .with(Field::Ip4Proto, 17)
        .with(Field::Ip4Frag, 0)
        .with(Field::Ip4Src, u128::from(src))
        .with(Field::Ip4Dst, u128::from(dst))
        .with(Field::L4Src, u128::from(sport))
        .with(Field::L4Dst, u128::from(dport))
}

/// Connected UDP flows, all different.
pub(crate) fn flows(from: u32, to: u32) -> Vec<Flow> {
    let flow = |i: u32| {
        let conj = udp(0x0a00_0000 + i / 64, 1000 + (i % 64) as u16, 0x0a01_0001, 11211);
        Flow::of(format!("flow {i}"), vec![conj])
    };
    (from..to).map(flow).collect()
}
