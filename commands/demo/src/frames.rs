//! Frames with something wrong with them, and where the stack must drop each.

use weever_wire::ethernet::EthernetRepr;
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::mac::MacAddr;
use weever_wire::udp::UdpRepr;
use weever_wire::{ethernet, ipv4, udp};

use crate::peer::Ends;

/// A frame that must not get through.
#[derive(Debug)]
pub(crate) struct Bad {
    /// Its mistake, in words.
    pub what: &'static str,
    /// The node of the host graph that must find out.
    pub node: &'static str,
    /// The frame.
    pub frame: Vec<u8>,
}

const IP: usize = ethernet::HEADER_LEN;
const UDP: usize = IP + ipv4::HEADER_LEN;
const DATA: usize = UDP + udp::HEADER_LEN;
const PAYLOAD: usize = 64;

/// A correct UDP datagram to weever's echo port, as a frame.
pub(crate) fn good_frame(ends: &Ends, port: u16) -> Vec<u8> {
    good(ends, port, 0)
}

fn good(ends: &Ends, port: u16, flags_frag: u16) -> Vec<u8> {
    let mut frame = vec![0x5a; DATA + PAYLOAD];
    let link = EthernetRepr {
        dst: MacAddr(ends.stack_mac),
        src: MacAddr(ends.peer_mac),
        ethertype: 0x0800,
    };
    let datagram =
        UdpRepr { src_port: ends.peer_port, dst_port: port, payload_len: PAYLOAD as u16 };
    let packet = Ipv4Repr {
        tos: 0,
        ident: 1,
        flags_frag,
        ttl: 64,
        protocol: 17,
        src: ends.peer,
        dst: ends.stack,
        payload_len: (udp::HEADER_LEN + PAYLOAD) as u16,
    };
    let written = link
        .emit(&mut frame)
        .and_then(|()| packet.emit(&mut frame[IP..]))
        .and_then(|()| datagram.emit_with_checksum(&mut frame[UDP..], ends.peer, ends.stack));
    debug_assert!(written.is_ok(), "the frame has room for its headers");
    frame
}

/// How many kinds of bad frames there are.
pub(crate) const KINDS: usize = 4;

/// One of each kind.
pub(crate) fn bad_frames(ends: &Ends, port: u16) -> [Bad; KINDS] {
    let bad = |what, node, frame| Bad { what, node, frame };
    let mut header_sum = good(ends, port, 0);
    header_sum[IP + 10] ^= 0x55;
    let mut udp_sum = good(ends, port, 0);
    udp_sum[DATA] ^= 0x55;
    let mut truncated = good(ends, port, 0);
    truncated.truncate(DATA + PAYLOAD / 2);
    let beyond = good(ends, port, ipv4::OFFSET_MASK);
    [
        bad("wrong IPv4 header checksum", "RxL3IPv4ValidChecksum", header_sum),
        bad("wrong UDP checksum", "RxL4UDPValidChecksum", udp_sum),
        bad("truncated IPv4 packet", "RxL3IPv4ValidLength", truncated),
        bad("impossible IPv4 fragment", "RxL3IPv4Reassemble", beyond),
    ]
}
