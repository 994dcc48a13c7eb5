//! A packet in words.

use std::fmt::Write;

use weever_service_api::{CaptureStarted, CapturedPacket, Direction};
use weever_wire::arp::ArpHeader;
use weever_wire::ethernet::ethertype;
use weever_wire::fields::{Parsed, summarize};
use weever_wire::ipv4::protocol;

/// `12:00:01.123456 eth0 < 10.0.0.2:4711 > 10.0.0.1:7 UDP, 42 bytes`: the time of day in UTC, the
/// place where it was seen, its direction (`<` in, `>` out), and its headers.
///
/// At a place within the graph, that place stands between link and packet.
pub fn line(packet: &CapturedPacket, started: &CaptureStarted) -> String {
    let mut text = time_of_day(packet.time_ns);
    let place = started.places.get(usize::from(packet.place)).cloned().unwrap_or_default();
    let link = started.links.get(usize::from(packet.link)).map_or("?", String::as_str);
    let way = match place.direction {
        Direction::In => "<",
        Direction::Out => ">",
        Direction::Inside => &place.port,
    };
    let _ = write!(text, " {link} {way} {}", what(packet));
    let _ = write!(text, ", {} bytes", packet.length);
    if (packet.data.len() as u64) < u64::from(packet.length) {
        let _ = write!(text, " ({} kept)", packet.data.len());
    }
    text
}

fn time_of_day(time_ns: u64) -> String {
    let (seconds, micros) = (time_ns / 1_000_000_000 % 86_400, time_ns / 1000 % 1_000_000);
    format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn what(packet: &CapturedPacket) -> String {
    let parsed = summarize(&packet.data);
    let tag = parsed.vlan.map(|vid| format!("vlan {vid} ")).unwrap_or_default();
    let rest = match parsed.ethertype {
        Some(ethertype::ARP) => arp(&packet.data, &parsed),
        Some(ethertype::IPV4 | ethertype::IPV6) => ip(&packet.data, &parsed),
        _ => None,
    };
    tag + &rest.unwrap_or_else(|| link(&parsed))
}

fn link(parsed: &Parsed) -> String {
    match (parsed.eth_src, parsed.eth_dst, parsed.ethertype) {
        (Some(src), Some(dst), Some(ethertype)) => {
            format!("{src} > {dst} ethertype 0x{ethertype:04x}")
        }
        _ => "not a whole Ethernet header".into(),
    }
}

fn arp(frame: &[u8], parsed: &Parsed) -> Option<String> {
    let header = ArpHeader::first(frame.get(parsed.l3?..)?)?;
    let (target, sender) = (parsed.arp_tpa?, header.spa());
    Some(match parsed.arp_op? {
        1 => format!("ARP who has {target}? tell {sender}"),
        2 => format!("ARP {sender} is at {}", header.sha()),
        other => format!("ARP operation {other}, {sender} to {target}"),
    })
}

fn ip(frame: &[u8], parsed: &Parsed) -> Option<String> {
    let four = parsed.ip4_src.zip(parsed.ip4_dst).map(|(a, b)| (a.to_string(), b.to_string()));
    let six = parsed.ip6_src.zip(parsed.ip6_dst).map(|(a, b)| (a.to_string(), b.to_string()));
    let is_six = four.is_none();
    let (src, dst) = four.or(six)?;
    let number = parsed.ip4_proto.or(parsed.ip6_next)?;
    if let Some((a, b)) = parsed.l4_src.zip(parsed.l4_dst) {
        let (open, close) = if is_six { ("[", "]") } else { ("", "") };
        let flags = parsed.tcp_flags.map(tcp_flags).unwrap_or_default();
        let name = protocol_name(number);
        return Some(format!("{open}{src}{close}:{a} > {open}{dst}{close}:{b} {name}{flags}"));
    }
    let more = match parsed.ip4_frag.filter(|frag| *frag != 0) {
        Some(frag) => format!(" fragment at {}", u32::from(frag & 0x1fff) * 8),
        None => icmp(frame, parsed).unwrap_or_default(),
    };
    Some(format!("{src} > {dst} {}{more}", protocol_name(number)))
}

fn icmp(frame: &[u8], parsed: &Parsed) -> Option<String> {
    let (kind, code) = match (parsed.icmp_type, parsed.icmp_code) {
        (Some(kind), Some(code)) => (kind, code),
        _ if parsed.ip6_next == Some(ICMPV6) => {
            let header = frame.get(parsed.l4?..)?;
            (*header.first()?, *header.get(1)?)
        }
        _ => return None,
    };
    let words = match (kind, parsed.ip6_next.is_some()) {
        (8, false) | (128, true) => " echo request".into(),
        (0, false) | (129, true) => " echo reply".into(),
        (3, false) | (1, true) => format!(" unreachable, code {code}"),
        (11, false) | (3, true) => format!(" time exceeded, code {code}"),
        (2, true) => " packet too big".into(),
        (133, true) => " router solicitation".into(),
        (134, true) => " router advertisement".into(),
        (135, true) => " neighbour solicitation".into(),
        (136, true) => " neighbour advertisement".into(),
        _ => format!(" type {kind}, code {code}"),
    };
    Some(words)
}

const ICMPV6: u8 = 58;
const IGMP: u8 = 2;

fn protocol_name(number: u8) -> String {
    match number {
        protocol::UDP => "UDP".into(),
        protocol::TCP => "TCP".into(),
        protocol::SCTP => "SCTP".into(),
        protocol::ICMP => "ICMP".into(),
        ICMPV6 => "ICMPv6".into(),
        IGMP => "IGMP".into(),
        other => format!("protocol {other}"),
    }
}

/// As tcpdump writes them, from the lowest bit up.
fn tcp_flags(flags: u8) -> String {
    let letters = "FSRP.UEW".chars().enumerate();
    let set = letters.filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, letter)| letter);
    format!(" [{}]", set.collect::<String>())
}

#[cfg(test)]
mod tests {
    use weever_service_api::CapturePlace;

    use super::*;

    fn place() -> CaptureStarted {
        at(Direction::In)
    }

    fn at(direction: Direction) -> CaptureStarted {
        let places = vec![CapturePlace { port: "RxQueue.out".into(), direction }];
        CaptureStarted { links: vec!["eth0".into()], places, snaplen: 96 }
    }

    fn packet(data: &[u8]) -> CapturedPacket {
        let time_ns = 1_700_000_000_123_456_789;
        CapturedPacket {
            place: 0,
            link: 0,
            time_ns,
            length: data.len() as u32,
            data: data.to_vec(),
        }
    }

    fn frame(ethertype: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(ethertype);
        frame.extend(rest);
        frame
    }

    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
        ip.extend([10, 0, 0, 2, 10, 0, 0, 1]);
        ip.extend(payload);
        frame([8, 0], &ip)
    }

    #[test]
    fn packets_in_words() {
        let udp = ipv4(17, &[0x12, 0x67, 0, 7, 0, 8, 0, 0]);
        let whole = line(&packet(&udp), &place());
        assert_eq!(whole, "22:13:20.123456 eth0 < 10.0.0.2:4711 > 10.0.0.1:7 UDP, 42 bytes");
        let tcp = ipv4(6, &[0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0]);
        assert!(line(&packet(&tcp), &place()).contains("10.0.0.1:81 TCP [S.], 54 bytes"));
        let echo = ipv4(1, &[8, 0, 0, 0]);
        assert!(line(&packet(&echo), &place()).contains("10.0.0.2 > 10.0.0.1 ICMP echo request"));
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2];
        arp.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
        let arp = line(&packet(&frame([8, 6], &arp)), &place());
        assert!(arp.contains("ARP who has 10.0.0.1? tell 10.0.0.2"), "{arp}");
    }

    #[test]
    fn what_is_cut_or_strange_is_said_too() {
        let inside = at(Direction::Inside);
        let mut cut = packet(&[1, 2, 3]);
        cut.length = 1500;
        let text = line(&cut, &inside);
        assert!(
            text.ends_with(" eth0 RxQueue.out not a whole Ethernet header, 1500 bytes (3 kept)"),
            "{text}"
        );
        let strange = line(&packet(&frame([0x88, 0xcc], &[])), &place());
        assert!(strange.contains("02:00:00:00:00:02 > 02:00:00:00:00:01 ethertype 0x88cc"));
    }
}
