//! Divides arriving frames into ours and the kernel's: the first part of a program.

use std::net::IpAddr;

use super::addresses::AddressTable;
use super::ports::{Port, PortTable};
use crate::sys::{BpfError, Map, MapKind};

/// A value of the counters' map: three `u64`.
const COUNTERS_SIZE: usize = 24;

/// The traffic that weever takes from a device that it shares with the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Nothing is shared: every frame goes to the socket of its queue (`share = none`).
    None,
    /// Only frames for the addresses added by [`Gate::add_address`] (`share = address`): IPv4
    /// packets to them, fragments too, and ARP asking for or answering to them; IPv6 packets to
    /// them, and neighbour solicitations and advertisements for them; untagged or with one 802.1Q
    /// tag. All else stays with the kernel, also packets to multicast groups that were not added:
    /// router advertisements, and neighbours' about themselves, to all nodes are the kernel's
    /// unless ff02::1 is added, and then it does not see them.
    Address,
    /// Only frames for the addresses and ports added by [`Gate::add_port`] (`share =
    /// ports`), and ICMP errors about packets from them. The addresses are the kernel's own:
    /// address resolution, ICMP and fragments, the first ones too, stay with it.
    Ports,
}

/// How many frames went where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SteerCounters {
    /// Sent to a socket; the socket's statistics say whether it had room.
    pub redirected: u64,
    /// Left to the kernel: not ours, or no socket on that queue and nothing against it.
    pub passed: u64,
    /// Dropped: for ports of ours while nobody served them.
    pub closed: u64,
}

/// The maps that decide whether a frame is ours, and the counters. Their contents may change at any
/// time, from any thread, and count from the next frame on.
#[derive(Debug)]
pub struct Gate {
    addresses: Option<AddressTable>,
    ports: Option<PortTable>,
    pub(super) counters: Map,
}

impl Gate {
    /// Makes the maps.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF.
    pub fn new(share: Share) -> Result<Gate, BpfError> {
        let addresses = match share {
            Share::None => None,
            Share::Address | Share::Ports => Some(AddressTable::new()?),
        };
        let ports = if share == Share::Ports { Some(PortTable::new(None)?) } else { None };
        Gate::with(addresses, ports)
    }

    /// A gate for [`Share::Ports`] with these ports.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn by_port(ports: PortTable) -> Result<Gate, BpfError> {
        Gate::with(Some(AddressTable::new()?), Some(ports))
    }

    fn with(addresses: Option<AddressTable>, ports: Option<PortTable>) -> Result<Gate, BpfError> {
        let size = COUNTERS_SIZE as u32;
        let counters = Map::create(MapKind::PerCpuArray, "weever_steered", 4, size, 1)?;
        Ok(Gate { addresses, ports, counters })
    }

    pub(super) fn rule(&self) -> Rule<'_> {
        match (&self.addresses, &self.ports) {
            (Some(addresses), Some(ports)) => Rule::Ports(addresses, ports),
            (Some(addresses), None) => Rule::Addresses(addresses),
            (None, _) => Rule::Any,
        }
    }

    /// Takes an address, which may be the broadcast or a multicast address too. The first seven of
    /// IPv4 are found faster than the others. Waits for a concurrent change of the addresses to
    /// end.
    ///
    /// # Errors
    /// [`BpfError::Setting`] if the program was loaded with [`Share::None`], or for the unspecified
    /// address; E2BIG above 1,024 addresses of a family.
    pub fn add_address(&self, address: impl Into<IpAddr>) -> Result<(), BpfError> {
        self.owned()?.add(address.into())
    }

    /// Gives an address back to the kernel and says whether it was ours.
    ///
    /// # Errors
    /// [`BpfError::Setting`] if the program was loaded with [`Share::None`].
    pub fn remove_address(&self, address: impl Into<IpAddr>) -> Result<bool, BpfError> {
        self.owned()?.remove(address.into())
    }

    /// Takes a port of the addresses.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless the program was loaded with [`Share::Ports`]; E2BIG above
    /// 16,384 ports.
    pub fn add_port(&self, port: Port) -> Result<(), BpfError> {
        self.ports()?.add(port)
    }

    /// Gives a port back to the kernel and says whether it was ours.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless the program was loaded with [`Share::Ports`].
    pub fn remove_port(&self, port: Port) -> Result<bool, BpfError> {
        self.ports()?.remove(port)
    }

    /// The ports.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless the program was loaded with [`Share::Ports`].
    pub fn ports(&self) -> Result<&PortTable, BpfError> {
        self.ports.as_ref().ok_or_else(|| BpfError::Setting {
            what: "ports are chosen on a device with share = ports only".to_owned(),
        })
    }

    fn owned(&self) -> Result<&AddressTable, BpfError> {
        self.addresses.as_ref().ok_or_else(|| BpfError::Setting {
            what: "a device that is not shared has no address to choose; use share = address"
                .to_owned(),
        })
    }

    /// The counts of all CPUs since loading.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn counters(&self) -> Result<SteerCounters, BpfError> {
        let mut values = vec![0; self.counters.exchange_size()];
        self.counters.lookup(&0u32.to_ne_bytes(), &mut values)?;
        Ok(values.as_chunks::<COUNTERS_SIZE>().0.iter().map(counters_of_cpu).fold(
            SteerCounters::default(),
            |sum, cpu| SteerCounters {
                redirected: sum.redirected + cpu.redirected,
                passed: sum.passed + cpu.passed,
                closed: sum.closed + cpu.closed,
            },
        ))
    }
}

fn counters_of_cpu(value: &[u8; COUNTERS_SIZE]) -> SteerCounters {
    let (words, _) = value.as_chunks::<8>();
    let [redirected, passed, closed] = [0, 1, 2].map(|at| u64::from_ne_bytes(words[at]));
    SteerCounters { redirected, passed, closed }
}

/// The rule that decides whether a frame is ours.
#[derive(Clone, Copy)]
pub(super) enum Rule<'a> {
    /// It is there.
    Any,
    /// It is for one of the addresses.
    Addresses(&'a AddressTable),
    /// It is for one of the addresses and one of the ports.
    Ports(&'a AddressTable, &'a PortTable),
}
