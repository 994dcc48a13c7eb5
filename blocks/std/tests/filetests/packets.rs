//! Frames in words.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::SplitWhitespace;

use weever_blocks_std::testing::frames::*;
use weever_blocks_std::testing::frames6::{HOST6, PEER6, from_peer6, ndp, udp6};
use weever_wire::MacAddr;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::ndp::NdpRepr;

/// The sender of a described frame.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum From {
    Peer,
    Host,
}

/// The words of a line, as they are used up.
pub(crate) struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str) -> Words<'a> {
        Words(text.split_whitespace())
    }

    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("expected {what}"))
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        let parsed = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        };
        let fits = parsed.and_then(|n| T::try_from(n).ok());
        fits.ok_or_else(|| format!("expected {what}, found `{word}`"))
    }

    pub(crate) fn rest(self) -> String {
        self.0.collect::<Vec<_>>().join(" ")
    }
}

/// The frame that a description stands for: `udp 5000 7 "text" | cut 20`.
pub(crate) fn frame(text: &str, from: From) -> Result<Vec<u8>, String> {
    let mut parts = text.split('|');
    let mut frame = packet(parts.next().unwrap_or_default().trim(), from)?;
    for change in parts {
        frame = changed(frame, change.trim())?;
    }
    Ok(frame)
}

fn packet(text: &str, from: From) -> Result<Vec<u8>, String> {
    let mut words = Words::new(text);
    match words.next("a packet")? {
        "hex" => hex(&words.rest()),
        "udp" => udp_of(words, text, from),
        "udp6" => udp6_of(words, text, from),
        "ping" => {
            let (ident, seq) = (words.number("an identifier")?, words.number("a number")?);
            let data = &payload(text);
            Ok(message(from, IcmpRepr::EchoRequest { ident, seq, data }))
        }
        "pong" => {
            let (ident, seq) = (words.number("an identifier")?, words.number("a number")?);
            let data = &payload(text);
            Ok(message(from, IcmpRepr::EchoReply { ident, seq, data }))
        }
        "arp" => arp_of(words, from),
        "solicit" => Ok(solicit()),
        other => {
            Err(format!("unknown packet `{other}`: use hex, udp, udp6, ping, pong, arp or solicit"))
        }
    }
}

/// The text between double quotes, or nothing; `*N` behind it repeats it.
fn payload(text: &str) -> Vec<u8> {
    let mut parts = text.splitn(3, '"');
    let quoted = parts.nth(1).unwrap_or_default();
    let times = parts.next().and_then(|rest| rest.trim().strip_prefix('*')?.trim().parse().ok());
    quoted.as_bytes().repeat(times.unwrap_or(1))
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let pair = |at: usize| {
        let byte = digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        byte.ok_or_else(|| format!("expected pairs of hexadecimal digits, found `{text}`"))
    };
    (0..digits.len()).step_by(2).map(pair).collect()
}

fn ends(from: From) -> (Ipv4Addr, Ipv4Addr) {
    if from == From::Peer { (PEER, HOST) } else { (HOST, PEER) }
}

fn framed(from: From, datagram: &[u8]) -> Vec<u8> {
    match from {
        From::Peer => from_peer(datagram),
        From::Host => ethernet(PEER_MAC, HOST_MAC, 0x0800, datagram),
    }
}

/// The host's datagrams are atomic: no identification (RFC 6864).
fn header(from: From, protocol: u8) -> Ipv4Repr {
    let (src, dst) = ends(from);
    let ident = if from == From::Peer { 7 } else { 0 };
    Ipv4Repr { ident, ..ipv4_repr(src, dst, protocol) }
}

fn udp_of(mut words: Words<'_>, text: &str, from: From) -> Result<Vec<u8>, String> {
    let (src_port, dst_port) = (words.number("a port")?, words.number("a port")?);
    let (src, dst) = ends(from);
    let (src, dst) = (SocketAddrV4::new(src, src_port), SocketAddrV4::new(dst, dst_port));
    let segment = udp_segment(src, dst, &payload(text));
    let mut header = header(from, 17);
    if from == From::Host {
        // Every UDP datagram of the host is an answer, with a lower time to live than its request.
        header.ttl -= 1;
    }
    Ok(framed(from, &ipv4(header, &segment)))
}

fn udp6_of(mut words: Words<'_>, text: &str, from: From) -> Result<Vec<u8>, String> {
    let (src_port, dst_port) = (words.number("a port")?, words.number("a port")?);
    let (src, dst) = if from == From::Peer { (PEER6, HOST6) } else { (HOST6, PEER6) };
    let hops = if from == From::Peer { 64 } else { 63 };
    let packet = udp6((src, src_port), (dst, dst_port), hops, &payload(text));
    Ok(match from {
        From::Peer => from_peer6(&packet),
        From::Host => ethernet(PEER_MAC, HOST_MAC, 0x86dd, &packet),
    })
}

/// A part of a datagram's payload, as a fragment: from an offset on so many bytes, or as many as
/// there are.
fn part(frame: &[u8], offset: usize, len: usize, ident: u16) -> Result<Vec<u8>, String> {
    let head = match frame.get(12..14) {
        Some([8, 0]) => 34,
        Some([0x86, 0xdd]) => 54,
        _ => return Err("only IP packets without a tag have parts".into()),
    };
    let carried = frame.get(head..).unwrap_or_default();
    let end = carried.len().min(offset.saturating_add(len));
    let piece = carried.get(offset..end).ok_or("there is no such part")?;
    let more = u16::from(end < carried.len());
    let units = offset as u16 & !7;
    if head == 34 {
        let mut ip = [&frame[14..head], piece].concat();
        ip[2..4].copy_from_slice(&((20 + piece.len()) as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&ident.to_be_bytes());
        ip[6..8].copy_from_slice(&(more << 13 | units >> 3).to_be_bytes());
        let ttl = ip[8];
        return Ok([&frame[..14], &patched(&ip, 8, ttl)].concat());
    }
    let mut fragment = [frame[20], 0, 0, 0, 0, 0, 0, 0];
    fragment[2..4].copy_from_slice(&(units | more).to_be_bytes());
    fragment[6..].copy_from_slice(&ident.to_be_bytes());
    let mut whole = [&frame[..head], &fragment, piece].concat();
    whole[18..20].copy_from_slice(&((8 + piece.len()) as u16).to_be_bytes());
    whole[20] = 44;
    Ok(whole)
}

fn message(from: From, repr: IcmpRepr<'_>) -> Vec<u8> {
    framed(from, &ipv4(header(from, 1), &icmp_message(repr)))
}

/// The peer asks for the host's address, and says its own.
fn solicit() -> Vec<u8> {
    let (target, source_link) = (HOST6, Some(PEER_MAC));
    let question = NdpRepr::NeighbourSolicit { target, source_link, nonce: None };
    from_peer6(&ndp(PEER6, HOST6, question))
}

fn arp_of(mut words: Words<'_>, from: From) -> Result<Vec<u8>, String> {
    let (us, them) = match from {
        From::Peer => ((PEER_MAC, PEER), (HOST_MAC, HOST)),
        From::Host => ((HOST_MAC, HOST), (PEER_MAC, PEER)),
    };
    match words.next("request, reply or announce")? {
        "request" => {
            let wanted = words.next("an address")?;
            let wanted = wanted.parse().map_err(|_| format!("`{wanted}` is no address"))?;
            Ok(arp(1, us, (MacAddr::ZERO, wanted)))
        }
        "reply" => Ok(arp(2, us, them)),
        "announce" => Ok(arp(1, us, (MacAddr::ZERO, us.1))),
        other => Err(format!("unknown ARP packet `{other}`: use request, reply or announce")),
    }
}

fn changed(mut frame: Vec<u8>, change: &str) -> Result<Vec<u8>, String> {
    let mut words = Words::new(change);
    match words.next("a change")? {
        "cut" => frame.truncate(words.number("a length")?),
        "pad" => {
            let len: u16 = words.number("a length")?;
            frame.resize(frame.len().max(len.into()), 0xee);
        }
        "tag" => frame = tagged(&frame, words.number("a VLAN")?, words.number("a priority")?),
        "set" => {
            let (at, value): (u16, u8) = (words.number("an offset")?, words.number("a byte")?);
            let len = frame.len();
            let byte = frame.get_mut(usize::from(at));
            *byte.ok_or_else(|| format!("offset {at} of a frame of {len} bytes"))? = value;
        }
        "ip" => {
            let (at, value): (u16, u8) = (words.number("an offset")?, words.number("a byte")?);
            if at >= 20 || frame.len() < 34 {
                return Err(format!("offset {at} is not in an IPv4 header"));
            }
            frame = [&frame[..14], &patched(&frame[14..], at.into(), value)].concat();
        }
        "part" => {
            let (offset, len) =
                (words.number::<u16>("an offset")?, words.number::<u16>("a length")?);
            let ident = words.number("an identification")?;
            frame = part(&frame, offset.into(), len.into(), ident)?;
        }
        other => {
            return Err(format!("unknown change `{other}`: use cut, pad, tag, set, ip or part"));
        }
    }
    Ok(frame)
}
