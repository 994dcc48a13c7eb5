//! Datagrams in reassembly: a fixed number of slots, and eviction.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Key;
use super::map::Map;

/// Bytes of the first fragment that are kept to report it: RFC 4443 §2.4(c), as much as fits an
/// error within 1,280 bytes.
pub(super) const QUOTE: usize = 1232;

/// One datagram.
pub(super) struct Datagram<S> {
    pub(super) key: Key,
    source: u64,
    /// Datagrams of the same source, this one included.
    peers: usize,
    /// `None` once the datagram was given up.
    pub(super) room: Option<S>,
    pub(super) deadline: u64,
    /// Fragments that have come.
    pub(super) fragments: usize,
    /// Order of arrival, to tell the oldest.
    pub(super) age: u64,
    /// Bytes that have come.
    pub(super) bytes: usize,
    /// Payload bytes, once the last fragment has come.
    pub(super) total: Option<usize>,
    /// The ECN codepoints that have come, a bit each.
    pub(super) ecn: u8,
    /// Bytes of the first fragment in `quote`; 0 until it has come.
    pub(super) quoted: usize,
    /// Bytes of it that become the datagram's header.
    pub(super) header_len: usize,
    /// The protocol to write into the header, and where.
    pub(super) next: Option<(usize, u8)>,
    /// Its index in the storage.
    pub(super) slot: usize,
}

/// The large part of a datagram's state, which stays in place.
pub(super) struct Storage {
    pub(super) map: Map,
    pub(super) quote: [u8; QUOTE],
}

impl Storage {
    fn new() -> Storage {
        Storage { map: Map::new(), quote: [0; QUOTE] }
    }
}

/// A datagram in pieces on its way from one [`Reassembler`](super::Reassembler) to another.
pub struct Part<S> {
    pub(super) datagram: Datagram<S>,
    storage: Storage,
}

impl<S> core::fmt::Debug for Part<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Part({:?}, {} bytes)", self.datagram.key, self.datagram.bytes)
    }
}

pub(super) struct Table<S> {
    list: Vec<Datagram<S>>,
    storage: Box<[Storage]>,
    free: Vec<usize>,
    /// Bytes of all datagrams.
    pub(super) bytes: usize,
    born: u64,
    /// Those that were removed since [`note_ended`](Self::note_ended) was last called.
    ended: Vec<Key>,
}

impl<S> Table<S> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            list: Vec::with_capacity(capacity),
            storage: (0..capacity).map(|_| Storage::new()).collect(),
            free: (0..capacity).collect(),
            bytes: 0,
            born: 0,
            ended: Vec::with_capacity(capacity),
        }
    }

    /// From now on, [`ended`](Self::ended) lists those that are removed.
    pub(super) fn note_ended(&mut self) {
        self.ended.clear();
    }

    pub(super) fn ended(&self) -> &[Key] {
        &self.ended
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.list.iter().map(|datagram| datagram.key)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        self.list.iter().position(|datagram| datagram.key == *key)
    }

    pub(super) fn get(&self, at: usize) -> (&Datagram<S>, &Storage) {
        let datagram = &self.list[at];
        (datagram, &self.storage[datagram.slot])
    }

    pub(super) fn get_mut(&mut self, at: usize) -> (&mut Datagram<S>, &mut Storage) {
        let datagram = &mut self.list[at];
        let storage = &mut self.storage[datagram.slot];
        (datagram, storage)
    }

    /// A new datagram at the end of the list; the table is not full.
    pub(super) fn add(&mut self, key: Key, room: S, deadline: u64) -> Option<usize> {
        let slot = self.free.pop()?;
        self.storage[slot].map.clear();
        self.born += 1;
        let (source, peers) = (key.source(), self.of_source(key.source()) + 1);
        self.set_peers(source, peers);
        self.list.push(Datagram {
            key,
            source,
            peers,
            room: Some(room),
            deadline,
            fragments: 0,
            age: self.born,
            bytes: 0,
            total: None,
            ecn: 0,
            quoted: 0,
            header_len: 0,
            next: None,
            slot,
        });
        Some(self.list.len() - 1)
    }

    pub(super) fn remove(&mut self, at: usize) -> Datagram<S> {
        let datagram = self.list.swap_remove(at);
        self.free.push(datagram.slot);
        self.bytes -= datagram.bytes;
        self.set_peers(datagram.source, datagram.peers - 1);
        self.ended.push(datagram.key);
        datagram
    }

    /// Gives a datagram away with all that has come of it.
    pub(super) fn take(&mut self, at: usize) -> Box<Part<S>> {
        let datagram = self.remove(at);
        let storage = core::mem::replace(&mut self.storage[datagram.slot], Storage::new());
        Box::new(Part { storage, datagram })
    }

    /// Goes on with one that [`take`](Self::take) gave away, and that is not here. Gives it back if there is no room.
    pub(super) fn put(&mut self, part: Box<Part<S>>) -> Result<(), Box<Part<S>>> {
        let Some(slot) = self.free.pop() else { return Err(part) };
        let Part { mut datagram, storage } = *part;
        self.storage[slot] = storage;
        self.born += 1;
        (datagram.slot, datagram.age) = (slot, self.born);
        datagram.peers = self.of_source(datagram.source) + 1;
        self.set_peers(datagram.source, datagram.peers);
        self.bytes += datagram.bytes;
        self.list.push(datagram);
        Ok(())
    }

    fn set_peers(&mut self, source: u64, peers: usize) {
        let same = self.list.iter_mut().filter(|datagram| datagram.source == source);
        same.for_each(|datagram| datagram.peers = peers);
    }

    /// Gives the datagram up but remembers that it was, so that its other fragments do not start
    /// it anew.
    pub(super) fn poison(&mut self, at: usize) {
        let datagram = &mut self.list[at];
        datagram.room = None;
        self.bytes -= datagram.bytes;
        datagram.bytes = 0;
    }

    /// How many datagrams of the source are held.
    pub(super) fn of_source(&self, source: u64) -> usize {
        let mut same = self.list.iter().filter(|datagram| datagram.source == source);
        same.next().map_or(0, |datagram| datagram.peers)
    }

    /// The oldest datagram of a source.
    pub(super) fn oldest_of(&self, source: u64) -> Option<usize> {
        let own = |at: &usize| self.list[*at].source == source;
        (0..self.list.len()).filter(own).min_by_key(|&at| self.list[at].age)
    }

    /// The datagram to evict: one that was given up, else of the source with the most, the oldest
    /// of which one fragment has come, else the oldest: a flood of single fragments evicts its own
    /// datagrams and not those that make progress.
    pub(super) fn victim(&self) -> Option<usize> {
        let worth = |at: &usize| {
            let datagram = &self.list[*at];
            let progress = datagram.fragments > 1;
            (datagram.room.is_some(), core::cmp::Reverse(datagram.peers), progress, datagram.age)
        };
        (0..self.list.len()).min_by_key(worth)
    }

    /// The next deadline.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.list.iter().map(|datagram| datagram.deadline).min()
    }

    pub(super) fn expired(&self, now: u64) -> Option<usize> {
        self.list.iter().position(|datagram| datagram.deadline <= now)
    }
}
