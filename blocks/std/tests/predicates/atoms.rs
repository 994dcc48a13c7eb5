//! The meaning of the labels of the host's predicates, in the plainest words: bytes at their
//! places, and sums word by word. Nothing here is shared with the blocks.

use std::net::Ipv4Addr;

use weever_blocks_std::testing::frames::{HOST, HOST_MAC, SUBNET_BROADCAST};

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
    ("vlan.tag", "whole", |f| Some(!is_tag(f.word(12)?) || f.frame.len() >= 18)),
    ("vlan.membership", "ours", |f| f.in_our_vlan()),
    ("vlan.tags", "nested", |f| f.nested_tags()),
    ("eth.dst", "ours", |f| Some(f.bytes(0, 6)? == HOST_MAC.0)),
    ("eth.dst", "joined", |f| Some(JOINED.contains(&f.bytes(0, 6)?))),
    ("arp.asker", "possible", |f| Some(f.arp_sender()? || f.arp_probe()?)),
    ("arp.answerer", "possible", |f| f.arp_sender()),
    ("arp.target", "ours", |f| Some(f.ip(f.l3() + 24)? == HOST)),
    ("arp.sender", "known", |f| {
        let sender = f.ip(f.l3() + 14)?;
        Some(sender == HOST || f.known.contains(&sender))
    }),
    ("ip.headerlength", "possible", |f| {
        let available = f.frame.len() - f.l3();
        Some(available >= 20 && (20..=available).contains(&f.header_len()?))
    }),
    ("ip.length", "possible", |f| {
        let available = f.frame.len() - f.l3();
        Some((f.header_len()?..=available).contains(&f.total_len()?))
    }),
    ("ip.checksum", "right", |f| Some(sums_up(&[f.bytes(f.l3(), f.header_len()?)?]))),
    ("ip.options", "harmless", |f| Some(f.options()? == Options::Harmless)),
    ("ip.options", "route", |f| Some(f.options()? == Options::Route)),
    ("ip.path", "back", |_| Some(true)),
    ("ip.src", "possible", |f| Some(is_host_elsewhere(f.ip(f.l3() + 12)?))),
    ("ip.dst", "local", |f| Some(f.destination()? == "local")),
    ("ip.dst", "forward", |f| Some(f.destination()? == "forward")),
    ("ip.dst", "one", |f| Some(f.destination()? == "one")),
    ("ip.dst", "group", |f| Some(f.destination()? == "group")),
    ("ip.dst", "martian", |f| Some(f.destination()? == "martian")),
    ("ip.dst", "other", |f| Some(f.destination()? == "other")),
    ("icmp.type", "idle", |f| {
        let (kind, code) = (f.payload()?[0], f.payload()?[1]);
        Some(![0, 3, 5, 11, 12].contains(&kind) && (kind, code) != (8, 0))
    }),
    ("icmp.error", "toobig", |f| Some(f.reported()? == Some((3, true)))),
    ("icmp.error", "unreachable", |f| Some(f.reported()? == Some((3, false)))),
    ("icmp.error", "exceeded", |f| Some(f.reported()?.is_some_and(|(kind, _)| kind == 11))),
    ("icmp.error", "problem", |f| Some(f.reported()?.is_some_and(|(kind, _)| kind == 12))),
    ("icmp.error", "stray", |f| Some(f.reported()?.is_none())),
    ("icmp.header", "whole", |f| Some(f.payload()?.len() >= 8)),
    ("icmp.checksum", "right", |f| Some(sums_up(&[f.payload()?]))),
    ("ip6.header", "whole", |f| Some(f.frame.len() >= f.l3() + 40)),
    ("ip6.length", "possible", |f| Some(f.frame.len() >= f.end6()?)),
    ("ip6.src", "possible", |f| f.source6()),
    ("ip6.chain", "sound", |f| f.last().map(|_| true)),
    ("icmp6.header", "whole", |f| Some(f.payload()?.len() >= 8)),
    ("icmp6.checksum", "right", |f| {
        let message = f.payload()?;
        Some(sums_up(&[&f.pseudo6(58, message.len())?, message]))
    }),
    ("udp.header", "whole", |f| Some(f.payload()?.len() >= 8)),
    ("udp.length", "possible", |f| {
        let length = usize::from(f.word(f.l4()? + 4)?);
        Some((8..=f.payload()?.len()).contains(&length))
    }),
    ("udp.checksum", "right", |f| f.udp_checksum()),
    ("udp.socket", "open", |f| Some(f.word(f.l4()? + 2)? == OPEN)),
];

/// fd00::1 and fe80::1.
const OURS6: [&[u8]; 2] = [
    &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
];

/// All hosts, all nodes, and the solicited-node group of both addresses.
const JOINED: [&[u8]; 3] =
    [&[1, 0, 0x5e, 0, 0, 1], &[0x33, 0x33, 0, 0, 0, 1], &[0x33, 0x33, 0xff, 0, 0, 1]];

/// The label's value for the frame. A label without a meaning here fails the test.
pub(crate) fn value_of(label: &str, facts: &Facts<'_>) -> String {
    match label {
        "ip6.last" => return facts.last().map_or("bad", |(next, _)| name_of(next)).into(),
        "icmp6.kind" => return facts.kind6().unwrap_or("cut").into(),
        _ => {}
    }
    let mut atoms = ATOMS.iter().filter(|(known, ..)| *known == label).peekable();
    assert!(atoms.peek().is_some(), "the label `{label}` has no meaning here");
    let held = atoms.find(|(.., test)| test(facts) == Some(true));
    held.map_or("no", |(_, value, _)| value).into()
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

    /// The kind of a sound error about a datagram that the host can have sent, and whether it was
    /// too long.
    fn reported(&self) -> Option<Option<(u8, bool)>> {
        let message = self.payload()?;
        let (kind, code, quote) = (*message.first()?, *message.get(1)?, message.get(8..)?);
        if quote.len() < 20 || quote[0] >> 4 != 4 {
            return Some(None);
        }
        let header = usize::from(quote[0] % 16) * 4;
        let whole = header >= 20 && quote.len() >= header + 8;
        let ours = quote[12..16] == HOST.octets() && quote[16..20] != HOST.octets();
        Some((whole && ours).then_some((kind, (kind, code) == (3, 4))))
    }

    fn options(&self) -> Option<Options> {
        Some(options(self.bytes(self.l3() + 20, self.header_len()?.checked_sub(20)?)?))
    }

    /// The host's route is its subnet's, it has joined no group, and it forwards nothing.
    fn destination(&self) -> Option<&'static str> {
        let dst = self.ip(self.l3() + 16)?;
        let to_many = self.frame[0] & 1 == 1;
        let first = dst.octets()[0];
        Some(match dst {
            HOST if to_many => "one",
            HOST | SUBNET_BROADCAST | Ipv4Addr::BROADCAST | ALL_HOSTS => "local",
            _ if dst.is_multicast() => "group",
            SUBNET => "martian",
            _ if first == 0 || first == 127 || first >= 240 => "martian",
            _ => "other",
        })
    }

    fn nested_tags(&self) -> Option<bool> {
        let outer = self.word(12)?;
        Some(is_tag(outer) && (outer != 0x8100 || is_tag(self.word(16)?)))
    }

    /// The test host is in no VLAN.
    fn in_our_vlan(&self) -> Option<bool> {
        if !is_tag(self.word(12)?) {
            return Some(true);
        }
        Some(self.word(14)? % 4096 == 0)
    }

    fn arp_station(&self) -> Option<bool> {
        let station = self.bytes(self.l3() + 8, 6)?;
        Some(station[0] % 2 == 0 && station != [0; 6] && station != HOST_MAC.0)
    }

    fn arp_sender(&self) -> Option<bool> {
        let address = self.ip(self.l3() + 14)?;
        Some(self.arp_station()? && (address == HOST || is_host_elsewhere(address)))
    }

    fn arp_probe(&self) -> Option<bool> {
        Some(self.arp_station()? && self.ip(self.l3() + 14)?.is_unspecified())
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

    fn is_six(&self) -> bool {
        self.word(self.l3() - 2) == Some(0x86dd)
    }

    fn end6(&self) -> Option<usize> {
        Some(self.l3() + 40 + usize::from(self.word(self.l3() + 4)?))
    }

    fn source6(&self) -> Option<bool> {
        let src = self.bytes(self.l3() + 8, 16)?;
        let zeros = |n: usize| src[..n].iter().all(|byte| *byte == 0);
        if zeros(16) {
            let next = self.frame[self.l3() + 6];
            let group = self.bytes(self.l3() + 24, 2)? == [0xff, 2];
            return Some(matches!(next, 0 | 58) && group);
        }
        let mapped = zeros(10) && src[10..12] == [0xff, 0xff];
        let loopback = zeros(15) && src[15] == 1;
        Some(src[0] != 0xff && !mapped && !loopback && !OURS6.contains(&src))
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

    fn kind6(&self) -> Option<&'static str> {
        let message = self.payload()?;
        Some(match (*message.first()?, *message.get(1)?) {
            (128, 0) => "echo",
            (133..=137, _) => "neighbour",
            (130..=132 | 143, _) => "group",
            (0..=127, _) => "error",
            _ => "other",
        })
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

fn name_of(next: u8) -> &'static str {
    match next {
        17 => "udp",
        58 => "icmp",
        44 => "fragment",
        59 => "none",
        _ => "unknown",
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

fn is_host_elsewhere(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    let special = first == 0 || first == 127 || first >= 224;
    !special && address != HOST && address != SUBNET_BROADCAST
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
