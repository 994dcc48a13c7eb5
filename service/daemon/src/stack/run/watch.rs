//! The effects of the network's state outside the graph: the packets that devices hand over, and
//! the operator's log.
//!
//! Addresses change by operators, DHCP and router advertisements, neighbours come and go. A thread of
//! its own looks at them twenty times a second; blocks of the graph neither log nor know of devices.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weever_blocks_std::dhcp::{Dhcp, Status};
use weever_host::HostHandle;
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetState;

use super::events::EventLog;
use crate::stack::device::applications::ApplicationPorts;
use crate::stack::device::links::AddressFilter;

/// How long a change may take to be noticed.
const PERIOD: Duration = Duration::from_millis(50);
/// Neighbours and panics of blocks are checked only once in so many periods: an unreachable neighbour is
/// known as such for three seconds.
const NEIGHBOUR_PERIODS: u32 = 20;

/// How long a worker whose devices have failed may take to give its flows away. It is idle.
const RELIEF_PATIENCE: Duration = Duration::from_millis(500);

/// A thread that watches the network. Dropping it ends it.
pub(in crate::stack) struct NetworkWatcher {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkWatcher {
    /// Watches the network of a host, for the log and for the filters of these links' devices: the
    /// link's number and its filter. Applications' `ports` follow the addresses.
    pub(in crate::stack) fn start(
        host: HostHandle,
        filters: Vec<(u16, AddressFilter)>,
        ports: Option<ApplicationPorts>,
    ) -> io::Result<NetworkWatcher> {
        let stop = Arc::<(Mutex<bool>, Condvar)>::default();
        let stopped = Arc::clone(&stop);
        let work = move || watch(&host, filters, ports.as_ref(), &stopped);
        let thread = thread::Builder::new().name("network".into()).spawn(work)?;
        Ok(NetworkWatcher { stop, thread: Some(thread) })
    }
}

impl Drop for NetworkWatcher {
    fn drop(&mut self) {
        let (stopped, told) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the panic was logged; the devices are closed anyway.
            drop(thread.join());
        }
    }
}

fn watch(
    host: &HostHandle,
    mut filters: Vec<(u16, AddressFilter)>,
    ports: Option<&ApplicationPorts>,
    stop: &(Mutex<bool>, Condvar),
) {
    let clients = host.env.get_or_default::<Dhcp>();
    let mut log = EventLog::default();
    let (mut seen, mut periods) = (None, 0);
    loop {
        let leases = clients.status();
        let now = (host.network.generation(), seeking(&leases));
        let state = host.network.state();
        if seen.as_ref() != Some(&now) {
            for (link, filter) in &mut filters {
                follow(filter, wanted(&state, *link, &now.1));
            }
            ports.iter().for_each(|ports| ports.follow_addresses());
            log.look_at_addresses(state.config());
            seen = Some(now);
        }
        log.look_at_leases(state.config(), &leases);
        log.look_at_conflicts(state.config(), &host.neighbours.take_conflicts());
        if periods % NEIGHBOUR_PERIODS == 0 {
            log.look_at_neighbours(state.config(), host.neighbours.entries());
            log.look_at_neighbours(state.config(), host.neighbours6.entries());
            for worker in &*host.workers {
                log.look_at_faults(&worker.name, worker.counters.faults());
            }
            ports.iter().for_each(|ports| ports.tend());
            log.note_relieved(host.relieve(RELIEF_PATIENCE));
        }
        periods = periods.wrapping_add(1);
        log.write();
        let (stopped, told) = stop;
        let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = told.wait_timeout_while(stopped, PERIOD, |stopped| !*stopped);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
    }
}

/// The interfaces that wait for an address of a DHCP server, whose answers are broadcast.
pub(super) fn seeking(clients: &[Status]) -> Vec<IfaceId> {
    clients.iter().filter(|client| client.lease.is_none()).map(|client| client.iface).collect()
}

/// The addresses whose packets a link has to hand over. Broadcasts are the kernel's, except while
/// they are used to seek an address. Packets for all hosts and all nodes are the kernel's too, and
/// the link overhears them.
pub(super) fn wanted(state: &NetState, link: u16, seeking: &[IfaceId]) -> BTreeSet<IpAddr> {
    let up = |iface: &&Interface| iface.link == link && iface.up;
    let interfaces = state.config().interfaces().iter().filter(up);
    let seeks = interfaces.clone().any(|iface| seeking.contains(&iface.id));
    let broadcast = seeks.then_some(IpAddr::V4(Ipv4Addr::BROADCAST));
    interfaces.flat_map(of_interface).chain(broadcast).collect()
}

fn of_interface(iface: &Interface) -> impl Iterator<Item = IpAddr> + '_ {
    let own = iface.v4.iter().chain(iface.tentative.iter()).map(|cidr| cidr.addr());
    let v4 = own.chain(iface.groups4.iter()).map(IpAddr::V4);
    v4.chain(of_interface6(iface).map(IpAddr::V6))
}

/// Neighbour solicitations are handed over by their target, so that their groups, which the
/// kernel's addresses may share, stay the kernel's.
fn of_interface6(iface: &Interface) -> impl Iterator<Item = Ipv6Addr> + '_ {
    let speaks = iface.v6_settings.enabled;
    let own = iface.v6.iter().map(|own| own.cidr.addr());
    own.chain(iface.groups6.iter()).filter(move |_| speaks)
}

/// Takes and gives back the addresses that differ. Refused ones are asked for again at the next
/// change.
pub(super) fn follow(filter: &mut AddressFilter, wanted: BTreeSet<IpAddr>) {
    let AddressFilter { steering, addresses, .. } = filter;
    let gone: Vec<IpAddr> = addresses.difference(&wanted).copied().collect();
    let new: Vec<IpAddr> = wanted.difference(addresses).copied().collect();
    for address in gone {
        match steering.remove_address(address) {
            Ok(_) => drop(addresses.remove(&address)),
            Err(error) => {
                tracing::warn!(%address, "the device goes on handing packets over: {error}");
            }
        }
    }
    for address in new {
        match steering.add_address(address) {
            Ok(()) => drop(addresses.insert(address)),
            Err(error) => tracing::warn!(%address, "the device hands no packets over: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weever_net::group::{Filter, Mode};
    use weever_net::ipv6::V6Settings;
    use weever_net::state::NetConfig;
    use weever_wire::MacAddr;

    use super::*;

    #[test]
    fn of_ipv6_it_hands_over_addresses_in_whatever_state_and_groups() {
        let mut config = NetConfig::new();
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        config.add_interface(Interface::new(IfaceId(0), "eth0", 0, mac)).unwrap();
        let settings = V6Settings { enabled: true, accept_ra: true, ..V6Settings::default() };
        config.set_v6(IfaceId(0), settings).unwrap();
        config.add_address6(IfaceId(0), "2001:db8::1/64".parse().unwrap()).unwrap();
        let text = |config: &NetConfig| -> Vec<String> {
            let state = NetState::new(config.clone(), 1);
            wanted(&state, 0, &[]).iter().map(ToString::to_string).collect()
        };
        assert_eq!(text(&config), ["2001:db8::1"], "routers' messages are overheard");
        config.join(IfaceId(0), "ff05::7".parse::<Ipv6Addr>().unwrap()).unwrap();
        let only = Filter::new(Mode::Include, &["2001:db8::9".parse::<Ipv6Addr>().unwrap()]);
        config.set_filters(IfaceId(0), vec![("ff35::8".parse().unwrap(), only)]).unwrap();
        assert_eq!(text(&config), ["2001:db8::1", "ff05::7", "ff35::8"]);
        config.set_v6(IfaceId(0), V6Settings::default()).unwrap();
        assert_eq!(text(&config), [""; 0]);
    }

    #[test]
    fn a_link_hands_over_what_its_interfaces_have_and_are_in() {
        let mut config = NetConfig::new();
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        for (id, link) in [(0, 0), (1, 1)] {
            let iface = Interface::new(IfaceId(id), format!("eth{id}"), link, mac);
            config.add_interface(iface).unwrap();
        }
        config.add_address(IfaceId(0), "10.0.0.1/24".parse().unwrap()).unwrap();
        config.add_address(IfaceId(1), "10.1.0.1/24".parse().unwrap()).unwrap();
        config.join(IfaceId(0), Ipv4Addr::new(239, 1, 2, 3)).unwrap();
        let text = |config: &NetConfig| -> Vec<String> {
            let state = NetState::new(config.clone(), 1);
            wanted(&state, 0, &[]).iter().map(ToString::to_string).collect()
        };
        assert_eq!(text(&config), ["10.0.0.1", "239.1.2.3"]);
        let state = NetState::new(config.clone(), 1);
        assert!(wanted(&state, 0, &[IfaceId(0)]).contains(&IpAddr::V4(Ipv4Addr::BROADCAST)));
        assert!(!wanted(&state, 0, &[IfaceId(1)]).contains(&IpAddr::V4(Ipv4Addr::BROADCAST)));
        config.set_up(IfaceId(0), false).unwrap();
        assert!(text(&config).is_empty());
    }
}
