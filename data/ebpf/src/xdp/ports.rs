//! The ports of the kernel's addresses that are ours, as the steering program sees them.
//!
//! A port is *ours* (its packets go to a socket), *held* (its packets are dropped: the kernel is not to answer them, and
//! nobody serves them yet), or the kernel's. A range of ports, of both protocols, is ours from the beginning: those that
//! connections of ours begin at. Packets for our ports that find no socket are dropped as held ones are.
//!
//! That the kernel sees none of them ends by itself at the end of the *lease*, unless a running stack extends it: when
//! the stack has ended, in whatever way, and the program has stayed attached.

use std::path::Path;
use std::time::Duration;

use crate::sys::{BpfError, Map, MapKind};

/// How many (protocol, port) pairs can be ours.
const MAX_PORTS: u32 = 16_384;
const NAME: &str = "weever_ports";

/// Values of the map.
pub(super) const OURS: u8 = 1;
pub(super) const HELD: u8 = 2;

/// A transport port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    /// IP protocol number: 6 or 17.
    pub protocol: u8,
    /// The port.
    pub port: u16,
}

impl Port {
    /// A UDP port.
    pub const fn udp(port: u16) -> Port {
        Port { protocol: 17, port }
    }

    /// A TCP port.
    pub const fn tcp(port: u16) -> Port {
        Port { protocol: 6, port }
    }

    /// The port with this key.
    pub(super) fn of_key(key: &[u8]) -> Option<Port> {
        let [a, b, c, d] = *key else { return None };
        let protocol = u8::try_from(u16::from_ne_bytes([a, b])).ok()?;
        Some(Port { protocol, port: u16::from_be_bytes([c, d]) })
    }

    /// As the program makes it.
    pub(super) fn key(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (u16::from(self.protocol).to_ne_bytes(), self.port.to_be_bytes());
        [a, b, c, d]
    }
}

/// Ports that may be changed while packets flow.
#[derive(Debug)]
pub struct PortTable {
    pub(super) bound: Map,
    /// The first and the last port of the range.
    pub(super) range: Option<(u16, u16)>,
    /// When packets for our ports that find no socket are the kernel's again.
    pub(super) lease: Map,
}

impl PortTable {
    /// Makes the maps. `range` are the first and the last port that are ours in any case, of UDP and TCP.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF; [`BpfError::Setting`] for a range that runs backwards.
    pub fn new(range: Option<(u16, u16)>) -> Result<PortTable, BpfError> {
        let bound = Map::create(MapKind::Hash, NAME, 4, 1, MAX_PORTS)?;
        PortTable::over(bound, range)
    }

    /// The same over the ports that an earlier table has [pinned](Self::pin): all of them are held until they are added
    /// again. Without such a table a new one is made.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn inherit(path: &Path, range: Option<(u16, u16)>) -> Result<PortTable, BpfError> {
        let Some(bound) = Map::open_pinned(path, MapKind::Hash, NAME, 4, 1)? else {
            return PortTable::new(range);
        };
        for key in bound.keys()? {
            bound.update(&key, &[HELD])?;
        }
        PortTable::over(bound, range)
    }

    fn over(bound: Map, range: Option<(u16, u16)>) -> Result<PortTable, BpfError> {
        if let Some((first, last)) = range.filter(|(first, last)| first > last) {
            let what = format!("the ports {first} to {last}: write the smaller one first");
            return Err(BpfError::Setting { what });
        }
        let lease = Map::create(MapKind::Array, "weever_lease", 4, 8, 1)?;
        Ok(PortTable { bound, range, lease })
    }

    /// Has the ports outlive this process, as a file in a BPF file system.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        self.bound.pin(path)
    }

    /// Keeps the kernel from packets for our ports that find no socket, from now on for this time. Without a call
    /// they are the kernel's.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn extend_lease(&self, time: Duration) -> Result<(), BpfError> {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let end = monotonic().saturating_add(time);
        self.lease.update(&0u32.to_ne_bytes(), &end.to_ne_bytes())
    }

    /// The ports that are held.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn held(&self) -> Result<Vec<Port>, BpfError> {
        let mut held = Vec::new();
        for key in self.bound.keys()? {
            let mut value = [0];
            if self.bound.lookup(&key, &mut value)? && value == [HELD] {
                held.extend(Port::of_key(&key));
            }
        }
        Ok(held)
    }

    pub(super) fn add(&self, port: Port) -> Result<(), BpfError> {
        self.bound.update(&port.key(), &[OURS])
    }

    pub(super) fn remove(&self, port: Port) -> Result<bool, BpfError> {
        self.bound.remove(&port.key())
    }
}

/// The clock of `bpf_ktime_get_ns`.
fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the one `timespec`, and has no other effect.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    debug_assert_eq!(done, 0, "every Linux has this clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
