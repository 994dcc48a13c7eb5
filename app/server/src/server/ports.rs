//! Ports of addresses that are the kernel's as well, as sockets, connections and queues need them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use weever_net::demux::PortRange;

use super::AppServer;
use crate::ports::{PortKeeper, Ports};
use crate::request::{FoundPorts, QueueId, ServerError};
use crate::worker::Command;

impl AppServer {
    /// The host's addresses are the kernel's, too: ports are reserved and taken as they are bound, but for those of
    /// `range`, which are this stack's from the beginning.
    ///
    /// # Errors
    /// [`ServerError::Stuck`].
    pub fn share_ports(
        &mut self,
        keeper: Box<dyn PortKeeper>,
        range: PortRange,
    ) -> Result<(), ServerError> {
        self.ports = Some(Ports::new(keeper, range));
        self.tell_all(|| Command::SharePorts { range })
    }

    /// Takes a port for another connection that a queue opens from it, until the application has closed it.
    ///
    /// # Errors
    /// [`ServerError::Privileged`], [`ServerError::Kernel`], [`ServerError::Ports`], [`ServerError::Stuck`].
    pub(crate) fn take_port(
        &mut self,
        queue: QueueId,
        port: u16,
        in_kernel: bool,
    ) -> Result<(), ServerError> {
        let user = self.owner(queue).ok_or(ServerError::NoQueue(queue))?.uid;
        self.check_port(port, user)?;
        if self.ports.as_ref().is_some_and(|ports| ports.is_full(queue)) {
            self.look_at_ports()?;
        }
        let Some(ports) = &mut self.ports else { return Ok(()) };
        if !ports.reserve_for(queue, port, in_kernel.then_some(user))? {
            return Ok(());
        }
        let allowed = self.tell_all(|| Command::AllowPort { queue, port });
        if allowed.is_err() {
            self.ports.iter_mut().for_each(|ports| ports.release_of(queue, port));
        }
        allowed
    }

    /// Whether the host's addresses are the kernel's.
    pub(crate) fn shares_ports(&self) -> bool {
        self.ports.is_some()
    }

    /// Whether ports wait for connections to end: [`settle`](Self::settle) looks for those.
    pub(crate) fn awaits_connections(&self) -> bool {
        self.ports.as_ref().is_some_and(Ports::waits)
    }

    /// Whether it is time to do so.
    pub(crate) fn is_look_due(&self) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.waits() && ports.is_due(Instant::now()))
    }

    /// After the workers have carried out their commands: takes the ports of new sockets, and gives back those that
    /// neither sockets nor connections need any more.
    pub(crate) fn tend_ports(&mut self) -> Result<(), ServerError> {
        self.ports.iter_mut().for_each(Ports::take);
        if self.is_look_due() { self.look_at_ports() } else { Ok(()) }
    }

    /// Asks the workers for connections, and gives back the ports that need not be held any more.
    pub(crate) fn look_at_ports(&mut self) -> Result<(), ServerError> {
        let found = self.find_ports()?;
        let Some(ports) = &mut self.ports else { return Ok(()) };
        let left = ports.left(&found);
        left.iter().for_each(|(queue, port)| ports.release_of(*queue, *port));
        for port in ports.idle() {
            match port.stream && found.connected.contains(&port.port) {
                true => ports.keep(port),
                false => ports.give_back(port),
            }
        }
        ports.note_look(Instant::now());
        for (queue, port) in left {
            self.tell_all(|| Command::ForbidPort { queue, port })?;
        }
        Ok(())
    }

    /// What the workers know of the ports that wait for connections to end.
    fn find_ports(&mut self) -> Result<FoundPorts, ServerError> {
        let mut found = FoundPorts::default();
        let ports: BTreeSet<u16> = self.ports.iter().flat_map(Ports::watched).collect();
        if ports.is_empty() {
            return Ok(found);
        }
        let ports = Arc::new(ports);
        // A connection on its way from one worker to another may be seen by neither: the second round sees it.
        for round in 0..self.worker_count().min(2) {
            let (to, answers) = channel();
            self.tell_all(|| Command::FindPorts { ports: Arc::clone(&ports), to: to.clone() })?;
            self.await_workers()?;
            drop(to);
            let mut seen = FoundPorts::default();
            answers.iter().for_each(|answer: FoundPorts| seen.add(answer));
            if round == 0 {
                found = seen;
            } else {
                found.connected.extend(seen.connected);
                found.open.extend(seen.open);
            }
        }
        Ok(found)
    }
}
