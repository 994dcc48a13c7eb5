//! The match of a rule: fields of a plan's rules, in the kernel's structure and back.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};

use super::layout::{spec, u32_at};
use super::{Action, RuleSpec};

/// A flow type and the fields that a rule tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The flow type.
    pub flow_type: FlowType,
    /// The fields, each with a mask that is not 0, ascending.
    pub fields: Vec<(Field, Key)>,
}

const NUMBERS: [(FlowType, u32); 9] = [
    (FlowType::Tcp4, 1),
    (FlowType::Udp4, 2),
    (FlowType::Sctp4, 3),
    (FlowType::Tcp6, 5),
    (FlowType::Udp6, 6),
    (FlowType::Sctp6, 7),
    (FlowType::Ip4, 13),
    (FlowType::Ip6, 14),
    (FlowType::Ether, 18),
];

fn number_of(flow_type: FlowType) -> u32 {
    NUMBERS.iter().find(|(t, _)| *t == flow_type).map_or(0, |(_, n)| *n)
}

/// The hashed fields are set for all packets of an IP version; its number differs from that for rules.
pub(super) fn hash_number_of(flow_type: FlowType) -> u32 {
    match flow_type {
        FlowType::Ip4 => 16,
        FlowType::Ip6 => 17,
        other => number_of(other),
    }
}

/// The position of a field in a rule, and the other fields that it requires.
#[derive(Clone, Copy)]
struct FieldLocation {
    values: usize,
    masks: usize,
    bytes: usize,
    flag: u32,
}

fn place(flow_type: FlowType, field: Field) -> Option<FieldLocation> {
    let own = |offset, bytes| {
        Some(FieldLocation {
            values: spec::VALUES + offset,
            masks: spec::MASKS + offset,
            bytes,
            flag: 0,
        })
    };
    let extra = |offset, bytes, flag| {
        let (values, masks) = (spec::EXT_VALUES + offset, spec::EXT_MASKS + offset);
        Some(FieldLocation { values, masks, bytes, flag })
    };
    let (version, has_ports) = (flow_type.ip_version(), flow_type.protocol().is_some());
    match (field, version) {
        (Field::VlanId, _) => extra(10, 2, spec::TAG),
        (Field::EthDst, None) => own(0, 6),
        (Field::EthSrc, None) => own(6, 6),
        (Field::EthType, None) => own(12, 2),
        (Field::EthDst, Some(_)) => extra(2, 6, spec::MAC),
        (Field::Ip4Src, Some(4)) => own(0, 4),
        (Field::Ip4Dst, Some(4)) => own(4, 4),
        (Field::L4Src, Some(4)) if has_ports => own(8, 2),
        (Field::L4Dst, Some(4)) if has_ports => own(10, 2),
        (Field::Ip4Proto, Some(4)) if !has_ports => own(14, 1),
        (Field::Ip6Src, Some(6)) => own(0, 16),
        (Field::Ip6Dst, Some(6)) => own(16, 16),
        (Field::L4Src, Some(6)) if has_ports => own(32, 2),
        (Field::L4Dst, Some(6)) if has_ports => own(34, 2),
        (Field::Ip6Next, Some(6)) if !has_ports => own(37, 1),
        _ => None,
    }
}

/// The offset of the byte in `usr_ip4_spec` that marks IPv4 (`ETH_RX_NFC_IP4`, unmasked).
const IP_VERSION: usize = spec::VALUES + 13;

impl Match {
    /// As a rule with this action, at any location.
    ///
    /// # Errors
    /// The first field that rules of this flow type cannot test.
    pub fn to_rule(&self, action: Action) -> Result<RuleSpec, Field> {
        let mut flags = 0;
        let mut rule = RuleSpec::new(0);
        for (field, key) in self.fields.iter().filter(|(_, key)| key.mask != 0) {
            let place = place(self.flow_type, *field).ok_or(*field)?;
            flags |= place.flag;
            put(&mut rule.bytes, place.values, place.bytes, key.value & key.mask);
            put(&mut rule.bytes, place.masks, place.bytes, key.mask);
        }
        if self.flow_type == FlowType::Ip4 {
            rule.bytes[IP_VERSION] = 1;
        }
        let number = (number_of(self.flow_type) | flags).to_ne_bytes();
        rule.bytes[..4].copy_from_slice(&number);
        Ok(rule.sending(action))
    }
}

impl RuleSpec {
    /// Its match; nothing if it is of a kind that plans do not have.
    pub fn matches(&self) -> Option<Match> {
        let word = u32_at(&self.bytes, 0);
        let number = word & !(spec::TAG | spec::MAC | spec::CONTEXT);
        let flow_type = NUMBERS.iter().find(|(_, n)| *n == number)?.0;
        let mut fields = Vec::new();
        for field in Field::ALL {
            let Some(place) = place(flow_type, field) else { continue };
            if place.flag != 0 && word & place.flag == 0 {
                continue;
            }
            let mask = get(&self.bytes, place.masks, place.bytes) & field.full_mask();
            let value = get(&self.bytes, place.values, place.bytes) & mask;
            if mask != 0 {
                fields.push((field, Key { mask, value }));
            }
        }
        Some(Match { flow_type, fields })
    }

    /// As options of `ethtool -N DEV`, without the location.
    pub fn to_options(&self) -> String {
        let mut out = match self.matches() {
            Some(matches) => {
                let mut out = format!("flow-type {}", matches.flow_type);
                for (field, key) in &matches.fields {
                    option(&mut out, matches.flow_type, *field, *key);
                }
                out
            }
            None => format!("flow-type #{}", u32_at(&self.bytes, 0) & 0xff),
        };
        let written = match self.action() {
            Action::Queue(queue) => write!(out, " action {queue}"),
            Action::Drop => write!(out, " action -1"),
            Action::Context { context, queue: 0 } => write!(out, " context {context}"),
            Action::Context { context, queue } => {
                write!(out, " context {context} action {queue}")
            }
        };
        written.expect("writing to a string");
        out
    }
}

/// ` src-ip 10.0.0.0 m 0.255.255.255`: there, the mask names the bits that do not count.
fn option(out: &mut String, flow_type: FlowType, field: Field, key: Key) {
    let is_ether = flow_type == FlowType::Ether;
    let (name, full) = match field {
        Field::EthSrc => ("src", field.full_mask()),
        Field::EthDst => (if is_ether { "dst" } else { "dst-mac" }, field.full_mask()),
        Field::EthType => ("proto", field.full_mask()),
        // The option is the whole tag: priority and drop eligibility do not count.
        Field::VlanId => ("vlan", 0xffff),
        Field::Ip4Src | Field::Ip6Src => ("src-ip", field.full_mask()),
        Field::Ip4Dst | Field::Ip6Dst => ("dst-ip", field.full_mask()),
        Field::L4Src => ("src-port", field.full_mask()),
        Field::L4Dst => ("dst-port", field.full_mask()),
        _ => ("l4proto", field.full_mask()),
    };
    write!(out, " {name} {}", shown(field, key.value)).expect("writing to a string");
    let ignored = full & !key.mask;
    if ignored != 0 {
        write!(out, " m {}", shown(field, ignored)).expect("writing to a string");
    }
}

fn shown(field: Field, value: u128) -> String {
    match field {
        Field::EthSrc | Field::EthDst => {
            let bytes = (0..6).map(|i| format!("{:02x}", value >> (40 - 8 * i) & 0xff));
            bytes.collect::<Vec<_>>().join(":")
        }
        Field::Ip4Src | Field::Ip4Dst => Ipv4Addr::from_bits(value as u32).to_string(),
        Field::Ip6Src | Field::Ip6Dst => Ipv6Addr::from_bits(value).to_string(),
        Field::EthType => format!("{value:#x}"),
        _ => value.to_string(),
    }
}

/// Big-endian, in `count` bytes.
fn put(bytes: &mut [u8], at: usize, count: usize, value: u128) {
    bytes[at..at + count].copy_from_slice(&value.to_be_bytes()[16 - count..]);
}

fn get(bytes: &[u8], at: usize, count: usize) -> u128 {
    bytes[at..at + count].iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
}
