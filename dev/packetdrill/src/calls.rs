//! System calls on sockets, as far as they do not block.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_tcp::{
    ConnectError, Connection, Failure, Id, ListenerConfig, ListenerId, Settings, State as TcpState,
};

use crate::stack::{Errno, State};

/// The first descriptor: none of the process's.
const FIRST: i32 = 10_000;
/// Octets that a socket takes and that are not acknowledged, unless `SO_SNDBUF` says something else.
const SEND_ROOM: u64 = 4 << 20;

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) family: i32,
    pub(crate) nonblocking: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) role: Role,
    pub(crate) room: u64,
    /// `SO_LINGER` with no time: closing is a reset.
    pub(crate) aborts: bool,
    /// Settings that are made before there is a connection, and that accepted ones inherit.
    pub(crate) wanted: Option<Settings>,
    /// Its failure was told: from then on it is merely over.
    pub(crate) told: bool,
    /// `shutdown(SHUT_RD)`.
    pub(crate) deaf: bool,
    /// `TCP_FASTOPEN`: connections that may be pending with octets of their SYNs.
    pub(crate) fast_open: u32,
    /// `TCP_FASTOPEN_CONNECT`: the address to which the SYN goes with the first write.
    pub(crate) fast_connect: bool,
    pub(crate) waits_for: Option<SocketAddr>,
}

/// The kind of a socket.
#[derive(Debug)]
pub(crate) enum Role {
    Fresh,
    Listening { id: ListenerId, next: Option<Id> },
    Connection(Id),
}

/// The flags of one call that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags(pub(crate) i32);

impl Flags {
    pub(crate) fn has(self, flag: i32) -> bool {
        self.0 & flag != 0
    }
}

pub(crate) fn errno(failure: Failure) -> Errno {
    match failure {
        Failure::Refused => libc::ECONNREFUSED,
        Failure::Reset => libc::ECONNRESET,
        Failure::TimedOut => libc::ETIMEDOUT,
        Failure::Unreachable => libc::EHOSTUNREACH,
        _ => libc::ECONNABORTED,
    }
}

impl State {
    pub(crate) fn free_descriptor(&self) -> i32 {
        let used = |fd: &i32| self.sockets.contains_key(fd) || self.pollers.contains_key(fd);
        (FIRST..).find(|fd| !used(fd)).unwrap_or(FIRST)
    }

    pub(crate) fn socket(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&fd).ok_or(libc::EBADF)
    }

    /// The connection of a socket.
    pub(crate) fn connection(&mut self, fd: i32) -> Result<(Id, &Connection), Errno> {
        let Role::Connection(id) = self.socket(fd)?.role else { return Err(libc::ENOTCONN) };
        Ok((id, self.endpoint().get(id).ok_or(libc::ENOTCONN)?))
    }

    pub(crate) fn add(&mut self, family: i32, nonblocking: bool, role: Role) -> i32 {
        let fd = self.free_descriptor();
        let socket = Socket {
            family,
            nonblocking,
            local: None,
            role,
            room: SEND_ROOM,
            aborts: false,
            wanted: None,
            told: false,
            deaf: false,
            fast_open: 0,
            fast_connect: false,
            waits_for: None,
        };
        self.sockets.insert(fd, socket);
        fd
    }

    /// A failure, told once.
    fn failed(&mut self, fd: i32) -> Option<Errno> {
        let failure = self.connection(fd).ok()?.1.failure()?;
        let socket = self.socket(fd).ok()?;
        (!std::mem::replace(&mut socket.told, true)).then(|| errno(failure))
    }

    /// Takes the next connection into the listener's own hand, so that its readiness can be told.
    pub(crate) fn has_waiting(&mut self, fd: i32) -> bool {
        let Ok(Socket { role: Role::Listening { id, next }, .. }) = self.socket(fd) else {
            return false;
        };
        let (listener, next) = (*id, *next);
        let next = next.or_else(|| self.endpoint().accept(listener));
        if let Ok(Socket { role: Role::Listening { next: place, .. }, .. }) = self.socket(fd) {
            *place = next;
        }
        next.is_some()
    }

    pub(crate) fn accept(&mut self, fd: i32) -> Result<(i32, SocketAddr), Errno> {
        let (family, wanted) = match self.socket(fd)? {
            Socket { role: Role::Listening { .. }, family, wanted, .. } => (*family, *wanted),
            _ => return Err(libc::EINVAL),
        };
        if !self.has_waiting(fd) {
            return Err(libc::EAGAIN);
        }
        let Role::Listening { next, .. } = &mut self.socket(fd)?.role else {
            return Err(libc::EINVAL);
        };
        let id = next.take().ok_or(libc::EAGAIN)?;
        let new = self.add(family, false, Role::Connection(id));
        let now = self.now;
        if let Some(settings) = wanted {
            self.endpoint().set(id, settings, now);
        }
        let tuple = *self.connection(new)?.1.tuple();
        self.socket(new)?.local = Some(SocketAddr::new(tuple.local, tuple.local_port));
        Ok((new, SocketAddr::new(tuple.remote, tuple.remote_port)))
    }

    pub(crate) fn listen(&mut self, fd: i32, backlog: i32) -> Result<(), Errno> {
        let socket = self.socket(fd)?;
        if let Role::Connection(_) = socket.role {
            return Err(libc::EINVAL);
        }
        if let Role::Listening { .. } = socket.role {
            return Ok(());
        }
        let any = if socket.family == libc::AF_INET {
            IpAddr::from(Ipv4Addr::UNSPECIFIED)
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let local = socket.local.unwrap_or(SocketAddr::new(any, 0));
        // An IPv6 socket for any address takes IPv4's as well.
        let address = (local.ip() != IpAddr::from(Ipv6Addr::UNSPECIFIED)).then_some(local.ip());
        let accept_queue = usize::try_from(backlog).unwrap_or(0).max(1);
        let fast_open = socket.fast_open;
        let config = ListenerConfig {
            address,
            accept_queue,
            fast_open,
            ..ListenerConfig::new(local.port())
        };
        let id = self.endpoint().listen(config).map_err(|_| libc::EADDRINUSE)?;
        self.socket(fd)?.role = Role::Listening { id, next: None };
        Ok(())
    }

    pub(crate) fn connect(&mut self, fd: i32, to: SocketAddr) -> Result<(), Errno> {
        let socket = self.socket(fd)?;
        match socket.role {
            Role::Listening { .. } => return Err(libc::EISCONN),
            Role::Connection(_) => {
                let state = self.connection(fd)?.1.state();
                if let Some(errno) = self.failed(fd) {
                    return Err(errno);
                }
                let under_way = matches!(state, TcpState::SynSent | TcpState::SynReceived);
                return Err(if under_way { libc::EALREADY } else { libc::EISCONN });
            }
            Role::Fresh => {}
        }
        if socket.fast_connect {
            let before = socket.waits_for.replace(to);
            return if before.is_some() { Err(libc::EALREADY) } else { Ok(()) };
        }
        self.begin(fd, to).map(drop)?;
        Err(libc::EINPROGRESS)
    }

    /// Begins the connection of a fresh socket.
    fn begin(&mut self, fd: i32, to: SocketAddr) -> Result<Id, Errno> {
        let socket = self.socket(fd)?;
        let (local, wanted) = (socket.local, socket.wanted);
        let source = self.settings.source(to.ip()).ok_or(libc::ENETUNREACH)?;
        let local = match local {
            Some(local) if !local.ip().is_unspecified() => local,
            local => SocketAddr::new(source, local.map_or(0, |local| local.port())),
        };
        let now = self.now;
        let id = self.endpoint().connect(local, to, now).map_err(|error| match error {
            ConnectError::InUse | ConnectError::PortsExhausted => libc::EADDRNOTAVAIL,
            ConnectError::TooManyConnections | ConnectError::NoMemory => libc::ENOBUFS,
            _ => libc::EINVAL,
        })?;
        if let Some(settings) = wanted {
            self.endpoint().set(id, settings, now);
        }
        self.socket(fd)?.role = Role::Connection(id);
        let tuple = *self.connection(fd)?.1.tuple();
        self.socket(fd)?.local = Some(SocketAddr::new(tuple.local, tuple.local_port));
        Ok(id)
    }

    /// A write with `MSG_FASTOPEN`, or the first one after `TCP_FASTOPEN_CONNECT`: octets go with the SYN. Without the
    /// server's cookie it fails with `EINPROGRESS`, and the SYN asks for the cookie.
    pub(crate) fn write_fast(
        &mut self,
        fd: i32,
        octets: &[u8],
        to: SocketAddr,
    ) -> Result<usize, Errno> {
        if !matches!(self.socket(fd)?.role, Role::Fresh) {
            return Err(libc::EISCONN);
        }
        let id = self.begin(fd, to)?;
        let now = self.now;
        if !self.endpoint().set_fast_open(id, now) {
            return Err(libc::EINPROGRESS);
        }
        self.octets.entry(id).or_default().push(octets);
        self.endpoint().queue(id, octets.len() as u64, now);
        Ok(octets.len())
    }

    /// Whether a connection that was asked for is there; `EAGAIN` as long as that is open.
    pub(crate) fn connected(&mut self, fd: i32) -> Result<(), Errno> {
        match self.connection(fd)?.1.state() {
            TcpState::SynSent | TcpState::SynReceived => Err(libc::EAGAIN),
            TcpState::Closed => Err(self.failed(fd).unwrap_or(libc::ECONNABORTED)),
            _ => Ok(()),
        }
    }

    /// Octets that a socket takes now.
    pub(crate) fn send_room(&mut self, fd: i32) -> u64 {
        let room = self.socket(fd).map_or(0, |socket| socket.room);
        self.connection(fd)
            .map_or(0, |(_, there)| room.saturating_sub(there.queued() - there.acknowledged()))
    }

    pub(crate) fn write(&mut self, fd: i32, octets: &[u8], flags: Flags) -> Result<usize, Errno> {
        let (id, connection) = self
            .connection(fd)
            .map_err(|errno| if errno == libc::ENOTCONN { libc::EPIPE } else { errno })?;
        let (state, settings) = (connection.state(), connection.settings());
        let early = state == TcpState::SynReceived && connection.readable().end > 0;
        if let Some(errno) = self.failed(fd) {
            return Err(errno);
        }
        // The octets of its SYN were taken: it is answered before the handshake ends.
        if matches!(state, TcpState::SynSent | TcpState::SynReceived) && !early {
            return Err(libc::EAGAIN);
        }
        if !early && !matches!(state, TcpState::Established | TcpState::CloseWait) {
            return Err(libc::EPIPE);
        }
        let room = usize::try_from(self.send_room(fd)).unwrap_or(usize::MAX);
        if room == 0 && !octets.is_empty() {
            return Err(libc::EAGAIN);
        }
        let (now, part) = (self.now, &octets[..octets.len().min(room)]);
        if flags.has(libc::MSG_MORE) {
            self.endpoint().set(id, Settings { cork: true, ..settings }, now);
        }
        self.octets.entry(id).or_default().push(part);
        let len = part.len() as u64;
        match flags.has(libc::MSG_OOB) {
            true => self.endpoint().queue_urgent(id, len, now),
            false => self.endpoint().queue(id, len, now),
        };
        // A send without MSG_MORE lets go of what was held back.
        if settings.cork && !flags.has(libc::MSG_MORE) {
            self.endpoint().set(id, Settings { cork: false, ..settings }, now);
        }
        Ok(part.len())
    }

    pub(crate) fn read(&mut self, fd: i32, out: &mut [u8], flags: Flags) -> Result<usize, Errno> {
        let (id, connection) = self.connection(fd)?;
        let (readable, finished) = (connection.readable(), connection.is_finished());
        let over = connection.state() == TcpState::Closed;
        let len =
            usize::try_from(readable.end - readable.start).unwrap_or(usize::MAX).min(out.len());
        if len == 0 {
            if let Some(errno) = self.failed(fd) {
                return Err(errno);
            }
            let deaf = self.socket(fd)?.deaf;
            return if finished || over || deaf || out.is_empty() {
                Ok(0)
            } else {
                Err(libc::EAGAIN)
            };
        }
        let peek = flags.has(libc::MSG_PEEK);
        self.octets.entry(id).or_default().read(&mut out[..len], !peek);
        if !peek {
            let now = self.now;
            self.endpoint().consume(id, len as u64, now);
        }
        Ok(len)
    }

    pub(crate) fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let now = self.now;
        self.pollers.values_mut().for_each(|poller| poller.forget(fd));
        let Some(socket) = self.sockets.remove(&fd) else {
            return self.pollers.remove(&fd).map(drop).ok_or(libc::EBADF);
        };
        match socket.role {
            Role::Fresh => {}
            Role::Listening { id, next } => {
                if let Some(id) = next {
                    self.endpoint().abort(id, now);
                    self.endpoint().close(id, now);
                }
                self.endpoint().stop_listening(id, now);
            }
            Role::Connection(id) => {
                if socket.aborts {
                    self.endpoint().abort(id, now);
                }
                self.endpoint().close(id, now);
            }
        }
        Ok(())
    }

    pub(crate) fn shutdown(&mut self, fd: i32, how: i32) -> Result<(), Errno> {
        let (id, _) = self.connection(fd)?;
        let now = self.now;
        if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) {
            self.socket(fd)?.deaf = true;
        }
        if matches!(how, libc::SHUT_WR | libc::SHUT_RDWR) {
            self.endpoint().shutdown(id, now);
        }
        Ok(())
    }
}
