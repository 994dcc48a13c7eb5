//! A worker's loop by hand, with real channels and an application on their other end.

mod flows;
mod moves;
mod ports;
mod sharing;
mod strangers;
mod streams;
mod trust;
mod urgent;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use weever_app_ring::{AppEnd, Geometry, INFO_SIZE, Kind, PacketInfo};
use weever_link::{Link, LinkQueue};
use weever_net::demux::{FlowKey, Sharing};
use weever_net::stream::StreamPort;
use weever_packet::{Buffer, Burst, Endpoints, Flags, Pool, PoolCache, PoolConfig};

use crate::{
    AppLink, AppServer, HostNetwork, Identity, OpenedQueue, ServerError, SharedTable, SocketCounts,
    SocketRequest,
};

const GEOMETRY: Geometry = Geometry { ring_len: 64, frames: 32, frame_size: 2048 };

/// One worker, driven by the test.
struct Bench {
    server: AppServer,
    queue: Box<dyn LinkQueue>,
    table: SharedTable,
    port: Arc<dyn StreamPort>,
    pool: Pool,
    cache: PoolCache,
    burst: Box<Burst>,
    joined: Joined,
}

/// A network with 192.0.2.1 on `eth0`, number 4, and the groups that were joined.
#[derive(Clone, Default)]
struct Joined(Arc<Mutex<BTreeSet<(u16, IpAddr)>>>);

impl HostNetwork for Joined {
    fn interface(&self, name: &str) -> Option<u16> {
        (name == "eth0").then_some(4)
    }
    fn interface_name(&self, interface: u16) -> Option<String> {
        (interface == 4).then(|| "eth0".into())
    }
    fn interface_to(&self, group: IpAddr) -> Option<u16> {
        group.is_ipv4().then_some(4)
    }
    fn source_to(&self, _address: IpAddr) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, 1]))
    }
    fn has_address(&self, address: IpAddr) -> bool {
        address == IpAddr::from([192, 0, 2, 1])
    }
    fn set_member(&self, interface: u16, group: IpAddr, member: bool) -> Result<(), String> {
        let mut joined = self.0.lock().unwrap();
        let changed = match member {
            true => joined.insert((interface, group)),
            false => joined.remove(&(interface, group)),
        };
        assert!(changed, "joined with the first, left with the last");
        Ok(())
    }
}

fn bench() -> Bench {
    let pool = Pool::shareable(PoolConfig { frames: 128, ..PoolConfig::default() }).unwrap();
    let large = Pool::new(PoolConfig::large(64)).unwrap();
    let joined = Joined::default();
    let (mut link, server) =
        AppLink::new(1, Some(large), Box::new(joined.clone()), [1, 2, 3, 4], 1000).unwrap();
    let table = link.tables()[0].clone();
    let port = Arc::clone(&link.stream_ports()[0]);
    let queue = link.take_queues().remove(0);
    let cache = pool.cache();
    Bench { server, queue, table, port, pool, cache, burst: Box::new(Burst::new()), joined }
}

fn identity(uid: u32) -> Identity {
    Identity { name: "test".into(), pid: 1, uid }
}

impl Bench {
    fn open(&mut self) -> (u32, AppEnd) {
        let (id, _, app) = self.open_with_key();
        (id, app)
    }

    fn open_with_key(&mut self) -> (u32, u64, AppEnd) {
        let opened = self.server.open_queue(identity(0), GEOMETRY).unwrap();
        let OpenedQueue { id, key, mut channels, .. } = opened;
        (id, key, AppEnd::map(channels.remove(0)).unwrap())
    }

    fn bind(&mut self, queue: u32, port: u16) -> u32 {
        let request = SocketRequest { local_port: Some(port), ..SocketRequest::default() };
        self.server.open_socket(queue, &request).unwrap().id
    }

    /// The worker's turn, as far as this link is concerned.
    fn turn(&mut self, packets: Vec<Buffer>) -> Vec<Buffer> {
        self.queue.advance(0);
        let received = self.queue.rx(&mut self.cache, &mut self.burst, 64).unwrap();
        let mut packets = VecDeque::from(packets);
        self.queue.tx(&mut self.cache, &mut packets).unwrap();
        assert!(packets.is_empty(), "applications hold nobody back");
        self.queue.flush(&mut self.cache).unwrap();
        (0..received).map(|i| self.burst.take(i).unwrap()).collect()
    }

    fn found(&self, port: u16) -> Option<u32> {
        let here: IpAddr = [192, 0, 2, 1].into();
        let there: IpAddr = [192, 0, 2, 2].into();
        self.table.borrow().find(&FlowKey::new((here, port), (there, 9), 0), 0).map(|s| s.id)
    }

    fn counts(&self, socket: u32) -> SocketCounts {
        self.server.sockets().find(|status| status.id == socket).unwrap().counts
    }

    /// A packet as the deliver node hands it over.
    fn datagram(&mut self, socket: u32, payload: &[u8]) -> Buffer {
        let mut packet = self.cache.alloc().unwrap();
        assert!(packet.append(payload));
        let (start, end) = (packet.head(), packet.head() + packet.len() as u16);
        let meta = packet.meta_mut();
        (meta.l4, meta.end) = (start, end);
        meta.entry = socket;
        meta.flags = Flags::ENDPOINTS;
        meta.endpoints = Endpoints {
            local: Endpoints::mapped(0xc000_0201),
            remote: Endpoints::mapped(0xc000_0202),
            local_port: 53,
            remote_port: 9,
            ttl: 60,
            ..Endpoints::default()
        };
        packet
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 9))
}

#[test]
fn a_datagram_comes_and_its_answer_goes() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let socket = bench.bind(queue, 53);
    bench.turn(Vec::new());
    assert_eq!(bench.found(53), Some(socket));

    let packet = bench.datagram(socket, b"question");
    bench.turn(vec![packet]);
    let received = app.receive().unwrap().unwrap();
    assert_eq!((received.socket, app.payload(&received)), (socket, &b"question"[..]));
    let (offset, len) = (received.offset, received.len);
    let frame = received.frame.unwrap();
    let info = app.info(&frame);
    assert_eq!((info.remote, info.local.port(), info.hops), (peer(), 53, 60));
    app.submit(
        frame,
        socket,
        &PacketInfo { remote: info.remote, ..PacketInfo::default() },
        (offset, len, 0),
    )
    .unwrap();
    let _ = app.commit().unwrap();

    let sent = bench.turn(Vec::new());
    let ends = sent[0].meta().endpoints;
    assert_eq!(sent[0].data(), b"question");
    assert_eq!((ends.local_port, ends.remote_port, ends.protocol, ends.ttl), (53, 9, 17, 0));
    assert_eq!(ends.remote, Endpoints::mapped(0xc000_0202));
    assert_eq!(ends.local, Endpoints::mapped(0), "the graph chooses");
    let counts = bench.counts(socket);
    assert_eq!((counts.delivered, counts.sent), (1, 1));
}

#[test]
fn what_was_sent_before_a_close_or_an_end_is_sent() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let (first, second) = (bench.bind(queue, 53), bench.bind(queue, 54));
    let _ = bench.turn(Vec::new());
    let mut send = |socket| {
        let frame = app.alloc().unwrap().unwrap();
        let info = PacketInfo { remote: peer(), ..PacketInfo::default() };
        app.submit(frame, socket, &info, (INFO_SIZE, 4, 0)).unwrap();
        let _ = app.commit().unwrap();
    };
    send(first);
    bench.server.close_socket(queue, first).unwrap();
    assert_eq!(bench.turn(Vec::new()).len(), 1);
    let _ = bench.turn(Vec::new());
    assert_eq!((bench.found(53), bench.found(54)), (None, Some(second)));
    send(second);
    bench.server.close_queue(queue).unwrap();
    assert_eq!(bench.turn(Vec::new()).len(), 1);
    let _ = bench.turn(Vec::new());
    assert_eq!(bench.found(54), None);
    assert_eq!(bench.queue.stats().rx_invalid, 0);
}

#[test]
fn a_device_that_sends_nothing_holds_up_no_close_for_long() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let socket = bench.bind(queue, 53);
    let _ = bench.turn(Vec::new());
    let frame = app.alloc().unwrap().unwrap();
    let info = PacketInfo { remote: peer(), ..PacketInfo::default() };
    app.submit(frame, socket, &info, (INFO_SIZE, 4, 0)).unwrap();
    let _ = app.commit().unwrap();
    bench.server.close_socket(queue, socket).unwrap();
    let other = bench.bind(queue, 54);
    // Turns in which the link is not asked for packets.
    for now in [7, 100_000_006] {
        bench.queue.advance(now);
        assert_eq!((bench.found(53), bench.found(54)), (Some(socket), None));
    }
    bench.queue.advance(100_000_007);
    assert_eq!((bench.found(53), bench.found(54)), (None, Some(other)));
    assert!(bench.turn(Vec::new()).is_empty());
    assert_eq!(bench.queue.stats().rx_invalid, 1, "counted");
}

#[test]
fn nobody_sends_by_a_socket_of_another_or_without_a_destination() {
    let mut bench = bench();
    let (mine, _app) = bench.open();
    let (_theirs, mut thief) = bench.open();
    let socket = bench.bind(mine, 53);
    let mut send = |bench: &mut Bench, info: PacketInfo| {
        let frame = thief.alloc().unwrap().unwrap();
        thief.submit(frame, socket, &info, (INFO_SIZE, 4, 0)).unwrap();
        let _ = thief.commit().unwrap();
        bench.turn(Vec::new()).len()
    };
    let info = PacketInfo { remote: peer(), ..PacketInfo::default() };
    assert_eq!(send(&mut bench, info), 0);
    assert_eq!(bench.queue.stats().rx_invalid, 1);
    assert_eq!(bench.counts(socket), SocketCounts::default(), "not counted against the victim");
}

#[test]
fn endpoints_come_from_the_socket_and_are_not_for_the_application_to_forge() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let connected = SocketRequest {
        local_addr: Some([192, 0, 2, 1].into()),
        peer: Some(peer()),
        ..SocketRequest::default()
    };
    let opened = bench.server.open_socket(queue, &connected).unwrap();
    let mut send = |bench: &mut Bench, info: PacketInfo| {
        let frame = app.alloc().unwrap().unwrap();
        app.submit(frame, opened.id, &info, (INFO_SIZE, 4, 0)).unwrap();
        let _ = app.commit().unwrap();
        bench.turn(Vec::new()).first().map(|sent| sent.meta().endpoints)
    };
    let ends = send(&mut bench, PacketInfo::default()).unwrap();
    assert_eq!((ends.local_port, ends.remote_port), (opened.local_port, 9));
    assert_eq!(ends.local, Endpoints::mapped(0xc000_0201));
    let forged =
        PacketInfo { local: SocketAddr::from(([203, 0, 113, 1], 53)), ..PacketInfo::default() };
    let ends = send(&mut bench, forged).unwrap();
    assert_eq!((ends.local_port, ends.local), (opened.local_port, Endpoints::mapped(0xc000_0201)));
    let six = PacketInfo { remote: "[2001:db8::1]:9".parse().unwrap(), ..PacketInfo::default() };
    assert!(send(&mut bench, six).is_none(), "another family than its own address");
    assert_eq!(bench.counts(opened.id).refused, 1);
}

#[test]
fn datagrams_longer_than_a_frame_go_both_ways() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let socket = bench.bind(queue, 53);
    let payload: Vec<u8> = (0..5000).map(|i| i as u8).collect();
    for (i, part) in payload.chunks(1984).enumerate() {
        let mut frame = app.alloc().unwrap().unwrap();
        app.payload_mut(&mut frame)[..part.len()].copy_from_slice(part);
        let info = PacketInfo { remote: peer(), ..PacketInfo::default() };
        app.submit(frame, socket, &info, (INFO_SIZE, part.len() as u16, 2 - i as u8)).unwrap();
    }
    let _ = app.commit().unwrap();
    let sent = bench.turn(Vec::new());
    assert_eq!(sent[0].data(), payload);
    let mut back = sent.into_iter().next().unwrap();
    let (start, end) = (back.head(), back.head() + back.len() as u16);
    let meta = back.meta_mut();
    (meta.l4, meta.end, meta.entry) = (start, end, socket);
    bench.turn(vec![back]);
    let mut got = Vec::new();
    while let Some(received) = app.receive().unwrap() {
        got.extend_from_slice(app.payload(&received));
    }
    assert_eq!(got, payload);
}

#[test]
fn an_application_that_does_not_read_loses_only_its_own() {
    let mut bench = bench();
    let (slow, _app) = bench.open();
    let (quick, mut app) = bench.open();
    let (slow, quick) = (bench.bind(slow, 1053), bench.bind(quick, 1054));
    bench.turn(Vec::new());
    let mut got = 0;
    for _ in 0..100 {
        let packets = vec![bench.datagram(slow, b"x"), bench.datagram(quick, b"y")];
        bench.turn(packets);
        while let Some(received) = app.receive().unwrap() {
            app.release(received.frame.unwrap());
            got += 1;
        }
        let _ = app.commit().unwrap();
    }
    assert_eq!((got, bench.counts(quick).delivered), (100, 100));
    let counts = bench.counts(slow);
    assert_eq!((counts.delivered, counts.no_frame + counts.ring_full), (16, 84));
    bench.turn(Vec::new());
    drop(bench.cache);
    drop(bench.burst);
    drop(bench.queue);
    assert_eq!(bench.pool.available(), bench.pool.frames(), "every frame came home");
}

#[test]
fn a_closed_queue_takes_its_sockets_along_and_frees_its_ports() {
    let mut bench = bench();
    let (queue, _app) = bench.open();
    let (other, _other_app) = bench.open();
    let socket = bench.bind(queue, 53);
    let kept = bench.bind(other, 54);
    let request = SocketRequest { local_port: Some(53), ..SocketRequest::default() };
    let error = bench.server.open_socket(other, &request).unwrap_err();
    assert!(error.to_string().contains(&format!("socket {socket}")), "{error}");
    bench.server.close_queue(queue).unwrap();
    assert!(matches!(bench.server.close_queue(queue), Err(ServerError::NoQueue(_))));
    let late = bench.datagram(socket, b"late");
    bench.turn(vec![late]);
    assert_eq!((bench.found(53), bench.found(54)), (None, Some(kept)));
    assert_eq!(bench.queue.stats().tx_dropped, 1);
    bench.server.open_socket(other, &request).unwrap();
    assert!(matches!(bench.server.close_socket(other, socket), Err(ServerError::NoSocket(_))));
}

#[test]
fn applications_have_no_more_memory_together_than_they_may() {
    let mut bench = bench();
    let each = GEOMETRY.total_size();
    bench.server.set_memory(2 * each + each / 2);
    let (first, _app) = bench.open();
    let _second = bench.open();
    let refused = bench.server.open_queue(identity(0), GEOMETRY).unwrap_err();
    assert!(matches!(refused, ServerError::Memory { queues: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("raise `apps-memory`"), "{refused}");
    bench.server.close_queue(first).unwrap();
    let refused = bench.server.open_queue(identity(0), GEOMETRY).unwrap_err();
    assert!(
        matches!(refused, ServerError::Memory { queues: 2, .. }),
        "its worker has it: {refused}"
    );
    bench.turn(Vec::new());
    bench.open();
}

#[test]
fn who_may_bind_what() {
    let mut bench = bench();
    let user = bench.server.open_queue(identity(1000), GEOMETRY).unwrap().id;
    let port = |port| SocketRequest { local_port: Some(port), ..SocketRequest::default() };
    let refused = bench.server.open_socket(user, &port(53));
    assert!(matches!(refused, Err(ServerError::Privileged { port: 53, first: 1024 })));
    bench.server.set_first_port(53);
    assert!(bench.server.open_socket(user, &port(53)).is_ok());
    assert!(bench.server.open_socket(user, &port(52)).is_err());
    bench.server.open_socket(user, &port(5353)).unwrap();
    let shared = SocketRequest { sharing: Sharing::ByFlow, ..port(6000) };
    bench.server.open_socket(user, &shared).unwrap();
    let root = bench.server.open_queue(identity(0), GEOMETRY).unwrap().id;
    assert!(matches!(bench.server.open_socket(root, &shared), Err(ServerError::Bind(_))));
    let nobody = SocketRequest { peer: Some(SocketAddr::from(([0, 0, 0, 0], 9))), ..port(0) };
    let nobody = SocketRequest { local_port: None, ..nobody };
    assert!(matches!(bench.server.open_socket(user, &nobody), Err(ServerError::Peer(_))));
}

#[test]
fn thousands_of_sockets_are_opened_without_the_worker_waiting() {
    let mut bench = bench();
    let (queue, _app) = bench.open();
    let sockets: Vec<u32> = (0..999).map(|i| bench.bind(queue, 2000 + i)).collect();
    let request = SocketRequest { local_port: Some(4000), ..SocketRequest::default() };
    assert!(bench.server.open_socket(queue, &request).is_ok());
    assert!(matches!(
        bench
            .server
            .open_socket(queue, &SocketRequest { local_port: Some(4001), ..request.clone() }),
        Err(ServerError::Sockets(1000))
    ));
    for _ in 0..10 {
        bench.turn(Vec::new());
    }
    assert_eq!(bench.table.borrow().len(), 1000);
    assert_eq!(bench.found(2998), Some(sockets[998]));
}

#[test]
fn a_worker_that_wants_to_sleep_is_told_of_what_came_meanwhile() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let socket = bench.bind(queue, 53);
    assert!(!bench.queue.prepare_to_sleep(), "commands wait");
    bench.queue.end_sleep();
    bench.turn(Vec::new());
    assert!(bench.queue.prepare_to_sleep());
    let frame = app.alloc().unwrap().unwrap();
    let info = PacketInfo { remote: peer(), ..PacketInfo::default() };
    app.submit(frame, socket, &info, (INFO_SIZE, 1, 0)).unwrap();
    assert!(app.commit().unwrap(), "the worker has to be woken");
    bench.queue.end_sleep();
    assert!(!bench.queue.prepare_to_sleep(), "there is a datagram to send");
    bench.queue.end_sleep();
    assert_eq!(bench.turn(Vec::new()).len(), 1);
}

#[test]
fn members_of_a_group_receive_what_comes_to_it_and_nobody_else() {
    let mut bench = bench();
    let (queue, _app) = bench.open();
    let (other, _other_app) = bench.open();
    let group = IpAddr::from([239, 1, 1, 1]);
    let request = SocketRequest {
        local_port: Some(5353),
        sharing: Sharing::Latest,
        ..SocketRequest::default()
    };
    let sockets =
        [queue, queue, other].map(|queue| bench.server.open_socket(queue, &request).unwrap().id);
    let heard = |bench: &mut Bench| {
        bench.turn(Vec::new());
        let packet = FlowKey::new((group, 5353), ([192, 0, 2, 2].into(), 9), 4);
        let mut heard = Vec::new();
        bench.table.borrow().for_each(&packet, |socket| heard.push(socket.id));
        heard
    };
    assert!(heard(&mut bench).is_empty(), "nobody has joined");
    bench.server.join(queue, sockets[0], group, None).unwrap();
    bench.server.join(queue, sockets[0], group, Some("eth0")).unwrap();
    bench.server.join(other, sockets[2], group, Some("eth0")).unwrap();
    assert_eq!(heard(&mut bench), [sockets[0], sockets[2]], "once each");
    assert_eq!(bench.joined.0.lock().unwrap().len(), 1);
    bench.server.leave(queue, sockets[0], group, None).unwrap();
    assert_eq!(heard(&mut bench), [sockets[2]]);
    let error = bench.server.leave(queue, sockets[0], group, None).unwrap_err();
    assert!(matches!(error, ServerError::NotJoined { .. }), "{error}");
    let error = bench.server.join(queue, sockets[2], group, None).unwrap_err();
    assert!(matches!(error, ServerError::NoSocket(_)), "another's: {error}");
    let error = bench.server.join(queue, sockets[0], [192, 0, 2, 9].into(), None).unwrap_err();
    assert!(error.to_string().contains("no multicast address"), "{error}");
    let error = bench.server.join(queue, sockets[0], group, Some("eth7")).unwrap_err();
    assert!(error.to_string().contains("`eth7`"), "{error}");
    bench.server.close_queue(other).unwrap();
    assert!(heard(&mut bench).is_empty());
    assert_eq!(bench.joined.0.lock().unwrap().len(), 0, "the last has left");
}

#[test]
fn only_what_is_ours_can_be_bound() {
    let mut bench = bench();
    let (queue, _app) = bench.open();
    let request = |addr: [u8; 4], interface: Option<&str>| SocketRequest {
        local_addr: Some(addr.into()),
        local_port: Some(2000),
        interface: interface.map(Into::into),
        ..SocketRequest::default()
    };
    let error = bench.server.open_socket(queue, &request([192, 0, 2, 7], None)).unwrap_err();
    assert!(matches!(error, ServerError::NotOurs(_)), "{error}");
    let error = bench.server.open_socket(queue, &request([192, 0, 2, 1], Some("x"))).unwrap_err();
    assert!(matches!(error, ServerError::Interface(_)), "{error}");
    bench.server.open_socket(queue, &request([192, 0, 2, 1], Some("eth0"))).unwrap();
    bench.turn(Vec::new());
    let key = |interface| {
        FlowKey::new(([192, 0, 2, 1].into(), 2000), ([192, 0, 2, 2].into(), 9), interface)
    };
    let table = bench.table.borrow();
    assert!(table.find(&key(4), 0).is_some() && table.find(&key(5), 0).is_none());
}

#[test]
fn an_error_about_a_datagram_is_told_to_its_socket_with_both_ends() {
    let mut bench = bench();
    let (queue, mut app) = bench.open();
    let socket = bench.bind(queue, 53);
    let mut packet = bench.datagram(socket, b"quoted by an error");
    let meta = packet.meta_mut();
    meta.flags = meta.flags.with(Flags::ERROR);
    (meta.vlan, meta.segment) = (90, 1400);
    bench.turn(vec![packet]);
    let event = app.receive().unwrap().unwrap();
    assert_eq!((event.kind, event.offset, event.len), (Kind::Error, 90, 1400));
    let info = app.info(event.frame.as_ref().unwrap());
    assert_eq!((info.remote, info.local.port()), (peer(), 53));
    assert_eq!(bench.counts(socket).errors, 1);
    assert_eq!(bench.counts(socket).delivered, 0);
}
