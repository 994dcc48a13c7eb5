//! The frame that a captured packet is sent as.

use weever_blocks_std::testing::frames::{HOST, HOST_MAC, PEER_MAC, ethernet};
use weever_blocks_std::testing::frames6::HOST6;
use weever_wire::MacAddr;
use weever_wire::ethernet::{HEADER_LEN, ethertype};

/// A packet as it lies in a capture.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Its first header, by the registry of link types.
    pub(crate) link_type: u16,
    pub(crate) data: Vec<u8>,
}

/// The frame as it was captured, the same to our address and to all, and with our IP address in it.
pub(crate) fn renderings(captured: &Captured) -> Vec<Vec<u8>> {
    let frame = as_ethernet(captured);
    let ours = addressed(&frame, HOST_MAC);
    let to_all = addressed(&frame, MacAddr::BROADCAST);
    let mut for_us = ours.clone();
    match for_us.get(12..14) {
        Some([0x08, 0x00]) => to_our_ipv4(&mut for_us[HEADER_LEN..]),
        Some([0x86, 0xdd]) => to_our_ipv6(&mut for_us[HEADER_LEN..]),
        _ => {}
    }
    vec![frame, ours, to_all, for_us]
}

fn addressed(frame: &[u8], to: MacAddr) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(dst) = frame.first_chunk_mut() {
        *dst = to.0;
    }
    frame
}

/// Packets of links that are no Ethernet get a header; packets other than IP are taken as they are.
fn as_ethernet(captured: &Captured) -> Vec<u8> {
    let data = captured.data.as_slice();
    let (kind, packet) = match captured.link_type {
        // BSD loopback, raw IP, Linux's cooked captures of both versions.
        0 | 108 => (None, data.get(4..)),
        12 | 14 | 101 | 228 | 229 => (None, Some(data)),
        113 => (be16(data, 14), data.get(16..)),
        276 => (be16(data, 0), data.get(20..)),
        _ => return data.to_vec(),
    };
    let Some(packet) = packet else { return data.to_vec() };
    let version = packet.first().map(|first| first >> 4);
    let by_version = if version == Some(6) { ethertype::IPV6 } else { ethertype::IPV4 };
    ethernet(HOST_MAC, PEER_MAC, kind.unwrap_or(by_version), packet)
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn to_our_ipv4(packet: &mut [u8]) {
    let Some(header) = packet.first().map(|first| usize::from(first & 15) * 4) else { return };
    let first = packet.get(6..8).is_some_and(|f| f[0] & 0x1f == 0 && f[1] == 0);
    let transport = match packet.get(9) {
        Some(17) if first => Some(header + 6),
        Some(6) if first => Some(header + 16),
        _ => None,
    };
    replace(packet, 16, &HOST.octets(), [Some(10), transport]);
}

fn to_our_ipv6(packet: &mut [u8]) {
    let transport = match packet.get(6) {
        Some(17) => Some(46),
        Some(6) => Some(56),
        Some(58) => Some(42),
        _ => None,
    };
    replace(packet, 24, &HOST6.octets(), [transport, None]);
}

/// Puts `new` at a place, and repairs the checksums that cover it as RFC 1624 has it: wrong
/// checksums stay wrong.
fn replace(packet: &mut [u8], at: usize, new: &[u8], sums: [Option<usize>; 2]) {
    let Some(old) = packet.get(at..at + new.len()).map(<[u8]>::to_vec) else { return };
    packet[at..at + new.len()].copy_from_slice(new);
    for sum_at in sums.into_iter().flatten() {
        let Some(sum) = be16(packet, sum_at) else { continue };
        let words = |bytes: &[u8]| -> u32 {
            bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
        };
        let removed: u32 =
            old.chunks(2).map(|p| u32::from(!u16::from_be_bytes([p[0], p[1]]))).sum();
        let mut total = u32::from(!sum) + removed + words(new);
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        packet[sum_at..sum_at + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
    }
}
