//! The datagram that the benchmarks send.

use std::net::Ipv4Addr;

use weever_wire::ethernet::EthernetRepr;
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::udp::UdpRepr;
use weever_wire::{MacAddr, WireError};

const HEADERS: usize = 14 + 20 + 8;

/// Source and destination of a frame.
pub(crate) type Ends = (MacAddr, Ipv4Addr, MacAddr, Ipv4Addr);

/// A UDP datagram to `port` in a frame of `len` bytes, without check sequence; at least the
/// headers' length.
pub(crate) fn udp_frame(ends: Ends, port: u16, len: usize) -> Result<Vec<u8>, WireError> {
    let (src_mac, src, dst_mac, dst) = ends;
    let payload_len = len.saturating_sub(HEADERS) as u16;
    let mut frame = vec![0x2a; HEADERS + usize::from(payload_len)];
    EthernetRepr { dst: dst_mac, src: src_mac, ethertype: 0x0800 }.emit(&mut frame)?;
    let packet = Ipv4Repr {
        tos: 0,
        ident: 0,
        flags_frag: 0,
        ttl: 64,
        protocol: 17,
        src,
        dst,
        payload_len: 8 + payload_len,
    };
    packet.emit(&mut frame[14..])?;
    let datagram = UdpRepr { src_port: 10_000, dst_port: port, payload_len };
    datagram.emit_with_checksum(&mut frame[34..], src, dst)?;
    Ok(frame)
}
