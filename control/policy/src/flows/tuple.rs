//! Five-tuples: `udp 10.0.0.1:1234 -> 10.0.0.2:11211`.
//!
//! A side is an address or prefix and a port, each of which may be `*`, or `*` for both. IPv6
//! addresses stand in brackets when a port follows.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::{Field, Predicate};

/// One side of a five-tuple.
struct Side {
    address: Option<Address>,
    port: Option<u16>,
}

enum Address {
    Four { value: u32, mask: u32 },
    Six { value: u128, mask: u128 },
}

/// The predicate of a five-tuple; nothing if `text` is none, which it is without an arrow.
pub(super) fn parse(text: &str) -> Option<Result<Predicate, String>> {
    let (from, to) = text.split_once("->")?;
    Some(tuple(from.trim(), to.trim()))
}

fn tuple(from: &str, to: &str) -> Result<Predicate, String> {
    let (protocol, from) = from.split_once(char::is_whitespace).unwrap_or((from, ""));
    let number = match protocol {
        "tcp" => 6,
        "udp" => 17,
        "sctp" => 132,
        _ => return Err(format!("`{protocol}` is none of tcp, udp and sctp")),
    };
    let (from, to) = (side(from.trim())?, side(to)?);
    let four = version(&from, &to, number, true);
    let six = version(&from, &to, number, false);
    match (four, six) {
        (Some(four), Some(six)) => Ok(Predicate::Or(vec![four, six])),
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (None, None) => Err("one side is IPv4 and the other IPv6".into()),
    }
}

/// The tuple for packets of one IP version, if both sides can be of it.
fn version(from: &Side, to: &Side, protocol: u128, four: bool) -> Option<Predicate> {
    let [next, src, dst] = match four {
        true => [Field::Ip4Proto, Field::Ip4Src, Field::Ip4Dst],
        false => [Field::Ip6Next, Field::Ip6Src, Field::Ip6Dst],
    };
    let mut parts = vec![Predicate::eq(next, protocol)];
    for (field, side) in [(src, from), (dst, to)] {
        match (&side.address, four) {
            (None, _) => {}
            (Some(Address::Four { value, mask }), true) => {
                let (mask, value) = ((*mask).into(), (value & mask).into());
                parts.push(Predicate::Match { field, mask, value });
            }
            (Some(Address::Six { value, mask }), false) => {
                parts.push(Predicate::Match { field, mask: *mask, value: value & mask });
            }
            _ => return None,
        }
    }
    for (field, side) in [(Field::L4Src, from), (Field::L4Dst, to)] {
        parts.extend(side.port.map(|port| Predicate::eq(field, port.into())));
    }
    Some(Predicate::And(parts))
}

fn side(text: &str) -> Result<Side, String> {
    let wrong = || {
        let shapes = "10.0.0.1:53, 10.0.0.0/8:*, *:53, [2001:db8::1]:53 or *";
        format!("`{text}` is no side of a five-tuple, as {shapes}")
    };
    if text == "*" {
        return Ok(Side { address: None, port: None });
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(wrong)?;
            let port =
                if rest.is_empty() { "*" } else { rest.strip_prefix(':').ok_or_else(wrong)? };
            (address, port)
        }
        // More than one colon: an IPv6 address without a port.
        None if text.matches(':').count() > 1 => (text, "*"),
        None => text.split_once(':').unwrap_or((text, "*")),
    };
    let address = match address {
        "*" => None,
        other => Some(self::address(other).ok_or_else(wrong)?),
    };
    let port = match port {
        "*" => None,
        other => Some(other.parse().map_err(|_| wrong())?),
    };
    Ok(Side { address, port })
}

fn address(text: &str) -> Option<Address> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    if let Ok(four) = address.parse::<Ipv4Addr>() {
        let length = length.unwrap_or(32);
        let mask = u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0);
        return Some(Address::Four { value: four.to_bits(), mask });
    }
    let six = address.parse::<Ipv6Addr>().ok()?;
    let length = length.unwrap_or(128);
    let mask = u128::MAX.checked_shl(128u32.checked_sub(length)?).unwrap_or(0);
    Some(Address::Six { value: six.to_bits(), mask })
}
