//! The engine beside smoltcp, in memory and on one thread: IPv4 packets in buffers, all checksums written
//! and verified, payload copied out of and into the applications' regions.
//!
//! `cargo run --release -p weever-tcp --example in_memory` prints one line of JSON with the ratios
//! `bulk_vs_smoltcp` and `rr_vs_smoltcp` (more is better) and `rr_growth` (less is better), each the
//! median of rounds in which both sides take turns.
//!
//! With `SIDE-LOAD COUNT` (`weever-bulk 4`, `smoltcp-rr 1000`, `weever-random-100000 1000`) it does that
//! alone: COUNT MiB or transactions, for a profiler that counts instructions.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant as Clock;

use smoltcp::iface::{Config as IfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use weever_net::random::Random;
use weever_tcp::{
    Config, Ecn, Endpoint, Id, ListenerConfig, ListenerId, Region, Segment, Settings, Tuple,
};
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::tcp::{TcpView, fill_checksum};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 80;
const MTU: usize = 1500;
const BUFFER: usize = 256 << 10;
const MESSAGE: usize = 64;
/// Virtual time of one turn.
const TURN: u64 = 10_000;

/// Buffers under way in one direction, and those that are free again.
#[derive(Default)]
struct Pipe {
    full: VecDeque<Vec<u8>>,
    free: Vec<Vec<u8>>,
}

impl Pipe {
    fn buffer(&mut self, len: usize) -> Vec<u8> {
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
}

impl Host {
    fn new(key: u64, connections: usize) -> Self {
        let config = Config {
            receive_capacity: BUFFER as u32,
            max_connections: connections + 1,
            memory_limit: u64::MAX,
            ..Config::default()
        };
        let endpoint = Endpoint::new(config, [key, 1], 0);
        Self { endpoint, send: Region::new(BUFFER), receive: Region::new(BUFFER) }
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
    fn receive(
        &mut self,
        pipe: &mut Pipe,
        now: u64,
        mut got: impl FnMut(&mut Endpoint, Id),
    ) -> bool {
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
            got(&mut self.endpoint, id);
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
struct Weever {
    now: u64,
    /// Virtual time of one turn.
    turn: u64,
    hosts: [Host; 2],
    pipes: [Pipe; 2],
    clients: Vec<Id>,
    servers: Vec<Id>,
}

impl Weever {
    fn connected(connections: usize) -> Self {
        let hosts = [Host::new(1, connections), Host::new(2, connections)];
        let (pipes, clients, servers) = (Default::default(), Vec::new(), Vec::new());
        let mut pair = Self { now: 1_000_000, turn: TURN, hosts, pipes, clients, servers };
        let listener = pair.hosts[1].endpoint.listen(ListenerConfig::new(PORT)).expect("free");
        for number in 0..connections {
            pair.connect(number, listener);
        }
        pair
    }

    fn connect(&mut self, number: usize, listener: ListenerId) {
        // Ports are 16,384 for each remote end: further ones are between further addresses.
        let local = Ipv4Addr::from_bits(A.to_bits() + ((number / 10_000) << 8) as u32);
        let (from, to) = (SocketAddr::from((local, 0)), SocketAddr::from((B, PORT)));
        let id = self.hosts[0].endpoint.connect(from, to, self.now).expect("a port");
        while self.turn(|_, _| {}, |_, _| {}) {}
        self.clients.push(id);
        self.servers.push(self.hosts[1].endpoint.accept(listener).expect("it is established"));
        for (at, id) in [(0, id), (1, *self.servers.last().expect("just added"))] {
            let endpoint = &mut self.hosts[at].endpoint;
            let settings = endpoint.get(id).expect("it is there").settings();
            endpoint.set(id, Settings { no_delay: true, ..settings }, self.now);
        }
    }

    /// All that can be done now; whether there was anything.
    fn turn(
        &mut self,
        mut client: impl FnMut(&mut Endpoint, Id),
        mut server: impl FnMut(&mut Endpoint, Id),
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

    fn bulk(&mut self, octets: u64) {
        let (client, server) = (self.clients[0], self.servers[0]);
        let start = self.hosts[0].endpoint.get(client).expect("open").queued();
        let mut read = 0;
        while read < octets {
            let connection = self.hosts[0].endpoint.get(client).expect("open");
            let waiting = connection.queued() - connection.acknowledged();
            let len = (BUFFER as u64 - waiting).min(start + octets - connection.queued());
            let now = self.now;
            self.hosts[0].endpoint.queue(client, len, now);
            self.turn(
                |_, _| {},
                |endpoint, id| {
                    let readable = endpoint.get(id).expect("open").readable();
                    read += readable.end - readable.start;
                    endpoint.consume(id, readable.end - readable.start, now);
                },
            );
        }
        let _ = server;
    }

    /// So many requests and responses, each on one of the connections.
    fn transactions(&mut self, count: usize, random: &mut Random) {
        for _ in 0..count {
            let which = random.up_to(self.clients.len() as u64 - 1) as usize;
            let mut done = false;
            self.hosts[0].endpoint.queue(self.clients[which], MESSAGE as u64, self.now);
            while !done {
                let now = self.now;
                self.turn(
                    |endpoint, id| {
                        endpoint.consume(id, MESSAGE as u64, now);
                        done = true;
                    },
                    |endpoint, id| {
                        endpoint.consume(id, MESSAGE as u64, now);
                        endpoint.queue(id, MESSAGE as u64, now);
                    },
                );
            }
        }
    }
}

/// smoltcp's device: packets without a link layer.
#[derive(Default)]
struct Port {
    rx: Pipe,
    tx: Pipe,
}

struct Rx<'a>(Vec<u8>, &'a mut Vec<Vec<u8>>);
struct Tx<'a>(&'a mut Pipe);

impl RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let done = f(&self.0);
        self.1.push(self.0);
        done
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.0.buffer(len);
        let done = f(&mut packet);
        self.0.full.push_back(packet);
        done
    }
}

impl Device for Port {
    type RxToken<'a> = Rx<'a>;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx<'_>, Tx<'_>)> {
        let packet = self.rx.full.pop_front()?;
        Some((Rx(packet, &mut self.rx.free), Tx(&mut self.tx)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

struct Theirs {
    iface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    port: Port,
}

impl Theirs {
    fn new(address: Ipv4Addr) -> Self {
        let mut port = Port::default();
        let config = IfaceConfig::new(HardwareAddress::Ip);
        let mut iface = Interface::new(config, &mut port, Instant::ZERO);
        iface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(IpAddress::Ipv4(address), 24));
        });
        let mut sockets = SocketSet::new(vec![]);
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        let socket = sockets.add(socket);
        Self { iface, sockets, socket, port }
    }

    fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }
}

/// Two hosts of smoltcp's.
struct Smoltcp {
    now: u64,
    hosts: [Theirs; 2],
    data: Vec<u8>,
}

impl Smoltcp {
    fn connected() -> Self {
        let hosts = [Theirs::new(A), Theirs::new(B)];
        let mut pair = Self { now: 1_000_000, hosts, data: vec![7; BUFFER] };
        pair.hosts[1].tcp().listen(PORT).expect("free");
        let client = &mut pair.hosts[0];
        let context = client.iface.context();
        let socket = client.sockets.get_mut::<tcp::Socket<'_>>(client.socket);
        socket.connect(context, (IpAddress::Ipv4(B), PORT), 50_000).expect("free");
        while !pair.hosts[0].tcp().may_send() || !pair.hosts[1].tcp().may_send() {
            pair.turn();
        }
        pair
    }

    fn turn(&mut self) {
        self.now += TURN;
        let now = Instant::from_micros((self.now / 1000) as i64);
        let [a, b] = &mut self.hosts;
        a.iface.poll(now, &mut a.port, &mut a.sockets);
        hand_over(&mut a.port, &mut b.port);
        b.iface.poll(now, &mut b.port, &mut b.sockets);
        hand_over(&mut b.port, &mut a.port);
    }

    fn bulk(&mut self, octets: u64) {
        let (mut sent, mut read) = (0, 0);
        while read < octets {
            let most = usize::try_from(octets - sent).unwrap_or(BUFFER).min(BUFFER);
            if most > 0 {
                sent += self.hosts[0].tcp().send_slice(&self.data[..most]).unwrap_or(0) as u64;
            }
            self.turn();
            read += self.read_all(1);
        }
    }

    fn read_all(&mut self, at: usize) -> u64 {
        let (socket, mut read) = (self.hosts[at].tcp(), 0);
        while socket.can_recv() {
            read += socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0) as u64;
        }
        read
    }

    fn transactions(&mut self, count: usize) {
        for _ in 0..count {
            let _ = self.hosts[0].tcp().send_slice(&self.data[..MESSAGE]);
            let (mut asked, mut answered) = (0, 0);
            while answered < MESSAGE as u64 {
                self.turn();
                asked += self.read_all(1);
                if asked >= MESSAGE as u64 {
                    asked = 0;
                    let _ = self.hosts[1].tcp().send_slice(&self.data[..MESSAGE]);
                }
                answered += self.read_all(0);
            }
        }
    }
}

fn hand_over(from: &mut Port, to: &mut Port) {
    std::mem::swap(&mut from.tx.free, &mut to.rx.free);
    to.rx.full.append(&mut from.tx.full);
}

/// Seconds that it took.
fn timed(work: impl FnOnce()) -> f64 {
    let began = Clock::now();
    work();
    began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

const ROUNDS: usize = 11;

/// One load of one side, for a profiler. Connecting is small beside it, or is subtracted by counting
/// twice.
fn alone(what: &str, count: usize) {
    let mut random = Random::new(5);
    let octets = (count as u64) << 20;
    match what {
        "weever-bulk" => Weever::connected(1).bulk(octets),
        "smoltcp-bulk" => Smoltcp::connected().bulk(octets),
        "weever-rr" => Weever::connected(1).transactions(count, &mut random),
        "smoltcp-rr" => Smoltcp::connected().transactions(count),
        _ => match what.strip_prefix("weever-random-").and_then(|many| many.parse().ok()) {
            Some(many) => Weever::connected(many).transactions(count, &mut random),
            None => {
                eprintln!(
                    "{what}: the loads are weever-bulk, smoltcp-bulk, weever-rr, smoltcp-rr, weever-random-N"
                );
                std::process::exit(2);
            }
        },
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let Some(what) = arguments.next() {
        let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
        return alone(&what, count);
    }
    ratios();
}

fn ratios() {
    let bulk = median({
        let (mut ours, mut theirs) = (Weever::connected(1), Smoltcp::connected());
        let octets = 64 << 20;
        (0..ROUNDS).map(|_| timed(|| theirs.bulk(octets)) / timed(|| ours.bulk(octets))).collect()
    });
    let mut random = Random::new(5);
    let rr = median({
        let (mut ours, mut theirs) = (Weever::connected(1), Smoltcp::connected());
        let count = 100_000;
        let mut round = || {
            let smoltcp = timed(|| theirs.transactions(count));
            smoltcp / timed(|| ours.transactions(count, &mut random))
        };
        (0..ROUNDS).map(|_| round()).collect()
    });
    let growth = median({
        let (mut few, mut many) = (Weever::connected(100), Weever::connected(100_000));
        // Each connection rests equally long between its transactions, so that both send the same segments
        // (a delayed acknowledgement among them) and set the same timers.
        few.turn = 1000 * TURN;
        let count = 200_000;
        let mut round = || {
            let many = timed(|| many.transactions(count, &mut random));
            many / timed(|| few.transactions(count, &mut random))
        };
        (0..ROUNDS).map(|_| round()).collect()
    });
    let line = |(middle, least, most): (f64, f64, f64)| {
        format!("{{\"median\":{middle:.2},\"least\":{least:.2},\"most\":{most:.2}}}")
    };
    println!(
        "{{\"ratios\":{{\"bulk_vs_smoltcp\":{},\"rr_vs_smoltcp\":{},\"rr_growth\":{}}}}}",
        line(bulk),
        line(rr),
        line(growth)
    );
}
