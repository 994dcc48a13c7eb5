//! Options of sockets, as Linux numbers them.

use std::num::NonZeroU16;

use weever_net::stream::StreamInfo;
use weever_net::{MILLIS, SECOND};
use weever_tcp::congestion::Algorithm;
use weever_tcp::{Settings, TcpConfig};

use crate::calls::{Role, errno};
use crate::stack::{Errno, Stack, State};

/// The number at the front of an option's value.
fn number(value: &[u8]) -> Result<i32, Errno> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(libc::EINVAL)
}

/// A number as an option's value.
fn value(number: impl TryInto<i32>) -> Vec<u8> {
    number.try_into().unwrap_or(i32::MAX).to_ne_bytes().into()
}

/// Options that are taken, and make no difference to a stack without other processes, devices or a
/// choice of how soon it acknowledges.
const WITHOUT_EFFECT: [(i32, i32); 12] = [
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
];

/// Changes of a connection's settings; false: it is none of them.
fn change(settings: &mut Settings, level: i32, name: i32, number: i32) -> bool {
    let amount = u64::try_from(number).unwrap_or(0);
    let mut probes = settings.keep_alive.unwrap_or_default();
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => settings.no_delay = number != 0,
        (libc::IPPROTO_TCP, libc::TCP_CORK) => settings.cork = number != 0,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            let default = TcpConfig::default().user_timeout;
            settings.user_timeout = if number == 0 { default } else { amount * MILLIS };
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
            settings.keep_alive = (number != 0).then_some(probes);
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
            settings.max_segment = u16::try_from(number).ok().and_then(NonZeroU16::new);
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {
            match name {
                libc::TCP_KEEPIDLE => probes.idle = amount * SECOND,
                libc::TCP_KEEPINTVL => probes.interval = amount * SECOND,
                _ => probes.probes = number.clamp(1, 255) as u8,
            }
            settings.keep_alive = Some(probes);
        }
        _ => return false,
    }
    true
}

impl Stack {
    pub(crate) fn set_option(
        &self,
        fd: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        self.with(|state| state.set_option(fd, level, name, value))
    }

    pub(crate) fn option(&self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        self.with(|state| state.option(fd, level, name))
    }
}

impl State {
    fn settings(&mut self, fd: i32) -> Result<Settings, Errno> {
        if let Ok((_, connection)) = self.connection(fd) {
            return Ok(connection.settings());
        }
        let user_timeout = TcpConfig::default().user_timeout;
        let fresh = Settings {
            no_delay: false,
            cork: false,
            keep_alive: None,
            user_timeout,
            max_segment: None,
        };
        Ok(self.socket(fd)?.wanted.unwrap_or(fresh))
    }

    fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        self.socket(fd)?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let [on, seconds] = [number(value)?, number(value.get(4..).unwrap_or(&[]))?];
                self.socket(fd)?.aborts = on != 0 && seconds == 0;
                return Ok(());
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
                // Linux doubles it, for its own records.
                self.socket(fd)?.room = u64::try_from(number(value)?).unwrap_or(0).max(2048) * 2;
                return Ok(());
            }
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => {
                let pending = u32::try_from(number(value)?).map_err(|_| libc::EINVAL)?;
                let socket = self.socket(fd)?;
                socket.fast_open = pending;
                if let Role::Listening { id, .. } = socket.role {
                    self.endpoint().set_listener_fast_open(id, pending);
                }
                return Ok(());
            }
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) => {
                self.socket(fd)?.fast_connect = number(value)? != 0;
                return Ok(());
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let wanted: &[u8] = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
                let there = self.algorithm();
                return if wanted == there { Ok(()) } else { Err(libc::ENOENT) };
            }
            _ => {}
        }
        let number = number(value)?;
        let mut settings = self.settings(fd)?;
        if change(&mut settings, level, name, number) {
            let now = self.now;
            match self.socket(fd)?.role {
                Role::Connection(id) => self.endpoint().set(id, settings, now),
                _ => self.socket(fd)?.wanted = Some(settings),
            }
            return Ok(());
        }
        if WITHOUT_EFFECT.contains(&(level, name)) { Ok(()) } else { Err(libc::ENOPROTOOPT) }
    }

    /// The name of the congestion control that all connections have.
    fn algorithm(&self) -> &'static [u8] {
        match self.settings.config(crate::settings::sysctl).congestion {
            Algorithm::Reno => b"reno",
            Algorithm::Dctcp => b"dctcp",
            _ => b"cubic",
        }
    }

    fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let settings = self.settings(fd)?;
        let probes = settings.keep_alive.unwrap_or_default();
        Ok(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => value(self.error(fd)?),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => value(self.socket(fd)?.room),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => value(settings.keep_alive.is_some()),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                value(matches!(self.socket(fd)?.role, Role::Listening { .. }))
            }
            (libc::SOL_SOCKET, libc::SO_TYPE) => value(libc::SOCK_STREAM),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => value(settings.no_delay),
            (libc::IPPROTO_TCP, libc::TCP_CORK) => value(settings.cork),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => value(settings.user_timeout / MILLIS),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => value(probes.idle / SECOND),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => value(probes.interval / SECOND),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => value(probes.probes),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => value(self.socket(fd)?.fast_open),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) => value(self.socket(fd)?.fast_connect),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => value(match self.connection(fd) {
                Ok((_, connection)) => connection.window().mss,
                Err(_) => 536,
            }),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => self.algorithm().to_vec(),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => self.info(fd)?,
            _ => return Err(libc::ENOPROTOOPT),
        })
    }

    /// `SO_ERROR`: the failure, which is told once.
    fn error(&mut self, fd: i32) -> Result<Errno, Errno> {
        let Ok((_, connection)) = self.connection(fd) else { return Ok(0) };
        let Some(failure) = connection.failure() else { return Ok(0) };
        let told = std::mem::replace(&mut self.socket(fd)?.told, true);
        Ok(if told { 0 } else { errno(failure) })
    }

    /// `struct tcp_info`.
    fn info(&mut self, fd: i32) -> Result<Vec<u8>, Errno> {
        let now = self.now;
        let Ok((_, connection)) = self.connection(fd) else {
            let listening = matches!(self.socket(fd)?.role, Role::Listening { .. });
            let state = if listening { 10 } else { 7 };
            return Ok(StreamInfo { state, ..StreamInfo::default() }.to_linux().into());
        };
        Ok(connection.info(now).to_linux().into())
    }
}
