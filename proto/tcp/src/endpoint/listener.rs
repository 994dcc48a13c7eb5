//! A listener: its address and settings, and the connections that wait at it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZeroU16;

use crate::{Id, Nanos};

/// Names a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub(super) u32);

/// The settings of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// One of our addresses; the unspecified one of a family: any of that family; `None`: any.
    pub address: Option<IpAddr>,
    /// The port; not 0.
    pub port: u16,
    /// Half-open connections that are kept; beyond them cookies are sent.
    pub backlog: u32,
    /// Established connections that wait to be accepted.
    pub accept_queue: usize,
    /// The longest segment that connections announce and send, in octets; `None`: as the path allows.
    pub max_segment: Option<NonZeroU16>,
    /// Send cookies when the backlog is full; otherwise SYNs are dropped then.
    pub cookies: bool,
    /// Connections whose SYN brought octets that were taken before the handshake ended (RFC 7413): not more of them
    /// at a time. 0: such octets are not taken.
    pub fast_open: u32,
}

impl ListenerConfig {
    /// Any address, 256 half-open connections, 1,024 to be accepted, cookies, no Fast Open.
    pub fn new(port: u16) -> Self {
        Self {
            address: None,
            port,
            backlog: 256,
            accept_queue: 1024,
            max_segment: None,
            cookies: true,
            fast_open: 0,
        }
    }
}

/// Why a listener cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenError {
    /// Port 0 is none.
    NoPort,
    /// Another listener has this address and port.
    InUse,
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ListenError::NoPort => "port 0 cannot be listened on: choose a port",
            ListenError::InUse => "another listener has this address and port: close it first",
        })
    }
}

impl std::error::Error for ListenError {}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) config: ListenerConfig,
    pub(super) half_open: u32,
    pub(super) waiting: VecDeque<Id>,
    /// Connections whose octets were taken before their handshake ended.
    pub(super) early: u32,
    /// The times after which connections that were reset do not count any longer.
    pub(super) resets: VecDeque<Nanos>,
}

impl Listener {
    pub(super) fn new(config: ListenerConfig) -> Self {
        let (waiting, resets) = (VecDeque::new(), VecDeque::new());
        Self { config, half_open: 0, waiting, early: 0, resets }
    }

    /// Connections that count against the limit of Fast Open.
    pub(super) fn pending(&mut self, now: Nanos) -> u32 {
        while self.resets.front().is_some_and(|until| *until <= now) {
            self.resets.pop_front();
        }
        self.early + self.resets.len() as u32
    }

    /// Whether no connection more may wait to be accepted.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.config.accept_queue
    }
}
