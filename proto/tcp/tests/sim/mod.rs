//! Two hosts with a network between them, on a virtual clock: the same on every run.
//!
//! Segments cross as bytes with checksums. An octet that an application sends is a function of its
//! offset, so that the other one can tell each octet that it reads from a wrong one.
#![allow(dead_code, reason = "each test uses its own part of this")]

mod app;
mod net;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_tcp::{Endpoint, Events, Id, ListenerConfig, ListenerId, Segment, TcpConfig, Tuple};
use weever_wire::checksum::Pseudo;
use weever_wire::tcp::TcpView;

pub(crate) use app::{Job, Stream};
pub(crate) use net::{Faults, Network, Packet};

pub(crate) const MILLIS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MILLIS;
pub(crate) const PORT: u16 = 80;

/// A host: an endpoint and its applications.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: IpAddr,
    pub(crate) streams: Vec<Stream>,
    pub(crate) listener: Option<ListenerId>,
    /// The job of accepted connections.
    pub(crate) accepts: Option<Job>,
    /// Segments with wrong checksums.
    pub(crate) corrupt: u64,
    pub(crate) sent: u64,
    /// Segments that were joined to others.
    pub(crate) joined: u64,
    /// Super-segments that were cut.
    pub(crate) cut: u64,
}

impl Host {
    fn new(address: IpAddr, config: TcpConfig, key: u64) -> Self {
        let endpoint = Endpoint::new(config, [key, !key], 0);
        let (streams, listener, accepts) = (Vec::new(), None, None);
        Self {
            endpoint,
            address,
            streams,
            listener,
            accepts,
            corrupt: 0,
            sent: 0,
            joined: 0,
            cut: 0,
        }
    }

    pub(crate) fn listen(&mut self, job: Job) {
        self.listen_with(ListenerConfig::new(PORT), job);
    }

    pub(crate) fn listen_with(&mut self, config: ListenerConfig, job: Job) {
        self.listener = Some(self.endpoint.listen(config).unwrap());
        self.accepts = Some(job);
    }

    pub(crate) fn connect(&mut self, to: IpAddr, job: Job, now: u64) -> Id {
        let (from, to) = (SocketAddr::new(self.address, 0), SocketAddr::new(to, PORT));
        let id = self.endpoint.connect(from, to, now).unwrap();
        self.streams.push(Stream::new(id, job));
        id
    }

    /// Takes packets that arrived together; segments that continue each other are joined.
    fn receive(&mut self, packets: &[Packet], now: u64) {
        let mut arrived = Vec::new();
        for packet in packets {
            if !pseudo(packet.from, packet.to, packet.bytes.len()).verifies(&packet.bytes) {
                self.corrupt += 1;
                continue;
            }
            let Ok(view) = TcpView::new(&packet.bytes) else { continue };
            let tuple = Tuple {
                local: packet.to,
                remote: packet.from,
                local_port: view.header().dst_port(),
                remote_port: view.header().src_port(),
            };
            let Ok(segment) = Segment::parse(view, packet.ecn) else { continue };
            if let Some((other, first, text)) = arrived.last_mut()
                && *other == tuple
                && Segment::join(first, &segment)
            {
                Vec::extend_from_slice(text, segment.payload);
                self.joined += 1;
                continue;
            }
            arrived.push((tuple, segment, segment.payload.to_vec()));
        }
        for (tuple, segment, text) in arrived {
            self.take(&tuple, &segment, &text, now);
            self.endpoint.check_invariants();
        }
    }

    fn take(&mut self, tuple: &Tuple, segment: &Segment<'_>, text: &[u8], now: u64) {
        let Ok(handled) = self.endpoint.handle(tuple, segment, now) else { return };
        self.accept_all(now);
        let Some(payload) = handled.payload else { return };
        let id = handled.id.unwrap();
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
            stream.receive.write(payload.offset, &text[payload.range]);
        } else {
            panic!("payload for a connection that was not accepted");
        }
    }

    fn accept_all(&mut self, _now: u64) {
        let Some(listener) = self.listener else { return };
        while let Some(id) = self.endpoint.accept(listener) {
            self.streams.push(Stream::new(id, self.accepts.clone().unwrap()));
        }
    }

    fn work(&mut self, now: u64) {
        self.accept_all(now);
        while let Some((id, events)) = self.endpoint.poll_event() {
            let stream = self.streams.iter_mut().find(|stream| stream.id == id).unwrap();
            stream.events = merge(stream.events, events);
        }
        for stream in &mut self.streams {
            stream.work(&mut self.endpoint, now);
        }
    }
}

fn merge(a: Events, b: Events) -> Events {
    let all =
        [Events::CONNECTED, Events::FINISHED, Events::CLOSED, Events::URGENT, Events::CRAMPED];
    let mut merged = if a.is_empty() { b } else { a };
    for one in all {
        if b.has(one) && !merged.has(one) {
            merged = one;
        }
    }
    merged
}

pub(crate) fn pseudo(from: IpAddr, to: IpAddr, len: usize) -> Pseudo {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let both = [from.octets(), to.octets()].concat().try_into().unwrap();
            Pseudo::v4(&both, 6, len as u16)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let both = [from.octets(), to.octets()].concat().try_into().unwrap();
            Pseudo::v6(&both, 6, len as u32)
        }
        _ => unreachable!("one family"),
    }
}

/// Two hosts, the networks both ways, and the time.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) hosts: [Host; 2],
    /// From the first host to the second, and back.
    pub(crate) nets: [Network; 2],
    /// Segments that arrive together are joined.
    pub(crate) joins: bool,
    /// Print the sent segments.
    pub(crate) trace: bool,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, config: TcpConfig) -> Self {
        Self::with(seed, [faults; 2], [config.clone(), config], false)
    }

    pub(crate) fn with(seed: u64, faults: [Faults; 2], configs: [TcpConfig; 2], v6: bool) -> Self {
        let address = |n: u8| match v6 {
            false => IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
            true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into())),
        };
        let joins = configs[1].super_segment > 0;
        let [a, b] = configs;
        Self {
            now: SECOND,
            joins,
            trace: std::env::var_os("TRACE").is_some(),
            hosts: [Host::new(address(1), a, seed ^ 1), Host::new(address(2), b, seed ^ 2)],
            nets: [Network::new(seed ^ 3, faults[0]), Network::new(seed ^ 4, faults[1])],
        }
    }

    /// The second host listens, the first connects.
    pub(crate) fn open(&mut self, client: Job, server: Job) {
        self.hosts[1].listen(server);
        let to = self.hosts[1].address;
        self.hosts[0].connect(to, client, self.now);
    }

    /// Everything that happens at this instant.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut busy = false;
            for at in 0..2 {
                self.hosts[at].work(self.now);
                let host = &mut self.hosts[at];
                let mut cut = VecDeque::new();
                while let Some(transmit) = cut.pop_front().or_else(|| {
                    let transmit = host.endpoint.poll_transmit(self.now)?;
                    host.cut += u64::from(transmit.is_super());
                    cut.extend(transmit.cut());
                    cut.pop_front()
                }) {
                    busy = true;
                    host.sent += 1;
                    let mut bytes = vec![0; transmit.len()];
                    let stream = host.streams.iter().find(|it| Some(it.id) == transmit.connection);
                    transmit
                        .emit(&mut bytes, |range, out| match stream {
                            Some(stream) => stream.send.read(range.start, out),
                            None => panic!("payload without a connection"),
                        })
                        .unwrap();
                    let (from, to) = (transmit.tuple.local, transmit.tuple.remote);
                    if self.trace {
                        let (header, range) = (&transmit.header, &transmit.payload);
                        println!(
                            "{:>12} {at} {header:?} {range:?} {:?}",
                            self.now, transmit.options
                        );
                    }
                    let packet = Packet { from, to, ecn: transmit.ecn, bytes };
                    self.nets[at].send(packet, self.now);
                }
                host.endpoint.check_invariants();
            }
            while self.deliver_one() {
                busy = true;
            }
            if !busy {
                return;
            }
        }
        panic!("the hosts never come to rest at {} ns", self.now);
    }

    fn deliver_one(&mut self) -> bool {
        for at in 0..2 {
            let most = if self.joins { 64 } else { 1 };
            let net = &mut self.nets[at];
            let burst: Vec<_> = (0..most).map_while(|_| net.receive(self.now)).collect();
            if !burst.is_empty() {
                self.hosts[1 - at].receive(&burst, self.now);
                return true;
            }
        }
        false
    }

    /// When something happens next.
    fn next(&self) -> Option<u64> {
        let nets = self.nets.iter().filter_map(Network::next_arrival);
        let hosts = self.hosts.iter().filter_map(|host| host.endpoint.next_deadline());
        let apps = self.hosts.iter().flat_map(|host| &host.streams).filter_map(Stream::next_read);
        nets.chain(hosts).chain(apps).min()
    }

    /// Lets things happen until `done`, at most up to `limit`: whether it came to that.
    pub(crate) fn run(&mut self, limit: u64, mut done: impl FnMut(&World) -> bool) -> bool {
        self.settle();
        let mut instants = 0u64;
        while !done(self) {
            let Some(next) = self.next().filter(|next| *next <= limit) else {
                self.now = self.now.max(limit);
                return done(self);
            };
            self.now = self.now.max(next);
            for host in &mut self.hosts {
                host.endpoint.handle_timeout(self.now);
            }
            self.settle();
            instants += 1;
            if self.trace {
                println!("at {}", self.now);
            }
            assert!(instants < 2_000_000, "time does not pass");
        }
        true
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.nets.iter_mut().for_each(|net| net.faults = faults);
    }

    /// Whether all streams have sent and received all they wanted.
    pub(crate) fn all_done(&self) -> bool {
        self.hosts.iter().all(|host| !host.streams.is_empty())
            && self.hosts.iter().flat_map(|host| &host.streams).all(Stream::is_done)
    }
}
