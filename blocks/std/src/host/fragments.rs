//! Datagrams in pieces, and the memory that they are put together in.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use weever_block::{Buffer, FlowKey, Nanos};
use weever_net::fragment::{Expired, Key, Offer, Part, Piece, Reassembler, ReassemblyConfig};
use weever_net::random;
use weever_packet::{Pool, PoolConfig};

/// Large frames of a host: as many as datagrams in pieces of both families, and as many again as of one that
/// are whole and on their way.
const LARGE_FRAMES: u32 = 192;

/// As much as the longest link header, and some.
const HEADROOM: usize = 64;

/// A large frame for one datagram, all of it.
#[derive(Debug)]
pub(crate) struct Room(Buffer);

impl Room {
    /// The datagram: the first `len` bytes.
    pub(crate) fn datagram(&self, len: usize) -> &[u8] {
        &self.0.data()[..len]
    }

    /// The datagram: the first `len` bytes, moved to where a link's header has room in front of
    /// them, for an answer that is short enough to be sent as it is. A longer answer is copied when
    /// it is fragmented.
    pub(crate) fn into_packet(self, len: usize) -> Buffer {
        let mut packet = self.0;
        let all = packet.data_mut();
        let start = if len + HEADROOM <= all.len() { HEADROOM } else { 0 };
        all.copy_within(..len, start);
        packet.set_bounds(start as u16, (start + len) as u16);
        packet
    }
}

impl AsMut<[u8]> for Room {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }
}

/// The limits of datagrams in pieces of one family, and how many there are. The pieces are in the blocks that put
/// them together, one for each worker, which write sums here: no packet waits for a reader or for another worker.
#[derive(Debug)]
pub struct Pieces {
    config: ReassemblyConfig,
    memory: Option<Pool>,
    /// The blocks.
    tables: AtomicUsize,
    datagrams: AtomicUsize,
    bytes: AtomicUsize,
    evicted: AtomicU64,
}

impl Pieces {
    fn new(config: ReassemblyConfig, memory: Option<Pool>) -> Arc<Pieces> {
        Arc::new(Pieces {
            config,
            memory,
            tables: AtomicUsize::new(0),
            datagrams: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
        })
    }

    /// A room, or `None` when all are in use.
    pub(crate) fn room(&self) -> Option<Room> {
        let mut buffer = self.memory.as_ref()?.alloc()?;
        buffer.set_bounds(0, u16::MAX).then_some(Room(buffer))
    }

    /// The most datagrams that one worker may hold now. While most of the memory is free, all that is allowed;
    /// otherwise its share, so that fragments that come to one worker leave room for those of others.
    fn limit(&self) -> usize {
        let is_plenty = |memory: &Pool| 3 * memory.available() > 2 * memory.frames();
        match self.memory.as_ref().is_some_and(is_plenty) {
            true => self.config.datagrams,
            false => self.config.datagrams / self.tables.load(Relaxed).max(1),
        }
    }

    /// Datagrams in pieces, and bytes of them, as of the last burst of fragments.
    pub fn held(&self) -> (usize, usize) {
        (self.datagrams.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Datagrams that had to leave for others.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }
}

/// A block's datagrams in pieces.
pub(crate) struct Kept {
    table: Reassembler<Room>,
    of: Arc<Pieces>,
    /// The key of the names of flows, the same at all workers.
    flows: random::Key,
    /// Datagrams, bytes and evicted datagrams, as they were last published.
    published: (usize, usize, u64),
}

impl Kept {
    pub(crate) fn new(of: &Arc<Pieces>, flows: random::Key) -> Kept {
        of.tables.fetch_add(1, Relaxed);
        Kept { table: Reassembler::new(of.config), of: of.clone(), flows, published: (0, 0, 0) }
    }

    /// An empty one with the same limits.
    pub(crate) fn fresh(&self) -> Kept {
        Kept::new(&self.of, self.flows)
    }

    /// The name of a datagram among those that workers put together.
    pub(crate) fn flow(&self, key: &Key) -> FlowKey {
        FlowKey::of_hash(key.hash(self.flows))
    }

    /// Takes a fragment.
    pub(crate) fn offer(&mut self, piece: &Piece<'_>, now: Nanos) -> Offer<Room> {
        self.table.limit(self.of.limit());
        self.table.offer(piece, now, || self.of.room())
    }

    pub(crate) fn table(&self) -> &Reassembler<Room> {
        &self.table
    }

    /// Gives up overdue datagrams; calls `f` for each.
    pub(crate) fn poll(&mut self, now: Nanos, f: impl FnMut(Expired<'_>)) {
        self.table.poll(now, f);
    }

    /// Gives away the datagram of a flow.
    pub(crate) fn take(&mut self, flow: FlowKey) -> Option<Box<Part<Room>>> {
        let key = self.table.keys().find(|key| self.flow(key) == flow)?;
        let part = self.table.take(&key);
        // None is evicted between two bursts.
        self.publish();
        part
    }

    /// Goes on with a datagram of another worker; gives it back if there is no room.
    pub(crate) fn put(&mut self, part: Box<Part<Room>>) -> Result<(), Box<Part<Room>>> {
        self.table.put(part)?;
        self.publish();
        Ok(())
    }

    /// Publishes the counts. Returns how many datagrams were evicted since it was last called.
    pub(crate) fn publish(&mut self) -> u64 {
        let now = (self.table.len(), self.table.bytes(), self.table.evicted());
        let (datagrams, bytes, evicted) = std::mem::replace(&mut self.published, now);
        self.of.datagrams.fetch_add(now.0.wrapping_sub(datagrams), Relaxed);
        self.of.bytes.fetch_add(now.1.wrapping_sub(bytes), Relaxed);
        self.of.evicted.fetch_add(now.2 - evicted, Relaxed);
        now.2 - evicted
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.of.tables.fetch_sub(1, Relaxed);
        self.of.datagrams.fetch_sub(self.published.0, Relaxed);
        self.of.bytes.fetch_sub(self.published.1, Relaxed);
    }
}

/// A host's datagrams in pieces. Blocks find it in their [`Env`](weever_block::Env).
#[derive(Debug)]
pub struct Fragments {
    /// Of IPv4.
    pub v4: Arc<Pieces>,
    /// Of IPv6.
    pub v6: Arc<Pieces>,
    memory: Option<Pool>,
    most: usize,
}

impl Default for Fragments {
    /// The protocol's default limits, and 12 MiB of large frames. Without the memory for them there
    /// is no reassembly, and fragments are counted drops.
    fn default() -> Fragments {
        Fragments::new(ReassemblyConfig::default(), Pool::new(PoolConfig::large(LARGE_FRAMES)).ok())
    }
}

impl Fragments {
    /// These limits, for each family, and this pool of large frames.
    pub fn new(config: ReassemblyConfig, memory: Option<Pool>) -> Fragments {
        let pieces = || Pieces::new(config, memory.clone());
        Fragments { v4: pieces(), v6: pieces(), memory, most: config.datagrams.max(1) }
    }

    /// The most datagrams in pieces of each family.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The large frames.
    pub fn memory(&self) -> Option<&Pool> {
        self.memory.as_ref()
    }
}
