//! Connections between the endpoints of a host: one for each worker, under one root key.
//!
//! A connection holds nothing of its endpoint but the configuration, so it can be taken out of one and put
//! into another between two segments. Its listener is where it goes to: both endpoints have the same ones.

use super::Endpoint;
use crate::{Connection, Id, Nanos, State, Tuple};

impl Endpoint {
    /// The connection between these ends.
    #[inline]
    pub fn lookup(&self, tuple: &Tuple) -> Option<Id> {
        let mut generation = 0;
        let index = self.table.find(self.secrets.demux(tuple), |index| {
            let slot = &self.slots[index];
            // What is looked up is a segment's connection, nearly always, all of which is needed next.
            slot.warm();
            generation = slot.generation;
            slot.connection.as_ref().is_some_and(|it| it.tuple == *tuple)
        })?;
        Some(Id { index, generation })
    }

    /// Whether a listener takes SYNs to the local end.
    pub fn listens(&self, tuple: &Tuple) -> bool {
        self.listener_for(tuple).is_some()
    }

    /// Takes a connection out, with its timers and events; segments of it are unknown from then on.
    pub fn export(&mut self, id: Id) -> Option<Connection> {
        let slot = self.slots.get(id.index).filter(|slot| slot.generation == id.generation)?;
        let (listener, half_open) = (slot.listener(), self.is_half_open(id));
        let mut connection = self.take(id.index)?;
        connection.rare.reset(|rare| {
            if let Some(fast) = &mut rare.fast_open {
                fast.pending_at = None;
            }
        });
        if let (Some(listener), true) = (listener, half_open) {
            self.leaves_backlog(listener, id, false);
        }
        Some(connection)
    }

    /// Goes on with a connection of another endpoint under the same root key. The limits on connections
    /// and memory do not refuse it, as it is there already. One that its application has not accepted
    /// yet waits at the listener here.
    ///
    /// # Errors
    /// Gives the connection back if there is one between these ends, or nothing listens any more for one
    /// that was not accepted (`accepted` is false).
    #[allow(clippy::result_large_err, reason = "the connection is given back, as it was given")]
    pub fn import(
        &mut self,
        mut connection: Connection,
        accepted: bool,
        now: Nanos,
    ) -> Result<Id, Connection> {
        let listener = self.listener_for(&connection.tuple).filter(|_| !accepted);
        if self.find(&connection.tuple).is_some() || (listener.is_none() && !accepted) {
            return Err(connection);
        }
        connection.config = std::sync::Arc::clone(&self.config);
        // A connection with octets in its SYN does not count at a limit any more, since its SYN is not
        // repeated.
        let half_open = connection.state == State::SynReceived && !connection.is_early();
        let id = self.add(connection);
        if let Some(at) = listener {
            self.slots[id.index].set_listener(at);
            if let Some(listener) = &mut self.listeners[at as usize] {
                match half_open {
                    true => listener.half_open += 1,
                    false => listener.waiting.push_back(id),
                }
            }
        }
        self.settle(id.index, now);
        Ok(id)
    }

    /// Whether its listener still waits for the handshake to end.
    fn is_half_open(&self, id: Id) -> bool {
        let half_open = |it: &Connection| it.state == State::SynReceived && !it.is_early();
        self.get(id).is_some_and(half_open)
    }

    /// The name and the ends of the next connection that is no more, if
    /// [`TcpConfig::report_gone`](crate::TcpConfig::report_gone) asks for them. Another one may have begun between
    /// these ends meanwhile.
    pub fn poll_gone(&mut self) -> Option<(Id, Tuple)> {
        self.gone.pop_front()
    }

    /// The longest IP packet of the first hop has changed: for connections that begin from now on.
    pub fn set_mtu(&mut self, mtu: u16) {
        if self.config.mtu != mtu {
            let config = crate::TcpConfig { mtu, ..(*self.config).clone() };
            self.config = std::sync::Arc::new(config);
        }
    }

    /// Segments of a connection must fit packets of `mtu` bytes from now on, because the path is known to
    /// take no longer ones. Longer ones are tried after some minutes (RFC 8201 §4), if there are data to probe with.
    pub fn limit_mtu(&mut self, id: Id, mtu: u16, now: Nanos) {
        self.with(id, now, |connection: &mut Connection| {
            let limit = mtu.saturating_sub(connection.tuple.ip_header_len() + 20);
            connection.limit_segments(limit, now);
        });
    }
}
