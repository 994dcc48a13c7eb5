//! Active OPEN (RFC 9293 §3.10.1), and the choice of a port (RFC 6056).

use std::net::{IpAddr, SocketAddr};

use super::Endpoint;
use crate::connection::Birth;
use crate::{Connection, Id, Nanos, Tuple};

/// Why a connection cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// One end is IPv4, the other IPv6.
    FamiliesDiffer,
    /// RFC 9293 §3.10.1: the remote end is no host: unspecified, a group, broadcast, or port 0.
    NoHost,
    /// There is a connection between these ends.
    InUse,
    /// All ports are in use for this remote end.
    PortsExhausted,
    /// There are as many connections as there may be.
    TooManyConnections,
    /// The memory limit is reached.
    NoMemory,
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FamiliesDiffer => "local and remote address are of different IP versions",
            Self::NoHost => "the remote address or port cannot be connected to",
            Self::InUse => "there is a connection between these ends: choose another local port",
            Self::PortsExhausted => {
                "all local ports are in use for this remote end: close connections or use another \
                 local address"
            }
            Self::TooManyConnections => "too many connections: raise max_connections",
            Self::NoMemory => "connections use all of their memory: raise memory_limit",
        })
    }
}

impl std::error::Error for ConnectError {}

impl Endpoint {
    /// Asks for a connection from `local` (port 0: any) to `remote`. [`Events::CONNECTED`] or
    /// [`Events::CLOSED`] tells how it went.
    ///
    /// [`Events::CONNECTED`]: crate::Events::CONNECTED
    /// [`Events::CLOSED`]: crate::Events::CLOSED
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        now: Nanos,
    ) -> Result<Id, ConnectError> {
        let mut tuple = Tuple {
            local: local.ip(),
            remote: remote.ip(),
            local_port: local.port(),
            remote_port: remote.port(),
        };
        if tuple.local.is_ipv4() != tuple.remote.is_ipv4() {
            return Err(ConnectError::FamiliesDiffer);
        }
        // RFC 9293 §3.9.2.3, MUST-57: a SYN to or from a broadcast or multicast address is invalid.
        if !is_host(tuple.remote) || remote.port() == 0 {
            return Err(ConnectError::NoHost);
        }
        if self.len() >= self.config.max_connections {
            return Err(ConnectError::TooManyConnections);
        }
        self.has_room().map_err(|_| ConnectError::NoMemory)?;
        if tuple.local_port == 0 {
            tuple.local_port = self.free_port(tuple).ok_or(ConnectError::PortsExhausted)?;
        } else if self.find(&tuple).is_some() {
            return Err(ConnectError::InUse);
        }
        let birth = Birth {
            tuple,
            iss: self.secrets.isn(&tuple, now),
            stamp_offset: self.secrets.stamp_offset(&tuple),
            passive: false,
        };
        let id = self.add(Connection::new(&birth, &self.config, now));
        self.counters.connects += 1;
        self.settle(id.index, now);
        Ok(id)
    }

    /// RFC 6056 §3.3.3: "Simple Hash-Based Port Selection Algorithm": a hash of the ends and a count.
    fn free_port(&mut self, tuple: Tuple) -> Option<u16> {
        let first = self.secrets.first_port(&tuple);
        let ports = self.config.ports;
        for _ in 0..ports.len() {
            let port = first.wrapping_add(self.next_port) % ports.len();
            self.next_port = self.next_port.wrapping_add(1);
            let local_port = ports.first + port as u16;
            let taken = self.ports.get(&local_port).is_some_and(|listeners| !listeners.is_empty());
            if !taken && self.find(&Tuple { local_port, ..tuple }).is_none() {
                return Some(local_port);
            }
        }
        None
    }
}

/// Whether an address can be that of one host.
pub(super) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast(),
    }
}
