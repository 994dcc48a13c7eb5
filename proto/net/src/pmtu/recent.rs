//! Large packets that were sent recently.

use alloc::boxed::Box;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};

use weever_wire::ipv4::protocol;

use crate::SECOND;
use crate::random::Key;

const SLOTS: usize = 4096;
/// How long a message may be on its way back.
const MEMORY: u64 = 30 * SECOND;

/// The part of a packet that an error quotes: enough to tell whether it is one of ours that was
/// sent recently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// Our address.
    pub src: IpAddr,
    /// The destination.
    pub dst: IpAddr,
    /// The transport protocol.
    pub protocol: u8,
    /// Our port and the peer's.
    pub ports: (u16, u16),
    /// The packet's length, as its header says.
    pub length: u32,
    /// Whether it is a fragment of the packet sent.
    pub fragment: bool,
}

impl SentPacket {
    /// Whether an error about it can be matched. ICMP has no ports, and the stranger that asked
    /// knows all of an echo reply: a sender that forges the request can forge the error as well.
    #[inline]
    pub fn is_matched(&self) -> bool {
        matches!(self.protocol, protocol::UDP | protocol::TCP)
    }
}

/// A lossy set of packets, written by every worker that sends and read by the one that learns path MTUs.
/// A slot holds part of a keyed hash of one packet's addresses, ports and length, and half-minutes: others
/// may take it over, after which a true message is ignored until the next packet.
#[derive(Debug)]
pub struct RecentSends {
    key: Key,
    slots: Box<[AtomicU32]>,
}

impl RecentSends {
    /// Nothing sent; `key` is a secret.
    pub fn new(key: Key) -> Self {
        Self { key, slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Notes that a packet longer than [`MIN_V4`](super::MIN_V4) or [`MIN_V6`](super::MIN_V6) bytes
    /// was sent. Writes only on a change: a cache line is not passed about among workers that send
    /// the same.
    #[inline]
    pub fn note(&self, packet: &SentPacket, now: u64) {
        if !packet.is_matched() {
            return;
        }
        let (slot, tag) = self.place(packet);
        let value = tag | age(now);
        let slot = &self.slots[slot];
        if slot.load(Ordering::Relaxed) != value {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// Whether the packet was sent within half a minute, or nearly one.
    pub fn sent(&self, packet: &SentPacket, now: u64) -> bool {
        let (slot, tag) = self.place(packet);
        let value = self.slots[slot].load(Ordering::Relaxed);
        let old = age(now).wrapping_sub(value & 0xff) & 0xff;
        packet.is_matched() && value >> 8 == tag >> 8 && value != 0 && old <= 1
    }

    /// A slot, and a tag in the upper 24 bits that is never zero. Fragments of any length count.
    fn place(&self, packet: &SentPacket) -> (usize, u32) {
        let length = if packet.fragment { 0 } else { packet.length };
        let (ours, theirs) = packet.ports;
        let ends = u64::from(ours) << 48 | u64::from(theirs) << 32;
        let last = ends ^ u64::from(length) << 8 ^ u64::from(packet.protocol);
        // Not a cryptographic hash, on the packet path: its values never leave the table.
        let mix = |h: u64, word: u64| {
            let product = u128::from(h ^ word) * 0xd6e8_feb8_6659_fd93_u128;
            (product >> 64) as u64 ^ product as u64
        };
        let words = [words(packet.src), words(packet.dst)];
        let hash = words.iter().flatten().chain(&[last]).fold(self.key[0], |h, &word| mix(h, word));
        let hash = mix(hash, self.key[1]);
        (hash as usize % SLOTS, ((hash >> 32) as u32 | 1 << 8) & !0xff)
    }
}

fn words(ip: IpAddr) -> [u64; 2] {
    match ip {
        IpAddr::V4(ip) => [ip.to_bits().into(), 0],
        IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
    }
}

/// Half-minutes, modulo 256.
const fn age(now: u64) -> u32 {
    (now / MEMORY) as u32 & 0xff
}
