//! Frames that must not get through.

use std::time::{Duration, Instant};

use weever_service_api::{ClientError, Counters, CountersRequest};
use weever_wire::ethernet::{self, EthernetRepr};
use weever_wire::ipv4::{self, Ipv4Repr};
use weever_wire::mac::MacAddr;
use weever_wire::udp::{self, UdpRepr};

use super::PATIENCE;
use crate::layers::{drops, drops_at};
use crate::peer::{Ends, Over, Peer};
use crate::stage::Control;
use crate::steps::{Finding, Steps};

/// How many of each bad frame are sent.
const OF_EACH: u64 = 3;

/// Frames that must be counted and dropped, each at its own node, and nothing else with them.
pub(crate) fn bad_frames(peer: &mut dyn Peer, port: u16, control: &mut Control, steps: &mut Steps) {
    steps.run("a hand-made frame that is right is answered", |deadline| {
        peer.send_frame(&good_frame(&peer.ends(), port))?;
        let answer = peer.receive(Over::V4, &mut [0; 2048], deadline.at_most(PATIENCE))?;
        Ok(Finding::compare("1 answer", if answer.is_some() { "1 answer" } else { "no answer" }))
    });
    let before = control.ask(|client| client.call(&CountersRequest {}));
    for bad in one_of_each_kind(&peer.ends(), port) {
        steps.run(&format!("{}, dropped at {}", bad.what, bad.node), |_| {
            let before = control.ask(|client| client.call(&CountersRequest {}))?;
            for _ in 0..OF_EACH {
                peer.send_frame(&bad.frame)?;
            }
            let count = |now: &Counters| drops_at(now, bad.node) - drops_at(&before, bad.node);
            let dropped = wait_for(control, count)?;
            Ok(Finding::compare(format!("{OF_EACH} dropped"), format!("{dropped} dropped")))
        });
    }
    steps.run("nothing else is dropped, and no bad frame answered", |_| {
        let sent = OF_EACH * KINDS as u64;
        let answer = peer.receive(Over::V4, &mut [0; 2048], Duration::from_millis(50))?;
        let dropped =
            drops(&control.ask(|client| client.call(&CountersRequest {}))?) - drops(&before?);
        let found = format!("{dropped} dropped, {} answered", usize::from(answer.is_some()));
        Ok(Finding::compare(format!("{sent} dropped, 0 answered"), found))
    });
}

/// Asks for the counters until `count` has reached the number of sent frames, or patience ends.
fn wait_for(control: &mut Control, count: impl Fn(&Counters) -> u64) -> Result<u64, ClientError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = count(&control.ask(|client| client.call(&CountersRequest {}))?);
        if seen >= OF_EACH || Instant::now() >= deadline {
            return Ok(seen);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A frame that must not get through.
#[derive(Debug)]
struct Bad {
    /// Its mistake, in words.
    what: &'static str,
    /// The node of the host graph that must find out.
    node: &'static str,
    /// The frame.
    frame: Vec<u8>,
}

const IP: usize = ethernet::HEADER_LEN;
const UDP: usize = IP + ipv4::HEADER_LEN;
const DATA: usize = UDP + udp::HEADER_LEN;
const PAYLOAD: usize = 64;

/// A correct UDP datagram to weever's echo port, as a frame.
fn good_frame(ends: &Ends, port: u16) -> Vec<u8> {
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
const KINDS: usize = 4;

/// One of each kind.
fn one_of_each_kind(ends: &Ends, port: u16) -> [Bad; KINDS] {
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
