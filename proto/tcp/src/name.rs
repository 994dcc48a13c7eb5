//! The names of connections: their ends, and a number.

use core::net::IpAddr;

use weever_net::random::keyed_hash;
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::protocol;

/// The two ends of a connection, as the local one sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Our address, of the same family as the remote one.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl Tuple {
    /// A hash that is unpredictable without the key.
    pub fn hash(&self, key: [u64; 2]) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let hosts = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                keyed_hash(key, &[hosts, ports])
            }
            (local, remote) => {
                let ([a, b], [c, d]) = (halves(local), halves(remote));
                keyed_hash(key, &[a, b, c, d, ports])
            }
        }
    }

    /// A hash for the table of connections, several times quicker than [`hash`](Self::hash): NH of
    /// UMAC (RFC 4418 §5.2) with words of 64 bits, sums of products of words and key, mixed once
    /// more so that all bits of it can be used. Without the key, a peer cannot choose ends that
    /// collide.
    #[inline]
    pub(crate) fn quick_hash(&self, key: &[u64; 6]) -> u64 {
        let product = |a: u64, b: u64, at: usize| {
            u128::from(a.wrapping_add(key[at])) * u128::from(b.wrapping_add(key[at + 1]))
        };
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        let sum = match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                product(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()), ports, 0)
            }
            (local, remote) => {
                let ([a, b], [c, d]) = (halves(local), halves(remote));
                let addresses = product(a, c, 2).wrapping_add(product(b, d, 4));
                addresses.wrapping_add(product(ports, 1, 0))
            }
        };
        let folded = (sum as u64 ^ (sum >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        folded ^ folded >> 32
    }

    /// The pseudo-header of a segment of `len` bytes from the local end.
    #[inline(always)]
    pub fn pseudo(&self, len: usize) -> Pseudo {
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let ([a, b, c, d], [e, f, g, h]) = (local.octets(), remote.octets());
                Pseudo::v4(&[a, b, c, d, e, f, g, h], protocol::TCP, len as u16)
            }
            (local, remote) => {
                let mut addresses = [0; 32];
                let both = [halves(local), halves(remote)].concat();
                for (word, out) in both.iter().zip(addresses.as_chunks_mut::<8>().0) {
                    *out = word.to_be_bytes();
                }
                Pseudo::v6(&addresses, protocol::TCP, len as u32)
            }
        }
    }

    /// Bytes of an IP header without options between these ends.
    pub(crate) fn ip_header_len(&self) -> u16 {
        if self.local.is_ipv4() { 20 } else { 40 }
    }
}

fn halves(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

/// Names a connection. An id outlives its connection harmlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Id {
    /// A small number that no other connection of the endpoint has at the same time, to index the
    /// caller's own records by. Later connections have it again.
    #[inline]
    pub fn slot(self) -> usize {
        self.index as usize
    }
}
