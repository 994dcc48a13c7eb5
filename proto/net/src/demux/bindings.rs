//! The bindings of sockets: the control side's view of all sockets of one transport protocol.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use weever_wire::ipv6::mapped;

use crate::random::keyed_hash;

use super::Sharing;
use super::binding::Binding;

/// A socket that binds, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The socket's number.
    pub socket: u32,
    /// The application queue or service that it belongs to, as the control side numbers them.
    pub owner: u64,
    /// The user that the owner runs as. Only sockets of one user divide a binding by flow or by
    /// worker, so that no user takes a part of another's packets.
    pub user: u32,
}

/// The ports that ephemeral ones are taken from, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl Default for PortRange {
    /// 49152 to 65535, which RFC 6335 §6 leaves to such uses.
    fn default() -> PortRange {
        PortRange { first: 49152, last: 65535 }
    }
}

impl PortRange {
    /// Whether it has a port.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// How many ports it has.
    #[expect(clippy::len_without_is_empty, reason = "a range has its first port")]
    pub fn len(self) -> u32 {
        u32::from(self.last).saturating_sub(self.first.into()) + 1
    }
}

/// Why a socket cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket has it, and the two do not share.
    #[error("{wanted} is in use: socket {} of owner {} has {held}", .holder.socket, .holder.owner)]
    InUse {
        /// The binding asked for.
        wanted: Binding,
        /// The binding that is in the way.
        held: Binding,
        /// The socket that has it.
        holder: Holder,
    },
    /// Every ephemeral port is taken for these addresses.
    #[error("no free port from {first} to {last} is left for {wanted}")]
    NoPort {
        /// The binding asked for.
        wanted: Binding,
        /// The first ephemeral port.
        first: u16,
        /// The last.
        last: u16,
    },
}

#[derive(Clone, Copy, Debug)]
struct Held {
    binding: Binding,
    sharing: Sharing,
    holder: Holder,
}

/// Every binding of one transport protocol.
///
/// Cost: a bind looks at the sockets with the same local port, or with the same peer when it has
/// one, and at those without a local port.
#[derive(Debug)]
pub struct Bindings {
    /// Those without a peer, by local port (0: any).
    open: BTreeMap<u16, Vec<Held>>,
    /// Those with a whole peer, by local port and peer: connected sockets, of which there may be
    /// very many on one port.
    connected: BTreeMap<(u16, [u8; 16], u16), Vec<Held>>,
    ports: PortRange,
    secret: [u64; 2],
    /// The counters of RFC 6056 §3.3.4 (double-hash port selection).
    counters: [u32; COUNTERS],
    /// State of the random increments.
    increments: u64,
}

/// Entries of the table of counters (RFC 6056 §3.3.4: "TABLE_LENGTH").
const COUNTERS: usize = 256;
/// The largest step from one port to the next (RFC 6056 §3.3.5: N, "a trade-off between
/// unpredictability and the frequency of reuse").
const LARGEST_STEP: u64 = 500;

impl Bindings {
    /// No bindings yet. `secret` keys the choice of ports; every host has its own.
    pub fn new(ports: PortRange, secret: [u64; 2]) -> Bindings {
        let seed = |i: usize| keyed_hash(secret, &[0x636f_756e, i as u64]) as u32;
        Bindings {
            open: BTreeMap::new(),
            connected: BTreeMap::new(),
            ports,
            secret,
            counters: core::array::from_fn(seed),
            increments: keyed_hash(secret, &[0x7374_6570]),
        }
    }

    /// Says which ports are ephemeral from now on.
    pub fn set_ports(&mut self, ports: PortRange) {
        self.ports = ports;
    }

    /// Binds a socket, unless another is in the way. Sockets share an overlapping binding when both
    /// ask for the same kind of sharing; by flow and by worker only with those of the same user.
    ///
    /// A binding with a whole peer is never in the way of one without, nor the reverse: the more
    /// specific one gets its packets.
    ///
    /// # Errors
    /// [`BindError::InUse`] names the socket that is in the way.
    pub fn bind(
        &mut self,
        binding: Binding,
        sharing: Sharing,
        holder: Holder,
    ) -> Result<(), BindError> {
        let held = Held { binding, sharing, holder };
        if let Some(other) = self.in_the_way(&held) {
            return Err(BindError::InUse {
                wanted: binding,
                held: other.binding,
                holder: other.holder,
            });
        }
        self.add(held);
        Ok(())
    }

    /// Binds a socket to an ephemeral local port that `usable` accepts (one whose answers arrive
    /// at the right worker, say) and returns the port. RFC 6056 §3.3.4 with the random increments
    /// of §3.3.5: ports towards one peer follow each other, so that they are reused late, and
    /// nobody can tell from them those towards another.
    ///
    /// # Errors
    /// [`BindError::NoPort`].
    pub fn bind_ephemeral(
        &mut self,
        binding: Binding,
        sharing: Sharing,
        holder: Holder,
        mut usable: impl FnMut(u16) -> bool,
    ) -> Result<u16, BindError> {
        let (local, remote) = (words_of(binding.local_addr), words_of(binding.remote_addr));
        let port = u64::from(binding.remote_port.unwrap_or(0));
        let words = |salt| [salt, local[0], local[1], remote[0], remote[1], port];
        let offset = keyed_hash(self.secret, &words(1)) as u32;
        let counter = keyed_hash(self.secret, &words(2)) as usize % COUNTERS;
        let len = self.ports.len();
        let step = self.step();
        self.counters[counter] = self.counters[counter].wrapping_add(step);
        let start = offset.wrapping_add(self.counters[counter]);
        for i in 0..len {
            let port = self.ports.first + (start.wrapping_add(i) % len) as u16;
            let binding = Binding { local_port: Some(port), ..binding };
            let held = Held { binding, sharing, holder };
            // An ephemeral port has one socket only, even if sharing is allowed.
            if usable(port) && self.is_free(&held) {
                self.counters[counter] = self.counters[counter].wrapping_add(i);
                self.add(held);
                return Ok(port);
            }
        }
        let PortRange { first, last } = self.ports;
        Err(BindError::NoPort { wanted: binding, first, last })
    }

    fn step(&mut self) -> u32 {
        self.increments = keyed_hash(self.secret, &[self.increments]);
        (self.increments % LARGEST_STEP) as u32 + 1
    }

    fn add(&mut self, held: Held) {
        let list = self.list_mut(&held.binding);
        if list.is_empty() {
            // Most stay alone: without this there would be room for four.
            *list = Vec::with_capacity(1);
        }
        list.push(held);
    }

    /// Releases a socket's binding; false when it has none such.
    pub fn release(&mut self, binding: &Binding, socket: u32) -> bool {
        let list = self.list_mut(binding);
        let before = list.len();
        list.retain(|held| held.holder.socket != socket || held.binding != *binding);
        let (released, empty) = (list.len() < before, list.is_empty());
        if empty {
            match peer(binding) {
                Some(key) => drop(self.connected.remove(&key)),
                None => drop(self.open.remove(&binding.local_port.unwrap_or(0))),
            }
        }
        released
    }

    /// How many bindings there are.
    pub fn len(&self) -> usize {
        self.open.values().chain(self.connected.values()).map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.connected.is_empty()
    }

    fn list_mut(&mut self, binding: &Binding) -> &mut Vec<Held> {
        match peer(binding) {
            Some(key) => self.connected.entry(key).or_default(),
            None => self.open.entry(binding.local_port.unwrap_or(0)).or_default(),
        }
    }

    /// The bindings that may overlap with one.
    fn candidates(&self, binding: &Binding) -> impl Iterator<Item = &Held> {
        let connected = peer(binding).and_then(|key| self.connected.get(&key));
        let open = if peer(binding).is_some() {
            [None, None]
        } else {
            match binding.local_port {
                Some(port) => [self.open.get(&port), self.open.get(&0)],
                None => [None, None],
            }
        };
        // A binding of every port is compared with all others.
        let everybody = (peer(binding).is_none() && binding.local_port.is_none())
            .then(|| self.open.values())
            .into_iter()
            .flatten();
        connected.into_iter().chain(open.into_iter().flatten()).chain(everybody).flatten()
    }

    fn in_the_way(&self, wanted: &Held) -> Option<&Held> {
        self.candidates(&wanted.binding)
            .find(|held| held.binding.overlaps(&wanted.binding) && !may_share(held, wanted))
    }

    fn is_free(&self, wanted: &Held) -> bool {
        !self.candidates(&wanted.binding).any(|held| held.binding.overlaps(&wanted.binding))
    }
}

fn may_share(a: &Held, b: &Held) -> bool {
    match (a.sharing, b.sharing) {
        (Sharing::Latest, Sharing::Latest) => true,
        (Sharing::ByFlow, Sharing::ByFlow) | (Sharing::ByWorker, Sharing::ByWorker) => {
            a.holder.user == b.holder.user
        }
        _ => false,
    }
}

/// Local port and peer of a binding that gives all three.
fn peer(binding: &Binding) -> Option<(u16, [u8; 16], u16)> {
    Some((binding.local_port?, mapped(binding.remote_addr?), binding.remote_port?))
}

fn words_of(addr: Option<IpAddr>) -> [u64; 2] {
    let bytes = u128::from_be_bytes(addr.map(mapped).unwrap_or_default());
    [(bytes >> 64) as u64, bytes as u64]
}
