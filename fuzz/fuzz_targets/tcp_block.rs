//! A peer that the input drives, and the TCP echo service behind a host's whole graph: every frame sent is sound,
//! every octet that comes back is the one that was sent, and no buffer is lost.
//!
//! The octet with sequence number `n` is always the same, so that whatever the peer sends, twice, out of order
//! or on a connection in the place of another, the octets that have to come back are known.
#![no_main]

use std::cell::Cell;

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::HostBox;
use weever_blocks_std::testing::frames::*;
use weever_fuzz::{Input, Slot, frames, on_host};
use weever_models::{HostConfig, host};
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4View, protocol};
use weever_wire::tcp::{Seq, TcpOptionsRepr, TcpRepr, TcpView, Timestamps, fill_checksum, flag};

const ECHO: u16 = 7;
const MILLIS: u64 = 1_000_000;
const ETHERNET: usize = 14;
/// After so many inputs the host ends, and all of its buffers are looked for. Half-open connections are fewer
/// than a listener keeps, so that it sends no cookies, of which the peer would have to know which one holds.
const LIFETIME: u32 = 50;
/// Ports of one input.
const PEERS: u16 = 4;

thread_local! {
    static GRAPH: Slot<HostBox> = const { Slot::new(None) };
    /// The first port of the next input: none is used twice on a host.
    static PORT: Cell<u16> = const { Cell::new(1024) };
}

fuzz_target!(|data: &[u8]| {
    let first = PORT.get();
    PORT.set(if first > 60_000 { 1024 } else { first + PEERS });
    let make = || {
        let config = HostConfig { tcp_echo: Some(ECHO), ..HostConfig::default() };
        HostBox::new(host(&config).expect("the graph that ships"))
    };
    let run = |graph: &mut HostBox| {
        // The neighbour is known: an answer need not wait for its address.
        graph.receive(&[arp_request(HOST)]);
        graph.sent();
        let mut world = World { first, peers: Default::default() };
        let mut input = Input(data);
        while let Some(what) = input.byte() {
            if world.step(what, &mut input, graph).is_none() {
                break;
            }
            graph.sent().iter().for_each(|frame| world.hear(frame));
            graph.check_fates();
        }
    };
    on_host(&GRAPH, LIFETIME, make, run, HostBox::finish);
});

/// The peer's end of a connection, as far as it keeps one.
#[derive(Clone, Copy)]
struct Peer {
    /// The number that the peer sends next, if it behaves.
    next: Seq,
    /// The number that it expects next.
    expected: Seq,
    /// The first numbers of both streams, as the host's last SYN-ACK has them: the host's, and the peer's.
    streams: Option<(Seq, Seq)>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { next: Seq(1000), expected: Seq(0), streams: None }
    }
}

struct World {
    first: u16,
    peers: [Peer; PEERS as usize],
}

fn octet(seq: Seq) -> u8 {
    (seq.0 ^ seq.0 >> 8) as u8
}

impl World {
    fn step(&mut self, what: u8, input: &mut Input<'_>, graph: &mut HostBox) -> Option<()> {
        match what % 8 {
            0 => graph.advance(u64::from(input.byte()?) * MILLIS),
            1 => graph.advance(u64::from(input.byte()?) * 100 * MILLIS),
            _ => {
                let mut frame = self.segment(what, input)?;
                if what % 8 == 2 {
                    let [at, bits] = input.array()?;
                    let at = ETHERNET + usize::from(at) % (frame.len() - ETHERNET);
                    frame[at] ^= bits;
                }
                graph.receive(&[&frame]);
            }
        }
        Some(())
    }

    /// A segment near the numbers of one of the connections.
    fn segment(&mut self, what: u8, input: &mut Input<'_>) -> Option<Vec<u8>> {
        let at = usize::from(what >> 3 & 3);
        let peer = &mut self.peers[at];
        let [kind, how] = input.array()?;
        let flags = match kind % 8 {
            0 | 1 => flag::SYN,
            2..=4 => flag::ACK,
            5 => flag::ACK | flag::FIN,
            6 => flag::RST,
            _ => input.byte()?,
        };
        let near = |seq: Seq, input: &mut Input<'_>| {
            let by = input.array().map_or(0, i16::from_le_bytes);
            Seq(seq.0.wrapping_add_signed(by.into()))
        };
        let seq = if how & 1 == 0 { peer.next } else { near(peer.next, input) };
        let ack = if how & 2 == 0 { peer.expected } else { near(peer.expected, input) };
        let len =
            if how & 4 == 0 { 0 } else { usize::from(u16::from_le_bytes(input.array()?)) % 1400 };
        let window = if how & 8 == 0 { 65_535 } else { u16::from_le_bytes(input.array()?) };
        let syn = flags & flag::SYN != 0;
        let stamp = u32::from(how);
        let options = TcpOptionsRepr {
            mss: (syn && how & 16 != 0).then_some(u16::from(how) << 4),
            window_scale: (syn && how & 32 != 0).then_some(how >> 4),
            sack_permitted: syn && how & 64 != 0,
            timestamps: (how & 128 != 0).then_some(Timestamps { value: stamp, echo: 0 }),
            ..TcpOptionsRepr::default()
        };
        let octets = seq + u32::from(syn);
        if seq == peer.next {
            peer.next = octets + len as u32 + u32::from(flags & flag::FIN != 0);
        }
        let header = TcpRepr {
            src_port: self.first + at as u16,
            dst_port: ECHO,
            seq: seq.0,
            ack: ack.0,
            flags,
            window,
            checksum: 0,
            urgent: 0,
        };
        let mut segment = vec![0; 60 + len];
        let header_len = header.emit_with_options(&options, &mut segment).ok()?;
        segment.truncate(header_len + len);
        for (at, place) in (0..).zip(&mut segment[header_len..]) {
            *place = octet(octets + at);
        }
        let addresses = [PEER.octets(), HOST.octets()].concat();
        let pseudo = Pseudo::v4(addresses.first_chunk()?, protocol::TCP, segment.len() as u16);
        fill_checksum(&mut segment, pseudo);
        Some(from_peer(&ipv4(ipv4_repr(PEER, HOST, protocol::TCP), &segment)))
    }

    /// A frame of the host's.
    fn hear(&mut self, frame: &[u8]) {
        frames::check_sent(frame);
        let Ok(ip) = Ipv4View::new(&frame[ETHERNET..]) else { return };
        if ip.header().protocol() != protocol::TCP {
            return;
        }
        let len = ip.payload().len() as u16;
        let pseudo = Pseudo::v4(&ip.header().addresses(), protocol::TCP, len);
        assert!(pseudo.verifies(ip.payload()), "the host sends right checksums");
        let view = TcpView::new(ip.payload()).expect("our own segment");
        let header = view.header();
        // Segments to the peers of earlier inputs are theirs.
        let at = usize::from(header.dst_port().wrapping_sub(self.first));
        let Some(peer) = self.peers.get_mut(at) else { return };
        let (seq, flags) = (Seq(header.seq()), header.flags());
        if flags & flag::RST != 0 {
            return;
        }
        if flags & flag::SYN != 0 {
            assert!(flags & flag::ACK != 0, "the host connects to nobody");
            peer.streams = Some((seq + 1, Seq(header.ack())));
            peer.expected = seq + 1;
            return;
        }
        let Some((host_first, peer_first)) = peer.streams else { return };
        for (at, got) in (0..).zip(view.payload()) {
            let of_stream = (seq + at) - host_first;
            assert_eq!(*got, octet(peer_first + of_stream), "octet {of_stream} of the echo");
        }
        let end = seq + view.payload().len() as u32 + u32::from(flags & flag::FIN != 0);
        if end.gt(peer.expected) {
            peer.expected = end;
        }
    }
}
