//! Which hosts there are and how they are joined.

use std::net::IpAddr;

use weever_host::Service;
use weever_link::fault::{FaultConfig, Faults};
use weever_link::memory::{MemoryConfig, MemoryLink, pair};
use weever_wire::MacAddr;

use crate::SimError;
use crate::host::{CableId, HostId, HostSpec, Port};
use crate::run::Sim;

/// A cable and the interfaces at its ends.
struct Cable {
    ends: [(HostId, String); 2],
    faults: Faults,
    mtu: u16,
}

/// A network that is to be simulated. Mistakes in it show when it is
/// [started](Self::start).
pub struct Topology {
    seed: u64,
    hosts: Vec<HostSpec>,
    cables: Vec<Cable>,
}

impl Topology {
    /// An empty network. The seed decides the faults and their times.
    pub fn new(seed: u64) -> Topology {
        Topology { seed, hosts: Vec::new(), cables: Vec::new() }
    }

    /// Adds a host.
    pub fn host(&mut self, name: &str) -> HostId {
        self.hosts.push(HostSpec::new(name));
        HostId(self.hosts.len() - 1)
    }

    /// Joins two hosts by a cable of an Ethernet's MTU. Each end becomes an interface with the
    /// address (`10.0.0.1/24` or `fd00::1/64`; several with commas in between); a host's interfaces
    /// are called `eth0`, `eth1` and so on. IPv6 addresses are used once nobody has objected to
    /// them, which takes a second.
    pub fn cable(&mut self, a: HostId, a_addr: &str, b: HostId, b_addr: &str) -> CableId {
        let ends = [(a, a_addr.into()), (b, b_addr.into())];
        self.cables.push(Cable { ends, faults: Faults::default(), mtu: 1500 });
        CableId(self.cables.len() - 1)
    }

    /// Adds faults to a cable, in each direction.
    pub fn faults(&mut self, cable: CableId, faults: Faults) {
        self.cables[cable.0].faults = faults;
    }

    /// Longest IP packet that a cable carries.
    pub fn mtu(&mut self, cable: CableId, mtu: u16) {
        self.cables[cable.0].mtu = mtu;
    }

    /// Gives a host so many workers (at most 16), and each of its interfaces a queue for each of them. Frames
    /// arrive at the first but for [flows that move](Sim::move_flow). The workers run at different speeds.
    pub fn workers(&mut self, host: HostId, count: u16) {
        self.hosts[host.0].workers = count.clamp(1, 16);
    }

    /// Has a host pass on packets for others.
    pub fn forwarding(&mut self, host: HostId) {
        self.hosts[host.0].forwarding = true;
    }

    /// Gives a host a route to a network (`0.0.0.0/0` or `::/0` for all) through a router.
    pub fn route(&mut self, host: HostId, to: &str, via: impl Into<IpAddr>) {
        self.hosts[host.0].routes.push((to.into(), via.into()));
    }

    /// Has a host send back the datagrams that come to a UDP port.
    pub fn echo(&mut self, host: HostId, port: u16) {
        self.hosts[host.0].sockets.push((Service::Echo, port));
    }

    /// Has a host keep the datagrams that come to a UDP port, for [`Sim::received`].
    pub fn listen(&mut self, host: HostId, port: u16) {
        self.hosts[host.0].sockets.push((Service::Discard, port));
    }

    /// Starts every host, at time 0.
    ///
    /// # Errors
    /// [`SimError::Host`]: an address or a route is none, or two sockets have one port.
    pub fn start(self) -> Result<Sim, SimError> {
        let Topology { seed, mut hosts, cables } = self;
        for (number, cable) in cables.iter().enumerate() {
            let links = links(number, cable.mtu);
            for (side, ((host, addr), link)) in cable.ends.iter().zip(links).enumerate() {
                // Faults are on the way out: with both ends wrapped, each direction has them once.
                let seed = seed ^ (2 * number + side) as u64;
                let config = FaultConfig { seed, rx: Faults::default(), tx: cable.faults };
                hosts[host.0].ports.push(Port { addr: addr.clone(), link, config, cable: number });
            }
        }
        Sim::new(hosts, seed)
    }
}

/// Both ends of a cable; MAC addresses tell cables and ends apart.
fn links(cable: usize, mtu: u16) -> [MemoryLink; 2] {
    let mac = |side: u8| {
        let [high, low] = (cable as u16).to_be_bytes();
        MacAddr([2, 0, 0, high, low, side])
    };
    let macs = [mac(1).0, mac(2).0];
    let names = [format!("cable{cable}a"), format!("cable{cable}b")];
    let config = MemoryConfig { names, macs, mtu, ..MemoryConfig::default() };
    let (a, b) = pair(&config).expect("a memory link that cannot be waited on needs nothing");
    [a, b]
}
