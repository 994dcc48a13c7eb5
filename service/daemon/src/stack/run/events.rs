//! Events of leases, addresses, neighbours and blocks, for the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use weever_blocks_std::dhcp::Status;
use weever_blocks_std::host::AddressConflict;
use weever_engine::Fault;
use weever_host::Relieved;
use weever_net::addr::{Address, Cidr};
use weever_net::dhcp4::Lease;
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::AddrState;
use weever_net::neighbour::{Neighbour, State};
use weever_net::state::NetConfig;
use weever_wire::MacAddr;

/// The most lost neighbours that are remembered, to log that they are back.
const MAX_LOST: usize = 1024;

/// An event that an operator wants to know of. Addresses come with the interface's name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    LeaseGranted {
        interface: String,
        lease: Box<Lease>,
    },
    LeaseEnded {
        interface: String,
        address: Cidr,
    },
    /// Another station has an address that we were about to use (RFC 5227 §2.1.1, RFC 4862 §5.4).
    Duplicate {
        interface: String,
        address: IpAddr,
    },
    /// Another station uses an address of ours (RFC 5227 §2.4).
    Conflict {
        interface: String,
        address: IpAddr,
        mac: MacAddr,
    },
    BlockPanicked {
        worker: String,
        node: String,
        message: String,
        quarantined: bool,
    },
    NeighbourLost {
        interface: String,
        address: IpAddr,
    },
    NeighbourBack {
        interface: String,
        address: IpAddr,
    },
    Relieved(Relieved),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::LeaseGranted { interface, lease } => {
                let (address, server) = (lease.address, lease.server);
                write!(f, "{interface}: DHCP lease of {address} from {server}, ")?;
                match lease.lasts {
                    u64::MAX => write!(f, "without an end"),
                    nanos => write!(f, "for {} seconds", nanos / 1_000_000_000),
                }
            }
            Event::LeaseEnded { interface, address } => {
                write!(f, "{interface}: the DHCP lease of {address} has ended")
            }
            Event::Duplicate { interface, address } => write!(
                f,
                "{interface}: {address} is not used, another station has it; give this host or the \
                 other one another address"
            ),
            Event::Conflict { interface, address, mac } => write!(
                f,
                "{interface}: {mac} uses our address {address} too; give this host or the other one \
                 another address"
            ),
            Event::NeighbourLost { interface, address } => {
                write!(f, "{interface}: neighbour {address} does not answer any more")
            }
            Event::BlockPanicked { worker, node, message, quarantined: false } => write!(
                f,
                "{worker}: the block of node {node} panicked and was replaced by a fresh one; its \
                 state and its packets at that time are lost ({message})"
            ),
            Event::BlockPanicked { worker, node, message, quarantined: true } => write!(
                f,
                "{worker}: the block of node {node} panicked repeatedly and is quarantined; its \
                 packets are dropped until `weever graph apply` replaces the node ({message})"
            ),
            Event::NeighbourBack { interface, address } => {
                write!(f, "{interface}: neighbour {address} answers again")
            }
            Event::Relieved(Relieved { worker, by, flows }) => write!(
                f,
                "{worker}: all its device queues have failed; {by} goes on with {} of its flows",
                flows.moved
            ),
        }
    }
}

/// Finds the changes between two looks at the network.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    leases: BTreeMap<IfaceId, Lease>,
    duplicates: BTreeSet<(IfaceId, IpAddr)>,
    /// Neighbours whose link address was known at the last look.
    known: BTreeSet<(IfaceId, IpAddr)>,
    lost: BTreeSet<(IfaceId, IpAddr)>,
    /// How often the block of a worker's node had panicked at the last look.
    panics: BTreeMap<(String, String), u64>,
    events: Vec<Event>,
}

impl EventLog {
    /// Looks for blocks that have panicked on a worker.
    pub(super) fn look_at_faults(&mut self, worker: &str, faults: Vec<Fault>) {
        for Fault { node, panics, quarantined, message, .. } in faults {
            let known = self.panics.entry((worker.to_owned(), node.to_string())).or_default();
            if std::mem::replace(known, panics) < panics {
                let (worker, node) = (worker.to_owned(), node.to_string());
                self.events.push(Event::BlockPanicked { worker, node, message, quarantined });
            }
        }
    }

    /// A worker without devices has given its flows away.
    pub(super) fn note_relieved(&mut self, all: Vec<Relieved>) {
        self.events.extend(all.into_iter().map(Event::Relieved));
    }

    /// Writes the changes found since the last time.
    pub(super) fn write(&mut self) {
        for event in self.events.drain(..) {
            match event {
                Event::LeaseGranted { .. } | Event::NeighbourBack { .. } => {
                    tracing::info!("{event}");
                }
                _ => tracing::warn!("{event}"),
            }
        }
    }

    /// A lease that was only renewed is nothing new.
    pub(super) fn look_at_leases(&mut self, network: &NetConfig, clients: &[Status]) {
        let now: BTreeMap<IfaceId, Lease> = clients
            .iter()
            .filter_map(|client| Some((client.iface, client.lease.clone()?)))
            .collect();
        for (iface, old) in &self.leases {
            if now.get(iface).is_none_or(|lease| lease.address != old.address) {
                let (interface, address) = (name(network, *iface), old.address);
                self.events.push(Event::LeaseEnded { interface, address });
            }
        }
        for (iface, lease) in &now {
            if self.leases.get(iface).is_none_or(|old| old.address != lease.address) {
                let (interface, lease) = (name(network, *iface), Box::new(lease.clone()));
                self.events.push(Event::LeaseGranted { interface, lease });
            }
        }
        self.leases = now;
    }

    pub(super) fn look_at_addresses(&mut self, network: &NetConfig) {
        let of = |iface: &Interface| {
            let v4 = iface.duplicate.iter().map(|cidr| IpAddr::V4(cidr.addr()));
            let v6 = iface.v6.iter().filter(|own| own.state == AddrState::Duplicate);
            let all = v4.chain(v6.map(|own| IpAddr::V6(own.cidr.addr())));
            all.map(|address| (iface.id, address)).collect::<Vec<_>>()
        };
        let now: BTreeSet<_> = network.interfaces().iter().flat_map(of).collect();
        for (iface, address) in now.difference(&self.duplicates) {
            let (interface, address) = (name(network, *iface), *address);
            self.events.push(Event::Duplicate { interface, address });
        }
        self.duplicates = now;
    }

    pub(super) fn look_at_conflicts(&mut self, network: &NetConfig, all: &[AddressConflict]) {
        for AddressConflict { iface, ip, mac } in all {
            let (interface, address) = (name(network, *iface), IpAddr::V4(*ip));
            self.events.push(Event::Conflict { interface, address, mac: *mac });
        }
    }

    /// Neighbours of one family: a neighbour with a known link address that stops answering is
    /// lost. One that leaves the cache unused is not.
    pub(super) fn look_at_neighbours<A: Address + Into<IpAddr>>(
        &mut self,
        network: &NetConfig,
        entries: Vec<(IfaceId, Neighbour<A>)>,
    ) {
        for (iface, entry) in &entries {
            let at = (*iface, entry.ip.into());
            let (interface, address) = (|| name(network, *iface), at.1);
            if entry.state == State::Failed {
                if self.known.remove(&at) {
                    self.lost.insert(at);
                    self.events.push(Event::NeighbourLost { interface: interface(), address });
                }
            } else if entry.mac.is_some() {
                self.known.insert(at);
                if self.lost.remove(&at) {
                    self.events.push(Event::NeighbourBack { interface: interface(), address });
                }
            }
        }
        // Neighbours that left the cache are forgotten here too, so that both have the same bound.
        let listed: BTreeSet<_> = entries.iter().map(|(iface, e)| (*iface, e.ip.into())).collect();
        let is_of_family = |address: &IpAddr| (A::BITS == 32) == address.is_ipv4();
        self.known.retain(|at| !is_of_family(&at.1) || listed.contains(at));
        if self.lost.len() > MAX_LOST {
            self.lost.clear();
        }
    }
}

fn name(network: &NetConfig, id: IfaceId) -> String {
    network.interface(id).map_or_else(|| format!("interface {id}"), |iface| iface.name.clone())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LAN: IfaceId = IfaceId(0);
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn network() -> NetConfig {
        let mut network = NetConfig::new();
        network.add_interface(Interface::new(LAN, "lan", 0, MAC)).unwrap();
        network
    }

    fn texts(log: &mut EventLog) -> Vec<String> {
        log.events.drain(..).map(|event| event.to_string()).collect()
    }

    fn lease(address: &str, since: u64) -> Lease {
        Lease {
            address: address.parse().unwrap(),
            server: Ipv4Addr::new(10, 0, 0, 254),
            routes: Vec::new(),
            dns: Vec::new(),
            mtu: None,
            since,
            lasts: 600_000_000_000,
            renew_after: 1,
            rebind_after: 2,
        }
    }

    #[test]
    fn a_panic_of_a_block_is_logged_once() {
        let mut log = EventLog::default();
        let fault = |panics, quarantined| Fault {
            node: "Echo".into(),
            panics,
            lost: 1,
            refused: 0,
            quarantined,
            message: "index out of bounds".into(),
        };
        log.look_at_faults("worker-0", vec![fault(1, false)]);
        let text = texts(&mut log).remove(0);
        assert!(
            text.starts_with("worker-0: the block of node Echo panicked and was replaced"),
            "{text}"
        );
        assert!(text.ends_with("(index out of bounds)"), "{text}");
        log.look_at_faults("worker-0", vec![fault(1, false)]);
        assert!(texts(&mut log).is_empty());
        log.look_at_faults("worker-1", vec![fault(3, true)]);
        assert!(texts(&mut log).remove(0).contains("is quarantined"));
    }

    #[test]
    fn a_lease_is_logged_when_it_is_granted_and_when_it_ends_not_when_it_is_renewed() {
        let (mut log, network) = (EventLog::default(), network());
        let state = weever_net::dhcp4::State::Bound;
        let mut look = |lease: Option<Lease>| {
            log.look_at_leases(&network, &[Status { iface: LAN, state, lease }]);
            texts(&mut log)
        };
        assert!(look(None).is_empty());
        let granted = "lan: DHCP lease of 10.0.0.7/24 from 10.0.0.254, for 600 seconds";
        assert_eq!(look(Some(lease("10.0.0.7/24", 1))), [granted]);
        assert!(look(Some(lease("10.0.0.7/24", 2))).is_empty());
        assert_eq!(look(Some(lease("10.0.0.8/24", 3))).len(), 2, "one ends, another is granted");
        assert_eq!(look(None), ["lan: the DHCP lease of 10.0.0.8/24 has ended"]);
    }

    #[test]
    fn duplicate_addresses_and_conflicts_name_address_and_station() {
        let (mut log, mut network) = (EventLog::default(), network());
        network.add_tentative(LAN, "10.0.0.1/24".parse().unwrap()).unwrap();
        log.look_at_addresses(&network);
        assert!(texts(&mut log).is_empty());
        network.refuse_address(LAN, [10, 0, 0, 1].into()).unwrap();
        log.look_at_addresses(&network);
        log.look_at_addresses(&network);
        let duplicate = texts(&mut log);
        assert_eq!(duplicate.len(), 1);
        assert!(duplicate[0].starts_with("lan: 10.0.0.1 is not used"), "{duplicate:?}");
        log.look_at_conflicts(&network, &[AddressConflict { iface: LAN, ip: PEER, mac: MAC }]);
        let conflict = texts(&mut log);
        assert!(conflict[0].contains(&format!("{MAC} uses our address 10.0.0.2")), "{conflict:?}");
    }

    #[test]
    fn a_neighbour_is_lost_when_it_was_known_and_does_not_answer() {
        let (mut log, network) = (EventLog::default(), network());
        let entry = |state, mac| Neighbour { ip: PEER, mac, state, heard_at: 0, used_at: None };
        let mut look = |state, mac| {
            log.look_at_neighbours(&network, vec![(LAN, entry(state, mac))]);
            // The other family's look does not touch these.
            log.look_at_neighbours::<std::net::Ipv6Addr>(&network, Vec::new());
            texts(&mut log)
        };
        assert!(look(State::Failed, None).is_empty(), "it has never answered");
        assert!(look(State::Reachable, Some(MAC)).is_empty());
        assert!(look(State::Incomplete, None).is_empty());
        assert_eq!(look(State::Failed, None), ["lan: neighbour 10.0.0.2 does not answer any more"]);
        assert!(look(State::Failed, None).is_empty(), "once is enough");
        assert_eq!(look(State::Reachable, Some(MAC)), ["lan: neighbour 10.0.0.2 answers again"]);
        log.look_at_neighbours::<Ipv4Addr>(&network, Vec::new());
        let failed = vec![(LAN, entry(State::Failed, None))];
        log.look_at_neighbours(&network, failed);
        assert!(texts(&mut log).is_empty(), "it was forgotten, not lost");
    }
}
