//! Random filters on fields of the random frames.

use super::super::*;

use weever_graph::Key;
use weever_graph::nic::FlowType;

/// A filter, by its conditions.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) flow_type: FlowType,
    pub(crate) keys: Vec<(Field, u128)>,
    pub(crate) queue: u32,
}

/// The configuration of the NIC with these filters in its masked table, and queue 0 for the rest.
pub(crate) fn configured(asked: &[Asked], spread: &[u32]) -> Configuration {
    let nic = nic();
    let masked = &nic.tables[1].model;
    let rule = |(at, asked): (usize, &Asked)| Rule {
        flow_type: Some(asked.flow_type),
        keys: masked
            .matches
            .iter()
            .map(|m| match asked.keys.iter().find(|(f, _)| *f == m.field) {
                Some((field, value)) => Key { mask: field.full_mask(), value: *value },
                None => Key { mask: 0, value: 0 },
            })
            .collect(),
        target: Target::Queue(asked.queue),
        priority: 1000 - at as u32,
        location: at as u32,
    };
    let rules = vec![Vec::new(), asked.iter().enumerate().map(rule).collect()];
    Configuration { rules, rss: Rss::over(&nic, spread, None), contexts: Vec::new() }
}

fn asked() -> impl Strategy<Value = Asked> {
    let of_type = |t: FlowType, keys: &[(Field, u128)]| (t, keys.to_vec());
    let kinds = vec![
        of_type(FlowType::Udp4, &[(Field::L4Dst, 7)]),
        of_type(FlowType::Udp4, &[(Field::L4Dst, 9)]),
        of_type(FlowType::Udp4, &[(Field::L4Dst, 7), (Field::Ip4Dst, 0x0a00_0001)]),
        of_type(FlowType::Udp4, &[]),
        of_type(FlowType::Udp6, &[(Field::L4Dst, 7)]),
        of_type(FlowType::Udp6, &[]),
        of_type(FlowType::Ip6, &[]),
        of_type(FlowType::Ip4, &[]),
        of_type(FlowType::Ip4, &[(Field::Ip4Proto, 1)]),
        of_type(FlowType::Ip4, &[(Field::Ip4Src, 0x0a00_0002)]),
        of_type(FlowType::Tcp4, &[]),
        of_type(FlowType::Ether, &[(Field::EthType, 0x0806)]),
        of_type(FlowType::Ether, &[(Field::EthDst, 0xffff_ffff_ffff)]),
        of_type(FlowType::Ether, &[(Field::EthType, 0x0800)]),
    ];
    (prop::sample::select(kinds), 0u32..4).prop_map(|((flow_type, keys), queue)| Asked {
        flow_type,
        keys,
        queue,
    })
}

pub(crate) fn configurations() -> impl Strategy<Value = Configuration> {
    let spread = prop::sample::select(vec![vec![0], vec![0, 1], vec![3]]);
    (prop::collection::vec(asked(), 0..5), spread)
        .prop_map(|(asked, spread)| configured(&asked, &spread))
}
