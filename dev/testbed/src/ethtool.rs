//! Offload settings of a link, through ethtool's netlink family (Linux `ethtool-netlink.rst`).

use std::io;

use netlink_packet_core::{
    DecodeError, NLA_F_NESTED, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable,
};
use netlink_sys::protocols::NETLINK_GENERIC;

use crate::netlink::Netlink;

/// The family that knows the numbers of all other families.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const SET_FEATURES: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const HEADER_DEVICE_NAME: u16 = 2;
const FEATURES_WANTED: u16 = 3;
const BITSET_BITS: u16 = 3;
const BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// Both families are at their first version.
const VERSION: u8 = 1;

/// Switches one feature of a link of the calling thread's namespace on or off.
pub(crate) fn set_feature(link: &str, feature: &str, on: bool) -> io::Result<()> {
    let mut netlink = Netlink::open(NETLINK_GENERIC)?;
    let family = family(&mut netlink, "ethtool")?;
    let mut bit = attribute(BIT_NAME, &text(feature));
    if on {
        bit.extend(attribute(BIT_VALUE, &[]));
    }
    let bits = nested(BITSET_BITS, &nested(BITS_BIT, &bit));
    let mut attributes = nested(FEATURES_HEADER, &attribute(HEADER_DEVICE_NAME, &text(link)));
    attributes.extend(nested(FEATURES_WANTED, &bits));
    netlink.request(Generic { family, command: SET_FEATURES, attributes }, 0).map(drop)
}

/// The number that the kernel has given to a family.
fn family(netlink: &mut Netlink, name: &str) -> io::Result<u16> {
    let attributes = attribute(FAMILY_NAME, &text(name));
    let question = Generic { family: CONTROLLER, command: GET_FAMILY, attributes };
    let answers = netlink.request(question, 0)?;
    let id = answers.iter().find_map(|answer| find(&answer.attributes, FAMILY_ID));
    let id = id.and_then(|value| value.first_chunk::<2>());
    id.map(|id| u16::from_ne_bytes(*id)).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// A message of any generic family.
#[derive(Debug)]
struct Generic {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

/// Command, version and two reserved bytes precede the attributes.
const GENERIC_HEADER: usize = 4;

impl NetlinkSerializable for Generic {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        GENERIC_HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer[..GENERIC_HEADER].copy_from_slice(&[self.command, VERSION, 0, 0]);
        buffer[GENERIC_HEADER..].copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Generic {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let (head, attributes) = payload
            .split_first_chunk::<GENERIC_HEADER>()
            .ok_or_else(|| DecodeError::buffer_too_small(payload.len(), GENERIC_HEADER))?;
        let (family, command) = (header.message_type, head[0]);
        Ok(Self { family, command, attributes: attributes.to_vec() })
    }
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn nested(kind: u16, inner: &[u8]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, inner)
}

/// Length and kind, the value, and padding to a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("no attribute here is that long");
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the first attribute of that kind.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let ([a, b, c, d], rest) = attributes.split_first_chunk::<4>()?;
        let (length, kind) = (u16::from_ne_bytes([*a, *b]), u16::from_ne_bytes([*c, *d]));
        let length = usize::from(length).checked_sub(4)?;
        if kind & !NLA_F_NESTED == wanted {
            return rest.get(..length);
        }
        attributes = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others() {
        let list = [attribute(1, b"one"), nested(2, &attribute(1, b"inner")), attribute(3, b"")];
        let list = list.concat();
        assert_eq!(find(&list, 1), Some(&b"one"[..]));
        assert_eq!(find(&list, 2).and_then(|inner| find(inner, 1)), Some(&b"inner"[..]));
        assert_eq!(find(&list, 3), Some(&b""[..]));
        assert_eq!(find(&list, 4), None);
        assert_eq!(find(&[2, 0, 0, 0, 9], 9), None, "a length too small for its own header");
    }

    #[test]
    fn families_have_numbers() {
        let mut netlink = Netlink::open(NETLINK_GENERIC).unwrap();
        assert_eq!(family(&mut netlink, "nlctrl").unwrap(), CONTROLLER);
        let unknown = family(&mut netlink, "no-such-family").unwrap_err();
        assert_eq!(unknown.raw_os_error(), Some(nix::libc::ENOENT));
    }
}
