//! Two hosts of weever's, the buffers between them, and the loads.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weever_net::random::Random;
use weever_tcp::{
    Ecn, Endpoint, Id, ListenerConfig, ListenerId, Region, Segment, Settings, TcpConfig, Tuple,
};
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::tcp::{TcpView, fill_checksum};

pub(super) const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const PORT: u16 = 80;
pub(super) const MTU: usize = 1500;
pub(super) const BUFFER: usize = 256 << 10;
pub(super) const MESSAGE: usize = 64;
/// Virtual time of one turn.
pub(super) const TURN: u64 = 10_000;

/// Buffers under way in one direction, and those that are free again.
#[derive(Default)]
pub(super) struct Pipe {
    pub(super) full: VecDeque<Vec<u8>>,
    pub(super) free: Vec<Vec<u8>>,
}

impl Pipe {
    pub(super) fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_else(|| Vec::with_capacity(MTU));
        buffer.resize(len, 0);
        buffer
    }
}

/// An endpoint, and one region each way for all of its connections.
struct Host {
    endpoint: Endpoint,
    send: Region,
    receive: Region,
    /// The application's octets.
    data: Vec<u8>,
}

impl Host {
    fn new(key: u64, connections: usize) -> Self {
        let config = TcpConfig {
            receive_capacity: BUFFER as u32,
            max_connections: connections + 1,
            memory_limit: u64::MAX,
            ..TcpConfig::default()
        };
        let endpoint = Endpoint::new(config, [key, 1], 0);
        let (send, receive) = (Region::new(BUFFER), Region::new(BUFFER));
        Self { endpoint, send, receive, data: vec![7; BUFFER] }
    }

    /// The application writes octets into the send region, and has them sent.
    fn write(&mut self, id: Id, len: u64, now: u64) {
        let at = self.endpoint.get(id).expect("open").queued();
        self.send.write(at, &self.data[..len as usize]);
        self.endpoint.queue(id, len, now);
    }

    fn transmit(&mut self, pipe: &mut Pipe, now: u64) {
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            let len = transmit.len();
            let mut packet = pipe.buffer(20 + len);
            let (IpAddr::V4(src), IpAddr::V4(dst)) = (transmit.tuple.local, transmit.tuple.remote)
            else {
                continue;
            };
            let ip = Ipv4Repr {
                tos: transmit.ecn as u8,
                ident: 0,
                flags_frag: 0x4000,
                ttl: 64,
                protocol: 6,
                src,
                dst,
                payload_len: len as u16,
            };
            ip.emit(&mut packet).expect("room for the header");
            let segment = &mut packet[20..];
            let send = &self.send;
            transmit.emit(segment, |range, out| send.read(range.start, out)).expect("room");
            let both = addresses(src, dst);
            fill_checksum(segment, Pseudo::v4(&both, 6, len as u16));
            pipe.full.push_back(packet);
        }
    }

    /// Takes one packet; its payload is handed to `got`.
    fn receive(&mut self, pipe: &mut Pipe, now: u64, mut got: impl FnMut(&mut Host, Id)) -> bool {
        let Some(packet) = pipe.full.pop_front() else { return false };
        let view = Ipv4View::new(&packet).expect("an IPv4 packet");
        assert!(view.checksum_ok());
        let (src, dst) = (view.header().src(), view.header().dst());
        let segment = view.payload();
        let both = view.header().addresses();
        assert!(Pseudo::v4(&both, 6, segment.len() as u16).verifies(segment));
        let view = TcpView::new(segment).expect("a segment");
        let tuple = Tuple {
            local: dst.into(),
            remote: src.into(),
            local_port: view.header().dst_port(),
            remote_port: view.header().src_port(),
        };
        let segment = Segment::parse(view, Ecn::NotEct).expect("options");
        if let Ok(handled) = self.endpoint.handle(&tuple, &segment, now)
            && let (Some(id), Some(payload)) = (handled.id, handled.payload)
        {
            self.receive.write(payload.offset, &segment.payload[payload.range]);
            got(self, id);
        }
        pipe.free.push(packet);
        true
    }
}

fn addresses(src: Ipv4Addr, dst: Ipv4Addr) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
    [a, b, c, d, e, f, g, h]
}

/// Two hosts of weever's.
pub(crate) struct Weever {
    now: u64,
    /// Virtual time of one turn.
    turn: u64,
    hosts: [Host; 2],
    pipes: [Pipe; 2],
    clients: Vec<Id>,
}

impl Weever {
    pub(crate) fn connected(connections: usize) -> Self {
        let hosts = [Host::new(1, connections), Host::new(2, connections)];
        let (pipes, clients) = (Default::default(), Vec::new());
        let mut pair = Self { now: 1_000_000, turn: TURN, hosts, pipes, clients };
        let listener = pair.hosts[1].endpoint.listen(ListenerConfig::new(PORT)).expect("free");
        for number in 0..connections {
            pair.connect(number, listener);
        }
        pair
    }

    /// Gives each turn so much of virtual time.
    pub(super) fn rest(&mut self, turn: u64) {
        self.turn = turn;
    }

    fn connect(&mut self, number: usize, listener: ListenerId) {
        // Ports are 16,384 for each remote end: further ones are between further addresses.
        let local = Ipv4Addr::from_bits(A.to_bits() + ((number / 10_000) << 8) as u32);
        let (from, to) = (SocketAddr::from((local, 0)), SocketAddr::from((B, PORT)));
        let id = self.hosts[0].endpoint.connect(from, to, self.now).expect("a port");
        while self.turn(|_, _| {}, |_, _| {}) {}
        self.clients.push(id);
        let server = self.hosts[1].endpoint.accept(listener).expect("it is established");
        for (at, id) in [(0, id), (1, server)] {
            let endpoint = &mut self.hosts[at].endpoint;
            let settings = endpoint.get(id).expect("it is there").settings();
            endpoint.set(id, Settings { no_delay: true, ..settings }, self.now);
        }
    }

    /// All that can be done now; whether there was anything.
    fn turn(
        &mut self,
        mut client: impl FnMut(&mut Host, Id),
        mut server: impl FnMut(&mut Host, Id),
    ) -> bool {
        self.now += self.turn;
        let [a, b] = &mut self.hosts;
        let [there, back] = &mut self.pipes;
        for host in [&mut *a, &mut *b] {
            if host.endpoint.next_deadline().is_some_and(|at| at <= self.now) {
                host.endpoint.handle_timeout(self.now);
            }
            while host.endpoint.poll_event().is_some() {}
        }
        a.transmit(there, self.now);
        let mut busy = false;
        while b.receive(there, self.now, &mut server) {
            busy = true;
        }
        b.transmit(back, self.now);
        while a.receive(back, self.now, &mut client) {
            busy = true;
        }
        busy
    }

    pub(crate) fn bulk(&mut self, octets: u64) {
        let client = self.clients[0];
        let start = self.hosts[0].endpoint.get(client).expect("open").queued();
        let mut read = 0;
        while read < octets {
            let connection = self.hosts[0].endpoint.get(client).expect("open");
            let waiting = connection.queued() - connection.acknowledged();
            let len = (BUFFER as u64 - waiting).min(start + octets - connection.queued());
            let now = self.now;
            self.hosts[0].write(client, len, now);
            self.turn(
                |_, _| {},
                |server, id| {
                    let readable = server.endpoint.get(id).expect("open").readable();
                    read += readable.end - readable.start;
                    server.endpoint.consume(id, readable.end - readable.start, now);
                },
            );
        }
    }

    /// So many requests and responses, each on one of the connections.
    pub(crate) fn transactions(&mut self, count: usize, random: &mut Random) {
        for _ in 0..count {
            let which = random.up_to(self.clients.len() as u64 - 1) as usize;
            let mut done = false;
            self.hosts[0].write(self.clients[which], MESSAGE as u64, self.now);
            while !done {
                let now = self.now;
                self.turn(
                    |client, id| {
                        client.endpoint.consume(id, MESSAGE as u64, now);
                        done = true;
                    },
                    |server, id| {
                        server.endpoint.consume(id, MESSAGE as u64, now);
                        server.write(id, MESSAGE as u64, now);
                    },
                );
            }
        }
    }
}
