//! Two hosts of weever's, the buffers between them, and the loads.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use weever_net::random::Random;
use weever_tcp::{
    Ecn, Endpoint, Id, ListenerConfig, ListenerId, Payload, Region, Segment, Settings, TcpConfig,
    Transmit, Tuple,
};
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::tcp::TcpView;

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
    /// Packets that arrived at once.
    burst: Vec<Vec<u8>>,
}

impl Host {
    fn new(key: u64, connections: usize) -> Self {
        let config = TcpConfig {
            receive_capacity: BUFFER as u32,
            max_connections: connections + 1,
            super_segment: BUFFER as u32,
            memory_limit: u64::MAX,
            ..TcpConfig::default()
        };
        let endpoint = Endpoint::new(config, [key, 1], 0);
        let (send, receive) = (Region::new(BUFFER), Region::new(BUFFER));
        Self { endpoint, send, receive, data: vec![7; BUFFER], burst: Vec::new() }
    }

    /// The application writes octets into the send region, and has them sent.
    fn write(&mut self, id: Id, len: u64, now: u64) {
        let at = self.endpoint.get(id).expect("open").queued();
        self.send.write(at, &self.data[..len as usize]);
        self.endpoint.queue(id, len, now);
    }

    fn transmit(&mut self, pipe: &mut Pipe, now: u64) {
        let mut transmit = Transmit::place();
        while pipe.full.len() < BURST && self.endpoint.poll_into(&mut transmit, now) {
            if transmit.is_super() {
                transmit.cut().for_each(|piece| self.write_packet(&piece, pipe));
            } else {
                self.write_packet(&transmit, pipe);
            }
        }
    }

    fn write_packet(&self, transmit: &Transmit, pipe: &mut Pipe) {
        let len = transmit.len();
        let mut packet = pipe.buffer(20 + len);
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (transmit.tuple.local, transmit.tuple.remote)
        else {
            return;
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
        let fill = |range: Range<u64>, out: &mut [u8]| self.send.read(range.start, out);
        transmit.emit(&mut packet[20..], fill).expect("room");
        pipe.full.push_back(packet);
    }

    /// Takes a burst of packets, whose segments are joined where they continue each other; each
    /// connection that got payload is handed to `got`.
    fn receive(&mut self, pipe: &mut Pipe, now: u64, mut got: impl FnMut(&mut Host, Id)) -> bool {
        if pipe.full.is_empty() {
            return false;
        }
        if pipe.full.len() == 1
            && let Some(packet) = pipe.full.pop_front()
        {
            let (tuple, segment) = parse(&packet);
            if let Ok(handled) = self.endpoint.handle(&tuple, &segment, now)
                && let (Some(id), Some(payload)) = (handled.id, handled.payload)
            {
                self.receive.write(payload.offset, &segment.payload[payload.range]);
                got(self, id);
            }
            pipe.free.push(packet);
            return true;
        }
        let mut burst = std::mem::take(&mut self.burst);
        burst.extend(pipe.full.drain(..pipe.full.len().min(BURST)));
        let mut parsed = burst.iter().map(|packet| parse(packet)).enumerate().peekable();
        while let Some((at, (tuple, mut segment))) = parsed.next() {
            let first = segment.payload;
            let mut end = at + 1;
            while let Some((next, _)) =
                parsed.next_if(|(_, (of, next))| *of == tuple && segment.join(next))
            {
                end = next + 1;
            }
            if let Ok(handled) = self.endpoint.handle(&tuple, &segment, now)
                && let (Some(id), Some(payload)) = (handled.id, handled.payload)
            {
                match end - at {
                    1 => self.receive.write(payload.offset, &first[payload.range]),
                    _ => self.keep(&payload, &burst[at..end]),
                }
                got(self, id);
            }
        }
        drop(parsed);
        pipe.free.append(&mut burst);
        self.burst = burst;
        true
    }

    /// Copies the accepted range of the payload of joined packets into the receive region.
    fn keep(&mut self, payload: &Payload, packets: &[Vec<u8>]) {
        let (mut at, Range { start, end }) = (0, payload.range.clone());
        for packet in packets {
            let piece = text(packet);
            let from = start.clamp(at, at + piece.len());
            let until = end.clamp(from, at + piece.len());
            self.receive.write(
                payload.offset + (from - start.min(from)) as u64,
                &piece[from - at..until - at],
            );
            at += piece.len();
        }
    }
}

/// Packets that a host takes at once, as a batch of the graph has them.
pub(super) const BURST: usize = 64;

/// The payload of a packet that was parsed before.
fn text(packet: &[u8]) -> &[u8] {
    &packet[20 + usize::from(packet[32] >> 4) * 4..]
}

/// The ends and the segment of a packet, whose sums are verified.
#[inline(always)]
fn parse(packet: &[u8]) -> (Tuple, Segment<'_>) {
    let view = Ipv4View::new(packet).expect("an IPv4 packet");
    assert!(view.checksum_ok());
    let (header, segment) = (view.header(), view.payload());
    assert!(Pseudo::v4(&header.addresses(), 6, segment.len() as u16).verifies(segment));
    let view = TcpView::new(segment).expect("a segment");
    let tuple = Tuple {
        local: header.dst().into(),
        remote: header.src().into(),
        local_port: view.header().dst_port(),
        remote_port: view.header().src_port(),
    };
    (tuple, Segment::parse(view, Ecn::NotEct).expect("options"))
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
            let which = match self.clients.len() as u64 {
                1 => 0,
                count => random.up_to(count - 1) as usize,
            };
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
