//! Path MTUs (RFC 1191, RFC 8201): paths whose packets must be shorter than the first link allows.
//!
//! One writer, many readers: [`PathMtus`] learns from "fragmentation needed" and "packet too big"
//! messages and forgets after a while; a [`View`] is a copy for readers that do not lock, to be
//! made and published whenever [`PathMtus::generation`] has changed. [`RecentSends`] remembers,
//! without a lock, large packets that were sent recently, so that a message about a packet that was never
//! sent is not believed. No message ever raises an MTU, nor lowers it below what every path can carry.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::SECOND;

mod recent;
#[cfg(test)]
mod tests;

pub use recent::{RecentSends, SentPacket};

/// Bytes that every IPv4 host can reassemble (RFC 791 §3.1), below which no message takes us: RFC
/// 1191 §3 allows 68, but only an attacker has a use for that.
pub const MIN_V4: u32 = 576;
/// RFC 791 §3.2: "Every internet module must be able to forward a datagram of 68 octets without further
/// fragmentation."
const LEAST_V4: u32 = 68;
/// Bytes that every IPv6 link can carry (RFC 8200 §5).
pub const MIN_V6: u32 = 1280;

/// RFC 1191 §7.1: common MTUs of links, to guess from when an old router states none.
const PLATEAUS: [u32; 10] = [65_535, 32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 576, 0];

/// A message lowers an MTU by at least so many bytes: a row of forged ones that lower it byte by
/// byte is soon at the floor, and few views of the table are published on the way. A true one that
/// lowers it by less costs packets these bytes.
const MIN_STEP: u32 = 32;

/// Destinations that are looked through one by one, and copied when one of them changes.
const BUCKET: usize = 16;

/// Limits of [`PathMtus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuConfig {
    /// Destinations that are remembered; above 16 as many as make whole buckets of 16.
    pub capacity: usize,
    /// How long. RFC 1191 §6.3 and RFC 8201 §4 recommend ten minutes before a larger one is tried.
    pub lifetime: u64,
}

impl Default for PathMtuConfig {
    fn default() -> Self {
        Self { capacity: 1024, lifetime: 600 * SECOND }
    }
}

/// The content of a message: the packet that it quotes and its MTU field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// The quoted packet.
    pub packet: SentPacket,
    /// Whether the quoted packet forbade fragmentation; always true in IPv6.
    pub dont_fragment: bool,
    /// The next link's MTU; zero if the router is too old to say.
    pub mtu: u32,
}

/// Why a message is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TooBigReject {
    /// The packet that it quotes could have been fragmented, or would have fit.
    #[error("too big, says a message about a packet that was not")]
    Contradiction,
    /// We have sent no packet of that length to it.
    #[error("too big, says a message about a packet that was not sent")]
    NeverSent,
    /// It would raise or keep the known MTU.
    #[error("path MTU is not lowered")]
    NotLower,
}

/// One destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The destination.
    pub dst: IpAddr,
    /// Bytes of the longest packet to it, IP header included.
    pub mtu: u32,
    /// Whether a link on the path takes less than that, so that routers have to fragment.
    pub may_fragment: bool,
    /// When it is forgotten.
    pub until: u64,
}

/// The writer's table. It shares all its buckets with the views made of it, and copies one before it
/// changes it: a change costs a bucket, however large the table is.
#[derive(Clone, Debug)]
pub struct PathMtus {
    config: PathMtuConfig,
    view: View,
    generation: u64,
}

impl PathMtus {
    /// Nothing known.
    pub fn new(config: PathMtuConfig) -> Self {
        let buckets = config.capacity.div_ceil(BUCKET).max(1);
        let view = View { buckets: vec![Arc::default(); buckets], entries: 0 };
        Self { config, view, generation: 0 }
    }

    /// Learns from a message; the MTU that counts now, which may be a little less than it said when
    /// an earlier one had lowered it already. `link_mtu` is that of the first link, `recent` are
    /// the packets sent of late.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn learn(
        &mut self,
        said: TooBig,
        link_mtu: u32,
        recent: &RecentSends,
        now: u64,
    ) -> Result<u32, TooBigReject> {
        let SentPacket { dst, length, .. } = said.packet;
        let floor = floor(dst);
        let impossible = said.mtu != 0 && said.mtu < LEAST_V4;
        if !said.dont_fragment || length <= floor || said.mtu >= length || impossible {
            return Err(TooBigReject::Contradiction);
        }
        if !recent.sent(&said.packet, now) {
            return Err(TooBigReject::NeverSent);
        }
        let before = self.view.find_entry(dst).copied();
        let known = before.map_or(link_mtu, |entry| entry.mtu);
        let mtu = match said.mtu {
            0 => plateau_below(length),
            mtu => mtu,
        };
        let may_fragment = mtu < floor;
        let mtu = mtu.max(floor);
        let news = may_fragment && !before.is_some_and(|entry| entry.may_fragment);
        if mtu >= known && !news {
            return Err(TooBigReject::NotLower);
        }
        let mtu = match before {
            Some(_) => mtu.min(known - known.min(MIN_STEP)).max(floor).min(known),
            // The first is as likely a tunnel's few bytes.
            None => mtu,
        };
        let until = now.saturating_add(self.config.lifetime);
        self.insert(Entry { dst, mtu, may_fragment, until });
        Ok(mtu)
    }

    /// The path MTU to `dst`, if one was learned.
    pub fn lookup(&self, dst: IpAddr) -> Option<u32> {
        self.view.find_entry(dst).map(|entry| entry.mtu)
    }

    /// Forgets entries that are too old; true if there were any.
    pub fn poll(&mut self, now: u64) -> bool {
        let changed = self.retain(|entry| entry.until > now);
        self.generation += u64::from(changed);
        changed
    }

    /// When [`poll`](Self::poll) has something to do next.
    pub fn poll_at(&self) -> Option<u64> {
        self.view.all().map(|entry| entry.until).min()
    }

    /// Forgets one destination, or all.
    pub fn forget(&mut self, dst: Option<IpAddr>) {
        self.retain(|entry| dst.is_some_and(|dst| entry.dst != dst));
        self.generation += 1;
    }

    /// All of them, by destination.
    pub fn entries(&self) -> Vec<Entry> {
        let mut all: Vec<Entry> = self.view.all().copied().collect();
        all.sort_unstable_by_key(|entry| entry.dst);
        all
    }

    /// A number that grows whenever a new [`View`] is to be published.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// As it is now, for readers.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Inserts or replaces; on a full bucket, the entry that would have gone first makes room.
    fn insert(&mut self, entry: Entry) {
        self.generation += 1;
        let at = self.view.bucket_of(entry.dst);
        let bucket = Arc::make_mut(&mut self.view.buckets[at]);
        let before = bucket.len();
        let first_to_go =
            |bucket: &Vec<Entry>| (0..bucket.len()).min_by_key(|at| bucket[*at].until);
        let place = bucket.iter().position(|known| known.dst == entry.dst);
        let room = before < BUCKET.min(self.config.capacity.max(1));
        match place.or_else(|| first_to_go(bucket).filter(|_| !room)) {
            Some(place) => bucket[place] = entry,
            None => bucket.push(entry),
        }
        self.view.entries += bucket.len() - before;
    }

    /// Whether anything had to go. Leaves buckets alone that keep everything.
    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) -> bool {
        let before = self.view.entries;
        for bucket in &mut self.view.buckets {
            if !bucket.iter().all(&keep) {
                let all = bucket.len();
                let bucket = Arc::make_mut(bucket);
                bucket.retain(&keep);
                self.view.entries -= all - bucket.len();
            }
        }
        self.view.entries != before
    }
}

/// The table as it was at one moment, for readers. Empty for nearly every host, and then a lookup is
/// one comparison.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Each destination has its place on one of them.
    buckets: Vec<Arc<Vec<Entry>>>,
    entries: usize,
}

impl View {
    /// Whether nothing is known of any path.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of the longest packet to `dst` over a link of `link_mtu`, IP header included. Entries
    /// that are too old still count until the writer has forgotten them.
    #[inline]
    pub fn mtu(&self, dst: IpAddr, link_mtu: u32) -> u32 {
        if self.is_empty() {
            return link_mtu;
        }
        self.find_entry(dst).map_or(link_mtu, |entry| entry.mtu.min(link_mtu))
    }

    /// Whether datagrams to `dst` must not forbid fragmentation: a link on the path takes less than
    /// the lowest MTU that we learn. Without that, they would all be lost.
    #[inline]
    pub fn may_fragment(&self, dst: IpAddr) -> bool {
        !self.is_empty() && self.find_entry(dst).is_some_and(|entry| entry.may_fragment)
    }

    fn find_entry(&self, dst: IpAddr) -> Option<&Entry> {
        let bucket = self.buckets.get(self.bucket_of(dst))?;
        bucket.iter().find(|entry| entry.dst == dst)
    }

    /// Destinations chosen to share a bucket displace only the other entries of that bucket, which are
    /// learned again.
    fn bucket_of(&self, dst: IpAddr) -> usize {
        let words = match dst {
            IpAddr::V4(dst) => [dst.to_bits().into(), 0],
            IpAddr::V6(dst) => [(dst.to_bits() >> 64) as u64, dst.to_bits() as u64],
        };
        let mixed = (words[0].rotate_left(29) ^ words[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % self.buckets.len().max(1)
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.buckets.iter().flat_map(|bucket| bucket.iter())
    }
}

/// RFC 8201 §4: "A node must not reduce its estimate of the Path MTU below the IPv6 minimum link
/// MTU".
const fn floor(dst: IpAddr) -> u32 {
    match dst {
        IpAddr::V4(_) => MIN_V4,
        IpAddr::V6(_) => MIN_V6,
    }
}

/// RFC 1191 §5: the greatest plateau below the length of the packet that was too long.
fn plateau_below(length: u32) -> u32 {
    PLATEAUS.into_iter().find(|&plateau| plateau < length).unwrap_or(0)
}
