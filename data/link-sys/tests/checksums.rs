//! Transport checksums left to the device through transmit metadata.

mod common;

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::time::Duration;

use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdpConfig, ChecksumOffload};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_packet::{Flags, PoolCache};
use weever_testbed::{Fixture, require_net_admin};

const PORT: u16 = 7000;

/// AF_XDP on the left, the kernel's stack on the right.
struct Sender {
    net: Fixture,
    queue: Box<dyn LinkQueue>,
    cache: PoolCache,
    offers: bool,
    /// Frames that arrive on the right, before the stack sees them.
    wire: PacketSocket,
    socket: UdpSocket,
}

fn sender(checksums: ChecksumOffload) -> Sender {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let pool = common::pool(1024);
    let settings = AfXdpConfig { checksums, ..common::config("left0", &pool) };
    let mut link = common::open_left(&net, &settings).unwrap();
    let wire = net.right.run(|| PacketSocket::open("right0", Protocol::EtherType(0x0800))).unwrap();
    let socket = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, PORT))).unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let offers = link.info().offload.tx_checksum;
    let queue = link.take_queues().remove(0);
    Sender { net, queue, cache: pool.cache(), offers, wire, socket }
}

impl Sender {
    /// Sends a datagram with a partial checksum, at that place in its frame, and returns the data
    /// that the kernel's socket got.
    fn send(&mut self, payload: &[u8], head: u16) -> Option<Vec<u8>> {
        let veth = &self.net.veth;
        let from = (veth.left.mac, Fixture::LEFT);
        let to = (veth.right.mac, Fixture::RIGHT);
        let frame = common::partial_datagram(&common::Ends { from, to, port: PORT }, payload);
        let mut packet = self.cache.alloc().unwrap();
        assert!(packet.set_bounds(head, head + frame.len() as u16));
        packet.data_mut().copy_from_slice(&frame);
        packet.meta_mut().flags = Flags::PARTIAL_CHECKSUM;
        let mut packets = VecDeque::from([packet]);
        self.queue.tx(&mut self.cache, &mut packets).unwrap();
        while self.queue.unsent() {
            self.queue.flush(&mut self.cache).unwrap();
        }
        let mut received = [0; 2000];
        let n = self.socket.recv(&mut received).ok()?;
        Some(received[..n].to_vec())
    }

    /// Whether the datagram that arrived last had a whole checksum on the wire.
    fn whole_on_the_wire(&mut self) -> bool {
        let mut frame = vec![0; 2000];
        let n = self.wire.receive(&mut frame, common::PATIENCE).unwrap().expect("a frame");
        let udp = &frame[34..n];
        let mut pseudo = frame[26..34].to_vec();
        pseudo.extend([0, 17]);
        pseudo.extend((udp.len() as u16).to_be_bytes());
        common::sum(&[&pseudo[..], udp].concat()) == 0xffff
    }
}

#[test]
fn the_device_completes_what_it_is_asked_to() {
    require_net_admin!();
    let mut sender = sender(ChecksumOffload::Device);
    if !sender.offers {
        return println!("skipped: needs a kernel with AF_XDP transmit metadata");
    }
    for (len, head) in [(0, 256), (1, 256), (1400, 256), (700, 300), (700, 24), (700, 0)] {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        assert_eq!(sender.send(&payload, head), Some(payload), "{len} bytes at {head}");
    }
    let stats = sender.queue.stats();
    assert_eq!((stats.tx_packets, stats.tx_dropped), (6, 0));
}

#[test]
fn the_kernel_completes_it_in_software() {
    require_net_admin!();
    let mut sender = sender(ChecksumOffload::Kernel);
    if !sender.offers {
        return println!("skipped: needs a kernel with AF_XDP transmit metadata");
    }
    assert_eq!(sender.send(b"whole", 256).as_deref(), Some(&b"whole"[..]));
    assert!(sender.whole_on_the_wire());
}

#[test]
fn without_it_nobody_does() {
    require_net_admin!();
    let mut sender = sender(ChecksumOffload::None);
    assert!(!sender.offers);
    sender.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert_eq!(sender.send(b"partial", 256), None, "the kernel drops a wrong checksum");
    assert!(!sender.whole_on_the_wire());
}
