//! A client over AF_XDP, spinning on the generator's core: round trips.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Buffer, Burst, Pool, PoolCache, PoolConfig};
use weever_testbed::Fixture;
use weever_wire::MacAddr;

use crate::BenchError;
use crate::rig::{GENERATOR_MAC, HOST, PORT};
use crate::traffic::{Ends, icmp_frame, udp_frame};

/// An echo that takes longer is lost.
const LOST: Duration = Duration::from_millis(100);
/// A client with the device to itself.
pub(crate) struct Client {
    /// Keeps the steering program attached.
    _link: AfXdp,
    queue: Box<dyn LinkQueue>,
    pool: PoolCache,
    ends: Ends,
    /// The datagram; its last bytes are the complement of its number, and its number.
    frame: Vec<u8>,
    number: u32,
}

impl Client {
    /// Opens the generator's end, to talk to the host of this address.
    pub(crate) fn open(host_mac: [u8; 6]) -> Result<Client, BenchError> {
        let failed = "client";
        let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(failed))?;
        let config = AfXdpConfig::new("left0", pool.clone());
        let mut link = AfXdp::open(&config).map_err(BenchError::of(failed))?;
        let queue = link.take_queues().pop();
        let queue = queue.ok_or_else(|| BenchError::of(failed)("the device has no queue"))?;
        let ends = (MacAddr(GENERATOR_MAC), Fixture::LEFT, MacAddr(host_mac), HOST);
        let mut frame = udp_frame(ends, PORT, 60).map_err(BenchError::of(failed))?;
        // No checksum (RFC 768): the number changes each time.
        frame[40..42].fill(0);
        Ok(Client { _link: link, queue, pool: pool.cache(), ends, frame, number: 0 })
    }

    /// Sends ICMP echo requests instead of UDP datagrams.
    pub(crate) fn pinging(mut self) -> Result<Client, BenchError> {
        self.frame = icmp_frame(self.ends, 60).map_err(BenchError::of("client"))?;
        Ok(self)
    }

    /// One datagram in flight: the times in nanoseconds, and how many datagrams were lost.
    pub(crate) fn ping_pong(
        mut self,
        during: Duration,
    ) -> Result<(Histogram<u64>, u64), BenchError> {
        let failed = "client";
        let most = LOST.as_nanos() as u64;
        let mut times = Histogram::new_with_max(most, 3).map_err(BenchError::of(failed))?;
        // The first answers come late: caches, and the contender's first packet.
        for _ in 0..100 {
            self.round_trip().map_err(BenchError::of(failed))?;
        }
        let (started, mut lost) = (Instant::now(), 0);
        while started.elapsed() < during {
            match self.round_trip().map_err(BenchError::of(failed))? {
                Some(time) => times.saturating_record(time.as_nanos() as u64),
                None => lost += 1,
            }
        }
        if times.is_empty() {
            return Err(BenchError::of(failed)("no datagram came back"));
        }
        Ok((times, lost))
    }

    /// Sends a datagram and waits for an answer; `None` if none came.
    fn round_trip(&mut self) -> Result<Option<Duration>, weever_link::LinkError> {
        self.number += 1;
        let number = self.number.to_be_bytes();
        let at = self.frame.len() - number.len();
        self.frame[at..].copy_from_slice(&number);
        self.frame[at - 4..at].copy_from_slice(&number.map(|byte| !byte));
        let mut packets: VecDeque<_> = self.pool.alloc().into_iter().collect();
        packets.iter_mut().for_each(|packet| {
            packet.append(&self.frame);
        });
        let sent = Instant::now();
        self.queue.tx(&mut self.pool, &mut packets)?;
        self.queue.flush(&mut self.pool)?;
        let mut burst = Burst::new();
        loop {
            let n = self.queue.rx(&mut self.pool, &mut burst, 64)?;
            let elapsed = sent.elapsed();
            let arrived = (0..n).filter_map(|i| burst.take(i));
            let echoes = arrived.map(|packet| {
                // An answer that comes too late is another datagram's.
                let is_echo = packet.data().get(at..at + number.len()) == Some(&number);
                self.pool.free(packet);
                is_echo
            });
            if echoes.fold(false, |any, is_echo| any | is_echo) {
                return Ok(Some(elapsed));
            }
            if elapsed > LOST {
                return Ok(None);
            }
        }
    }

    /// `rate` datagrams per second, `at_once` together: the times in nanoseconds. Each carries when
    /// it was to be sent, so that one which could not be sent in time counts as late.
    pub(crate) fn paced(
        mut self,
        rate: f64,
        at_once: usize,
        during: Duration,
    ) -> Result<Histogram<u64>, BenchError> {
        let failed = BenchError::of("client");
        let most = LOST.as_nanos() as u64;
        let mut times = Histogram::new_with_max(most, 3).map_err(BenchError::of("client"))?;
        let interval = Duration::from_secs_f64(at_once as f64 / rate);
        let (started, mut due) = (Instant::now(), Duration::ZERO);
        let mut packets = VecDeque::new();
        while started.elapsed() < during {
            if started.elapsed() >= due {
                self.prepare(&mut packets, at_once, due);
                due += interval;
            }
            self.queue.tx(&mut self.pool, &mut packets).map_err(&failed)?;
            self.queue.flush(&mut self.pool).map_err(&failed)?;
            self.take_answers(started, &mut times).map_err(&failed)?;
        }
        packets.drain(..).for_each(|packet| self.pool.free(packet));
        if times.is_empty() {
            return Err(BenchError::of("client")("no datagram came back"));
        }
        Ok(times)
    }

    fn prepare(&mut self, packets: &mut VecDeque<Buffer>, count: usize, due: Duration) {
        let at = self.frame.len() - 8;
        self.frame[at..].copy_from_slice(&(due.as_nanos() as u64).to_be_bytes());
        for _ in 0..count {
            let Some(mut packet) = self.pool.alloc() else { return };
            packet.append(&self.frame);
            packets.push_back(packet);
        }
    }

    fn take_answers(
        &mut self,
        started: Instant,
        times: &mut Histogram<u64>,
    ) -> Result<(), weever_link::LinkError> {
        let (mut burst, at) = (Burst::new(), self.frame.len() - 8);
        let n = self.queue.rx(&mut self.pool, &mut burst, 64)?;
        let now = started.elapsed().as_nanos() as u64;
        for packet in (0..n).filter_map(|i| burst.take(i)) {
            if let Some(due) = packet.data().get(at..at + 8).and_then(|b| b.first_chunk()) {
                times.saturating_record(now.saturating_sub(u64::from_be_bytes(*due)));
            }
            self.pool.free(packet);
        }
        Ok(())
    }
}

/// Clients on one core, each with a port of its own, that keep so many requests under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedLoop {
    pub(crate) clients: usize,
    pub(crate) in_flight: usize,
    /// Bytes of a frame, check sequence included.
    pub(crate) frame: usize,
}

/// The service that one client got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Served {
    pub(crate) answers: u64,
    pub(crate) lost: u64,
    /// All round-trip times together, in nanoseconds.
    pub(crate) waited: u64,
}

/// A request of a client: its number, when it was sent, and whether its answer has not come.
#[derive(Clone, Copy, Default)]
struct Request {
    number: u32,
    sent: Duration,
    waiting: bool,
}

/// The first port of [`ClosedLoop`]'s clients.
const CLIENT_PORT: u16 = 20_000;
/// Where the place of a request and its number stand, behind the UDP header.
const PLACE: usize = 42;
const NUMBER: usize = 44;
/// Requests that are sent at once, so that answers are not kept waiting.
const AT_ONCE: usize = 32;

impl Client {
    /// Keeps requests under way for so long, after as long as `warm_up` that does not count.
    pub(crate) fn closed_loop(
        mut self,
        load: ClosedLoop,
        (warm_up, during): (Duration, Duration),
    ) -> Result<Vec<Served>, BenchError> {
        let failed = BenchError::of("clients");
        let mut frame =
            udp_frame(self.ends, PORT, load.frame - 4).map_err(BenchError::of("frame"))?;
        // No checksum: the number changes each time.
        frame[40..42].fill(0);
        let mut clients = Clients::new(load, warm_up);
        let (started, mut packets) = (Instant::now(), VecDeque::new());
        let mut looked = Duration::ZERO;
        while started.elapsed() < warm_up + during {
            let now = started.elapsed();
            // Looking for lost requests is not for every turn.
            if now - looked > LOST / 10 {
                looked = now;
                clients.send_lost_again(now);
            }
            while packets.len() < AT_ONCE && clients.next(&mut frame, now) {
                let Some(mut packet) = self.pool.alloc() else { break };
                packet.append(&frame);
                packets.push_back(packet);
            }
            self.queue.tx(&mut self.pool, &mut packets).map_err(&failed)?;
            self.queue.flush(&mut self.pool).map_err(&failed)?;
            let mut burst = Burst::new();
            let n = self.queue.rx(&mut self.pool, &mut burst, 64).map_err(&failed)?;
            let now = started.elapsed();
            for packet in (0..n).filter_map(|i| burst.take(i)) {
                clients.take_answer(packet.data(), now);
                self.pool.free(packet);
            }
        }
        packets.drain(..).for_each(|packet| self.pool.free(packet));
        Ok(clients.served)
    }
}

/// The requests of all clients, each in a place of its own.
struct Clients {
    in_flight: usize,
    /// Answers before this do not count.
    from: Duration,
    requests: Vec<Request>,
    /// Places whose request is answered or lost.
    ready: VecDeque<usize>,
    served: Vec<Served>,
}

impl Clients {
    fn new(ClosedLoop { clients, in_flight, .. }: ClosedLoop, from: Duration) -> Clients {
        let requests = vec![Request::default(); clients * in_flight];
        let ready = (0..requests.len()).collect();
        Clients { in_flight, from, requests, ready, served: vec![Served::default(); clients] }
    }

    /// Makes the frame the next request; false if all are under way.
    fn next(&mut self, frame: &mut [u8], now: Duration) -> bool {
        let Some(place) = self.ready.pop_front() else { return false };
        let request = &mut self.requests[place];
        *request = Request { number: request.number + 1, sent: now, waiting: true };
        address(frame, place, request.number, self.in_flight);
        true
    }

    fn take_answer(&mut self, frame: &[u8], now: Duration) {
        let Some((place, number)) = answer(frame) else { return };
        let Some(request) = self.requests.get_mut(place) else { return };
        // A late answer is to a number that was given up.
        if !request.waiting || request.number != number {
            return;
        }
        request.waiting = false;
        self.ready.push_back(place);
        if now >= self.from {
            let client = &mut self.served[place / self.in_flight];
            client.answers += 1;
            client.waited += (now - request.sent).as_nanos() as u64;
        }
    }

    fn send_lost_again(&mut self, now: Duration) {
        for (place, request) in self.requests.iter_mut().enumerate() {
            if request.waiting && now - request.sent > LOST {
                request.waiting = false;
                self.ready.push_back(place);
                self.served[place / self.in_flight].lost += 1;
            }
        }
    }
}

/// Makes the frame the request at a place: the client's port, the place and the number.
fn address(frame: &mut [u8], place: usize, number: u32, in_flight: usize) {
    let port = CLIENT_PORT + (place / in_flight) as u16;
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[PLACE..NUMBER].copy_from_slice(&(place as u16).to_be_bytes());
    frame[NUMBER..NUMBER + 4].copy_from_slice(&number.to_be_bytes());
}

/// The place and the number of the request that a frame answers.
fn answer(frame: &[u8]) -> Option<(usize, u32)> {
    let place = u16::from_be_bytes(*frame.get(PLACE..)?.first_chunk()?);
    let number = u32::from_be_bytes(*frame.get(NUMBER..)?.first_chunk()?);
    Some((place.into(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_a_lost_request_is_sent_again() {
        let load = ClosedLoop { clients: 2, in_flight: 1, frame: 64 };
        let (mut clients, mut frame) = (Clients::new(load, Duration::from_micros(5)), vec![0; 60]);
        let at = Duration::from_micros;
        assert!(clients.next(&mut frame, at(1)));
        clients.take_answer(&frame, at(3));
        assert_eq!(clients.served[0], Served::default(), "it was for warming up");
        assert!(clients.next(&mut frame, at(6)));
        assert_eq!(frame[34..36], (CLIENT_PORT + 1).to_be_bytes());
        for _ in 0..2 {
            clients.take_answer(&frame, at(9));
        }
        assert_eq!(clients.served[1], Served { answers: 1, lost: 0, waited: 3_000 });
        assert!(clients.next(&mut frame, at(10)) && clients.next(&mut frame, at(10)));
        assert!(!clients.next(&mut frame, at(10)), "all are under way");
        let late = frame.clone();
        clients.send_lost_again(at(11) + LOST);
        assert_eq!(clients.served.iter().map(|client| client.lost).sum::<u64>(), 2);
        clients.take_answer(&late, at(12) + LOST);
        assert_eq!(clients.served[1].answers, 1);
        clients.take_answer(&[0; 20], at(12));
    }
}
