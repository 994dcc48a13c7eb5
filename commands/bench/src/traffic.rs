//! Load: one frame for clients that write their own, and live frames in open loop from one core.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weever_ebpf::sys::LiveFrames;
use weever_ebpf::xdp::{Generator, GeneratorSettings, Order, Span};
use weever_testbed::{Fixture, Namespace, pin_to};
use weever_wire::ethernet::EthernetRepr;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::udp::UdpRepr;
use weever_wire::{MacAddr, WireError};

use crate::BenchError;
use crate::rig::{GENERATOR_MAC, HOST, PORT, Rig};

const HEADERS: usize = 14 + 20 + 8;

/// The fields that all packets share.
const IPV4: Ipv4Repr = Ipv4Repr {
    tos: 0,
    ident: 0,
    flags_frag: 0,
    ttl: 64,
    protocol: 17,
    src: Ipv4Addr::UNSPECIFIED,
    dst: Ipv4Addr::UNSPECIFIED,
    payload_len: 0,
};

/// Source and destination of a frame.
pub(crate) type Ends = (MacAddr, Ipv4Addr, MacAddr, Ipv4Addr);

/// A UDP datagram to `port` in a frame of `len` bytes, without check sequence; at least the
/// headers' length.
pub(crate) fn udp_frame(ends: Ends, port: u16, len: usize) -> Result<Vec<u8>, WireError> {
    with_payload(ends, port, &vec![0x2a; len.saturating_sub(HEADERS)])
}

fn with_payload(ends: Ends, port: u16, payload: &[u8]) -> Result<Vec<u8>, WireError> {
    let (src_mac, src, dst_mac, dst) = ends;
    let payload_len = payload.len() as u16;
    let mut frame = [&[0; HEADERS], payload].concat();
    EthernetRepr { dst: dst_mac, src: src_mac, ethertype: 0x0800 }.emit(&mut frame)?;
    let packet = Ipv4Repr { src, dst, payload_len: 8 + payload_len, ..IPV4 };
    packet.emit(&mut frame[14..])?;
    let datagram = UdpRepr { src_port: 10_000, dst_port: port, payload_len };
    datagram.emit_with_checksum(&mut frame[34..], src, dst)?;
    Ok(frame)
}

/// Where a frame of [`udp_frame`] has the datagram's checksum.
pub(crate) const UDP_CHECKSUM: Range<usize> = 40..42;

/// As [`udp_frame`], for an even `len`. Its checksum stays right if its last eight bytes are replaced by a number's
/// complement and the number.
pub(crate) fn numbered_frame(ends: Ends, port: u16, len: usize) -> Result<Vec<u8>, WireError> {
    with_payload(ends, port, &numbered(len.saturating_sub(HEADERS)))
}

/// So many bytes, eight at least, of which the last eight are zero's complement and zero.
fn numbered(len: usize) -> Vec<u8> {
    let mut data = vec![0x2a; len.max(8)];
    let numbers = data.len() - 8;
    data[numbers..].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    data
}

/// An ICMP echo request in a frame of `len` bytes, without check sequence. Its checksum stays right if its
/// last eight bytes are replaced by a number and the number's complement.
pub(crate) fn icmp_frame(ends: Ends, len: usize) -> Result<Vec<u8>, WireError> {
    let mut frame = udp_frame(ends, 0, len)?;
    let (_, src, _, dst) = ends;
    let payload_len = (len.max(HEADERS + 8) - 34) as u16;
    frame.resize(34 + usize::from(payload_len), 0);
    let packet = Ipv4Repr { protocol: 1, src, dst, payload_len, ..IPV4 };
    packet.emit(&mut frame[14..])?;
    let data = numbered(usize::from(payload_len) - 8);
    IcmpRepr::EchoRequest { ident: 1, seq: 1, data: &data }.emit(&mut frame[34..])?;
    Ok(frame)
}

/// Frames per system call: enough that the kernel does not sleep in between, few enough that the
/// load stops within a tenth of a second.
const PER_CALL: u32 = 1 << 19;

/// How many source ports the load comes from.
const FLOWS: u32 = 16;

/// Load that runs until dropped.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    /// Starts UDP datagrams in Ethernet frames of `frame_len` bytes (with the four of the check
    /// sequence, as sizes are usually given) to the contender's port.
    pub(crate) fn start(rig: &Rig, frame_len: usize) -> Result<Traffic, BenchError> {
        let settings = GeneratorSettings {
            out_ifindex: rig.generator_end()?.index,
            source_mac: GENERATOR_MAC,
            destination_mac: rig.contender_end()?.mac,
            sources: Span::one(Fixture::LEFT),
            destination: HOST,
            source_ports: Span { first: 10_000, count: FLOWS },
            destination_ports: Span::one(PORT),
            payload: vec![0x2a; payload_len(frame_len)],
            udp_checksum: true,
            order: Order::RoundRobin,
        };
        Traffic::start_with(&rig.fixture.left, rig.generator_core, &settings)
    }

    /// Starts any load from a namespace's interface, on a core.
    pub(crate) fn start_with(
        from: &Namespace,
        core: usize,
        settings: &GeneratorSettings,
    ) -> Result<Traffic, BenchError> {
        let generator = Generator::load(settings)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = from.spawn("generator", move || {
            // Without its core the load is merely less steady; the contenders all get the same.
            drop(pin_to(core));
            while !seen.load(Ordering::Relaxed) {
                let live = LiveFrames { repeat: PER_CALL, batch: 64 };
                if generator.run(live).is_err() {
                    break;
                }
            }
        });
        let thread = thread.map_err(BenchError::of("generator"))?;
        Ok(Traffic { stop, thread: Some(thread) })
    }
}

/// The UDP payload of a frame of `frame_len` bytes: less headers (14 + 20 + 8) and check sequence.
pub(crate) fn payload_len(frame_len: usize) -> usize {
    frame_len.saturating_sub(14 + 20 + 8 + 4)
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::contender::Contender;
    use crate::peers;

    #[test]
    fn numbers_leave_a_frames_checksum_right() {
        let ends = (MacAddr([2; 6]), Fixture::LEFT, MacAddr([4; 6]), HOST);
        let mut frame = numbered_frame(ends, PORT, 60).unwrap();
        for number in [0, 1, 0x1234_5678, u32::MAX] {
            frame[52..56].copy_from_slice(&(!number).to_be_bytes());
            frame[56..].copy_from_slice(&number.to_be_bytes());
            let view = weever_wire::udp::UdpView::new(&frame[34..]).unwrap();
            assert!(view.checksum_ok(view.pseudo_sum(ends.1, ends.3)), "{number}");
            assert_ne!(frame[UDP_CHECKSUM], [0, 0]);
        }
    }

    #[test]
    fn live_frames_reach_the_other_end() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let rig = Rig::new("rx").expect("the rig can be built");
        let contender = Contender::start(&rig, peers::bare_drop).expect("a contender starts");
        let traffic = Traffic::start(&rig, 64).expect("the load starts");
        let rate = contender.rate(Duration::from_millis(200));
        assert!(rate > 0.0, "no load arrived");
        drop(traffic);
        contender.finish().expect("the contender ends well");
    }
}
