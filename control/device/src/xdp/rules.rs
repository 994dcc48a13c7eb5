//! A plan's rules as the program's.

use weever_ebpf::xdp::classify::{Field as Part, Test};
use weever_graph::{Field, Key};
use weever_plan::config::Rule;
use weever_plan::nic::Table;

use super::XdpError;

/// The tests that must hold for the rule to match, sorted.
pub(super) fn tests(table: &Table, rule: &Rule) -> Result<Vec<Test>, XdpError> {
    let mut tests = Vec::new();
    let said = rule.flow_type.into_iter().flat_map(|flow_type| flow_type.implies());
    for (field, value) in said {
        tests.push(test(field, Key { mask: field.full_mask(), value })?);
    }
    let keys = table.model.matches.iter().zip(&rule.keys).filter(|(_, key)| key.mask != 0);
    for (m, key) in keys {
        tests.push(test(m.field, *key)?);
    }
    tests.sort_unstable();
    tests.dedup();
    Ok(tests)
}

fn test(field: Field, key: Key) -> Result<Test, XdpError> {
    let part = part(field).ok_or(XdpError::Field { field })?;
    Ok(Test::Mask { field: part, mask: key.mask, value: key.value & key.mask })
}

fn part(field: Field) -> Option<Part> {
    Some(match field {
        Field::EthType => Part::EtherType,
        Field::VlanId => Part::Vlan,
        Field::Ip4Src => Part::Src4,
        Field::Ip4Dst => Part::Dst4,
        Field::Ip6Src => Part::Src6,
        Field::Ip6Dst => Part::Dst6,
        Field::Ip4Proto | Field::Ip6Next => Part::Protocol,
        Field::L4Src => Part::SrcPort,
        Field::L4Dst => Part::DstPort,
        Field::TcpFlags => Part::TcpFlags,
        _ => return None,
    })
}
