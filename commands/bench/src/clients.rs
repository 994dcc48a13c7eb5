//! Clients that keep requests in flight: one thread over AF_XDP, a port for each client.
//!
//! A request's place among all that may be in flight stands in its first two bytes, which the answer repeats:
//! an echo repeats all, memcached's protocol has its request's number there.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weever_packet::Burst;

use crate::BenchError;
use crate::client::Client;
use crate::rig::PORT;
use crate::traffic::udp_frame;

/// An answer that takes longer is lost. A server that is slow, and not lossy, must not seem so.
const LOST: Duration = Duration::from_millis(500);
/// Where a datagram's payload begins, and with it the request's place.
const PAYLOAD: usize = 42;
/// Requests that are sent at once, so that answers are not kept waiting.
const AT_ONCE: usize = 32;

/// The load. Requests take turns.
#[derive(Clone, Debug)]
pub(crate) struct ClosedLoop {
    pub(crate) clients: usize,
    pub(crate) in_flight: usize,
    /// The port from which a client sends the request of one of its places.
    pub(crate) port: fn(client: usize, place: usize) -> u16,
    pub(crate) requests: Vec<Request>,
}

/// A port for each client, whichever of its requests it is.
pub(crate) fn port_of_client(client: usize, _place: usize) -> u16 {
    20_000 + client as u16
}

/// A request, without its place.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) payload: Vec<u8>,
    /// A right answer has these bytes so far behind the beginning of the payload.
    pub(crate) answer: (usize, &'static [u8]),
}

/// The service that one client got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Served {
    pub(crate) answers: u64,
    /// Answers that are not right.
    pub(crate) wrong: u64,
    pub(crate) lost: u64,
    /// All round-trip times together, in nanoseconds.
    pub(crate) waited: u64,
}

impl Served {
    /// Adds the answers of another period.
    pub(crate) fn add(&mut self, more: &Served) {
        self.answers += more.answers;
        self.wrong += more.wrong;
        self.lost += more.lost;
        self.waited += more.waited;
    }
}

/// The clients and their device.
pub(crate) struct Clients {
    client: Client,
    frames: Vec<Vec<u8>>,
    started: Instant,
    requests: InFlight,
}

impl Clients {
    pub(crate) fn new(client: Client, load: &ClosedLoop) -> Result<Clients, BenchError> {
        let frame = |request: &Request| {
            let len = PAYLOAD + request.payload.len();
            let mut frame = udp_frame(client.ends, PORT, len).map_err(BenchError::of("clients"))?;
            frame[PAYLOAD..].copy_from_slice(&request.payload);
            // No checksum (RFC 768): place and port change each time.
            frame[40..42].fill(0);
            Ok(frame)
        };
        let frames = load.requests.iter().map(frame).collect::<Result<_, BenchError>>()?;
        Ok(Clients { client, frames, started: Instant::now(), requests: InFlight::new(load) })
    }

    /// Lets a client ask from now on, or stops it; at first all ask.
    pub(crate) fn admit(&mut self, client: usize, asks: bool) {
        self.requests.admit(client, asks);
    }

    /// Keeps requests in flight for so long; the service that each client got meanwhile. Requests stay in flight
    /// from one run to the next.
    pub(crate) fn run(&mut self, during: Duration) -> Result<Vec<Served>, BenchError> {
        let failed = BenchError::of("clients");
        self.requests.served.fill(Served::default());
        let Client { queue, pool, .. } = &mut self.client;
        let (begun, mut looked) = (Instant::now(), Instant::now());
        let mut packets = VecDeque::new();
        while begun.elapsed() < during {
            // Looking for lost requests is not for every turn.
            if looked.elapsed() > LOST / 10 {
                looked = Instant::now();
                self.requests.give_up_lost(self.started.elapsed());
            }
            while packets.len() < AT_ONCE
                && let Some(mut packet) = pool.alloc()
            {
                let Some(frame) = self.requests.next(&mut self.frames, self.started.elapsed())
                else {
                    pool.free(packet);
                    break;
                };
                packet.append(frame);
                packets.push_back(packet);
            }
            queue.tx(pool, &mut packets).map_err(&failed)?;
            queue.flush(pool).map_err(&failed)?;
            let mut burst = Burst::new();
            let n = queue.rx(pool, &mut burst, 64).map_err(&failed)?;
            let now = self.started.elapsed();
            for packet in (0..n).filter_map(|i| burst.take(i)) {
                self.requests.take_answer(packet.data(), now);
                pool.free(packet);
            }
        }
        // What did not go out is lost, and sent again.
        packets.drain(..).for_each(|packet| pool.free(packet));
        Ok(self.requests.served.clone())
    }
}

/// The requests of all clients, each in a place of its own.
struct InFlight {
    each: usize,
    port: fn(usize, usize) -> u16,
    /// Which clients do not ask.
    away: Vec<bool>,
    places: Vec<Place>,
    /// Places whose request is answered or lost.
    free: VecDeque<usize>,
    /// The next request, modulo their number.
    turn: usize,
    answers: Vec<(usize, &'static [u8])>,
    served: Vec<Served>,
}

/// Which request it is and when it was sent; without it no answer is waited for.
type Place = Option<(usize, Duration)>;

impl InFlight {
    fn new(load: &ClosedLoop) -> InFlight {
        let places = load.clients * load.in_flight;
        InFlight {
            each: load.in_flight,
            port: load.port,
            away: vec![false; load.clients],
            places: vec![None; places],
            free: (0..places).collect(),
            turn: 0,
            answers: load.requests.iter().map(|request| request.answer).collect(),
            served: vec![Served::default(); load.clients],
        }
    }

    fn admit(&mut self, client: usize, asks: bool) {
        self.away[client] = !asks;
    }

    /// A free place of a client that asks; those of other clients stay free.
    fn free_place(&mut self) -> Option<usize> {
        let asks = |place: &usize| !self.away[place / self.each];
        let at = self.free.iter().position(asks)?;
        self.free.rotate_left(at);
        self.free.pop_front()
    }

    /// The next request's frame; nothing if all that may be are in flight.
    fn next<'f>(&mut self, frames: &'f mut [Vec<u8>], now: Duration) -> Option<&'f [u8]> {
        let place = self.free_place()?;
        self.turn = (self.turn + 1) % frames.len();
        self.places[place] = Some((self.turn, now));
        let frame = &mut frames[self.turn];
        let port = (self.port)(place / self.each, place % self.each);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[PAYLOAD..PAYLOAD + 2].copy_from_slice(&(place as u16).to_be_bytes());
        Some(frame)
    }

    fn take_answer(&mut self, frame: &[u8], now: Duration) {
        let number = frame.get(PAYLOAD..).and_then(|payload| payload.first_chunk());
        let Some(place) = number.map(|bytes| usize::from(u16::from_be_bytes(*bytes))) else {
            return;
        };
        let Some((request, sent)) = self.places.get_mut(place).and_then(Option::take) else {
            return;
        };
        self.free.push_back(place);
        let (at, right) = self.answers[request];
        let client = &mut self.served[place / self.each];
        let is_right = frame.get(PAYLOAD + at..).is_some_and(|rest| rest.starts_with(right));
        client.wrong += u64::from(!is_right);
        client.answers += 1;
        client.waited += (now - sent).as_nanos() as u64;
    }

    fn give_up_lost(&mut self, now: Duration) {
        for (number, place) in self.places.iter_mut().enumerate() {
            if place.take_if(|(_, sent)| now - *sent > LOST).is_some() {
                self.free.push_back(number);
                self.served[number / self.each].lost += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_a_lost_request_is_sent_again() {
        let request = |byte| Request { payload: vec![0, 0, byte], answer: (2, b"a") };
        let (requests, port) =
            (vec![request(b'a'), request(b'b')], port_of_client as fn(_, _) -> _);
        let load = ClosedLoop { clients: 2, in_flight: 1, requests, port };
        let mut frames: Vec<Vec<u8>> = [b'a', b'b'].map(|b| [vec![0; 44], vec![b]].concat()).into();
        let (mut requests, at) = (InFlight::new(&load), Duration::from_micros);
        let second = requests.next(&mut frames, at(1)).unwrap().to_vec();
        let first = requests.next(&mut frames, at(2)).unwrap().to_vec();
        assert_eq!(first[34..36], port_of_client(1, 0).to_be_bytes());
        assert_eq!(requests.next(&mut frames, at(2)), None, "all are in flight");
        for _ in 0..2 {
            requests.take_answer(&first, at(4));
        }
        let served = Served { answers: 1, waited: 2_000, ..Served::default() };
        assert_eq!(requests.served[1], served);
        requests.take_answer(&second, at(4));
        assert_eq!((requests.served[0].answers, requests.served[0].wrong), (1, 1));
        assert!(requests.next(&mut frames, at(5)).is_some());
        requests.give_up_lost(at(6) + LOST);
        assert_eq!(requests.served.iter().map(|client| client.lost).sum::<u64>(), 1);
        requests.take_answer(&first, at(7) + LOST);
        assert_eq!(requests.served.iter().map(|client| client.answers).sum::<u64>(), 2);
        requests.take_answer(&[0; 20], at(8));
    }
}
