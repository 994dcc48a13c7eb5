//! The load: weever's own engine as many clients, over AF_XDP on a core of its own.
//!
//! The engine keeps no payload, and all requests are alike, so a connection costs the generator its TCB and
//! nothing else. It polls; the share of its time in which it found something to do shows how far it is from
//! being the limit.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Buffer, Burst, Pool, PoolCache, PoolConfig};
use weever_tcp::{
    Ecn, Endpoint, Events, Id, ListenerConfig, ListenerId, Segment, Settings, TcpConfig, Transmit,
    Tuple,
};
use weever_wire::MacAddr;
use weever_wire::checksum;
use weever_wire::ethernet::EthernetRepr;
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::tcp::TcpView;

use crate::BenchError;
use crate::rig::{GENERATOR_MAC, HOST, PORT};

const FAILED: &str = "generator";
/// Where IP begins in a frame, and TCP.
const IP: usize = 14;
const TCP: usize = 34;
/// The longest frame.
const LONGEST: usize = 1514;
/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are asked for at once.
const AT_ONCE: usize = 64;
/// An octet of a response that may be any, as those of a date.
pub(crate) const ANY: u8 = 0;
/// Nanoseconds of a millisecond.
const MILLIS: u64 = 1_000_000;

/// Clients of one server.
pub(crate) struct Generator {
    /// Keeps the steering program attached, if there is one.
    _link: Option<AfXdp>,
    queue: Box<dyn LinkQueue>,
    pool: PoolCache,
    host_mac: MacAddr,
    endpoint: Endpoint,
    /// Of a server.
    listener: Option<ListenerId>,
    began: Instant,
    /// The beginning of this turn.
    now: u64,
    outbox: VecDeque<Buffer>,
    /// Places for what arrives, and for a segment and its frame: to make them anew would cost each turn more than
    /// looking for packets does.
    burst: Box<Burst>,
    next: Box<(Transmit, [u8; LONGEST])>,
    request: Vec<u8>,
    response: Vec<u8>,
    /// Connections that octets arrived for in this turn, and those that were established.
    arrived: Vec<Id>,
    established: Vec<Id>,
    /// Whether there was anything to do in this turn, and nanoseconds of such turns.
    worked: bool,
    busy: u64,
    /// Octets that are not those of a response at that place.
    wrong: u64,
}

impl Generator {
    /// Opens the generator's end, for a server at this MAC address that answers each `request` with `response`.
    pub(crate) fn open(
        host_mac: [u8; 6],
        request: &[u8],
        response: &[u8],
    ) -> Result<Generator, BenchError> {
        Generator::on("left0", host_mac, (request, response))
    }

    /// The same as a server on a device: it sends `response` where others send the request.
    pub(crate) fn serving(
        device: &str,
        client_mac: [u8; 6],
        (request, response): (&[u8], &[u8]),
    ) -> Result<Generator, BenchError> {
        let mut server = Generator::on(device, client_mac, (response, request))?;
        let listener = server.endpoint.listen(ListenerConfig::new(PORT));
        server.listener = Some(listener.map_err(BenchError::of(FAILED))?);
        Ok(server)
    }

    fn on(
        device: &str,
        host_mac: [u8; 6],
        (request, response): (&[u8], &[u8]),
    ) -> Result<Generator, BenchError> {
        let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(FAILED))?;
        let config = AfXdpConfig::new(device, pool.clone());
        let mut link = AfXdp::open(&config).map_err(BenchError::of(FAILED))?;
        let queue = link.take_queues().pop();
        let queue = queue.ok_or_else(|| BenchError::of(FAILED)("the device has no queue"))?;
        let generator = Generator::over(queue, &pool, host_mac, (request, response));
        Ok(Generator { _link: Some(link), ..generator })
    }

    /// The same at the far end of a cable.
    pub(crate) fn over(
        queue: Box<dyn LinkQueue>,
        pool: &Pool,
        host_mac: [u8; 6],
        (request, response): (&[u8], &[u8]),
    ) -> Generator {
        let config = TcpConfig {
            // The ends of connections are not used again before all others were.
            time_wait: MILLIS,
            max_connections: 1 << 20,
            ..TcpConfig::default()
        };
        Generator {
            _link: None,
            queue,
            pool: pool.cache(),
            host_mac: MacAddr(host_mac),
            endpoint: Endpoint::new(config, [fastrand::u64(..), fastrand::u64(..)], 0),
            listener: None,
            began: Instant::now(),
            now: 0,
            outbox: VecDeque::new(),
            burst: Box::new(Burst::new()),
            next: Box::new((Transmit::place(), [0; LONGEST])),
            request: request.to_vec(),
            response: response.to_vec(),
            arrived: Vec::new(),
            established: Vec::new(),
            worked: false,
            busy: 0,
            wrong: 0,
        }
    }

    /// Nanoseconds since it was opened, at the beginning of this turn.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Nanoseconds of turns in which there was something to do.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// An error if the server's octets were not its response.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.wrong == 0 {
            return Ok(());
        }
        Err(BenchError::of(FAILED)(format!("{} octets of responses are wrong", self.wrong)))
    }

    /// Begins a turn: takes what has arrived.
    pub(crate) fn receive(&mut self) -> Result<(), BenchError> {
        self.now = self.began.elapsed().as_nanos() as u64;
        let received = self.queue.rx(&mut self.pool, &mut self.burst, 64);
        let received = received.map_err(BenchError::of(FAILED))?;
        self.worked = received > 0;
        for at in 0..received {
            if let Some(packet) = self.burst.take(at) {
                self.take(packet.data());
                self.pool.free(packet);
            }
        }
        if self.endpoint.next_deadline().is_some_and(|at| at <= self.now) {
            self.endpoint.handle_timeout(self.now);
        }
        while let Some(id) = self.listener.and_then(|listener| self.endpoint.accept(listener)) {
            self.established.push(id);
        }
        while let Some((id, events)) = self.endpoint.poll_event() {
            if events.has(Events::CONNECTED) {
                self.established.push(id);
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: &[u8]) {
        let Some(packet) = frame.get(IP..) else { return };
        let Ok(view) = Ipv4View::new(packet) else { return };
        let (src, dst) = (view.header().src(), view.header().dst());
        // Sums are the server's business: the kernel leaves them to a device that is not there.
        let Ok(view) = TcpView::new(view.payload()) else { return };
        let tuple = Tuple {
            local: dst.into(),
            remote: src.into(),
            local_port: view.header().dst_port(),
            remote_port: view.header().src_port(),
        };
        // Answers to addresses that only a flood has come from.
        if is_flood(dst) {
            return;
        }
        let Ok(segment) = Segment::parse(view, Ecn::NotEct) else { return };
        let Ok(handled) = self.endpoint.handle(&tuple, &segment, self.now) else { return };
        if let (Some(id), Some(payload)) = (handled.id, handled.payload) {
            let octets = &segment.payload[payload.range];
            self.wrong += differing(octets, payload.offset, &self.response);
            self.arrived.push(id);
        }
    }

    /// A connection whose response has come whole since the last call; it counts as read.
    pub(crate) fn next_answered(&mut self) -> Option<Id> {
        while let Some(id) = self.arrived.pop() {
            let len = self.response.len() as u64;
            let Some(connection) = self.endpoint.get(id) else { continue };
            let readable = connection.readable();
            if readable.end - readable.start >= len {
                self.endpoint.consume(id, len, self.now);
                return Some(id);
            }
        }
        None
    }

    /// A connection that is established since the last call.
    pub(crate) fn next_established(&mut self) -> Option<Id> {
        let id = self.established.pop()?;
        let settings = self.endpoint.get(id)?.settings();
        self.endpoint.set(id, Settings { no_delay: true, ..settings }, self.now);
        Some(id)
    }

    /// Asks for the `number`-th connection: from addresses that take turns, so that their ports suffice.
    pub(crate) fn connect(&mut self, number: u64) -> Result<Id, BenchError> {
        let from = SocketAddr::from((client(number), 0));
        let to = SocketAddr::from((HOST, PORT));
        self.endpoint.connect(from, to, self.now).map_err(BenchError::of(FAILED))
    }

    /// Sends a request on a connection.
    pub(crate) fn ask(&mut self, id: Id) {
        self.endpoint.queue(id, self.request.len() as u64, self.now);
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, id: Id) {
        self.endpoint.close(id, self.now);
    }

    /// Puts a frame of another maker among those that are sent with this turn.
    pub(crate) fn send_also(&mut self, frame: &[u8]) {
        if let Some(mut packet) = self.pool.alloc() {
            packet.append(frame);
            self.outbox.push_back(packet);
        }
    }

    /// The frame of a segment whose headers are all but the sender's.
    pub(crate) fn host_mac(&self) -> MacAddr {
        self.host_mac
    }

    /// Ends a turn: sends what is due.
    pub(crate) fn send(&mut self) -> Result<(), BenchError> {
        while self.endpoint.may_transmit()
            && let Some(mut packet) = self.pool.alloc()
        {
            let (transmit, frame) = &mut *self.next;
            if !self.endpoint.poll_into(transmit, self.now) {
                self.pool.free(packet);
                break;
            }
            match write(&self.request, self.host_mac, transmit, frame) {
                Some(len) => {
                    packet.append(&frame[..len]);
                    self.outbox.push_back(packet);
                }
                None => self.pool.free(packet),
            }
        }
        self.worked |= !self.outbox.is_empty();
        let sent = self.queue.tx(&mut self.pool, &mut self.outbox).map(drop);
        sent.and_then(|()| self.queue.flush(&mut self.pool)).map_err(BenchError::of(FAILED))?;
        if self.worked {
            self.busy += self.began.elapsed().as_nanos() as u64 - self.now;
        }
        Ok(())
    }

    /// Opens connections, and returns them when all are established.
    pub(crate) fn connected(&mut self, count: usize) -> Result<Vec<Id>, BenchError> {
        let (started, mut asked, mut there) = (Instant::now(), 0, Vec::new());
        while there.len() < count {
            if started.elapsed() > PATIENCE {
                let message = format!("{} of {count} connections were established", there.len());
                return Err(BenchError::of(FAILED)(message));
            }
            self.receive()?;
            while let Some(id) = self.next_established() {
                there.push(id);
            }
            while asked < count && asked - there.len() < AT_ONCE {
                self.connect(asked as u64)?;
                asked += 1;
            }
            self.send()?;
        }
        Ok(there)
    }
}

/// Writes a segment's frame and returns its length.
fn write(
    request: &[u8],
    host_mac: MacAddr,
    transmit: &Transmit,
    frame: &mut [u8],
) -> Option<usize> {
    let (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) =
        (transmit.tuple.local, transmit.tuple.remote)
    else {
        return None;
    };
    let len = transmit.len();
    let segment = frame.get_mut(TCP..TCP + len)?;
    let fill = |range: std::ops::Range<u64>, out: &mut [u8]| {
        repeat(request, range.start, out);
        checksum::sum(out)
    };
    transmit.emit(segment, fill).ok()?;
    address(frame.get_mut(..TCP + len)?, host_mac, (src, dst), transmit.ecn)?;
    Some(TCP + len)
}

/// The address of the `number`-th client.
fn client(number: u64) -> Ipv4Addr {
    let [a, b] = (number as u16 % 0x4000).to_be_bytes();
    Ipv4Addr::new(10, 78, a, b.max(1))
}

/// An address that a flood comes from.
pub(crate) fn flooding(number: u32) -> Ipv4Addr {
    let [_, _, a, b] = number.to_be_bytes();
    Ipv4Addr::new(10, 78, 0x80 | a, b.max(1))
}

fn is_flood(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [10, 78, third, _] if third >= 0x80)
}

/// Writes the headers below a segment's.
pub(crate) fn address(
    frame: &mut [u8],
    host: MacAddr,
    (src, dst): (Ipv4Addr, Ipv4Addr),
    ecn: Ecn,
) -> Option<()> {
    let len = frame.len().checked_sub(TCP)? as u16;
    EthernetRepr { dst: host, src: MacAddr(GENERATOR_MAC), ethertype: 0x0800 }.emit(frame).ok()?;
    let ip = Ipv4Repr {
        tos: ecn as u8,
        ident: 0,
        flags_frag: 0x4000,
        ttl: 64,
        protocol: 6,
        src,
        dst,
        payload_len: len,
    };
    ip.emit(&mut frame[IP..]).ok()?;
    Some(())
}

/// Fills `out` with the octets from `start` on of a stream that repeats `pattern`.
fn repeat(pattern: &[u8], start: u64, out: &mut [u8]) {
    let mut at = (start % pattern.len() as u64) as usize;
    let mut rest = out;
    while !rest.is_empty() {
        let len = rest.len().min(pattern.len() - at);
        let (now, later) = rest.split_at_mut(len);
        now.copy_from_slice(&pattern[at..at + len]);
        (rest, at) = (later, 0);
    }
}

/// How many octets from `start` on are not those of a stream that repeats `pattern`.
fn differing(octets: &[u8], start: u64, pattern: &[u8]) -> u64 {
    let mut at = (start % pattern.len() as u64) as usize;
    let (mut rest, mut wrong) = (octets, 0);
    while !rest.is_empty() {
        let len = rest.len().min(pattern.len() - at);
        let (now, later) = rest.split_at(len);
        if now != &pattern[at..at + len] {
            let differs = |(one, other): &(&u8, &u8)| one != other && **other != ANY;
            wrong += now.iter().zip(&pattern[at..]).filter(differs).count();
        }
        (rest, at) = (later, 0);
    }
    wrong as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_its_pattern_from_any_offset() {
        let mut out = [0; 7];
        repeat(b"abc", 5, &mut out);
        assert_eq!(&out, b"cabcabc");
        assert_eq!(differing(&out, 5, b"abc"), 0);
        assert_eq!(differing(&out, 4, b"abc"), 7);
        assert_eq!(differing(b"cabXabc", 5, b"abc"), 1);
        assert_eq!(differing(b"cXbcYbX", 5, &[ANY, b'b', b'c']), 1);
    }

    #[test]
    fn no_client_has_the_address_of_a_flood() {
        for number in 0..100_000 {
            assert!(!is_flood(client(number)) && is_flood(flooding(number as u32)));
        }
    }
}
