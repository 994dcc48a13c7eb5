//! Programs without helpers, in an independent interpreter.

use std::net::Ipv4Addr;

use super::always;
use super::generator::{self, GeneratorSettings, Order, Span};
use crate::asm::Reg::{R0, R2, R8};
use crate::asm::{Assembler, Reg};
use crate::sys::XdpAction;

fn settings() -> GeneratorSettings {
    GeneratorSettings {
        out_ifindex: 3,
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        sources: Span { first: Ipv4Addr::new(10, 1, 255, 250), count: 8 },
        destination: Ipv4Addr::new(10, 9, 8, 7),
        source_ports: Span { first: 65_000, count: 3 },
        destination_ports: Span { first: 7, count: 2 },
        payload: (0..19).collect(),
        udp_checksum: true,
        order: Order::RoundRobin,
    }
}

#[test]
fn the_smallest_programs_return_their_action() {
    for action in [XdpAction::Pass, XdpAction::Drop] {
        let bytes = always(action).unwrap().to_bytes();
        let vm = rbpf::EbpfVmNoData::new(Some(&bytes)).unwrap();
        assert_eq!(vm.execute_program().unwrap(), action as u64);
    }
}

/// Runs the header writer for one flow over a frame full of other people's bytes.
fn headers_of(settings: &GeneratorSettings, flow: i32) -> Vec<u8> {
    let mut asm = Assembler::new();
    asm.mov(R2, Reg::R1).mov(R8, flow);
    generator::write_headers(&mut asm, settings);
    asm.mov(R0, 0).exit();
    let bytes = asm.assemble().unwrap().to_bytes();
    let mut frame = vec![0xee; generator::PAYLOAD];
    frame.extend(&settings.payload);
    rbpf::EbpfVmRaw::new(Some(&bytes)).unwrap().execute_program(&mut frame).unwrap();
    frame
}

/// The receiver's arithmetic: a valid header with its checksum in place sums to all ones.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

fn udp_sum(frame: &[u8]) -> u16 {
    let mut pseudo = frame[26..34].to_vec();
    pseudo.extend([0, 17]);
    pseudo.extend(((frame.len() - 34) as u16).to_be_bytes());
    pseudo.extend(&frame[34..]);
    sum(&pseudo)
}

#[test]
fn every_flow_is_different_and_its_checksums_are_right() {
    let settings = settings();
    let mut seen = std::collections::HashSet::new();
    for flow in 0..settings.flows() as i32 {
        let frame = headers_of(&settings, flow);
        assert_eq!(sum(&frame[14..34]), 0xffff, "IPv4 checksum of flow {flow}");
        assert_eq!(udp_sum(&frame), 0xffff, "UDP checksum of flow {flow}");
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[42..], settings.payload);
        let flow_number = flow as u32;
        let source = u32::from(settings.sources.first) + flow_number % 8;
        assert_eq!(frame[26..30], source.to_be_bytes());
        assert_eq!(frame[34..36], (65_000 + (flow_number / 8 % 3) as u16).to_be_bytes());
        assert_eq!(frame[36..38], (7 + (flow_number / 24) as u16).to_be_bytes());
        seen.insert(frame);
    }
    assert_eq!(seen.len() as u64, settings.flows());
    assert_eq!(headers_of(&settings, 48), headers_of(&settings, 0), "the flows come round again");
}

#[test]
fn lengths_are_those_of_the_payload() {
    let frame = generator::template(&settings());
    assert_eq!(frame.len(), 42 + 19);
    assert_eq!(u16::from_be_bytes([frame[16], frame[17]]), 20 + 8 + 19);
    assert_eq!(u16::from_be_bytes([frame[38], frame[39]]), 8 + 19);
}

/// RFC 768: a checksum that comes out as zero is sent as all ones; zero means none.
#[test]
fn a_zero_udp_checksum_is_sent_as_ones() {
    let mut settings = settings();
    settings.payload = vec![0, 0];
    let one = headers_of(&settings, 0);
    settings.payload = one[40..42].to_vec();
    // The payload now cancels everything else.
    assert_eq!(headers_of(&settings, 0)[40..42], [0xff, 0xff]);
    settings.udp_checksum = false;
    assert_eq!(headers_of(&settings, 0)[40..42], [0, 0]);
}
