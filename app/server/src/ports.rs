//! Ports on addresses of the kernel's: taken when they are bound, and given back when nobody needs them.
//!
//! ```text
//!  open ─► PortKeeper::reserve ─► workers have the socket ─► PortKeeper::take ─► the answer
//!  close ─► workers have no connection of the port ─► PortKeeper::give_back
//!             └► they have some: PortKeeper::keep, until there is none
//! ```
//!
//! A port is reserved in the kernel first, and its packets come to this stack once every worker knows the socket, so
//! that none is refused meanwhile. After the last listener has gone, connections that it accepted go on, and with them
//! the port.
//!
//! A queue asks for a port of its own before each connection from it. It holds the port until as many connections have
//! begun as it has asked for, and its application has closed them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weever_net::demux::PortRange;

use crate::request::{FoundPorts, QueueId, ServerError, TransportPort};

/// The most ports that are taken at once.
const MOST_PORTS: usize = 16_000;
/// The most ports that a queue has at once for connections that it opens.
const MOST_OF_QUEUE: usize = 1024;
/// How often it is asked whether a port still has connections.
const PERIOD: Duration = Duration::from_secs(1);

/// Takes ports of addresses that are the kernel's as well.
pub trait PortKeeper: Send {
    /// Keeps the kernel's programs from a port. `own` is the user of an application that has a kernel socket on the port
    /// itself, which counts as the reservation. Reserving twice changes nothing.
    ///
    /// # Errors
    /// Why the application cannot have it, for people.
    fn reserve(&mut self, port: TransportPort, own: Option<u32>) -> Result<(), String>;

    /// Has the packets for a port that is reserved come to this stack. What fails is logged.
    fn take(&mut self, port: TransportPort);

    /// Nothing but connections needs the port any more, and the application's own kernel socket may be closed: keeps the
    /// kernel from choosing the port for another program. Programs may bind it as they may on Linux, with
    /// `SO_REUSEADDR`.
    fn keep(&mut self, port: TransportPort);

    /// Leaves the port to the kernel.
    fn give_back(&mut self, port: TransportPort);
}

/// A port that is reserved.
struct Use {
    /// Sockets, listeners, and queues that connect from it.
    holders: usize,
    /// Its packets come here.
    taken: bool,
}

/// The ports of a server whose addresses are the kernel's.
pub(crate) struct Ports {
    keeper: Box<dyn PortKeeper>,
    /// Ports that are taken in any case.
    range: PortRange,
    used: BTreeMap<TransportPort, Use>,
    /// Those that queues connect from, and how many connections they have asked for.
    of_queues: BTreeMap<(QueueId, u16), u64>,
    /// When the workers were asked for connections last.
    looked: Option<Instant>,
}

impl Ports {
    pub(crate) fn new(keeper: Box<dyn PortKeeper>, range: PortRange) -> Ports {
        let (used, of_queues) = (BTreeMap::new(), BTreeMap::new());
        Ports { keeper, range, used, of_queues, looked: None }
    }

    /// Whether a queue may have no further port for its connections.
    pub(crate) fn is_full(&self, queue: QueueId) -> bool {
        self.of_queues.range((queue, 0)..=(queue, u16::MAX)).count() >= MOST_OF_QUEUE
    }

    /// Reserves a port for another connection of a queue; false if the queue has it.
    ///
    /// # Errors
    /// [`ServerError::Kernel`], [`ServerError::Ports`].
    pub(crate) fn reserve_for(
        &mut self,
        queue: QueueId,
        port: u16,
        own: Option<u32>,
    ) -> Result<bool, ServerError> {
        if self.range.contains(port) {
            return Ok(false);
        }
        if let Some(asked) = self.of_queues.get_mut(&(queue, port)) {
            *asked += 1;
            return Ok(false);
        }
        if self.is_full(queue) {
            return Err(ServerError::Ports(MOST_OF_QUEUE));
        }
        self.reserve(TransportPort { stream: true, port }, own)?;
        self.of_queues.insert((queue, port), 1);
        Ok(true)
    }

    /// Whether it is time to ask the workers for connections.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| now >= looked + PERIOD)
    }

    /// The workers were asked.
    pub(crate) fn note_look(&mut self, now: Instant) {
        self.looked = Some(now);
    }

    /// Reserves a port for another holder.
    pub(crate) fn reserve(
        &mut self,
        port: TransportPort,
        own: Option<u32>,
    ) -> Result<(), ServerError> {
        if self.range.contains(port.port) {
            return Ok(());
        }
        if let Some(there) = self.used.get_mut(&port).filter(|there| there.holders > 0) {
            there.holders += 1;
            return Ok(());
        }
        if self.used.len() >= MOST_PORTS {
            return Err(ServerError::Ports(MOST_PORTS));
        }
        self.keeper.reserve(port, own).map_err(|why| ServerError::Kernel { port, why })?;
        self.used.entry(port).or_insert(Use { holders: 0, taken: false }).holders += 1;
        Ok(())
    }

    /// A holder has gone.
    pub(crate) fn release(&mut self, port: TransportPort) {
        let Some(there) = self.used.get_mut(&port) else { return };
        there.holders = there.holders.saturating_sub(1);
        if there.holders == 0 {
            self.looked = None;
        }
    }

    /// A queue connects from a port no more.
    pub(crate) fn release_of(&mut self, queue: QueueId, port: u16) {
        if self.of_queues.remove(&(queue, port)).is_some() {
            self.release(TransportPort { stream: true, port });
        }
    }

    pub(crate) fn release_queue(&mut self, queue: QueueId) {
        let all = self.of_queues.range((queue, 0)..=(queue, u16::MAX));
        let ports: Vec<u16> = all.map(|((_, port), _)| *port).collect();
        ports.into_iter().for_each(|port| self.release_of(queue, port));
    }

    /// The queues and ports whose connections have all begun, and were closed by their applications.
    pub(crate) fn left(&self, found: &FoundPorts) -> Vec<(QueueId, u16)> {
        let is_left = |(of, asked): &(&(QueueId, u16), &u64)| {
            found.begun.get(*of).is_some_and(|begun| begun >= *asked) && !found.open.contains(&of.1)
        };
        self.of_queues.iter().filter(is_left).map(|(of, _)| *of).collect()
    }

    /// Has packets come that are for sockets which the workers know now.
    pub(crate) fn take(&mut self) {
        for (port, there) in self.used.iter_mut().filter(|(_, there)| !there.taken) {
            self.keeper.take(*port);
            there.taken = true;
        }
    }

    /// Ports of streams whose connections decide how long they are held.
    pub(crate) fn watched(&self) -> impl Iterator<Item = u16> {
        let idle = self.used.iter().filter(|(port, there)| port.stream && there.holders == 0);
        idle.map(|(port, _)| port.port).chain(self.of_queues.keys().map(|(_, port)| *port))
    }

    /// Whether ports wait for connections to end.
    pub(crate) fn waits(&self) -> bool {
        !self.of_queues.is_empty() || self.used.values().any(|there| there.holders == 0)
    }

    /// Those without holders.
    pub(crate) fn idle(&self) -> Vec<TransportPort> {
        let idle = self.used.iter().filter(|(_, there)| there.holders == 0);
        idle.map(|(port, _)| *port).collect()
    }

    pub(crate) fn keep(&mut self, port: TransportPort) {
        self.keeper.keep(port);
    }

    pub(crate) fn give_back(&mut self, port: TransportPort) {
        self.used.remove(&port);
        self.keeper.give_back(port);
    }
}
