//! The effects of the network's state outside the graph: the packets that devices hand over, and
//! the operator's log.
//!
//! Addresses change by operators, DHCP and router advertisements, neighbours come and go. A thread of
//! its own looks at them twenty times a second; blocks of the graph neither log nor know of devices.

mod addresses;
mod events;

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weever_blocks_std::dhcp::Dhcp;
use weever_host::HostHandle;

use crate::stack::device::links::AddressFilter;
use events::EventLog;

/// How long a change may take to be noticed.
const PERIOD: Duration = Duration::from_millis(50);
/// Neighbours and panics of blocks are checked only once in so many periods: an unreachable neighbour is
/// known as such for three seconds.
const NEIGHBOUR_PERIODS: u32 = 20;

/// A thread that watches the network. Dropping it ends it.
pub(in crate::stack) struct NetworkWatcher {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkWatcher {
    /// Watches the network of a host, for the log and for the filters of these links' devices: the
    /// link's number and its filter.
    pub(in crate::stack) fn start(
        host: HostHandle,
        filters: Vec<(u16, AddressFilter)>,
    ) -> io::Result<NetworkWatcher> {
        let stop = Arc::<(Mutex<bool>, Condvar)>::default();
        let stopped = Arc::clone(&stop);
        let work = move || watch(&host, filters, &stopped);
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

fn watch(host: &HostHandle, mut filters: Vec<(u16, AddressFilter)>, stop: &(Mutex<bool>, Condvar)) {
    let clients = host.env.get_or_default::<Dhcp>();
    let mut log = EventLog::default();
    let (mut seen, mut periods) = (None, 0);
    loop {
        let leases = clients.status();
        let now = (host.network.generation(), addresses::seeking(&leases));
        let state = host.network.state();
        if seen.as_ref() != Some(&now) {
            for (link, filter) in &mut filters {
                addresses::follow(filter, addresses::wanted(&state, *link, &now.1));
            }
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
