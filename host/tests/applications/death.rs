//! Applications that end, or never read: their buffers come back, and others notice nothing.

use weever_app_ring::{AppEnd, Geometry, PacketInfo};
use weever_app_server::{Identity, OpenedQueue, SocketRequest};
use weever_blocks_std::testing::frames::{PEER, udp};
use weever_host::{HostBuilder, InterfaceConfig};
use weever_link::memory::{MemoryConfig, pair};
use weever_net::demux::Sharing;

use crate::{Bench, bench, pool};

const SMALL: Geometry = Geometry { ring_len: 64, frames: 16, frame_size: 256 };

fn owner(name: u32) -> Identity {
    Identity { name: name.to_string(), pid: 1, uid: 0 }
}

/// An application that binds, receives, and sends, and is gone in the middle of it.
fn live_and_die(bench: &mut Bench, number: u32) {
    let OpenedQueue { id, mut channels, .. } =
        bench.server.open_queue(owner(number), SMALL).unwrap();
    let mut end = Some(AppEnd::map(channels.remove(0)).unwrap());
    let port = 2000 + (number % 50) as u16;
    let request = SocketRequest {
        local_port: Some(port),
        sharing: Sharing::Latest,
        ..SocketRequest::default()
    };
    let socket = bench.server.open_socket(id, &request).unwrap().id;
    if number.is_multiple_of(3) {
        bench.server.join(id, socket, [239, 1, 1, 1].into(), None).unwrap();
    }
    if !number.is_multiple_of(5) {
        bench.run();
    }
    for _ in 0..number % 40 {
        bench.send(&udp(4000, port, b"more than it reads"));
    }
    if let Some(app) = &mut end {
        let info = PacketInfo { remote: (PEER, 9).into(), ..PacketInfo::default() };
        for _ in 0..number % 9 {
            let Some(frame) = app.alloc().unwrap() else { break };
            let _ = app.submit(frame, socket, &info, (64, 100, 0));
        }
        let _ = app.commit().unwrap();
    }
    if number.is_multiple_of(2) {
        // Its memory goes before the stack has noticed.
        end = None;
        bench.send(&udp(4000, port, b"to a dead one"));
    }
    if number.is_multiple_of(7) {
        bench.server.close_socket(id, socket).unwrap();
    }
    bench.server.close_queue(id).unwrap();
    if number.is_multiple_of(4) {
        bench.run();
    }
    drop(end);
    bench.received();
}

#[test]
fn a_thousand_applications_come_and_go_under_traffic_and_every_buffer_comes_home() {
    let mut bench = bench();
    let echo = bench.bind(53);
    for number in 0..1000 {
        live_and_die(&mut bench, number);
        if number % 100 == 0 {
            bench.send(&udp(4000, 53, b"still there?"));
            assert_eq!(bench.heard().len(), 1, "after {number}");
        }
    }
    bench.run();
    let open: Vec<u32> = bench.server.sockets().map(|socket| socket.id).collect();
    assert_eq!(open, [echo]);
    let pool = bench.host.handle().pool.clone();
    let Bench { host, cable, frames, .. } = bench;
    drop((host, cable, frames));
    assert_eq!(pool.available(), pool.frames(), "every buffer came home");
}

#[test]
fn one_that_never_reads_is_bounded_and_costs_its_own_only() {
    let mut bench = bench();
    let quick = bench.bind(53);
    let OpenedQueue { id, mut channels, .. } = bench.server.open_queue(owner(2), SMALL).unwrap();
    let _never_read = AppEnd::map(channels.remove(0)).unwrap();
    let request = SocketRequest { local_port: Some(54), ..SocketRequest::default() };
    let slow = bench.server.open_socket(id, &request).unwrap().id;
    for _ in 0..500 {
        bench.send(&udp(4000, 54, b"x"));
        bench.send(&udp(4000, 53, b"y"));
        assert_eq!(bench.heard().len(), 1);
    }
    let counts = |id| bench.server.sockets().find(|socket| socket.id == id).unwrap().counts;
    let (of_slow, of_quick) = (counts(slow), counts(quick));
    assert_eq!((of_slow.delivered, of_slow.ring_full + of_slow.no_frame), (8, 492));
    assert_eq!((of_quick.delivered, of_quick.ring_full + of_quick.no_frame), (500, 0));
}

#[test]
fn ten_thousand_sockets_of_one_that_ends_at_once_are_closed_while_workers_run() {
    let (ours, _theirs) = pair(&MemoryConfig::default()).unwrap();
    let mut builder = HostBuilder::new(pool());
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap());
    builder.interface(eth0).unwrap();
    let mut server = builder.applications(None, 20_000).unwrap();
    let running = builder.start().unwrap();
    for round in 0..3 {
        let opened = server.open_queue(owner(round), SMALL).unwrap();
        for port in 10_000..20_000 {
            let request = SocketRequest { local_port: Some(port), ..SocketRequest::default() };
            server.open_socket(opened.id, &request).unwrap();
        }
        assert_eq!(server.socket_count(), 10_000);
        server.close_queue(opened.id).unwrap();
        assert_eq!((server.socket_count(), server.queues().count()), (0, 0));
    }
    server.settle().unwrap();
    drop(running.stop());
}
