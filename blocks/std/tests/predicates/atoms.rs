//! The meaning of the labels of the host's predicates, in the plainest words: bytes at their
//! places, and sums word by word. Nothing here is shared with the blocks.

use std::net::Ipv4Addr;

use weever_blocks_std::testing::frames::{HOST, HOST_MAC, SUBNET_BROADCAST};
use weever_graph::{Field, Set};

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The address of the host's subnet, which is no host's.
const SUBNET: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);

/// The port that an application has bound.
pub(crate) const OPEN: u16 = 1053;

/// A frame, and the host's state that predicates depend on.
pub(crate) struct Facts<'a> {
    pub(crate) frame: &'a [u8],
    /// The addresses in the neighbour cache before the frame came.
    pub(crate) known: &'a [Ipv4Addr],
}

/// Label, the value that it has where the test holds, and the test.
type Atom = (&'static str, &'static str, fn(&Facts<'_>) -> Option<bool>);

const ATOMS: &[Atom] = &[
    ("arp.sender", "known", |f| {
        let sender = f.ip(f.l3() + 14)?;
        Some(sender == HOST || f.known.contains(&sender))
    }),
    ("ip.checksum", "right", |f| Some(sums_up(&[f.bytes(f.l3(), f.header_len()?)?]))),
    ("ip.options", "harmless", |f| Some(f.options()? == Options::Harmless)),
    ("ip.options", "route", |f| Some(f.options()? == Options::Route)),
    ("ip.path", "back", |_| Some(true)),
    ("icmp.checksum", "right", |f| Some(sums_up(&[f.payload()?]))),
    ("igmp.checksum", "right", |f| Some(sums_up(&[f.payload()?]))),
    ("icmp.quote", "ours", |f| f.quote_is_ours()),
    ("icmp6.checksum", "right", |f| {
        let message = f.payload()?;
        Some(sums_up(&[&f.pseudo6(58, message.len())?, message]))
    }),
    ("udp.checksum", "right", |f| f.udp_checksum()),
    ("tcp.checksum", "right", |f| f.tcp_checksum()),
    ("udp.socket", "open", |f| Some(f.word(f.l4()? + 2)? == OPEN)),
];

/// Field, set, and whether the field's value is in it: of a host with one interface and no routes that
/// forwards nothing and has joined no groups but those of all hosts, and of its own addresses.
type Membership = (Field, Set, fn(&Facts<'_>) -> Option<bool>);

const SETS: &[Membership] = &[
    (Field::EthDst, Set::Ours, |f| Some(f.bytes(0, 6)? == HOST_MAC.0)),
    (Field::EthDst, Set::Joined, |f| Some(JOINED.contains(&f.bytes(0, 6)?))),
    (Field::FrameVlan, Set::Ours, |f| f.in_our_vlan()),
    (Field::ArpSha, Set::Ours, |f| Some(f.bytes(f.l3() + 8, 6)? == HOST_MAC.0)),
    (Field::ArpTpa, Set::Ours, |f| Some(f.ip(f.l3() + 24)? == HOST)),
    (Field::ArpSpa, Set::Broadcasts, |f| Some(f.ip(f.l3() + 14)? == SUBNET_BROADCAST)),
    (Field::Ip4Src, Set::Ours, |f| Some(f.ip(f.l3() + 12)? == HOST)),
    (Field::Ip4Src, Set::Broadcasts, |f| {
        Some([SUBNET_BROADCAST, Ipv4Addr::BROADCAST].contains(&f.ip(f.l3() + 12)?))
    }),
    (Field::Ip4Src, Set::Subnets, |f| Some(f.ip(f.l3() + 12)?.octets()[..3] == HOST.octets()[..3])),
    (Field::Ip4Dst, Set::Ours, |f| Some(f.ip(f.l3() + 16)? == HOST)),
    (Field::Ip4Dst, Set::Broadcasts, |f| {
        Some([SUBNET_BROADCAST, Ipv4Addr::BROADCAST].contains(&f.ip(f.l3() + 16)?))
    }),
    (Field::Ip4Dst, Set::Joined, |f| Some(f.ip(f.l3() + 16)? == ALL_HOSTS)),
    (Field::Ip4Dst, Set::Martians, |f| {
        let dst = f.ip(f.l3() + 16)?;
        let first = dst.octets()[0];
        let special = first == 0 || first == 127 || first >= 240;
        Some(dst == SUBNET || special && dst != Ipv4Addr::BROADCAST)
    }),
    (Field::Ip4Dst, Set::Forwarded, |_| Some(false)),
    (Field::Ip6Src, Set::Ours, |f| Some(OURS6.contains(&f.bytes(f.l3() + 8, 16)?))),
    (Field::Ip6Dst, Set::Ours, |f| Some(OURS6.contains(&f.bytes(f.l3() + 24, 16)?))),
    (Field::Ip6Dst, Set::Joined, |f| Some(JOINED6.contains(&f.bytes(f.l3() + 24, 16)?))),
    (Field::Ip6Dst, Set::Martians, |f| {
        let dst = f.bytes(f.l3() + 24, 16)?;
        let (zeros, mapped) = (dst[..15] == [0; 15], dst[..12] == MAPPED);
        Some(zeros && dst[15] < 2 || mapped)
    }),
    (Field::Ip6Dst, Set::Forwarded, |_| Some(false)),
];

/// The first bytes of an IPv4 address in IPv6's notation.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// fd00::1 and fe80::1.
const OURS6: [&[u8]; 2] = [
    &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
];

/// All hosts, all nodes, and the solicited-node group of both addresses.
const JOINED: [&[u8]; 3] =
    [&[1, 0, 0x5e, 0, 0, 1], &[0x33, 0x33, 0, 0, 0, 1], &[0x33, 0x33, 0xff, 0, 0, 1]];

/// The groups of all nodes, and of our addresses.
const JOINED6: [&[u8]; 2] = [
    &[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    &[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1],
];

/// Whether the label has this value for the frame. A label without a meaning here fails the test.
pub(crate) fn holds_of(label: &str, value: &str, facts: &Facts<'_>) -> bool {
    let mut atoms = ATOMS.iter().filter(|(known, of, _)| (*known, *of) == (label, value));
    let (.., test) = atoms.next().unwrap_or_else(|| panic!("pred({label},{value}) has no meaning"));
    test(facts) == Some(true)
}

/// Whether the frame's value of a field is in a set.
pub(crate) fn is_in(field: Field, set: Set, facts: &Facts<'_>) -> bool {
    let mut sets = SETS.iter().filter(|(of, known, _)| (*of, *known) == (field, set));
    let (.., test) = sets.next().unwrap_or_else(|| panic!("`{field} in {set}` has no meaning"));
    test(facts) == Some(true)
}

impl Facts<'_> {
    fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        self.frame.get(at..at + len)
    }

    fn word(&self, at: usize) -> Option<u16> {
        self.bytes(at, 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    fn ip(&self, at: usize) -> Option<Ipv4Addr> {
        self.bytes(at, 4).map(|b| Ipv4Addr::new(b[0], b[1], b[2], b[3]))
    }

    fn l3(&self) -> usize {
        if self.word(12).is_some_and(is_tag) { 18 } else { 14 }
    }

    fn header_len(&self) -> Option<usize> {
        self.frame.get(self.l3()).map(|byte| usize::from(byte % 16) * 4)
    }

    fn total_len(&self) -> Option<usize> {
        self.word(self.l3() + 2).map(usize::from)
    }

    fn l4(&self) -> Option<usize> {
        if self.is_six() {
            return self.last().map(|(_, at)| at);
        }
        Some(self.l3() + self.header_len()?)
    }

    /// The datagram's payload.
    fn payload(&self) -> Option<&[u8]> {
        let end = if self.is_six() { self.end6()? } else { self.l3() + self.total_len()? };
        self.frame.get(self.l4()?..end)
    }

    /// Whether an error is about a datagram that the host can have sent.
    fn quote_is_ours(&self) -> Option<bool> {
        let quote = self.payload()?.get(8..)?;
        if quote.len() < 20 || quote[0] >> 4 != 4 {
            return Some(false);
        }
        let header = usize::from(quote[0] % 16) * 4;
        let whole = header >= 20 && quote.len() >= header + 8;
        Some(whole && quote[12..16] == HOST.octets() && quote[16..20] != HOST.octets())
    }

    fn options(&self) -> Option<Options> {
        Some(options(self.bytes(self.l3() + 20, self.header_len()?.checked_sub(20)?)?))
    }

    /// The test host is in no VLAN.
    fn in_our_vlan(&self) -> Option<bool> {
        if !is_tag(self.word(12)?) {
            return Some(true);
        }
        Some(self.word(14)? % 4096 == 0)
    }

    /// An absent checksum is right, and so is one that cannot be summed: the length is at fault
    /// then.
    fn udp_checksum(&self) -> Option<bool> {
        let (datagram, length) = (self.payload()?, self.word(self.l4()? + 4)?);
        let Some(summed) = datagram.get(..length.into()) else { return Some(true) };
        let absent = datagram[6..8] == [0, 0];
        if self.is_six() {
            return Some(!absent && sums_up(&[&self.pseudo6(17, length.into())?, summed]));
        }
        Some(absent || sums_up(&[&self.pseudo(17, length)?, summed]))
    }

    fn tcp_checksum(&self) -> Option<bool> {
        let segment = self.payload()?;
        let pseudo = match self.is_six() {
            true => self.pseudo6(6, segment.len())?,
            false => self.pseudo(6, segment.len() as u16)?,
        };
        Some(sums_up(&[&pseudo, segment]))
    }

    fn is_six(&self) -> bool {
        self.word(self.l3() - 2) == Some(0x86dd)
    }

    fn end6(&self) -> Option<usize> {
        Some(self.l3() + 40 + usize::from(self.word(self.l3() + 4)?))
    }

    /// The protocol behind the extension headers, and its offset; `None` if they cannot be
    /// followed.
    fn last(&self) -> Option<(u8, usize)> {
        let packet = self.frame.get(self.l3()..self.end6()?)?;
        let (mut next, mut at) = (packet[6], 40);
        for count in 0.. {
            let here = packet.get(at..)?;
            match next {
                0 if count > 0 => return None,
                44 if here.len() < 8 => return None,
                44 if here[2] != 0 || here[3] & 0xf9 != 0 => return Some((44, self.l3() + at)),
                0 | 43 | 44 | 60 if count == 8 => return None,
                0 | 43 | 44 | 60 => {}
                _ => return Some((next, self.l3() + at)),
            }
            let len = if next == 44 { 8 } else { 8 + 8 * usize::from(*here.get(1)?) };
            let header = here.get(..len)?;
            let routed = next == 43 && header[3] != 0;
            if routed || at + len > 40 + 512 || matches!(next, 0 | 60) && !options6(&header[2..]) {
                return None;
            }
            (next, at) = (header[0], at + len);
        }
        None
    }

    fn pseudo6(&self, protocol: u8, length: usize) -> Option<Vec<u8>> {
        let addresses = self.bytes(self.l3() + 8, 32)?;
        let length = (length as u32).to_be_bytes();
        Some([addresses, &length, &[0, 0, 0, protocol]].concat())
    }

    /// The header that UDP sums in front of its own: RFC 768.
    fn pseudo(&self, protocol: u8, length: u16) -> Option<Vec<u8>> {
        let addresses = self.bytes(self.l3() + 12, 8)?;
        Some([addresses, &[0, protocol], &length.to_be_bytes()].concat())
    }
}

fn options6(mut area: &[u8]) -> bool {
    for count in 0.. {
        match area {
            [] => return true,
            _ if count == 16 => return false,
            [0, rest @ ..] => area = rest,
            [kind, len, rest @ ..] if *kind < 64 && usize::from(*len) <= rest.len() => {
                area = &rest[usize::from(*len)..];
            }
            _ => return false,
        }
    }
    false
}

fn is_tag(ethertype: u16) -> bool {
    ethertype == 0x8100 || ethertype == 0x88a8
}

#[derive(PartialEq)]
enum Options {
    Harmless,
    Route,
    Malformed,
}

fn options(mut options: &[u8]) -> Options {
    loop {
        match options {
            [] | [0, ..] => return Options::Harmless,
            [1, rest @ ..] => options = rest,
            [kind, len, ..] if *len >= 2 && usize::from(*len) <= options.len() => {
                if [131, 137].contains(kind) {
                    return Options::Route;
                }
                let (option, rest) = options.split_at(usize::from(*len));
                if contradicts_itself(option) {
                    return Options::Malformed;
                }
                options = rest;
            }
            _ => return Options::Malformed,
        }
    }
}

/// Whether an option that records a route or timestamps has no pointer, one into its fixed part, or one
/// behind which there is less room than an entry takes (RFC 791 §3.1).
fn contradicts_itself(option: &[u8]) -> bool {
    let (fixed, entry) = match option {
        [7, ..] => (3, 4),
        [68, _, _, flags, ..] if [1, 3].contains(&(flags & 15)) => (4, 8),
        [68, ..] => (4, 4),
        _ => return false,
    };
    let Some(pointer) = option.get(2).map(|pointer| usize::from(*pointer)) else { return true };
    let is_full = pointer > option.len();
    option.len() < fixed || pointer <= fixed || !is_full && pointer - 1 + entry > option.len()
}

/// The words of the parts, added up. All parts but the last have whole words.
fn total(parts: &[&[u8]]) -> u64 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    words.map(|word| u64::from(word[0]) * 256 + u64::from(*word.get(1).unwrap_or(&0))).sum()
}

/// Whether the ones' complement sum, checksum included, is minus zero (RFC 1071).
fn sums_up(parts: &[&[u8]]) -> bool {
    let total = total(parts);
    total > 0 && total.is_multiple_of(0xffff)
}

/// The right value for the zeroed checksum field of the parts.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    (0xffff - (total(parts) % 0xffff) as u16).to_be_bytes()
}

/// Puts right the checksums of the frame, as far as there is room for them.
pub(crate) fn repair(frame: &mut [u8]) {
    repair_transport(frame);
    if (Facts { frame, known: &[] }).is_six() {
        return;
    }
    let Some((at, len)) = ({
        let facts = Facts { frame, known: &[] };
        facts.header_len().map(|len| (facts.l3(), len))
    }) else {
        return;
    };
    if let Some(header) = frame.get_mut(at..at + len).filter(|h| h.len() >= 20) {
        header[10..12].fill(0);
        let sum = checksum(&[header]);
        header[10..12].copy_from_slice(&sum);
    }
}

fn repair_transport(frame: &mut [u8]) -> Option<()> {
    let facts = Facts { frame, known: &[] };
    if facts.is_six() {
        return repair6(frame);
    }
    let protocol = *frame.get(facts.l3() + 9)?;
    let (l4, len) = (facts.l4()?, facts.payload()?.len());
    let pseudo = facts.pseudo(protocol, len as u16)?;
    let message = frame.get_mut(l4..l4 + len).filter(|message| message.len() >= 8)?;
    let (before, at) = if protocol == 17 { (&pseudo[..], 6) } else { (&[][..], 2) };
    message[at..at + 2].fill(0);
    let sum = checksum(&[before, message]);
    message[at..at + 2].copy_from_slice(&sum);
    Some(())
}

fn repair6(frame: &mut [u8]) -> Option<()> {
    let facts = Facts { frame, known: &[] };
    let ((protocol, l4), len) = (facts.last()?, facts.payload()?.len());
    let pseudo = facts.pseudo6(protocol, len)?;
    let message = frame.get_mut(l4..l4 + len).filter(|message| message.len() >= 8)?;
    let at = if protocol == 17 { 6 } else { 2 };
    message[at..at + 2].fill(0);
    let sum = checksum(&[&pseudo, message]);
    message[at..at + 2].copy_from_slice(&sum);
    Some(())
}
