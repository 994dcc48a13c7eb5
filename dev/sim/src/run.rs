//! Letting time pass.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use weever_blocks_std::host::Network;
use weever_engine::{Fit, Moved, Publisher, Reading, TeamError};
use weever_packet::Nanos;

use crate::host::{CableId, HostId, HostSpec, SimHost};
use crate::{Datagram, SimError};

/// Turns without time passing after which a simulation is taken for one that never comes to rest.
const RESTLESS: usize = 100_000;

/// How long a change waits for workers: as long as the machine takes to let some time of the simulation pass.
const PATIENCE: Duration = Duration::from_secs(60);

/// A network that runs, as far as its clock has come.
///
/// Events of one instant happen host by host, in the order in which the hosts were made.
pub struct Sim {
    hosts: Vec<SimHost>,
    now: Nanos,
}

impl Sim {
    pub(crate) fn new(specs: Vec<HostSpec>, seed: u64) -> Result<Sim, SimError> {
        // Stations with equal seeds would wait for equal times.
        let seeds = (0..).map(|number: u64| seed.wrapping_add(number));
        let start = |(spec, seed)| SimHost::start(spec, seed);
        let hosts = specs.into_iter().zip(seeds).map(start).collect::<Result<_, _>>()?;
        Ok(Sim { hosts, now: 0 })
    }

    /// The time: nanoseconds since the start.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Advances the clock by this many nanoseconds, with all events in them. Blocks for the
    /// time that the work takes, however long that is on the virtual clock.
    ///
    /// Panics when the hosts do not come to rest at some instant: a loop without delay.
    pub fn run_for(&mut self, nanos: Nanos) {
        let end = self.now.saturating_add(nanos);
        self.settle();
        while let Some(due) = self.next_deadline().filter(|due| *due <= end) {
            // Work that is due now was just tried and failed: a full device. Time mends it.
            self.now = due.max(self.now + 1);
            self.settle();
        }
        self.now = end.max(self.now);
        self.settle();
    }

    /// Has the clock jump, as when a machine was asleep: nothing happens in between.
    pub fn jump(&mut self, nanos: Nanos) {
        self.now = self.now.saturating_add(nanos);
        self.settle();
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.hosts.iter().filter_map(SimHost::next_deadline).min()
    }

    /// A cable hands over arrived frames in its sender's turn, which counts as no work of the
    /// sender: only a second quiet round shows that no host has received anything.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..RESTLESS {
            let mut idle = true;
            for host in &mut self.hosts {
                idle &= !host.step(self.now);
            }
            quiet = if idle { quiet + 1 } else { 0 };
            if quiet == 2 {
                return;
            }
        }
        panic!("the network does not come to rest at {} ns", self.now);
    }

    /// Has a host send a datagram from one of its ports, at this instant.
    ///
    /// # Errors
    /// When the host has no way there, or no buffer.
    pub fn send(
        &mut self,
        host: HostId,
        port: u16,
        to: SocketAddr,
        payload: &[u8],
    ) -> Result<(), SimError> {
        self.hosts[host.0].send(port, to, payload, self.now)
    }

    /// The datagrams that have come to a host's listening ports since the last call, in order.
    pub fn received(&mut self, host: HostId) -> Vec<Datagram> {
        self.hosts[host.0].received()
    }

    /// Has the datagrams from `peer` to a listening port of a host arrive at another of its workers, by a
    /// filter for the peer's port, and their flow's state go there. It takes some time.
    ///
    /// # Errors
    /// When the host has no such worker.
    pub fn move_flow(
        &mut self,
        host: HostId,
        peer: SocketAddr,
        port: u16,
        worker: u16,
    ) -> Result<(), SimError> {
        let SimHost { name, stack, workers, .. } = &mut self.hosts[host.0];
        workers.begin(stack, name, (peer, port), worker)
    }

    /// The same for all flows of peers with these ports, by a filter for the ports: the host's workers list their
    /// flows, and those that the filter takes move together.
    ///
    /// # Errors
    /// When the host has no such worker.
    pub fn move_flows(
        &mut self,
        host: HostId,
        ports: RangeInclusive<u16>,
        worker: u16,
    ) -> Result<(), SimError> {
        let SimHost { name, stack, workers, .. } = &mut self.hosts[host.0];
        workers.begin_set(stack, name, ports, worker)
    }

    /// Has the queues of a host's worker fail, whose flows then go to another. Frames in them are lost, and what
    /// filters have sent there arrives at the first worker.
    pub fn cut_off(&mut self, host: HostId, worker: u16) {
        self.hosts[host.0].workers.cut_off(worker);
    }

    /// Has a host's workers run other parts of the graph ([`Publisher::fit`]). Calls `meanwhile` until the change is
    /// made, which is to let some time pass each time. How often that is depends on the machine: such a run is not
    /// the same each time.
    ///
    /// # Errors
    /// When a part does not do.
    pub fn fit(
        &mut self,
        host: HostId,
        fit: Option<Arc<Fit>>,
        mut meanwhile: impl FnMut(&mut Sim),
    ) -> Result<(), TeamError> {
        let publisher = Arc::clone(self.publisher(host));
        publisher.set_patience(PATIENCE);
        self.hosts[host.0].attend(true);
        let outcome = std::thread::scope(|scope| {
            let change = scope.spawn(move || publisher.fit(fit));
            while !change.is_finished() {
                meanwhile(self);
            }
            change.join()
        });
        self.hosts[host.0].attend(false);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(|_| ())
    }

    /// The results of all moves of a host's flows so far.
    pub fn moved(&self, host: HostId) -> Moved {
        self.hosts[host.0].workers.moved()
    }

    /// The datagrams that have arrived at a host with several workers since the last call, in their order
    /// at its device: each peer's port and the payload.
    pub fn arrived(&self, host: HostId) -> Vec<(u16, Vec<u8>)> {
        self.hosts[host.0].workers.take_arrived()
    }

    /// A host's network, to look at and to change.
    pub fn network(&self, host: HostId) -> &Network {
        &self.hosts[host.0].stack.handle().network
    }

    /// The publisher that changes a host's graph.
    pub fn publisher(&self, host: HostId) -> &Arc<Publisher> {
        &self.hosts[host.0].stack.handle().publisher
    }

    /// Pulls a cable out, or plugs it in again: frames on their way are lost.
    pub fn set_down(&mut self, cable: CableId, down: bool) {
        let plugs = self.hosts.iter().flat_map(|host| &host.plugs);
        plugs.filter(|(of, _)| *of == cable.0).for_each(|(_, plug)| plug.set_down(down));
    }

    /// How many packets have vanished on a cable.
    pub fn vanished(&self, cable: CableId) -> u64 {
        let plugs = self.hosts.iter().flat_map(|host| &host.plugs).filter(|(of, _)| *of == cable.0);
        plugs.map(|(_, plug)| plug.stats().tx.vanished() + plug.stats().rx.vanished()).sum()
    }

    /// Every counter of a host.
    pub fn readings(&self, host: HostId) -> Vec<Reading> {
        self.hosts[host.0].readings()
    }

    /// The drops of a host: node, reason, how often.
    pub fn drops(&self, host: HostId) -> Vec<(String, String, u64)> {
        self.hosts[host.0].drops()
    }

    /// Ends the simulation, and asserts that every buffer has come home.
    pub fn finish(self) {
        for host in &self.hosts {
            assert_eq!(host.faults(), [], "no block panics");
        }
        let pools: Vec<_> = self.hosts.into_iter().map(SimHost::into_pool).collect();
        for pool in pools {
            let census = pool.census();
            assert!(census.is_complete(), "buffers are conserved: {census}");
        }
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sim({} hosts at {} ns)", self.hosts.len(), self.now)
    }
}
