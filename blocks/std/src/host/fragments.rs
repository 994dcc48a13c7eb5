//! Datagrams in pieces, and the memory that they are put together in.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weever_block::Buffer;
use weever_net::fragment::{Reassembler, ReassemblyConfig};
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

/// The datagrams in pieces of one family. Locked once per burst of fragments, which is not the fast
/// path.
#[derive(Debug)]
pub struct Pieces {
    table: Mutex<Reassembler<Room>>,
    memory: Option<Pool>,
}

impl Pieces {
    fn new(config: ReassemblyConfig, memory: Option<Pool>) -> Pieces {
        Pieces { table: Mutex::new(Reassembler::new(config)), memory }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Reassembler<Room>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A room, or `None` when all are in use.
    pub(crate) fn room(&self) -> Option<Room> {
        let mut buffer = self.memory.as_ref()?.alloc()?;
        buffer.set_bounds(0, u16::MAX).then_some(Room(buffer))
    }

    /// Datagrams in pieces, and bytes of them.
    pub fn held(&self) -> (usize, usize) {
        let table = self.lock();
        (table.len(), table.bytes())
    }

    /// Datagrams that had to leave for others.
    pub fn evicted(&self) -> u64 {
        self.lock().evicted()
    }
}

/// A host's datagrams in pieces. Blocks find it in their [`Env`](weever_block::Env).
#[derive(Debug)]
pub struct Fragments {
    /// Of IPv4.
    pub v4: Pieces,
    /// Of IPv6.
    pub v6: Pieces,
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
