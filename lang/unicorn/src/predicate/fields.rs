//! Names of fields, and their values as text.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::{Field, Predicate};

/// The name by which predicates call a field.
pub fn field_name(field: Field) -> &'static str {
    field.name()
}

pub(super) fn field_called(name: &str) -> Option<Field> {
    let mut all = Field::ALL.into_iter().chain(Field::DERIVED);
    all.find(|f| field_name(*f) == name)
}

/// Decimal, hexadecimal (`0x`), IPv4, IPv6 or MAC address.
pub(super) fn value(text: &str) -> Option<u128> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u128::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with(['+', '-']));
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok();
    }
    let ip4 = || text.parse::<Ipv4Addr>().ok().map(|a| u128::from(a.to_bits()));
    let ip6 = || text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits);
    mac(text).or_else(ip4).or_else(ip6)
}

pub(super) fn mac(text: &str) -> Option<u128> {
    let bytes: Vec<&str> = text.split(':').collect();
    if bytes.len() != 6 {
        return None;
    }
    bytes.iter().try_fold(0, |all, byte| {
        let plain = matches!(byte.len(), 1 | 2) && byte.bytes().all(|b| b.is_ascii_hexdigit());
        plain.then(|| u128::from_str_radix(byte, 16).ok()).flatten().map(|b| all << 8 | b)
    })
}

/// A mask of the field's `length` highest bits.
pub(super) fn prefix_mask(field: Field, length: u32) -> Option<u128> {
    let rest = field.bits().checked_sub(length)?;
    Some(field.full_mask() & u128::MAX.checked_shl(rest).unwrap_or(0))
}

/// `field & mask == value`; an empty mask tests nothing.
pub(super) fn masked(field: Field, mask: u128, value: u128) -> Predicate {
    Predicate::Match { field, mask, value: value & mask }
}

/// A value as its readers expect it.
pub(super) fn shown(field: Field, value: u128) -> String {
    match field {
        Field::EthDst | Field::EthSrc | Field::ArpSha => {
            let byte = |i: u32| format!("{:02x}", value >> (40 - 8 * i) & 0xff);
            (0..6).map(byte).collect::<Vec<_>>().join(":")
        }
        Field::Ip4Src | Field::Ip4Dst | Field::ArpSpa | Field::ArpTpa => {
            u32::try_from(value).map_or_else(|_| hex(value), |v| Ipv4Addr::from_bits(v).to_string())
        }
        Field::Ip6Src | Field::Ip6Dst => Ipv6Addr::from_bits(value).to_string(),
        Field::EthType | Field::EthOuter | Field::VlanType | Field::TcpFlags => hex(value),
        _ => value.to_string(),
    }
}

pub(super) fn hex(value: u128) -> String {
    format!("{value:#x}")
}
