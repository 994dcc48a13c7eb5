//! Fields as the options of `ethtool -N`.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::nic::{FlowType, TableModel};
use weever_graph::{Field, Key};

use crate::config::Rule;

/// ` src-ip 10.0.0.0 m 0.255.255.255`. The mask names the bits that do not count.
pub(super) fn option(flow_type: FlowType, field: Field, key: Key) -> Result<String, String> {
    let name = name(flow_type, field)
        .ok_or_else(|| format!("`ethtool` has no option for {field} of {flow_type} rules"))?;
    let mut ignored = field.full_mask() & !key.mask;
    if field == Field::VlanId {
        // The option is the whole tag: priority and drop eligibility do not count.
        ignored |= 0xf000;
    }
    let value = shown(field, key.value);
    Ok(match ignored {
        0 => format!(" {name} {value}"),
        _ => format!(" {name} {value} m {}", shown(field, ignored)),
    })
}

fn name(flow_type: FlowType, field: Field) -> Option<&'static str> {
    let (ip, ether) = (flow_type.ip_version().is_some(), flow_type == FlowType::Ether);
    let transport = flow_type.protocol().is_some();
    Some(match field {
        Field::EthSrc if ether => "src",
        Field::EthDst if ether => "dst",
        Field::EthDst => "dst-mac",
        Field::EthType if ether => "proto",
        Field::VlanId => "vlan",
        Field::Ip4Src | Field::Ip6Src if ip => "src-ip",
        Field::Ip4Dst | Field::Ip6Dst if ip => "dst-ip",
        Field::Ip4Proto | Field::Ip6Next if ip && !transport => "l4proto",
        Field::L4Src if transport => "src-port",
        Field::L4Dst if transport => "dst-port",
        _ => return None,
    })
}

fn shown(field: Field, value: u128) -> String {
    match field {
        Field::EthSrc | Field::EthDst => {
            let byte = |i: u32| format!("{:02x}", value >> (40 - 8 * i) & 0xff);
            (0..6).map(byte).collect::<Vec<_>>().join(":")
        }
        Field::Ip4Src | Field::Ip4Dst => u32::try_from(value)
            .map_or_else(|_| value.to_string(), |v| Ipv4Addr::from_bits(v).to_string()),
        Field::Ip6Src | Field::Ip6Dst => Ipv6Addr::from_bits(value).to_string(),
        Field::EthType => format!("{value:#x}"),
        _ => value.to_string(),
    }
}

/// The match of a rule, in the terms of `ethtool` as far as they exist.
pub(super) fn plain(model: &TableModel, rule: &Rule) -> String {
    let mut out = rule.flow_type.map_or_else(|| "any".to_string(), |t| t.name().to_string());
    for (m, key) in model.matches.iter().zip(&rule.keys).filter(|(_, k)| k.mask != 0) {
        let option = rule.flow_type.and_then(|t| option(t, m.field, *key).ok());
        let written = || format!(" {} {:#x}/{:#x}", m.field, key.value, key.mask);
        out.push_str(&option.unwrap_or_else(written));
    }
    out
}
