//! Frames of flows, and neighbours of them: as octets for the wire, and as the planner sees them.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::Field;
use weever_graph::nic::{Form, Forms};
use weever_plan::flow::{Conj, Kinds, Values};
use weever_wire::checksum::{combine, finish, sum};

/// The station that probes come from, a locally administered one.
pub(super) const SENDER: [u8; 6] = [2, 0x77, 0x65, 0x65, 0x76, 1];
const UDP: u8 = 17;
const TCP: u8 = 6;
const SCTP: u8 = 132;
/// Protocols that a flow is tried with, if it leaves that open.
const PROTOCOLS: [u8; 6] = [UDP, TCP, SCTP, 1, 58, 89];
/// TCP flags that are tried: ACK, SYN, both.
const FLAGS: [u8; 3] = [0x10, 0x02, 0x12];
/// The network that a flow leaves open is one for documentation (RFC 5737, RFC 3849).
const ADDRESSES: [[u128; 2]; 2] =
    [[0xc000_0201, 0xc633_6401], [0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2]];
const PORTS: [u16; 2] = [49_999, 49_998];
pub(crate) const TAG: u16 = 0x8100;
pub(crate) const SERVICE_TAG: u16 = 0x88a8;
/// The flag of a fragment that others follow.
const FIRST: u16 = 0x2000;
/// The extension headers of fragments and of options for the destination.
const FRAGMENT: u8 = 44;
const OPTIONS: u8 = 60;
/// Octets behind the header of a transport.
const DATA: usize = 40;

/// A frame with an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) version: u8,
    /// Types and numbers of its tags, the outermost first.
    pub(crate) tags: Vec<(u16, u16)>,
    pub(crate) protocol: u8,
    pub(crate) addresses: [u128; 2],
    pub(crate) ports: [u16; 2],
    flags: u8,
    /// More-fragments flag and offset, as IPv4 has them; IPv6 has an extension header for them.
    fragment: u16,
    /// Of IPv4: whether there are options.
    options: bool,
    /// Of IPv6: the extension header.
    extension: Option<u8>,
    /// The packet in it, if it is a tunnel's.
    inner: Option<Box<Frame>>,
}

/// What is made of a flow's frame; nothing where it makes no sense.
type Neighbour = fn(&Frame) -> Option<Frame>;

/// The kind of the frames of a flow itself.
pub(crate) const FLOW: &str = "flow";

/// The kinds of probes, by their names.
pub(crate) const KINDS: [(&str, Neighbour); 12] = [
    (FLOW, |frame| Some(frame.clone())),
    ("other source port", |frame| frame.has_ports().then(|| frame.with_port(0))),
    ("other destination port", |frame| frame.has_ports().then(|| frame.with_port(1))),
    ("other protocol", |frame| match frame.protocol {
        UDP => Some(Frame { protocol: TCP, ..frame.clone() }),
        TCP => Some(Frame { protocol: UDP, ..frame.clone() }),
        _ => None,
    }),
    ("tag", |frame| frame.tags.is_empty().then(|| Frame { tags: vec![(TAG, 7)], ..frame.clone() })),
    ("no tag", |frame| {
        (!frame.tags.is_empty()).then(|| Frame { tags: Vec::new(), ..frame.clone() })
    }),
    ("two tags", |frame| {
        let outer = frame.tags.first().map_or(7, |(_, number)| *number);
        Some(Frame { tags: vec![(SERVICE_TAG, outer), (TAG, 9)], ..frame.clone() })
    }),
    ("first fragment", |frame| Some(frame.fragment_of(FIRST))),
    ("later fragment", |frame| Some(frame.fragment_of(5))),
    ("options", |frame| frame.in_version(4, |frame| frame.options = true)),
    ("extension header", |frame| frame.in_version(6, |frame| frame.extension = Some(OPTIONS))),
    ("tunnel", |frame| {
        let protocol = if frame.version == 4 { 4 } else { 41 };
        Some(Frame { protocol, inner: Some(Box::new(frame.clone())), ..frame.clone() })
    }),
];

impl Frame {
    /// A frame whose packet is one of `flow`, if there is one of IP.
    pub(crate) fn of(flow: &Conj) -> Option<Frame> {
        let tagged = match flow.test(Field::VlanId) {
            Some(values) => vec![(TAG, pick(Some(values), 7) as u16)],
            None => vec![(TAG, 7)],
        };
        for version in [4, 6] {
            for tags in [Vec::new(), tagged.clone()] {
                let frame = Frame::with(flow, version, &tags);
                if frame.is_some() {
                    return frame;
                }
            }
        }
        None
    }

    fn with(flow: &Conj, version: u8, tags: &[(u16, u16)]) -> Option<Frame> {
        let addresses = match version {
            4 => [Field::Ip4Src, Field::Ip4Dst],
            _ => [Field::Ip6Src, Field::Ip6Dst],
        };
        let open = ADDRESSES[usize::from(version == 6)];
        let address = |at: usize| pick(flow.test(addresses[at]), open[at]);
        let port = |field, at: usize| pick(flow.test(field), PORTS[at].into()) as u16;
        let said = [Field::Ip4Proto, Field::Ip6Next].into_iter().find_map(|f| flow.single(f));
        let protocols = said.map(|protocol| protocol as u8).into_iter().chain(PROTOCOLS);
        let mut tried = protocols.flat_map(|protocol| FLAGS.map(|flags| (protocol, flags)));
        tried.find_map(|(protocol, flags)| {
            let frame = Frame {
                version,
                tags: tags.to_vec(),
                protocol,
                addresses: [address(0), address(1)],
                ports: [port(Field::L4Src, 0), port(Field::L4Dst, 1)],
                flags,
                fragment: 0,
                options: false,
                extension: None,
                inner: None,
            };
            frame.packets().implies(flow).then_some(frame)
        })
    }

    fn has_ports(&self) -> bool {
        [UDP, TCP, SCTP].contains(&self.protocol)
    }

    fn with_port(&self, at: usize) -> Frame {
        let mut frame = self.clone();
        frame.ports[at] = frame.ports[at].wrapping_add(1).max(1);
        frame
    }

    fn fragment_of(&self, fragment: u16) -> Frame {
        let extension = (self.version == 6).then_some(FRAGMENT);
        Frame { fragment, extension, ..self.clone() }
    }

    fn in_version(&self, version: u8, change: fn(&mut Frame)) -> Option<Frame> {
        let mut frame = self.clone();
        change(&mut frame);
        (self.version == version).then_some(frame)
    }

    /// The packets that are as this one in all fields of a plan's filters.
    pub(crate) fn packets(&self) -> Conj {
        let mut packets = match self.tags.first() {
            Some((_, number)) => Conj::all().with(Field::VlanId, (*number).into()),
            None => Conj::of_kinds(Kinds::ALL.without(Kinds::with(Field::VlanId))),
        };
        let [src, dst] = self.addresses;
        packets = match self.version {
            4 => packets
                .with(Field::EthType, 0x0800)
                .with(Field::Ip4Proto, self.protocol.into())
                .with(Field::Ip4Frag, self.fragment.into())
                .with(Field::Ip4Src, src)
                .with(Field::Ip4Dst, dst),
            _ => packets
                .with(Field::EthType, 0x86dd)
                .with(Field::Ip6Next, self.extension.unwrap_or(self.protocol).into())
                .with(Field::Ip6Src, src)
                .with(Field::Ip6Dst, dst),
        };
        if self.has_ports() && self.extension.is_none() && self.fragment & 0x1fff == 0 {
            let [src, dst] = self.ports;
            packets = packets.with(Field::L4Src, src.into()).with(Field::L4Dst, dst.into());
            if self.protocol == TCP {
                packets = packets.with(Field::TcpFlags, self.flags.into());
            }
        }
        packets
    }

    /// The forms in which NICs may treat it otherwise than a plain packet.
    pub(crate) fn forms(&self) -> Forms {
        let each = [
            (self.version == 4 && self.fragment == FIRST, Form::First),
            (self.version == 4 && self.fragment & 0x1fff != 0, Form::Later),
            (self.options, Form::Options),
            (self.extension.is_some(), Form::Extensions),
            (self.tags.len() > 1, Form::Stacked),
            (self.inner.is_some(), Form::Tunnels),
        ];
        let present = each.into_iter().filter(|(is, _)| *is);
        present.fold(Forms::default(), |all, (_, form)| all.and(form))
    }

    /// The frame for the wire, from and to these stations.
    pub(crate) fn octets(&self, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
        let mut frame = [to, from].concat();
        for (kind, number) in &self.tags {
            frame.extend([kind.to_be_bytes(), number.to_be_bytes()].concat());
        }
        let kind: u16 = if self.version == 4 { 0x0800 } else { 0x86dd };
        frame.extend(kind.to_be_bytes());
        frame.extend(self.packet());
        frame
    }

    fn address(&self, at: usize) -> Vec<u8> {
        let skip = if self.version == 4 { 12 } else { 0 };
        self.addresses[at].to_be_bytes()[skip..].to_vec()
    }

    fn packet(&self) -> Vec<u8> {
        let mut body = self.inner.as_ref().map_or_else(|| self.segment(), |inner| inner.packet());
        match self.extension {
            Some(FRAGMENT) => {
                // The offset stands three bits higher than in IPv4, and the flag behind it (RFC 8200 §4.5).
                let more = u16::from(self.fragment & FIRST != 0);
                let [a, b] = (self.fragment << 3 | more).to_be_bytes();
                body.splice(..0, [self.protocol, 0, a, b, 0, 0, 0, 1]);
            }
            // Eight octets: options that pad (RFC 8200 §4.2).
            Some(_) => drop(body.splice(..0, [self.protocol, 0, 1, 4, 0, 0, 0, 0])),
            None => {}
        }
        let ends = [self.address(0), self.address(1)].concat();
        if self.version == 6 {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((body.len() as u16).to_be_bytes());
            packet.extend([self.extension.unwrap_or(self.protocol), 64]);
            return [packet, ends, body].concat();
        }
        // No operation, three times, and the end of the list (RFC 791).
        let options: &[u8] = if self.options { &[1, 1, 1, 0] } else { &[] };
        let header = 20 + options.len();
        let mut packet = vec![0x40 | (header / 4) as u8, 0];
        packet.extend(((header + body.len()) as u16).to_be_bytes());
        packet.extend([0, 1]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([64, self.protocol, 0, 0]);
        packet.extend(ends);
        packet.extend(options);
        let check = finish(sum(&packet)).to_be_bytes();
        packet[10..12].copy_from_slice(&check);
        [packet, body].concat()
    }

    /// What stands behind the IP headers. SCTP's check (RFC 9260 §6.8) is left out: it is not what NICs sort by.
    fn segment(&self) -> Vec<u8> {
        let mut segment = Vec::new();
        if self.has_ports() {
            self.ports.iter().for_each(|port| segment.extend(port.to_be_bytes()));
        }
        let check_at = match self.protocol {
            TCP => {
                segment.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 1, 0, 0, 0, 0, 0]);
                Some(16)
            }
            UDP => {
                segment.extend(((8 + DATA) as u16).to_be_bytes());
                segment.extend([0, 0]);
                Some(6)
            }
            _ => None,
        };
        segment.resize(segment.len() + DATA, 0);
        if let Some(at) = check_at {
            let length = (segment.len() as u32).to_be_bytes();
            let last = [0, 0, 0, self.protocol];
            let pseudo = [&self.address(0)[..], &self.address(1), &length, &last].concat();
            let check = finish(combine(sum(&pseudo), sum(&segment))).to_be_bytes();
            segment[at..at + 2].copy_from_slice(&check);
        }
        segment
    }
}

/// `wish`, as near as the values allow.
fn pick(values: Option<&Values>, wish: u128) -> u128 {
    let Some(values) = values else { return wish };
    let near = wish & !values.mask & values.field.full_mask() | values.value;
    let first = values.range.as_ref().map_or(values.value, |range| range.0);
    if values.contains(near) { near } else { first }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (_, number) in &self.tags {
            write!(f, "vlan {number} ")?;
        }
        match self.protocol {
            TCP => f.write_str("tcp")?,
            UDP => f.write_str("udp")?,
            SCTP => f.write_str("sctp")?,
            other => write!(f, "protocol {other}")?,
        }
        let end = |at: usize| {
            let port = self.ports[at];
            let (bits, ports) = (self.addresses[at], self.has_ports());
            match (self.version, ports) {
                (4, true) => format!("{}:{port}", Ipv4Addr::from_bits(bits as u32)),
                (4, false) => Ipv4Addr::from_bits(bits as u32).to_string(),
                (_, true) => format!("[{}]:{port}", Ipv6Addr::from_bits(bits)),
                (_, false) => Ipv6Addr::from_bits(bits).to_string(),
            }
        };
        write!(f, " {} -> {}", end(0), end(1))
    }
}

#[cfg(test)]
mod tests {
    use weever_plan::flow::Flow;
    use weever_wire::fields::summarize;

    use super::*;

    #[test]
    fn frames_are_those_of_their_flows_and_parsers_agree() {
        for text in [
            "udp 10.0.0.1:5 -> 10.0.0.2:7",
            "tcp *:* -> 10.0.0.2:80",
            "vlan 9 and udp dst port 53",
            "ip6 and tcp src net fd00::/64",
            "tcp[tcpflags] & tcp-syn != 0",
            "ip proto 47",
            "udp dst portrange 1000-1007",
        ] {
            let list = weever_policy::flows::parse(text.as_bytes());
            for flow in list.flows.iter().flat_map(|flow| &flow.parts) {
                let frame = Frame::of(flow).unwrap_or_else(|| panic!("{text}"));
                for (kind, neighbour) in KINDS {
                    let Some(probe) = neighbour(&frame) else { continue };
                    let parsed = summarize(&probe.octets([2; 6], [4; 6]));
                    let seen = |field| probe.packets().single(field);
                    let what = format!("{text}, {kind}: {probe:?}");
                    assert_eq!(parsed.l4_dst.map(u128::from), seen(Field::L4Dst), "{what}");
                    assert_eq!(parsed.vlan.map(u128::from), seen(Field::VlanId), "{what}");
                    assert_eq!(parsed.ip4_frag.map(u128::from), seen(Field::Ip4Frag), "{what}");
                    assert_eq!(parsed.ip6_next.map(u128::from), seen(Field::Ip6Next), "{what}");
                }
            }
            let nothing = Flow::of("arp", vec![Conj::all().with(Field::EthType, 0x0806)]);
            assert_eq!(Frame::of(&nothing.parts[0]), None);
        }
    }
}
