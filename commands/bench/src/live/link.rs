//! A link that numbers the frames it hands over and checks the numbers of those that come back.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use weever_link::{LinkError, LinkQueue, QueueStats, free_sent};
use weever_packet::{Buffer, Burst, PoolCache};

/// Where the number is: behind the headers of a UDP datagram.
const NUMBER: usize = 14 + 20 + 8;
/// The UDP checksum, which is left out (RFC 768): the number would change it.
const CHECKSUM: usize = 14 + 20 + 6;

/// The queue's observations, for other threads.
#[derive(Debug, Default)]
pub(super) struct Seen {
    answers: AtomicU64,
    lost: AtomicU64,
    reordered: AtomicU64,
    /// Longest time between two calls for packets, in nanoseconds; a reader takes it and resets it.
    gap: AtomicU64,
    last: Mutex<Option<(Instant, u64)>>,
}

impl Seen {
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn reordered(&self) -> u64 {
        self.reordered.load(Ordering::Relaxed)
    }

    /// The longest gap since the last call, in microseconds.
    pub(super) fn longest_gap(&self) -> f64 {
        self.gap.swap(0, Ordering::Relaxed) as f64 / 1e3
    }

    /// Answers per microsecond since the last call; zero at the first.
    pub(super) fn rate_since_last(&self) -> f64 {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = (Instant::now(), self.answers());
        let rate = last.map_or(0.0, |(at, answers)| {
            (now.1 - answers) as f64 / (now.0 - at).as_micros().max(1) as f64
        });
        *last = Some(now);
        rate
    }
}

/// The only queue of a link without a peer.
pub(super) struct NumberedQueue {
    frame: Vec<u8>,
    next: u64,
    expected: u64,
    asked: Option<Instant>,
    seen: Arc<Seen>,
    stats: QueueStats,
}

impl NumberedQueue {
    /// Hands over `frame`, a UDP datagram with room for a number, again and again.
    pub(super) fn new(mut frame: Vec<u8>, seen: Arc<Seen>) -> NumberedQueue {
        frame[CHECKSUM..CHECKSUM + 2].fill(0);
        let stats = QueueStats::default();
        NumberedQueue { frame, next: 0, expected: 0, asked: None, seen, stats }
    }

    fn note_gap(&mut self) {
        let now = Instant::now();
        if let Some(before) = self.asked.replace(now) {
            let gap = (now - before).as_nanos() as u64;
            self.seen.gap.fetch_max(gap, Ordering::Relaxed);
        }
    }
}

/// Notes an answer of which the number `expected` was due; returns the next one.
fn answered(packet: &Buffer, expected: u64, seen: &Seen) -> u64 {
    let Some(number) = packet.data().get(NUMBER..NUMBER + 8) else { return expected };
    let number = u64::from_be_bytes(number.try_into().expect("eight bytes"));
    if number < expected {
        seen.reordered.fetch_add(1, Ordering::Relaxed);
        return expected;
    }
    seen.lost.fetch_add(number - expected, Ordering::Relaxed);
    number + 1
}

impl LinkQueue for NumberedQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        self.note_gap();
        let mut n = 0;
        while n < max.min(weever_packet::BURST) {
            let Some(mut buffer) = pool.alloc() else { break };
            self.frame[NUMBER..NUMBER + 8].copy_from_slice(&self.next.to_be_bytes());
            if !buffer.append(&self.frame) {
                pool.free(buffer);
                break;
            }
            self.next += 1;
            let head = buffer.head();
            buffer.meta_mut().l2 = head;
            drop(burst.put(n, buffer));
            n += 1;
        }
        self.stats.rx_packets += n as u64;
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        // An ARP announcement has no number, and is shorter than a datagram.
        let answers = packets.iter().filter(|p| p.data().get(12..14) == Some(&[8, 0]));
        for packet in answers {
            self.seen.answers.fetch_add(1, Ordering::Relaxed);
            self.expected = answered(packet, self.expected, &self.seen);
        }
        Ok(free_sent(u16::MAX, pool, packets, &mut self.stats))
    }

    fn flush(&mut self, _: &mut PoolCache) -> Result<(), LinkError> {
        Ok(())
    }

    fn unsent(&self) -> bool {
        false
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}
