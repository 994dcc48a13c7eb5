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
use crate::traffic::{Ends, UDP_CHECKSUM, icmp_frame, numbered_frame};

/// An echo that takes longer is lost.
const LOST: Duration = Duration::from_millis(100);
/// A client with the device to itself.
pub(crate) struct Client {
    /// Keeps the steering program attached.
    _link: AfXdp,
    pub(crate) queue: Box<dyn LinkQueue>,
    pub(crate) pool: PoolCache,
    pub(crate) ends: Ends,
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
        let frame = numbered_frame(ends, PORT, 60).map_err(BenchError::of(failed))?;
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
        // No checksum (RFC 768): the time changes in each.
        self.frame[UDP_CHECKSUM].fill(0);
        let most = LOST.as_nanos() as u64;
        let mut times = Histogram::new_with_max(most, 3).map_err(BenchError::of("client"))?;
        let interval = Duration::from_secs_f64(at_once as f64 / rate);
        let (started, mut due) = (Instant::now(), Duration::ZERO);
        let (mut packets, mut prepared) = (VecDeque::new(), 0);
        while started.elapsed() < during {
            if started.elapsed() >= due {
                let waiting = packets.len();
                self.prepare(&mut packets, at_once, due);
                prepared += packets.len() - waiting;
                due += interval;
            }
            self.queue.tx(&mut self.pool, &mut packets).map_err(&failed)?;
            self.queue.flush(&mut self.pool).map_err(&failed)?;
            self.take_answers(started, &mut times).map_err(&failed)?;
        }
        // Those that are under way count, too: without the late ones the last percentile would be too good.
        let (sent, ended) = ((prepared - packets.len()) as u64, Instant::now());
        while times.len() < sent && ended.elapsed() < LOST {
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
