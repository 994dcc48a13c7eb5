//! One direction of the network.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::MILLIS;
use weever_net::random::Random;
use weever_tcp::Ecn;

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: Vec<u8>,
}

/// The faults of the network. Fractions are of a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    /// Chance that a burst of losses begins, and its mean length.
    pub(crate) burst: u64,
    pub(crate) burst_len: u64,
    pub(crate) duplicate: u64,
    pub(crate) corrupt: u64,
    /// Nanoseconds from end to end.
    pub(crate) delay: u64,
    /// Nanoseconds more, at random: packets overtake each other.
    pub(crate) jitter: u64,
    /// Bytes a second; 0: no limit.
    pub(crate) rate: u64,
    /// Bytes that wait for the rate before packets are dropped.
    pub(crate) queue: u64,
    /// Bytes in the queue beyond which ECN-capable packets are marked.
    pub(crate) mark: u64,
    /// Larger segments vanish.
    pub(crate) mtu: usize,
}

impl Faults {
    pub(crate) const NONE: Faults = Faults {
        loss: 0,
        burst: 0,
        burst_len: 0,
        duplicate: 0,
        corrupt: 0,
        delay: 10 * MILLIS,
        jitter: 0,
        rate: 0,
        queue: 256 << 10,
        mark: u64::MAX,
        mtu: usize::MAX,
    };
}

pub(crate) struct Network {
    pub(crate) faults: Faults,
    random: Random,
    under_way: BTreeMap<(u64, u64), Packet>,
    count: u64,
    losing: u64,
    /// When the last packet will have left the queue.
    free_at: u64,
    pub(crate) lost: u64,
    pub(crate) sent: u64,
    pub(crate) marked: u64,
    /// These are lost, by their number from 0.
    pub(crate) lose: Vec<u64>,
    /// Payload bytes that were sent.
    pub(crate) payload: u64,
    /// Sequence numbers of the last packet, and of the last one that was lost.
    pub(crate) last_sent: u32,
    pub(crate) last_lost: Option<u32>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            faults,
            random: Random::new(seed),
            under_way: BTreeMap::new(),
            count: 0,
            losing: 0,
            free_at: 0,
            lost: 0,
            sent: 0,
            marked: 0,
            lose: Vec::new(),
            payload: 0,
            last_sent: 0,
            last_lost: None,
        }
    }

    fn chance(&mut self, of_a_thousand: u64) -> bool {
        of_a_thousand > 0 && self.random.up_to(999) < of_a_thousand
    }

    fn is_lost(&mut self, packet: &Packet) -> bool {
        if self.losing > 0 {
            self.losing -= 1;
            return true;
        }
        if self.chance(self.faults.burst) {
            self.losing = self.random.up_to(2 * self.faults.burst_len);
        }
        let number = self.sent - 1;
        let listed = self.lose.contains(&number);
        listed || self.chance(self.faults.loss) || packet.bytes.len() + 20 > self.faults.mtu
    }

    pub(crate) fn send(&mut self, mut packet: Packet, now: u64) {
        self.sent += 1;
        self.last_sent = u32::from_be_bytes(packet.bytes[4..8].try_into().unwrap());
        let header = usize::from(packet.bytes[12] >> 4) * 4;
        self.payload += (packet.bytes.len() - header) as u64;
        if self.is_lost(&packet) {
            self.lost += 1;
            self.last_lost = Some(self.last_sent);
            return;
        }
        let mut at = now;
        if self.faults.rate > 0 {
            let backlog = self.free_at.saturating_sub(now);
            let waiting =
                (u128::from(backlog) * u128::from(self.faults.rate) / 1_000_000_000) as u64;
            if waiting > self.faults.queue {
                self.lost += 1;
                return;
            }
            if waiting > self.faults.mark && packet.ecn != Ecn::NotEct {
                packet.ecn = Ecn::Ce;
                self.marked += 1;
            }
            let bytes = packet.bytes.len() as u64 + 38;
            self.free_at = self.free_at.max(now) + bytes * 1_000_000_000 / self.faults.rate;
            at = self.free_at;
        }
        let copies = if self.chance(self.faults.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let mut copy = packet.clone();
            if self.chance(self.faults.corrupt) {
                let bit = self.random.up_to(8 * copy.bytes.len() as u64 - 1);
                copy.bytes[bit as usize / 8] ^= 1 << (bit % 8);
            }
            let late = self.random.up_to(self.faults.jitter);
            self.count += 1;
            self.under_way.insert((at + self.faults.delay + late, self.count), copy);
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn receive(&mut self, now: u64) -> Option<Packet> {
        let first = self.under_way.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}
