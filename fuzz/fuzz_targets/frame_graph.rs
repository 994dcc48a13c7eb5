//! Any frames, in any order, with time passing between them, through the whole graph of a host: every
//! packet has exactly one fate, no two nodes want the same one, and every buffer comes home.
//!
//! The input is a sequence of steps. A step is a byte of flags, a length in two bytes and that many
//! bytes of a frame; a step without a frame lets time pass.
//!
//! Making a host takes a hundred times as long as running an input, so a host sees many inputs. One
//! that fails only after others is found again by running the corpus: `cargo fuzz run frame_graph
//! fuzz/corpus/frame_graph -- -runs=0`.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use weever_blocks_std::testing::HostBox;
use weever_models::{HostConfig, Service, host};
use weever_packet::Flags;
use weever_wire::checksum::{combine, finish, pseudo_v4, sum};
use weever_wire::ipv4::{Ipv4View, protocol};

/// The checksums of the frame are put right, so that it gets further than that.
const REPAIR: u8 = 1;
/// It comes from a link on which checksums may be partial.
const MAY_BE_PARTIAL: u8 = 2;
/// The host's address is put in as the destination.
const TO_HOST: u8 = 4;

const TICK: u64 = 50_000_000;
const MAX_STEPS: usize = 64;
/// An IPv4 header behind an Ethernet header without a tag.
const L3: usize = 14;

/// After so many inputs the host ends, and all of its buffers are looked for.
const LIFETIME: u32 = 500;

thread_local! {
    static HOST: RefCell<Option<(HostBox, u32)>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    HOST.with_borrow_mut(|slot| {
        let (mut graph, age) = slot.take().unwrap_or_else(|| (serving(), 0));
        steps(&mut graph, data);
        graph.check_fates();
        if age == LIFETIME {
            graph.finish();
        } else {
            *slot = Some((graph, age + 1));
        }
    });
});

fn serving() -> HostBox {
    let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
    HostBox::new(host(&config).expect("the graph that ships"))
}

fn steps(graph: &mut HostBox, mut rest: &[u8]) {
    for _ in 0..MAX_STEPS {
        let Some(([flags, low, high], behind)) = rest.split_first_chunk::<3>() else { break };
        let length = usize::from(u16::from_le_bytes([*low, *high]) % 1600).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        rest = behind;
        step(graph, *flags, frame);
        check_sent(graph);
    }
}

fn step(graph: &mut HostBox, flags: u8, frame: &[u8]) {
    if frame.is_empty() {
        graph.advance(u64::from(flags) * TICK);
        return;
    }
    let mut frame = frame.to_vec();
    if flags & TO_HOST != 0 {
        address(&mut frame);
    }
    if flags & REPAIR != 0 {
        repair(&mut frame);
    }
    let partial = flags & MAY_BE_PARTIAL != 0;
    graph.set_flags(if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE });
    graph.receive(&[frame]);
}

/// What leaves the host are whole frames with right checksums from its own address.
fn check_sent(graph: &mut HostBox) {
    for frame in graph.sent() {
        assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 1], "from the host's station");
        if frame[12..14] == [0x08, 0x00] {
            let view = Ipv4View::new(&frame[L3..]).expect("a whole datagram");
            assert!(view.checksum_ok());
            assert_eq!(view.header().src().octets(), [10, 0, 0, 1]);
        }
    }
}

fn address(frame: &mut [u8]) {
    if let Some(mac) = frame.get_mut(..6) {
        mac.copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    }
    if let Some(ip) = frame.get_mut(L3 + 16..L3 + 20) {
        ip.copy_from_slice(&[10, 0, 0, 1]);
    }
}

fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(L3..) else { return };
    let Ok(view) = Ipv4View::new(packet) else { return };
    let (l4, end) = (view.header_bytes().len(), view.header_bytes().len() + view.payload().len());
    let header = view.header();
    let (proto, pseudo) = (
        header.protocol(),
        pseudo_v4(header.src(), header.dst(), header.protocol(), (end - l4) as u16),
    );
    let transport = &mut packet[l4..end];
    match proto {
        protocol::UDP => fill(transport, 6, pseudo),
        protocol::ICMP => fill(transport, 2, 0),
        _ => {}
    }
    fill(&mut packet[..l4], 10, 0);
}

/// Writes the checksum over `bytes`, and over what `before` is the sum of, to place `at`.
fn fill(bytes: &mut [u8], at: usize, before: u16) {
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let check = finish(combine(before, sum(bytes)));
    bytes[at..at + 2].copy_from_slice(&check.to_be_bytes());
}
