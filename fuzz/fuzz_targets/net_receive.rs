//! Any IPv4 datagram from a neighbour through the whole graph of a host: every packet sent back is
//! sound, goes to the sender, and answers the datagram.
//!
//! The first byte says whether the datagram is made more likely to be taken: its checksums put right
//! ([`frames`]), its addresses replaced by the neighbour's and the host's, and whether the link allows
//! partial checksums. A host sees many inputs, as in `frame_graph`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::HostBox;
use weever_blocks_std::testing::frames::*;
use weever_fuzz::{ECHO_PORT, Slot, frames, on_host, serving};
use weever_packet::Flags;
use weever_wire::ethernet::{EthernetHeader, ethertype};
use weever_wire::icmpv4::{IcmpView, kind};
use weever_wire::ipv4::{Ipv4View, protocol};
use weever_wire::tcp::{TcpView, flag};
use weever_wire::udp::UdpView;

/// The link allows partial checksums. Bits 1 and 4 are for [`frames`].
const MAY_BE_PARTIAL: u8 = 2;
/// The neighbour's address is put in as the source.
const FROM_PEER: u8 = 8;
/// So that neither limits of errors nor the neighbour's entry run out.
const INTERVAL: u64 = 100_000_000;
/// After so many inputs the host ends, and all of its buffers are looked for.
const LIFETIME: u32 = 500;
const ETHERNET: usize = 14;
/// What one link carries: a longer datagram could come back in pieces.
const MAX_LEN: usize = 1500;

thread_local! {
    static GRAPH: Slot<HostBox> = const { Slot::new(None) };
}

fuzz_target!(|data: &[u8]| {
    let Some((&flags, datagram)) = data.split_first() else { return };
    if datagram.len() > MAX_LEN {
        return;
    }
    let mut frame = from_peer(datagram);
    if flags & FROM_PEER != 0
        && let Some(source) = frame.get_mut(ETHERNET + 12..ETHERNET + 16)
    {
        source.copy_from_slice(&PEER.octets());
    }
    let frame = frames::shaped(flags, &frame);
    let run = |graph: &mut HostBox| {
        // The neighbour is known: an answer need not wait for its address.
        graph.receive(&[arp_request(HOST)]);
        graph.advance(INTERVAL);
        graph.sent();
        let partial = flags & MAY_BE_PARTIAL != 0;
        graph.set_flags(if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE });
        graph.receive(&[&frame]);
        graph.set_flags(Flags::NONE);
        graph.sent().iter().for_each(|answer| check_answer(&frame[ETHERNET..], answer));
        graph.check_fates();
    };
    on_host(&GRAPH, LIFETIME, || HostBox::new(serving()), run, HostBox::finish);
});

/// Checks the `frame` with which the host answered `datagram`.
fn check_answer(datagram: &[u8], frame: &[u8]) {
    frames::check_sent(frame);
    let ethernet = EthernetHeader::first(frame).expect("a whole header");
    if ethernet.ethertype() == ethertype::ARP || ethernet.dst().is_multicast() {
        // A request for the address that the datagram claims to be from, or a report to a querier.
        return;
    }
    assert_eq!(ethernet.dst(), PEER_MAC);
    let sent = Ipv4View::new(&frame[ETHERNET..]).expect("a whole datagram");
    let came = Ipv4View::new(datagram).expect("only a whole datagram is answered");
    assert!(came.checksum_ok() && sent.payload().len() < frame.len());
    assert_eq!(sent.header().dst(), came.header().src());
    if came.header().is_fragment() {
        // The fragments that it completed were in other inputs.
        return;
    }
    match sent.header().protocol() {
        protocol::UDP => check_udp(came, sent),
        protocol::ICMP => check_icmp(datagram, came, sent),
        protocol::TCP => check_reset(came, sent),
        other => panic!("nothing answers with protocol {other}"),
    }
}

/// The echo service's answer.
fn check_udp(came: Ipv4View<'_>, sent: Ipv4View<'_>) {
    assert_eq!((came.header().protocol(), came.header().dst()), (protocol::UDP, HOST));
    let asked = UdpView::new(came.payload()).expect("only a whole UDP datagram is answered");
    let answer = UdpView::new(sent.payload()).expect("our own datagram");
    assert_eq!(answer.payload(), asked.payload());
    let (asked, answer) = (asked.header(), answer.header());
    assert_eq!((asked.dst_port(), answer.src_port()), (ECHO_PORT, ECHO_PORT));
    assert_eq!(asked.src_port(), answer.dst_port());
}

/// A reset, since no TCP service has the port: to a segment that is none itself.
fn check_reset(came: Ipv4View<'_>, sent: Ipv4View<'_>) {
    assert_eq!((came.header().protocol(), came.header().dst()), (protocol::TCP, HOST));
    let asked = TcpView::new(came.payload()).expect("only a whole segment is answered").header();
    let answer = TcpView::new(sent.payload()).expect("our own segment").header();
    assert_ne!(answer.flags() & flag::RST, 0);
    assert_eq!(asked.flags() & flag::RST, 0);
    assert_eq!((asked.src_port(), asked.dst_port()), (answer.dst_port(), answer.src_port()));
}

/// An echo reply, or an error, which quotes the datagram and is not about another error.
fn check_icmp(datagram: &[u8], came: Ipv4View<'_>, sent: Ipv4View<'_>) {
    let message = IcmpView::new(sent.payload()).expect("our own message");
    assert!(message.checksum_ok());
    let asked = match came.header().protocol() {
        protocol::ICMP => IcmpView::new(came.payload()).ok(),
        _ => None,
    };
    if message.header().kind() == kind::ECHO_REPLY {
        let asked = asked.filter(|asked| asked.checksum_ok()).expect("an echo request");
        assert_eq!(asked.header().kind(), kind::ECHO_REQUEST);
        assert_eq!(message.data(), asked.data());
    } else {
        assert!(kind::is_error(message.header().kind()));
        assert!(datagram.starts_with(message.data()), "the quotation is unchanged");
        let about = asked.map(|asked| asked.header().kind());
        assert!(about.is_none_or(|kind| !kind::is_error(kind)), "no error about an error");
    }
}
