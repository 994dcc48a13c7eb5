//! Messages and their attributes as octets (Linux `netlink(7)`, `genetlink`). Readers end at the first length that
//! makes no sense.

/// The header of a message: length, kind, flags, sequence number, sender.
const HEADER: usize = 16;
/// The header of a generic message: command, version, two octets that are free.
const GENERIC_HEADER: usize = 4;
/// All families here are at their first version.
const VERSION: u8 = 1;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
/// The kind of an attribute, without the bits for nesting and byte order.
const KIND: u16 = 0x3fff;

/// A message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    pub(super) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The command of a generic message.
    pub(super) fn command(&self) -> Option<u8> {
        self.body.first().copied()
    }

    /// The attributes of a generic message.
    pub(super) fn attributes(&self) -> Option<&'a [u8]> {
        self.body.get(GENERIC_HEADER..)
    }
}

/// The messages of a datagram.
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let head: &[u8; HEADER] = self.0.first_chunk()?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let sequence = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
        let body = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, sequence, body })
    }
}

/// Attributes as kind and value.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let [a, b, c, d] = *self.0.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & KIND, value))
    }
}

/// The value of the first attribute of a kind.
pub(super) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    Attributes(attributes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A number of 2, 4 or 8 octets: newer attributes have as many as they need.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    match value.len() {
        2 => value.first_chunk().map(|v| u16::from_ne_bytes(*v).into()),
        4 => value.first_chunk().map(|v| u32::from_ne_bytes(*v).into()),
        8 => value.first_chunk().map(|v| u64::from_ne_bytes(*v)),
        _ => None,
    }
}

/// An attribute, padded. The value is shorter than 64 KiB.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute of attributes (`NLA_F_NESTED`, which newer families insist on).
pub(super) fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

/// A message to a generic family.
pub(super) fn generic(
    family: u16,
    command: u8,
    flags: u16,
    sequence: u32,
    attributes: &[u8],
) -> Vec<u8> {
    let length = (HEADER + GENERIC_HEADER + attributes.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([family.to_ne_bytes(), flags.to_ne_bytes()].concat());
    // The kernel is told no sender: it knows the socket's.
    message.extend([sequence.to_ne_bytes(), [0; 4]].concat());
    message.extend([command, VERSION, 0, 0]);
    message.extend(attributes);
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let attributes = [attribute(1, b"one"), attribute(7, &9u32.to_ne_bytes())].concat();
        let both = [generic(20, 3, 1, 5, &attributes), generic(21, 4, 1, 6, &[])].concat();
        let read: Vec<Message<'_>> = Messages(&both).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].kind, read[0].sequence, read[0].command()), (20, 5, Some(3)));
        assert_eq!(find(read[0].attributes().unwrap(), 1), Some(&b"one"[..]));
        assert_eq!(find(read[0].attributes().unwrap(), 7).and_then(number), Some(9));
        assert_eq!((read[1].kind, read[1].attributes()), (21, Some(&[][..])));
    }

    #[test]
    fn lengths_that_make_no_sense_are_the_end() {
        for length in [0u16, 3, 9, u16::MAX] {
            let [a, b] = length.to_ne_bytes();
            assert_eq!(Attributes(&[a, b, 1, 0, 9]).next(), None, "{length}");
        }
        for length in [0u32, 15, 17, u32::MAX] {
            let message = [&length.to_ne_bytes()[..], &[0; 12]].concat();
            assert_eq!(Messages(&message).next(), None, "{length}");
        }
        assert_eq!(number(&[1, 2, 3]), None);
    }

    proptest! {
        #[test]
        fn random_octets_are_read_to_an_end(octets: Vec<u8>) {
            let read = Messages(&octets).flat_map(|m| Attributes(m.attributes().unwrap_or_default()).collect::<Vec<_>>());
            prop_assert!(read.count() <= octets.len());
            prop_assert!(Attributes(&octets).count() <= octets.len());
        }
    }
}
