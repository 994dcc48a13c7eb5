//! The table of one worker.

use alloc::boxed::Box;
use alloc::vec::Vec;

use ahash::RandomState;
use hashbrown::HashTable;

use super::binding::{Binding, Family, FlowKey};
use super::binding::{Key, SHAPES, Shape};
use super::{Sharing, SocketRef};

/// The entries are spread over this many hash tables, so that one which grows moves few of them.
const SHARDS: usize = 256;

/// The table has no room for another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table holds {limit} sockets, which is its limit; close some, or raise the limit")]
pub struct TableFull {
    /// The limit.
    pub limit: usize,
}

struct Entry {
    key: Key,
    sockets: Sockets,
}

/// The sockets of one binding. Most are alone.
enum Sockets {
    One(SocketRef),
    Many(Box<Group>),
}

struct Group {
    /// In the order in which they came.
    sockets: Vec<SocketRef>,
    sharing: Sharing,
}

impl Sockets {
    fn all(&self) -> &[SocketRef] {
        match self {
            Sockets::One(socket) => core::slice::from_ref(socket),
            Sockets::Many(group) => &group.sockets,
        }
    }

    fn add(&mut self, socket: SocketRef, sharing: Sharing) {
        match self {
            Sockets::One(first) => {
                let sockets = alloc::vec![*first, socket];
                *self = Sockets::Many(Box::new(Group { sockets, sharing }));
            }
            Sockets::Many(group) => {
                group.sockets.push(socket);
                group.sharing = sharing;
            }
        }
    }
}

/// Which socket a packet is for.
///
/// [`insert`](Self::insert) and [`remove`](Self::remove) change it; [`find`](Self::find) and
/// [`for_each`](Self::for_each) look packets up, without allocating. Conflicts are not checked
/// here: see [`Bindings`](super::Bindings).
pub struct SocketTable {
    shards: Box<[HashTable<Entry>]>,
    hasher: RandomState,
    /// The shapes in use, the most specific first.
    shapes: Vec<Shape>,
    /// How many entries each shape has.
    uses: [u32; SHAPES],
    sockets: usize,
    limit: usize,
}

impl SocketTable {
    /// An empty table for at most `limit` sockets. `secret` keys the hashes; every host has its
    /// own.
    pub fn new(secret: [u64; 4], limit: usize) -> SocketTable {
        let [a, b, c, d] = secret;
        SocketTable {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            hasher: RandomState::with_seeds(a, b, c, d),
            shapes: Vec::with_capacity(SHAPES),
            uses: [0; SHAPES],
            sockets: 0,
            limit,
        }
    }

    /// How many sockets there are; one with two bindings counts twice.
    pub fn len(&self) -> usize {
        self.sockets
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sockets == 0
    }

    /// Adds a socket to a binding. The sharing of the latest is that of all sockets there.
    ///
    /// # Errors
    /// [`TableFull`], and nothing changed.
    pub fn insert(
        &mut self,
        binding: &Binding,
        socket: SocketRef,
        sharing: Sharing,
    ) -> Result<(), TableFull> {
        if self.sockets >= self.limit {
            return Err(TableFull { limit: self.limit });
        }
        let shape = Shape::of(binding);
        let key = shape.key_of(binding);
        let (hash, hasher) = (self.hasher.hash_one(key), &self.hasher);
        let shard = &mut self.shards[shard(hash)];
        match shard.find_mut(hash, |entry| entry.key == key) {
            Some(entry) => entry.sockets.add(socket, sharing),
            None => {
                let entry = Entry { key, sockets: Sockets::One(socket) };
                shard.insert_unique(hash, entry, |entry| hasher.hash_one(entry.key));
                self.uses[usize::from(shape.0)] += 1;
                if let Err(place) = self.shapes.binary_search_by(|there| shape.cmp(there)) {
                    self.shapes.insert(place, shape);
                }
            }
        }
        self.sockets += 1;
        Ok(())
    }

    /// Takes a socket off a binding; false when it is not there.
    pub fn remove(&mut self, binding: &Binding, socket: SocketRef) -> bool {
        let shape = Shape::of(binding);
        let key = shape.key_of(binding);
        let hash = self.hasher.hash_one(key);
        let shard = &mut self.shards[shard(hash)];
        let Ok(mut found) = shard.find_entry(hash, |entry| entry.key == key) else { return false };
        let empty = match &mut found.get_mut().sockets {
            Sockets::One(there) if *there != socket => return false,
            Sockets::One(..) => true,
            Sockets::Many(group) => {
                let all = &mut group.sockets;
                let Some(place) = all.iter().position(|there| *there == socket) else {
                    return false;
                };
                all.remove(place);
                all.is_empty()
            }
        };
        if empty {
            found.remove();
            let uses = &mut self.uses[usize::from(shape.0)];
            *uses -= 1;
            if *uses == 0 {
                self.shapes.retain(|there| *there != shape);
            }
        }
        self.sockets -= 1;
        true
    }

    /// The socket for a packet that came to one of our addresses, received by `worker`.
    #[inline]
    pub fn find(&self, packet: &FlowKey, worker: u16) -> Option<SocketRef> {
        self.matches(packet).next().map(|sockets| self.choose(sockets, packet, worker))
    }

    /// Hands every socket that wants a packet to `take`, each binding's in the order in which they
    /// came: for packets to a group or to everybody. Only bindings that name a group receive its
    /// packets.
    pub fn for_each(&self, packet: &FlowKey, mut take: impl FnMut(SocketRef)) {
        for sockets in self.matches(packet) {
            sockets.all().iter().for_each(|socket| take(*socket));
        }
    }

    /// The bindings that want a packet, the most specific first.
    #[inline]
    fn matches(&self, packet: &FlowKey) -> impl Iterator<Item = &Sockets> {
        let family = if packet.is_v4() { Family::V4 } else { Family::V6 };
        let group = packet.is_to_group();
        let shapes = self.shapes.iter().filter(move |shape| !group || shape.gives_local_addr());
        shapes.filter_map(move |shape| {
            let key = shape.key(packet, family);
            let hash = self.hasher.hash_one(key);
            let entry = self.shards[shard(hash)].find(hash, |entry| entry.key == key)?;
            Some(&entry.sockets)
        })
    }

    fn choose(&self, sockets: &Sockets, packet: &FlowKey, worker: u16) -> SocketRef {
        let (all, sharing) = match sockets {
            Sockets::One(socket) => return *socket,
            Sockets::Many(group) => (&group.sockets, group.sharing),
        };
        let by_flow = |count: usize| (self.hasher.hash_one(packet) % count as u64) as usize;
        match sharing {
            Sharing::Exclusive | Sharing::Latest => all[all.len() - 1],
            Sharing::ByFlow => all[by_flow(all.len())],
            Sharing::ByWorker => {
                let count = all.iter().filter(|socket| socket.worker == worker).count();
                let mut own = all.iter().filter(|socket| socket.worker == worker);
                match count {
                    0 => all[by_flow(all.len())],
                    _ => *own.nth(by_flow(count)).unwrap_or(&all[0]),
                }
            }
        }
    }

    /// How many hash lookups a packet costs at most: the number of shapes in use.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }
}

/// The shard of a hash, by bits that the hash tables do not look at first.
#[inline]
fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}
