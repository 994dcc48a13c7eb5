//! Applications on a host: their datagrams over a link in memory, driven by hand.

mod death;
mod delivery;
mod options;

use std::net::SocketAddr;

use weever_app_ring::{AppEnd, Geometry, INFO_SIZE, Kind, PacketInfo};
use weever_app_server::{AppServer, Identity, SocketRequest};
use weever_blocks_std::testing::frames::{HOST_MAC, PEER, PEER_MAC, arp, ethernet, udp};
use weever_host::{Host, HostBuilder, InterfaceConfig, Service};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};
use weever_wire::arp::op;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::protocol;

const MILLIS: u64 = 1_000_000;

fn pool() -> Pool {
    let config = PoolConfig { frames: 1024, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::new(config).unwrap()
}

/// A host with one application queue, and the far end of its cable.
struct Bench {
    host: Host,
    server: AppServer,
    queue: u32,
    app: AppEnd,
    frames: PoolCache,
    cable: Box<dyn LinkQueue>,
    now: u64,
}

fn bench() -> Bench {
    let (ours, mut theirs) = pair(&MemoryConfig::default()).unwrap();
    let mut builder = HostBuilder::new(pool());
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link)
        .address("10.0.0.1/24".parse().unwrap())
        .address("2001:db8::1/64".parse().unwrap());
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let large = Pool::new(PoolConfig { huge_pages: HugePages::Never, ..PoolConfig::large(16) });
    let large = large.unwrap();
    let mut server = builder.applications(Some(large), 100).unwrap();
    builder.serve(Service::Echo, 7);
    let host = builder.build(0).unwrap();
    let owner = Identity { name: "test".into(), pid: 1, uid: 0 };
    let mut opened = server.open_queue(owner, Geometry::default()).unwrap();
    let app = AppEnd::map(opened.channels.remove(0)).unwrap();
    let (frames, cable) = (pool().cache(), theirs.take_queues().remove(0));
    Bench { host, server, queue: opened.id, app, frames, cable, now: 0 }
}

impl Bench {
    fn send(&mut self, frame: &[u8]) {
        let mut packet = self.frames.alloc().unwrap();
        assert!(packet.append(frame));
        self.cable.tx(&mut self.frames, &mut [packet].into()).unwrap();
        self.cable.flush(&mut self.frames).unwrap();
        self.run();
    }

    fn run(&mut self) {
        self.now += MILLIS;
        // Turns that carry out the server's requests, and look at a channel that was idle.
        (0..40).for_each(|_| {
            self.host.step(self.now);
        });
        while self.host.step(self.now) {}
    }

    /// Lets so many milliseconds pass.
    fn run_for(&mut self, millis: u64) {
        (0..millis / 10).for_each(|_| {
            self.now += 9 * MILLIS;
            self.run();
        });
    }

    /// IPv4 packets that came to the peer, from the IP header on.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        let count = self.cable.rx(&mut self.frames, &mut burst, 64).unwrap();
        let packets = (0..count).filter_map(|slot| burst.take(slot));
        packets
            .map(|packet| packet.data().to_vec())
            .filter(|frame| frame[12..14] == ethertype::IPV4.to_be_bytes())
            .map(|frame| frame[14..].to_vec())
            .collect()
    }

    fn bind(&mut self, port: u16) -> u32 {
        let request = SocketRequest { local_port: Some(port), ..SocketRequest::default() };
        self.server.open_socket(self.queue, &request).unwrap().id
    }

    /// Has the application send a datagram.
    fn submit(&mut self, socket: u32, info: &PacketInfo, payload: &[u8]) {
        let parts = payload.chunks(1984);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            let mut frame = self.app.alloc().unwrap().unwrap();
            self.app.payload_mut(&mut frame)[..part.len()].copy_from_slice(part);
            let range = (INFO_SIZE, part.len() as u16, (last - i) as u8);
            self.app.submit(frame, socket, info, range).unwrap();
        }
        let _ = self.app.commit().unwrap();
        self.run();
    }

    /// The datagrams that the application has received: socket, sender, payload.
    fn heard(&mut self) -> Vec<(u32, SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(received) = self.app.receive().unwrap() {
            assert_eq!(received.kind, Kind::Data, "{received:?}");
            let payload = self.app.payload(&received).to_vec();
            let frame = received.frame.unwrap();
            all.push((received.socket, self.app.info(&frame).remote, payload));
            self.app.release(frame);
        }
        let _ = self.app.commit().unwrap();
        all
    }

    /// An error that the application was told of: socket, errno, MTU and the peer it is about.
    fn error(&mut self) -> Option<(u32, u16, u16, SocketAddr)> {
        let received = self.app.receive().unwrap()?;
        assert_eq!(received.kind, Kind::Error, "{received:?}");
        let frame = received.frame.unwrap();
        let peer = self.app.info(&frame).remote;
        self.app.release(frame);
        Some((received.socket, received.offset, received.len, peer))
    }
}

#[test]
fn an_application_echoes_a_datagram() {
    let mut bench = bench();
    let socket = bench.bind(53);
    bench.send(&udp(4000, 53, b"question"));
    let received = bench.app.receive().unwrap().unwrap();
    assert_eq!((received.socket, bench.app.payload(&received)), (socket, &b"question"[..]));
    let range = (received.offset, received.len, 0);
    let frame = received.frame.unwrap();
    let info = bench.app.info(&frame);
    assert_eq!(info.remote, (PEER, 4000).into());
    let answer = PacketInfo { remote: info.remote, ..PacketInfo::default() };
    bench.app.submit(frame, socket, &answer, range).unwrap();
    let _ = bench.app.commit().unwrap();
    bench.run();
    let sent = bench.received();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][9], protocol::UDP);
    assert_eq!(sent[0][12..16], [10, 0, 0, 1], "from the route's address");
    assert_eq!(sent[0][20..24], [0, 53, 0x0f, 0xa0], "from its port to the client's");
    assert!(sent[0].ends_with(b"question"));
}

#[test]
fn a_port_is_closed_before_it_is_bound_and_after_the_queue_is_gone() {
    let mut bench = bench();
    let unreachable = |bench: &mut Bench| {
        bench.send(&udp(4000, 53, b"anybody?"));
        bench
            .received()
            .iter()
            .any(|packet| packet[9] == protocol::ICMP && packet[20..22] == [3, 3])
    };
    assert!(unreachable(&mut bench));
    bench.bind(53);
    assert!(!unreachable(&mut bench));
    bench.server.close_queue(bench.queue).unwrap();
    assert!(unreachable(&mut bench));
}

#[test]
fn an_application_cannot_send_from_somebody_elses_address() {
    let mut bench = bench();
    let socket = bench.bind(53);
    let frame = bench.app.alloc().unwrap().unwrap();
    let forged = PacketInfo {
        remote: (PEER, 9).into(),
        local: ([10, 0, 0, 7], 53).into(),
        ..PacketInfo::default()
    };
    bench.app.submit(frame, socket, &forged, (64, 4, 0)).unwrap();
    let _ = bench.app.commit().unwrap();
    bench.run();
    assert_eq!(bench.received(), Vec::<Vec<u8>>::new());
    let readings = bench.host.handle().readings().concat();
    let dropped = readings.iter().find(|r| r.value > 0 && r.label.contains("not ours"));
    assert_eq!(dropped.map(|r| &*r.node), Some("TxL4UDPApplications"));
}

#[test]
fn sockets_open_and_close_without_a_change_of_the_graph() {
    let mut bench = bench();
    let epoch = bench.host.handle().publisher.epoch();
    for port in 2000..2100 {
        bench.bind(port);
    }
    bench.run();
    bench.send(&ethernet(HOST_MAC, PEER_MAC, ethertype::ARP, &[]));
    bench.send(&arp(op::REPLY, (PEER_MAC, PEER), (HOST_MAC, [10, 0, 0, 1].into())));
    bench.send(&udp(4000, 2099, b"x"));
    assert!(bench.app.receive().unwrap().is_some());
    assert_eq!(bench.host.handle().publisher.epoch(), epoch);
}
