//! Steering received frames to AF_XDP sockets, or leaving them to the kernel.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::addresses::AddressTable;
use super::ports::{self, Port};
use super::steer_program::{self, Rule};
use crate::sys::{AttachMode, BpfError, Map, MapKind, XdpLink, XdpProgram};

/// A value of the counters' map: two `u64`.
const COUNTERS_SIZE: usize = 16;

/// What weever takes from a device that it shares with the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Nothing is shared: every frame goes to the socket of its queue (`share = none`).
    None,
    /// Only what is for the addresses added by [`Steer::add_address`] (`share = address`): IPv4
    /// packets to them, fragments too, and ARP asking for or answering to them; IPv6 packets to
    /// them, and neighbour solicitations for them; untagged or with one 802.1Q tag. All else stays
    /// with the kernel, also what goes to multicast groups that were not added: router
    /// advertisements and unsolicited neighbour advertisements to all nodes are the kernel's unless
    /// ff02::1 is added, and then it does not see them.
    Address,
    /// Only what is for the addresses and for the ports added by [`Steer::add_port`] (`share =
    /// ports`), and ICMP errors about packets from them. The addresses are the kernel's own:
    /// address resolution, ICMP and fragments, the first ones too, stay with it.
    Ports,
}

/// How many frames went where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SteerCounters {
    /// Sent to a socket; the socket's statistics say whether it had room.
    pub redirected: u64,
    /// Left to the kernel: not ours, or no socket on that queue.
    pub passed: u64,
}

/// A loaded steering program and its maps. A frame for which there is no socket on the queue it
/// was received on is left to the kernel.
///
/// Order of use: [`load`](Self::load), then in any order [`attach`](Self::attach),
/// [`set_socket`](Self::set_socket) per queue and [`add_address`](Self::add_address); sockets and
/// addresses may change at any time, and count from the next frame on.
#[derive(Debug)]
pub struct Steer {
    program: XdpProgram,
    sockets: Map,
    addresses: Option<AddressTable>,
    ports: Option<Map>,
    counters: Map,
}

impl Steer {
    /// Makes the maps and loads the program for a device of up to `queues` receive queues.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN.
    pub fn load(share: Share, queues: u32) -> Result<Steer, BpfError> {
        let sockets = Map::create(MapKind::XskMap, "weever_xsks", 4, 4, queues.max(1))?;
        let addresses = match share {
            Share::None => None,
            Share::Address | Share::Ports => Some(AddressTable::new()?),
        };
        let ports = if share == Share::Ports { Some(ports::table()?) } else { None };
        let size = COUNTERS_SIZE as u32;
        let counters = Map::create(MapKind::PerCpuArray, "weever_steered", 4, size, 1)?;
        let rule = match (&addresses, &ports) {
            (Some(addresses), Some(ports)) => Rule::Ports(addresses, ports),
            (Some(addresses), None) => Rule::Addresses(addresses),
            (None, _) => Rule::Any,
        };
        let code = steer_program::emit(&sockets, rule, &counters)?;
        let program = XdpProgram::load("weever_steer", &code)?;
        Ok(Steer { program, sockets, addresses, ports, counters })
    }

    /// Attaches the program to an interface, in the driver if it can, else in the stack. It stays
    /// until the link is dropped or the process ends.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&self, ifindex: u32) -> Result<XdpLink, BpfError> {
        XdpLink::attach(&self.program, ifindex)
    }

    /// Attaches in the given mode only.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach_in(&self, ifindex: u32, mode: AttachMode) -> Result<XdpLink, BpfError> {
        XdpLink::attach_in(&self.program, ifindex, mode)
    }

    /// The loaded program.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }

    /// Sends what arrives on a queue to an AF_XDP socket. The socket has its rings already, and is
    /// bound to this very queue: frames for one bound elsewhere are dropped without a word.
    ///
    /// # Errors
    /// The kernel's word: E2BIG if `queue` is beyond the count given to [`load`](Self::load),
    /// EOPNOTSUPP if the descriptor is no AF_XDP socket with rings.
    pub fn set_socket(&self, queue: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let fd = socket.as_fd().as_raw_fd();
        self.sockets.update(&queue.to_ne_bytes(), &fd.to_ne_bytes())
    }

    /// Leaves what arrives on a queue to the kernel again. A socket that is closed is removed by
    /// itself.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn clear_socket(&self, queue: u32) -> Result<bool, BpfError> {
        self.sockets.remove(&queue.to_ne_bytes())
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
        self.bound()?.update(&port.key(), &[1])
    }

    /// Gives a port back to the kernel and says whether it was ours.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless the program was loaded with [`Share::Ports`].
    pub fn remove_port(&self, port: Port) -> Result<bool, BpfError> {
        self.bound()?.remove(&port.key())
    }

    fn bound(&self) -> Result<&Map, BpfError> {
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
            },
        ))
    }
}

fn counters_of_cpu(value: &[u8; COUNTERS_SIZE]) -> SteerCounters {
    let (words, _) = value.as_chunks::<8>();
    SteerCounters { redirected: u64::from_ne_bytes(words[0]), passed: u64::from_ne_bytes(words[1]) }
}
