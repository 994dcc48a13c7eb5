use std::sync::Arc;

use weever_graph::{Field, Predicate};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetConfig;

use super::*;
use crate::bench::Bench;
use crate::testing::frames::{HOST_MAC, udp};

fn bench(tap: &Arc<Tap>, place: &str) -> Bench {
    let taps = Taps::default();
    let number = taps.add(Arc::clone(tap));
    Bench::new()
        .providing(Arc::new(taps))
        .with_param("tap", &number.to_string())
        .with_param("place", place)
}

fn tap(config: TapConfig) -> Arc<Tap> {
    Arc::new(Tap::new(config))
}

#[test]
fn every_packet_goes_on_and_what_matches_is_copied() {
    let filter = Predicate::eq(Field::L4Dst, 7);
    let tap = tap(TapConfig { filter, ..TapConfig::default() });
    let mut bench = bench(&tap, "3");
    let wanted: Vec<u8> = udp(1234, 7, b"wanted");
    let other = udp(1234, 9, b"other");
    let mut frames = bench.burst(&[&wanted, &other, &wanted]);
    for task in 0..3 {
        frames.get_mut(task).expect("a packet").meta_mut().link = 2;
    }
    let ran = bench.run(&CAPTURE, frames, 0b111);
    assert_eq!(ran.ports, [0b111]);
    assert_eq!(ran.requests.counts, [(0, 2)]);
    let got = tap.collect(10);
    let copy = |c: &Captured| (c.place, c.link, c.time, c.original as usize, c.data.clone());
    let expected = (3, 2, bench.now, wanted.len(), wanted.clone());
    assert_eq!(got.iter().map(copy).collect::<Vec<_>>(), [expected.clone(), expected]);
    assert!(tap.is_idle(), "the block is gone");
}

#[test]
fn copies_are_cut_and_know_how_long_the_packet_was() {
    let tap = tap(TapConfig { snaplen: 20, ..TapConfig::default() });
    let mut bench = bench(&tap, "0");
    let frames = bench.burst(&[&[7; 100], &[8; 5]]);
    bench.run(&CAPTURE, frames, 0b11);
    let lengths = tap.collect(10).into_iter().map(|c| (c.original, c.data.len()));
    assert_eq!(lengths.collect::<Vec<_>>(), [(100, 20), (5, 5)]);
}

#[test]
fn what_finds_no_room_goes_on_and_is_counted() {
    let tap = tap(TapConfig { room: 300, ..TapConfig::default() });
    let mut bench = bench(&tap, "0");
    let mut block = bench.make(&CAPTURE);
    for round in 0..3u64 {
        let frames = bench.burst(&[&[1; 100], &[2; 100], &[3; 100], &[4; 100]]);
        let ran = bench.run_block(block.as_mut(), &CAPTURE, frames, 0b1111);
        assert_eq!((ran.ports[0], ran.requests.counts), (0b1111, vec![(0, 2), (1, 2)]));
        assert_eq!(tap.missed_so_far(), 2 * (round + 1));
        // The ring is read empty, and its records lie across its end.
        let first: Vec<u8> = tap.collect(10).iter().map(|c| c.data[99]).collect();
        assert_eq!(first, [1, 2]);
    }
    assert!(!tap.is_idle());
}

#[test]
fn a_stripped_link_header_is_copied_too() {
    let tap = tap(TapConfig::default());
    let mut bench = bench(&tap, "0");
    let mut packet = bench.packet(b"header, payload");
    packet.meta_mut().l2 = packet.head();
    assert!(packet.strip(8));
    let burst = bench.single(packet);
    bench.run(&CAPTURE, burst, 1);
    assert_eq!(tap.collect(1)[0].data, b"header, payload");
}

#[test]
fn several_blocks_of_a_tap_are_read_in_the_order_of_time() {
    let tap = tap(TapConfig::default());
    let mut bench = bench(&tap, "0");
    let (mut one, mut two) = (bench.make(&CAPTURE), bench.make(&CAPTURE));
    for (time, first) in [(5, true), (6, false), (7, true)] {
        bench.now = time;
        let frames = bench.burst(&[&[time as u8]]);
        let block = if first { &mut one } else { &mut two };
        bench.run_block(block.as_mut(), &CAPTURE, frames, 1);
    }
    let times: Vec<u64> = tap.collect(10).iter().map(|c| c.time).collect();
    assert_eq!(times, [5, 6, 7]);
}

#[test]
fn a_forwarded_packet_is_of_the_link_that_it_leaves_by() {
    let tap = tap(TapConfig::default());
    let mut config = NetConfig::new();
    for link in 0..2 {
        let iface = Interface::new(IfaceId(link), format!("link{link}"), link, HOST_MAC);
        config.add_interface(iface).unwrap();
    }
    let mut bench = bench(&tap, "0").providing(Arc::new(Network::new(config)));
    let mut frames = bench.burst(&[b"received", b"routed"]);
    for (task, iface) in [(0, IfaceId::NONE), (1, IfaceId(1))] {
        let meta = frames.get_mut(task).expect("a packet").meta_mut();
        (meta.link, meta.iface) = (0, iface.0);
    }
    bench.run(&CAPTURE, frames, 0b11);
    let links: Vec<u16> = tap.collect(10).iter().map(|copy| copy.link).collect();
    assert_eq!(links, [0, 1]);
}

#[test]
fn copies_have_the_time_of_the_clock_if_there_is_one() {
    let tap = tap(TapConfig { clock: Some(|| 77), ..TapConfig::default() });
    let mut bench = bench(&tap, "0");
    bench.now = 5;
    let frames = bench.burst(&[b"packet"]);
    bench.run(&CAPTURE, frames, 1);
    assert_eq!(tap.collect(10)[0].time, 77);
}

#[test]
fn a_block_without_a_tap_is_refused() {
    let bench = Bench::new().providing(Arc::new(Taps::default())).with_param("tap", "7");
    let node = weever_graph::Node::new("C", weever_graph::NodeKind::Function);
    let build = Build { node: &node, block_type: &CAPTURE, env: &bench.env };
    assert!(make(&build).is_err(), "no parameter");
    let build = Build { node: &node, block_type: &CAPTURE, env: &weever_block::Env::new() };
    let error = make(&build).err().expect("no taps").to_string();
    assert!(error.contains("captures"), "{error}");
}
