//! A set-up to test, and one under test: the link's queues taken, and the moves that every
//! behaviour needs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weever_packet::{BURST, Buffer, Burst, Pool, PoolCache};

use crate::{Link, LinkInfo, LinkQueue, QueueStats};

/// How long something may take that must happen.
const PATIENCE: Duration = Duration::from_secs(5);

/// The EtherType of the suite's frames: IEEE 802 local experimental 1 (RFC 7042 §B.2), which no
/// kernel answers. A peer on a shared medium filters by it.
pub const ETHERTYPE: u16 = 0x88b5;

/// The other end of the link under test.
pub trait Peer {
    /// Sends a frame that arrives at the link's queue `queue`; false if there is no room now.
    fn send(&mut self, queue: u16, frame: &[u8]) -> bool;

    /// The next frame that the link has sent, waiting up to 100 ms for it, and the queue it was
    /// sent on if that can be told. Frames that are not the suite's own are left out.
    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)>;

    /// Goes away for good. False if it cannot.
    fn leave(&mut self) -> bool {
        false
    }
}

/// A fresh link, its pool, and the other end.
pub struct Setup {
    /// The link under test, its queues not taken.
    pub link: Box<dyn Link>,
    /// The pool its frames come from; nothing of it is in use except by the link.
    pub pool: Pool,
    /// The other end.
    pub peer: Box<dyn Peer>,
}

pub(super) struct Bench {
    behaviour: &'static str,
    pub(super) info: LinkInfo,
    pub(super) queues: Vec<Box<dyn LinkQueue>>,
    pub(super) cache: PoolCache,
    pub(super) pool: Pool,
    pub(super) peer: Box<dyn Peer>,
    began: Instant,
    /// The link itself, which may hold its queues together.
    _link: Box<dyn Link>,
}

impl Bench {
    pub(super) fn new(behaviour: &'static str, setup: Setup) -> Bench {
        let Setup { mut link, pool, peer } = setup;
        let (info, queues) = (link.info().clone(), link.take_queues());
        assert_eq!(queues.len(), info.queues as usize, "{behaviour}: queues as announced");
        assert!(link.take_queues().is_empty(), "{behaviour}: queues can be taken once");
        Bench {
            behaviour,
            info,
            queues,
            cache: pool.cache(),
            pool,
            peer,
            began: Instant::now(),
            _link: link,
        }
    }

    /// Reports the violated rule, with the behaviour's name in front.
    pub(super) fn must(&self, holds: bool, what: impl FnOnce() -> String) {
        assert!(holds, "{} ({}): {}", self.behaviour, self.info.mode, what());
    }

    /// Calls `step` until it says that it is done, for no longer than it may take.
    pub(super) fn eventually(&mut self, what: &str, mut step: impl FnMut(&mut Bench) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !step(self) {
            self.must(Instant::now() < end, || format!("{what} did not happen in {PATIENCE:?}"));
        }
    }

    pub(super) fn peer_sends(&mut self, queue: u16, frame: &[u8]) {
        self.eventually("the peer's send", |bench| bench.peer.send(queue, frame));
    }

    /// The queue, told the time.
    pub(super) fn queue(&mut self, queue: u16) -> &mut dyn LinkQueue {
        let queue = &mut *self.queues[queue as usize];
        queue.advance(self.began.elapsed().as_nanos() as u64);
        queue
    }

    /// Receives once on one queue.
    pub(super) fn receive(&mut self, queue: u16, max: usize) -> Vec<Buffer> {
        self.queue(queue);
        let mut burst = Burst::new();
        let received = self.queues[queue as usize].rx(&mut self.cache, &mut burst, max);
        let n = received.unwrap_or_else(|error| panic!("{}: {error}", self.behaviour));
        let packets: Vec<_> = (0..n).filter_map(|slot| burst.take(slot)).collect();
        self.must(packets.len() == n, || format!("slots 0..{n} hold the received packets"));
        self.must(burst.occupied() == 0, || "no other slot holds a packet".into());
        packets
    }

    /// Receives `n` frames of the suite on one queue, and frees all others.
    pub(super) fn receive_frames(&mut self, queue: u16, n: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.eventually(&format!("reception of {n} frames"), |bench| {
            for packet in bench.receive(queue, BURST) {
                bench.check_metadata(queue, &packet);
                frames.extend(is_ours(packet.data()).then(|| packet.data().to_vec()));
                bench.cache.free(packet);
            }
            frames.len() >= n
        });
        self.must(frames.len() == n, || format!("{} frames instead of {n}", frames.len()));
        frames
    }

    fn check_metadata(&self, queue: u16, packet: &Buffer) {
        let meta = packet.meta();
        self.must(meta.l2 == packet.head(), || format!("l2 is {}, not the head", meta.l2));
        self.must(meta.queue == queue, || format!("queue is {}, not {queue}", meta.queue));
        let flagged = meta.flags.has(weever_packet::Flags::MAY_BE_PARTIAL);
        let expected = self.info.partial_checksums;
        self.must(flagged == expected, || format!("partial checksums possible: {flagged}"));
    }

    pub(super) fn packet(&mut self, frame: &[u8]) -> Buffer {
        let mut packet = self.cache.alloc().expect("the suite's pool is large enough");
        self.must(packet.append(frame), || "the suite's frames fit the pool's".into());
        packet
    }

    pub(super) fn give(&mut self, queue: u16, packets: &mut VecDeque<Buffer>) -> usize {
        let before = packets.len();
        self.queue(queue);
        let taken = self.queues[queue as usize].tx(&mut self.cache, packets);
        let taken = taken.unwrap_or_else(|error| panic!("{}: {error}", self.behaviour));
        let missing = before - packets.len();
        self.must(taken == missing, || format!("took {missing} packets and said {taken}"));
        taken
    }

    pub(super) fn flush(&mut self, queue: u16) {
        self.queue(queue);
        let flushed = self.queues[queue as usize].flush(&mut self.cache);
        flushed.unwrap_or_else(|error| panic!("{}: {error}", self.behaviour));
    }

    /// Sends packets and receives them at the other end, in the portions that both allow.
    pub(super) fn send_all(
        &mut self,
        queue: u16,
        mut packets: VecDeque<Buffer>,
        n: usize,
    ) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        self.eventually(&format!("arrival of {n} frames at the peer"), |bench| {
            bench.give(queue, &mut packets);
            bench.flush(queue);
            while seen.len() < n {
                let Some((on, frame)) = bench.peer.receive() else { break };
                bench.must(on.is_none_or(|on| on == queue), || format!("sent on queue {on:?}"));
                seen.push(frame);
            }
            seen.len() >= n && packets.is_empty()
        });
        seen
    }

    pub(super) fn stats(&self, queue: u16) -> QueueStats {
        self.queues[queue as usize].stats()
    }

    pub(super) fn longest(&self) -> usize {
        self.info.mtu as usize + 14
    }
}

/// A frame of the suite: headers, then bytes which depend on the number and their place.
pub(super) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len.max(14)];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    let payload = &mut frame[14..];
    for (i, byte) in payload.iter_mut().enumerate() {
        *byte = (number as usize * 31 + i * 7 + (i >> 8)) as u8;
    }
    if payload.len() >= 4 {
        payload[..4].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

fn is_ours(frame: &[u8]) -> bool {
    frame.len() >= 14 && frame[12..14] == ETHERTYPE.to_be_bytes()
}
