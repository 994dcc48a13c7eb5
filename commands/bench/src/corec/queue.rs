//! Receive queues in memory, and what will arrive there.
//!
//! Arrivals are written by the thread that polls, so that two cores suffice: a third would be the generator's.
//! When a packet arrives is decided before, so load is open: a slow server does not slow it down, and
//! latency counts from there.

use std::sync::Mutex;

use weever_packet::Burst;
use weever_ring::simulated::SimulatedQueue;
use weever_ring::{MOST_CLAIMED, part};

/// Slots of a ring.
pub(super) const RING: u32 = 1024;
/// Of 100 packets of a skewed load, those for the first queue: one elephant, and half of the mice.
pub(super) const SKEW: u64 = 95;

/// A packet: its number, and when it arrives, in nanoseconds after the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Packet {
    pub(super) number: u64,
    pub(super) arrives: u64,
}

/// What a thread takes at once.
pub(super) type Taken = [Packet; MOST_CLAIMED as usize];

/// Where a thread receives from.
pub(super) trait Source: Send {
    /// Takes packets to the front of `taken` and returns their number; `None`: nothing is left, and nothing
    /// will come.
    fn receive(&mut self, now: u64, taken: &mut Taken) -> Option<usize>;

    /// The frames of the packets that were taken last, at the same places, if they came as frames.
    fn frames(&mut self) -> Option<&mut Burst> {
        None
    }
}

/// Packets that have not arrived yet.
struct Arrivals {
    packets: Vec<Packet>,
    next: usize,
    /// Whether packets that find the ring full are lost; else they wait.
    are_timed: bool,
    dropped: u64,
}

impl Arrivals {
    fn new(packets: Vec<Packet>, are_timed: bool) -> Arrivals {
        Arrivals { packets, next: 0, are_timed, dropped: 0 }
    }

    /// Hands the packets over whose time has come, at most a claim of them. `give` says how many fitted.
    fn arrive(&mut self, now: u64, give: impl FnOnce(&[Packet]) -> usize) -> bool {
        let end = self.packets.len().min(self.next + MOST_CLAIMED as usize);
        let coming = &self.packets[self.next..end];
        let due = coming.iter().take_while(|packet| packet.arrives <= now).count();
        let given = give(&coming[..due]);
        let taken = if self.are_timed { due } else { given };
        self.dropped += (taken - given) as u64;
        self.next += taken;
        self.next < self.packets.len()
    }
}

/// A queue that several threads may receive from.
pub(super) struct Queue {
    ring: SimulatedQueue<Packet>,
    arrivals: Mutex<Arrivals>,
    pub(super) threads: u32,
}

impl Queue {
    pub(super) fn new(packets: Vec<Packet>, threads: u32, are_timed: bool) -> Queue {
        let ring = SimulatedQueue::new(RING, 0, Packet::default()).expect("a power of two");
        Queue { ring, arrivals: Mutex::new(Arrivals::new(packets, are_timed)), threads }
    }

    /// How many packets found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.arrivals.lock().map_or(0, |arrivals| arrivals.dropped)
    }

    /// When the next packet arrives that has not yet.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        let arrivals = self.arrivals.lock().ok()?;
        arrivals.packets.get(arrivals.next).map(|packet| packet.arrives)
    }
}

impl Source for &Queue {
    /// By weever's rule: as many as each thread's part of what waits.
    fn receive(&mut self, now: u64, taken: &mut Taken) -> Option<usize> {
        // Another thread that is at it does it for this one too.
        let more = self
            .arrivals
            .try_lock()
            .map_or(true, |mut arrivals| arrivals.arrive(now, |due| self.ring.give(due)));
        let most = part(self.ring.available(), self.threads).min(MOST_CLAIMED);
        let count = self.ring.pop(&mut taken[..most as usize]);
        (count > 0 || more || self.ring.available() > 0).then_some(count)
    }
}

/// A queue for one thread, on a ring with one consumer.
pub(super) struct Plain {
    arrivals: Arrivals,
    producer: rtrb::Producer<Packet>,
    consumer: rtrb::Consumer<Packet>,
}

impl Plain {
    pub(super) fn new(packets: Vec<Packet>) -> Plain {
        let (producer, consumer) = rtrb::RingBuffer::new(RING as usize);
        Plain { arrivals: Arrivals::new(packets, false), producer, consumer }
    }
}

impl Source for Plain {
    fn receive(&mut self, now: u64, taken: &mut Taken) -> Option<usize> {
        let producer = &mut self.producer;
        let more = self.arrivals.arrive(now, |due| {
            let room = due.len().min(producer.slots());
            let chunk = producer.write_chunk_uninit(room).expect("there is room");
            chunk.fill_from_iter(due.iter().copied())
        });
        let ready = self.consumer.slots().min(taken.len());
        let chunk = self.consumer.read_chunk(ready).expect("they are there");
        chunk.into_iter().zip(taken).for_each(|(packet, place)| *place = packet);
        (ready > 0 || more).then_some(ready)
    }
}

/// Which queue a packet is for, of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// [`SKEW`] of 100 to the first.
    Skewed,
    /// As many to each, in turns: the best that flows spread by a hash could come to.
    Even,
}

impl Spread {
    pub(super) fn queue(self, number: u64, queues: usize) -> usize {
        // Successive packets are of different flows.
        let hash = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        match self {
            Spread::Skewed if hash % 100 < SKEW as usize => 0,
            Spread::Skewed => 1 + hash % (queues - 1).max(1),
            Spread::Even => hash % queues,
        }
    }
}

/// The queues of `threads` threads, one for all of them or one each, with their [`arrivals`]; without a clock
/// if the pause is 0.
pub(super) fn queues(
    (threads, shared): (usize, bool),
    spread: Spread,
    (packets, pause): (u64, f64),
    seed: u64,
) -> Vec<Queue> {
    let of_each = if shared { threads as u32 } else { 1 };
    let arriving = arrivals((threads, shared), spread, (packets, pause), seed);
    arriving.into_iter().map(|packets| Queue::new(packets, of_each, pause > 0.0)).collect()
}

/// The arrivals at each of these queues: so many packets in all, `pause` nanoseconds apart on
/// average.
pub(super) fn arrivals(
    (threads, shared): (usize, bool),
    spread: Spread,
    (packets, pause): (u64, f64),
    seed: u64,
) -> Vec<Vec<Packet>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut time = 0.0;
    let mut arriving = vec![Vec::new(); if shared { 1 } else { threads }];
    for number in 0..packets {
        time -= pause * (1.0 - random.f64()).ln();
        let place = if shared { 0 } else { spread.queue(number, threads) };
        arriving[place].push(Packet { number, arrives: time as u64 });
    }
    arriving
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skewed_load_is_skewed_and_an_even_one_is_not() {
        let first =
            |spread: Spread| (0..10_000).filter(|number| spread.queue(*number, 2) == 0).count();
        assert!((9400..9600).contains(&first(Spread::Skewed)), "{}", first(Spread::Skewed));
        assert!((4800..5200).contains(&first(Spread::Even)), "{}", first(Spread::Even));
    }

    #[test]
    fn a_plain_queue_gives_every_packet_in_order() {
        let packets = (0..3000).map(|number| Packet { number, arrives: 0 }).collect();
        let (mut plain, mut taken) = (Plain::new(packets), [Packet::default(); 64]);
        let mut seen = Vec::new();
        while let Some(count) = plain.receive(0, &mut taken) {
            seen.extend(taken[..count].iter().map(|packet| packet.number));
        }
        assert!(seen.into_iter().eq(0..3000));
    }

    #[test]
    fn what_finds_no_room_is_lost_only_if_there_is_a_clock() {
        for are_timed in [true, false] {
            let packets = (0..5000).map(|number| Packet { number, arrives: 0 }).collect();
            let queue = Queue::new(packets, 1, are_timed);
            // Arrivals without service: the ring fills up.
            for _ in 0..100 {
                queue.arrivals.lock().unwrap().arrive(0, |due| queue.ring.give(due));
            }
            let (mut source, mut taken, mut served) = (&queue, [Packet::default(); 64], 0);
            while let Some(count) = source.receive(0, &mut taken) {
                served += count as u64;
            }
            assert_eq!(served + queue.dropped(), 5000);
            assert_eq!(queue.dropped() == 0, !are_timed);
        }
    }
}
