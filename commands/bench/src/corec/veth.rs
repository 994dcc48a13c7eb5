//! Two threads that receive by AF_XDP: one device queue for both, or one each, on a cable between two namespaces.
//!
//! As in memory, the thread that polls sends the packets that are due, by AF_XDP at the cable's other end; the
//! kernel carries them over in the same system call. That takes the polling thread a microsecond a packet: little
//! beside the heavy work, but more than the light work itself, so that sending is most of what the light load shows.
//! Packets are received by the rule of sharing, as workers do, and go through the router; its transmit side is in
//! memory.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use weever_link::{Link, LinkError, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{BURST, Buffer, Burst, Pool, PoolCache, PoolConfig};
use weever_testbed::Fixture;

use super::gateway::Work;
use super::queue::{Packet, Source, Spread, Taken, arrivals};
use super::team::{Outcome, Servers, Team};
use crate::BenchError;

/// Packets sent by one poll; a kick sends as many.
const AT_ONCE: usize = 32;
/// The most packets under way where the arrivals have no clock.
const UNDER_WAY: usize = 512;
/// After this time without a packet, missing packets count as lost.
const PATIENCE: u64 = 50_000_000;
const FRAMES: u32 = 16_384;

/// A cable, one end of which receives by one device queue with two sockets, or by two queues with
/// one socket each.
struct Cable {
    queues: Vec<Box<dyn LinkQueue>>,
    sender: Mutex<Sender>,
    arrived: Arrived,
    pool: Pool,
    /// The links, which close their queues when they are dropped.
    _ends: [AfXdp; 2],
    _net: Fixture,
}

/// The other end, and the packets to be sent there.
struct Sender {
    queues: Vec<Box<dyn LinkQueue>>,
    cache: PoolCache,
    outbox: VecDeque<Buffer>,
    frames: Vec<Vec<u8>>,
    run: u32,
    /// By time, with their queues.
    packets: Vec<(usize, Packet)>,
    sent: usize,
    is_timed: bool,
}

/// What has come over the cable. Apart from the sender, for which a thread that receives would have to wait.
#[derive(Default)]
struct Arrived {
    count: AtomicUsize,
    /// The time at which the latest came.
    last: AtomicU64,
}

impl Cable {
    fn new(work: Work, is_shared: bool) -> Result<Cable, BenchError> {
        let failed = "veth";
        let (device_queues, sockets) = if is_shared { (1, 2) } else { (2, 1) };
        let net = Fixture::pair(device_queues)?;
        let pool = || {
            let config = PoolConfig { frames: FRAMES, ..PoolConfig::default() };
            Pool::new(config).map_err(BenchError::of(failed))
        };
        let (pool, peers) = (pool()?, pool()?);
        let near = AfXdpConfig {
            sockets_per_queue: sockets,
            threads_per_queue: sockets,
            ..AfXdpConfig::new("left0", pool.clone())
        };
        let mut near = net.left.run(|| AfXdp::open(&near)).map_err(BenchError::of(failed))?;
        let far = AfXdpConfig::new("right0", peers.clone());
        let mut far = net.right.run(|| AfXdp::open(&far)).map_err(BenchError::of(failed))?;
        let sender = Sender {
            queues: far.take_queues(),
            cache: peers.cache(),
            outbox: VecDeque::new(),
            frames: work.frames()?,
            run: 0,
            packets: Vec::new(),
            sent: 0,
            is_timed: false,
        };
        let (queues, sender) = (near.take_queues(), Mutex::new(sender));
        let arrived = Arrived::default();
        Ok(Cable { queues, sender, arrived, pool, _ends: [near, far], _net: net })
    }
}

impl Sender {
    fn begin(&mut self, packets: Vec<(usize, Packet)>, is_timed: bool) {
        let run = self.run + 1;
        (self.run, self.packets, self.is_timed, self.sent) = (run, packets, is_timed, 0);
    }

    /// Sends the packets that are due, where so many have arrived.
    fn send(&mut self, now: u64, arrived: usize) -> Result<(), LinkError> {
        let under_way = self.sent.saturating_sub(arrived);
        let room =
            if self.is_timed { AT_ONCE } else { AT_ONCE.min(UNDER_WAY.saturating_sub(under_way)) };
        for _ in 0..room {
            let next = self.packets.get(self.sent).filter(|(_, packet)| packet.arrives <= now);
            let Some(&(queue, packet)) = next else { break };
            let Some(mut buffer) = self.cache.alloc() else { return Ok(()) };
            let fits = buffer.append(&self.frames[packet.number as usize % self.frames.len()]);
            debug_assert!(fits, "frames are short");
            mark(buffer.data_mut(), self.run, packet.number);
            self.outbox.push_back(buffer);
            let queue = &mut self.queues[queue];
            if queue.tx(&mut self.cache, &mut self.outbox)? == 0 {
                queue.flush(&mut self.cache)?;
                if queue.tx(&mut self.cache, &mut self.outbox)? == 0 {
                    // The device takes nothing now. The packet is made anew next time.
                    self.outbox.drain(..).for_each(|buffer| self.cache.free(buffer));
                    return Ok(());
                }
            }
            self.sent += 1;
        }
        let Sender { queues, cache, .. } = self;
        queues.iter_mut().filter(|queue| queue.unsent()).try_for_each(|queue| queue.flush(cache))
    }

    /// Whether there is nothing more to come. Packets that got lost may keep the last ones from being sent.
    fn is_over(&self, now: u64, arrived: &Arrived) -> bool {
        let all = self.packets.len();
        let patience = if self.sent == all { PATIENCE } else { 20 * PATIENCE };
        let last = arrived.last.load(Ordering::Relaxed).max(self.due());
        arrived.count.load(Ordering::Relaxed) == all || now > last + patience
    }

    fn due(&self) -> u64 {
        self.packets.last().map_or(0, |(_, packet)| packet.arrives)
    }
}

/// Writes a packet's run and number to the end of its frame. Its UDP checksum is left out over IPv4 (RFC 768) and no
/// longer right over IPv6: a router does not look at it.
fn mark(frame: &mut [u8], run: u32, number: u64) {
    let end = frame.len() - 8;
    if frame[12..14] == [8, 0] {
        frame[40..42].fill(0);
    }
    frame[end..end + 4].copy_from_slice(&run.to_be_bytes());
    frame[end + 4..].copy_from_slice(&(number as u32).to_be_bytes());
}

/// The run and the number of a frame, if it has them.
fn marked(frame: &[u8]) -> Option<(u32, u64)> {
    let (head, number) = frame.split_last_chunk::<4>()?;
    let (_, run) = head.split_last_chunk::<4>()?;
    // UDP over IPv4 or IPv6: the kernels send something of their own, too.
    let is_ours = match frame.get(12..14)? {
        [8, 0] => frame.get(23) == Some(&17),
        [0x86, 0xdd] => frame.get(20) == Some(&17),
        _ => false,
    };
    is_ours.then(|| (u32::from_be_bytes(*run), u32::from_be_bytes(*number).into()))
}

/// One thread's end of a cable.
struct Receiving<'c> {
    queue: &'c mut Box<dyn LinkQueue>,
    sender: &'c Mutex<Sender>,
    arrived: &'c Arrived,
    cache: PoolCache,
    burst: Burst,
    run: u32,
    arrivals: &'c [u64],
}

impl Source for Receiving<'_> {
    fn receive(&mut self, now: u64, taken: &mut Taken) -> Option<usize> {
        let Receiving { sender, arrived, .. } = self;
        let mut is_over = false;
        // A thread that is sending sends for the others, too. A cable that fails carries no more packets, and
        // missing ones count as lost.
        if let Ok(mut sender) = sender.try_lock() {
            sender.send(now, arrived.count.load(Ordering::Relaxed)).ok()?;
            is_over = sender.is_over(now, arrived);
        }
        let count = self.queue.rx(&mut self.cache, &mut self.burst, BURST).ok()?;
        let mut own = 0;
        for place in 0..count {
            let Some(buffer) = self.burst.take(place) else { continue };
            let number = marked(buffer.data()).filter(|(run, _)| *run == self.run);
            let packet = number.and_then(|(_, number)| {
                Some(Packet { number, arrives: *self.arrivals.get(number as usize)? })
            });
            let Some(packet) = packet else {
                self.cache.free(buffer);
                continue;
            };
            taken[own] = packet;
            drop(self.burst.put(own, buffer));
            own += 1;
        }
        if own > 0 {
            arrived.count.fetch_add(own, Ordering::Relaxed);
            arrived.last.fetch_max(now, Ordering::Relaxed);
        }
        (own > 0 || !is_over).then_some(own)
    }

    fn frames(&mut self) -> Option<&mut Burst> {
        Some(&mut self.burst)
    }
}

/// Two threads with a cable of each kind.
pub(super) struct Cables {
    cables: [Cable; 2],
    teams: [Team; 2],
}

impl Cables {
    /// With the routers of this work. Needs root.
    pub(super) fn new(work: Work) -> Result<Cables, BenchError> {
        let cables = [Cable::new(work, true)?, Cable::new(work, false)?];
        let team = |cable: &Cable| Team::on(work, 2, Some(&cable.pool));
        let teams = [team(&cables[0])?, team(&cables[1])?];
        Ok(Cables { cables, teams })
    }
}

impl Servers for Cables {
    fn serve(
        &mut self,
        is_shared: bool,
        spread: Spread,
        (count, pause): (u64, f64),
        seed: u64,
    ) -> Result<(Outcome, u64), BenchError> {
        let side = usize::from(!is_shared);
        let Cable { queues, sender, arrived, pool, .. } = &mut self.cables[side];
        let by_queue = arrivals((2, is_shared), spread, (count, pause), seed);
        let with_queue =
            |(queue, packets): (usize, Vec<Packet>)| packets.into_iter().map(move |p| (queue, p));
        let mut packets: Vec<(usize, Packet)> =
            by_queue.into_iter().enumerate().flat_map(with_queue).collect();
        packets.sort_by_key(|(_, packet)| packet.number);
        let times: Vec<u64> = packets.iter().map(|(_, packet)| packet.arrives).collect();
        let begun =
            sender.get_mut().map_err(|_| BenchError::of("veth")("a thread has panicked"))?;
        begun.begin(packets, pause > 0.0);
        *arrived = Arrived::default();
        let (run, sender, arrived) = (begun.run, &*sender, &*arrived);
        let source = |queue| Receiving {
            queue,
            sender,
            arrived,
            cache: pool.cache(),
            burst: Burst::new(),
            run,
            arrivals: &times,
        };
        let outcome = self.teams[side].run(queues.iter_mut().map(source).collect())?;
        let lost = count - outcome.left.len() as u64;
        Ok((outcome, lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_comes_over_the_cable_once_shared_and_apart() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let works = [Work::Light, Work::Heavy(1)].map(|work| Cables::new(work).unwrap());
        for (mut cables, spread) in works.into_iter().zip([Spread::Even, Spread::Skewed]) {
            for is_shared in [true, false] {
                for pause in [0.0, 20_000.0] {
                    let (outcome, lost) = cables.serve(is_shared, spread, (500, pause), 1).unwrap();
                    let mut numbers: Vec<u64> =
                        outcome.left.iter().map(|(_, number)| *number).collect();
                    numbers.sort_unstable();
                    numbers.dedup();
                    assert_eq!(numbers.len(), outcome.left.len(), "none comes twice");
                    assert_eq!(numbers.len() as u64 + lost, 500);
                    assert!(lost < 250, "{lost} lost, shared: {is_shared}, {spread:?}, {pause}");
                }
            }
        }
    }

    #[test]
    fn a_frame_keeps_its_number() {
        // The first two are of IPv4 and of IPv6.
        for frame in &mut Work::Light.frames().unwrap()[..2] {
            mark(frame, 7, 123_456);
            assert_eq!(marked(frame), Some((7, 123_456)));
            frame[12] = 0x88;
            assert_eq!(marked(frame), None, "of another protocol");
            assert_eq!(marked(&frame[..12]), None);
        }
        assert_eq!(marked(&[]), None);
    }
}
