//! IP packets as they come from packetdrill and as they go there.

use std::net::IpAddr;

use weever_tcp::{Ecn, Endpoint, Id, Payload, Segment, Transmit, Tuple};
use weever_wire::checksum::{self, Pseudo};
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::ipv6::{Ipv6Repr, Ipv6View};
use weever_wire::tcp::TcpView;

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Bytes of an ICMP header, before the packet that it quotes.
const QUOTED: usize = 8;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const V6_UNREACHABLE: u8 = 1;
const V6_TOO_BIG: u8 = 2;

/// A packet, as far as its IP header says.
struct Packet<'a> {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    ecn: Ecn,
    payload: &'a [u8],
    pseudo: Option<Pseudo>,
}

fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    if bytes.first()? >> 4 == 4 {
        let view = Ipv4View::new(bytes).ok().filter(|view| view.checksum_ok())?;
        let (header, payload) = (view.header(), view.payload());
        let pseudo = Pseudo::v4(&header.addresses(), header.protocol(), payload.len() as u16);
        Some(Packet {
            src: header.src().into(),
            dst: header.dst().into(),
            protocol: header.protocol(),
            ecn: Ecn::from_bits(header.tos()),
            payload,
            pseudo: Some(pseudo),
        })
    } else {
        let view = Ipv6View::new(bytes).ok()?;
        let (header, payload) = (view.header(), view.payload());
        let pseudo = Pseudo::v6(&header.addresses(), header.next_header(), payload.len() as u32);
        Some(Packet {
            src: header.src().into(),
            dst: header.dst().into(),
            protocol: header.next_header(),
            ecn: Ecn::from_bits(header.traffic_class()),
            payload,
            pseudo: Some(pseudo),
        })
    }
}

/// Has the endpoint take a packet. `got` gets the accepted octets, with their connection and place. A packet that
/// goes no further shows in the answer, if there is any.
pub(crate) fn take(
    endpoint: &mut Endpoint,
    bytes: &[u8],
    now: u64,
    mut got: impl FnMut(Id, u64, &[u8]),
) {
    let Some(packet) = parse(bytes) else { return };
    match packet.protocol {
        TCP => {
            if !packet.pseudo.is_some_and(|pseudo| pseudo.verifies(packet.payload)) {
                return;
            }
            let Ok(view) = TcpView::new(packet.payload) else { return };
            let tuple = Tuple {
                local: packet.dst,
                remote: packet.src,
                local_port: view.header().dst_port(),
                remote_port: view.header().src_port(),
            };
            let Ok(segment) = Segment::parse(view, packet.ecn) else { return };
            if let Ok(handled) = endpoint.handle(&tuple, &segment, now)
                && let (Some(id), Some(Payload { offset, range, .. })) =
                    (handled.id, handled.payload)
            {
                got(id, offset, &segment.payload[range]);
            }
        }
        ICMP | ICMPV6 => take_error(endpoint, &packet, now),
        _ => {}
    }
}

/// An ICMP error about a segment of ours: what is quoted may be cut behind the sequence number.
fn take_error(endpoint: &mut Endpoint, packet: &Packet<'_>, now: u64) {
    let message = packet.payload;
    let Some((header, quote)) = message.split_at_checked(QUOTED) else { return };
    let v4 = packet.protocol == ICMP;
    let ip_len = if v4 { usize::from(quote.first().copied().unwrap_or(0) & 0xf) * 4 } else { 40 };
    let addresses = |at: usize, len: usize| -> Option<IpAddr> {
        let bytes = quote.get(at..at + len)?;
        match len {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            _ => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        }
    };
    let ends = if v4 {
        (addresses(12, 4), addresses(16, 4))
    } else {
        (addresses(8, 16), addresses(24, 16))
    };
    let ((Some(local), Some(remote)), Some(tcp)) =
        (ends, quote.get(ip_len..).and_then(<[u8]>::first_chunk::<8>))
    else {
        return;
    };
    let [a, b, c, d, seq @ ..] = *tcp;
    let seq = u32::from_be_bytes(seq);
    let tuple = Tuple {
        local,
        remote,
        local_port: u16::from_be_bytes([a, b]),
        remote_port: u16::from_be_bytes([c, d]),
    };
    let mtu = match (v4, header[0], header[1]) {
        (true, UNREACHABLE, FRAGMENTATION_NEEDED) => {
            u32::from(u16::from_be_bytes([header[6], header[7]]))
        }
        (false, V6_TOO_BIG, _) => u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        (true, UNREACHABLE, _) | (false, V6_UNREACHABLE, _) => {
            endpoint.handle_unreachable(&tuple, seq, now);
            return;
        }
        _ => return,
    };
    endpoint.handle_mtu(&tuple, seq, u16::try_from(mtu).unwrap_or(u16::MAX), now);
}

/// The packet of a segment; `fill` writes the octets of a range of the stream that its connection sends.
pub(crate) fn written(transmit: &Transmit, fill: impl FnOnce(u64, &mut [u8])) -> Option<Vec<u8>> {
    let len = transmit.len();
    let head = if transmit.tuple.local.is_ipv4() { 20 } else { 40 };
    let mut packet = vec![0; head + len];
    let (ip, segment) = packet.split_at_mut(head);
    let fill = |range: std::ops::Range<u64>, out: &mut [u8]| {
        fill(range.start, out);
        checksum::sum(out)
    };
    transmit.emit(segment, fill).ok()?;
    let len = len as u16;
    match (transmit.tuple.local, transmit.tuple.remote) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let tos = transmit.ecn as u8;
            let header = Ipv4Repr {
                tos,
                ident: 0,
                flags_frag: 0x4000,
                ttl: 64,
                protocol: TCP,
                src,
                dst,
                payload_len: len,
            };
            header.emit(ip).ok()?;
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Repr {
                traffic_class: transmit.ecn as u8,
                flow_label: 0,
                payload_len: len,
                next_header: TCP,
                hop_limit: 64,
                src,
                dst,
            };
            header.emit(ip).ok()?;
        }
        _ => return None,
    }
    Some(packet)
}
