//! A socket of the program's on weever: received data, and readiness.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::backlog::Backlog;
use crate::errors::Errors;
use crate::failure::{Answer, fail};
use crate::inherited::Inherited;
use crate::owners::Owner;
use crate::passing::{Away, HeldListener};
use crate::urgent::Urgent;
use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, c_int};
use weever_app_sockets::{Fragment, StreamBuf, StreamInfo, TcpListener, TcpStream, UdpSocket};

pub(crate) const IN: u32 = EPOLLIN as u32 | libc::EPOLLRDNORM as u32;
pub(crate) const OUT: u32 = EPOLLOUT as u32 | libc::EPOLLWRNORM as u32;
pub(crate) const PRI: u32 = libc::EPOLLPRI as u32;
pub(crate) const ERR: u32 = EPOLLERR as u32;
pub(crate) const HUP: u32 = EPOLLHUP as u32;
pub(crate) const RDHUP: u32 = EPOLLRDHUP as u32;

/// A UDP socket.
#[derive(Default)]
pub(crate) struct Udp {
    /// Opened on this process' queue.
    pub(crate) socket: Option<UdpSocket>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) received: Backlog,
    /// The queue of errors.
    pub(crate) errors: Errors,
    /// The program reads no more, or sends no more.
    pub(crate) deaf: bool,
    pub(crate) mute: bool,
    /// A datagram found no room; the socket is not writable until the next look.
    pub(crate) blocked: bool,
    /// The beginning of a datagram whose end is to come (`MSG_MORE`), and where it goes.
    pub(crate) begun: Option<(Vec<u8>, Option<SocketAddr>)>,
}

/// A TCP listener.
#[derive(Default)]
pub(crate) struct Listening {
    /// Opened on this process' queue.
    pub(crate) listener: Option<TcpListener>,
    pub(crate) backlog: u32,
    /// Connections that were not accepted yet, by their places.
    pub(crate) pending: VecDeque<u32>,
    /// This process accepts or waits for connections; one that only keeps the descriptor does not.
    pub(crate) used: bool,
    /// The stack keeps connections waiting for other processes.
    pub(crate) rests: bool,
    /// The holder by which connections wait for this process, which has inherited the listener and not used it yet.
    pub(crate) kept: Option<HeldListener>,
    /// Options that accepted connections begin with.
    pub(crate) inherited: Inherited,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting,
    Connected,
    /// Failed, or over in both directions.
    Over,
}

/// A TCP connection.
pub(crate) struct Stream {
    /// On this process' queue; nothing in a process that has inherited it.
    pub(crate) stream: Option<TcpStream>,
    pub(crate) phase: Phase,
    pub(crate) remote: SocketAddr,
    pub(crate) received: VecDeque<StreamBuf<'static>>,
    /// Octets of the first buffer that were read.
    pub(crate) offset: usize,
    /// The program knows that it is connected.
    pub(crate) told: bool,
    /// The peer sends no more.
    pub(crate) finished: bool,
    /// The program reads no more.
    pub(crate) deaf: bool,
    /// The program writes no more.
    pub(crate) mute: bool,
    /// A write found no room.
    pub(crate) blocked: bool,
    /// The first octets go with the SYN (`MSG_FASTOPEN`, `TCP_FASTOPEN_CONNECT`).
    pub(crate) fast: bool,
    /// The last write said that more follows (`MSG_MORE`).
    pub(crate) more: bool,
    /// Other processes hold the stream, too.
    pub(crate) shared: bool,
    /// The stream is on no queue of this process; another one may have it.
    pub(crate) away: Option<Away>,
    /// The peer's urgent octet.
    pub(crate) urgent: Option<Urgent>,
    /// How the connection is doing, after it was asked for.
    pub(crate) info: Option<StreamInfo>,
}

impl Stream {
    pub(crate) fn new(stream: TcpStream, phase: Phase, remote: SocketAddr) -> Stream {
        let told = phase == Phase::Connected;
        Stream { stream: Some(stream), phase, told, ..Stream::without_queue(remote) }
    }

    /// A connected stream that is on no queue of this process.
    pub(crate) fn without_queue(remote: SocketAddr) -> Stream {
        Stream {
            stream: None,
            phase: Phase::Connected,
            remote,
            received: VecDeque::new(),
            offset: 0,
            told: true,
            finished: false,
            deaf: false,
            mute: false,
            blocked: false,
            fast: false,
            more: false,
            shared: false,
            away: None,
            urgent: None,
            info: None,
        }
    }

    /// Whether as many octets can be read as the program waits for. An urgent octet that is not read in line counts for none
    /// when it is the next.
    fn has(&self, options: &Options) -> bool {
        let besides = usize::from(!options.urgent_in_line && self.is_at_mark());
        let least = options.low_water.max(1) + besides;
        !self.received.is_empty() && (least <= 1 || self.readable() >= least)
    }

    /// Octets that can be read now.
    pub(crate) fn readable(&self) -> usize {
        let all: usize = self.received.iter().map(|there| there.octets().len()).sum();
        all - self.offset
    }
}

pub(crate) enum Kind {
    Udp(Udp),
    Listening(Listening),
    Stream(Box<Stream>),
}

/// Options of the program's that the kernel's socket does not keep for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    /// `IP_PKTINFO` or `IPV6_RECVPKTINFO`.
    pub(crate) packet_info: bool,
    /// `IP_RECVTTL` or `IPV6_RECVHOPLIMIT`.
    pub(crate) hops: bool,
    /// `IP_RECVTOS` or `IPV6_RECVTCLASS`.
    pub(crate) class: bool,
    /// `SO_TIMESTAMP` or `SO_TIMESTAMPNS`, by its number.
    pub(crate) timestamp: Option<c_int>,
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`.
    pub(crate) send_hops: Option<u8>,
    /// `IP_TOS`, `IPV6_TCLASS`.
    pub(crate) send_class: Option<u8>,
    /// `IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`.
    pub(crate) send_fragment: Fragment,
    /// `UDP_SEGMENT`.
    pub(crate) segment: u16,
    /// `UDP_GRO`.
    pub(crate) receive_segments: bool,
    /// `TCP_FASTOPEN` of a listener.
    pub(crate) fast_open: u32,
    /// Seconds of `TCP_DEFER_ACCEPT` of a listener.
    pub(crate) defer_accept: u32,
    /// `IP_RECVERR`, `IPV6_RECVERR`.
    pub(crate) receive_errors: bool,
    /// `SO_OOBINLINE`.
    pub(crate) urgent_in_line: bool,
    /// `SO_RCVLOWAT`, if it is more than one.
    pub(crate) low_water: usize,
    /// `SO_LINGER` of more than zero seconds: how long a close waits.
    pub(crate) linger: Option<Duration>,
    /// Seconds of `SO_LINGER` with zero: a close is a reset.
    pub(crate) reset_on_close: bool,
}

impl Options {
    /// `SO_LINGER`: a close waits, or resets.
    pub(crate) fn set_linger(&mut self, linger: libc::linger) {
        let seconds = u64::try_from(linger.l_linger).unwrap_or(0);
        let on = linger.l_onoff != 0;
        self.reset_on_close = on && seconds == 0;
        self.linger = (on && seconds > 0).then(|| Duration::from_secs(seconds));
    }
}

/// A socket of the program's that is on weever.
pub(crate) struct File {
    /// No other file of this process had the same.
    pub(crate) serial: u64,
    /// The program has left it; it is kept until the stack has taken the octets that were not read.
    pub(crate) left: bool,
    /// Descriptors of this process that lead to it.
    pub(crate) descriptors: u32,
    /// `AF_INET` or `AF_INET6`.
    pub(crate) family: c_int,
    pub(crate) nonblocking: bool,
    pub(crate) v6_only: bool,
    /// The address that it is bound to, with its port.
    pub(crate) local: SocketAddr,
    /// The kernel's socket behind the descriptor receives as well.
    pub(crate) kernel: bool,
    /// `posix_spawn` was told to duplicate it in a child.
    pub(crate) bequeathed: bool,
    /// Gets signals.
    pub(crate) owner: Option<Box<Owner>>,
    /// `SO_ERROR`.
    pub(crate) error: c_int,
    pub(crate) options: Options,
    /// The epoll sets that wait for it, each with the descriptor by which they do.
    pub(crate) watchers: Vec<(u32, c_int)>,
    pub(crate) kind: Kind,
}

impl File {
    /// The events that hold now, as epoll's bits.
    pub(crate) fn readiness(&self) -> u32 {
        let error = if self.error != 0 { ERR } else { 0 };
        error
            | match &self.kind {
                Kind::Udp(udp) => {
                    let readable = !udp.received.is_empty() || udp.deaf;
                    bits(readable, IN)
                        | bits(!udp.blocked, OUT | libc::EPOLLWRBAND as u32)
                        | bits(udp.deaf, RDHUP)
                        | bits(udp.deaf && udp.mute, HUP)
                        | bits(!udp.errors.is_empty(), ERR)
                }
                Kind::Listening(listening) => bits(!listening.pending.is_empty(), IN),
                Kind::Stream(stream) => stream.readiness(&self.options),
            }
    }
}

impl File {
    /// Forgets received frames without giving them back: they belong to the parent process.
    pub(crate) fn forget_received(&mut self) {
        match &mut self.kind {
            Kind::Udp(udp) => udp.received.forget(),
            Kind::Stream(stream) => {
                (stream.offset, stream.urgent) = (0, None);
                std::mem::take(&mut stream.received).into_iter().for_each(std::mem::forget);
            }
            Kind::Listening(_) => {}
        }
    }

    /// The connection on this process' queue, if it is there.
    pub(crate) fn on_queue(&self) -> Option<TcpStream> {
        match &self.kind {
            Kind::Stream(stream) => stream.stream,
            _ => None,
        }
    }

    /// Whether other processes hold the stream, or one of them may have it on its queue.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.shared || stream.away.is_some())
    }

    /// Whether it is a datagram socket or a listener that is not open on this process' queue.
    pub(crate) fn is_unopened(&self) -> bool {
        match &self.kind {
            Kind::Udp(udp) => udp.socket.is_none(),
            Kind::Listening(listening) => listening.listener.is_none(),
            Kind::Stream(_) => false,
        }
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(self.kind, Kind::Udp(_))
    }

    /// The peer of a connected socket.
    pub(crate) fn peer(&self) -> Answer<SocketAddr> {
        match &self.kind {
            Kind::Udp(Udp { peer: Some(peer), .. }) => Ok(*peer),
            Kind::Stream(stream) if stream.phase == Phase::Connected => Ok(stream.remote),
            _ => fail(libc::ENOTCONN),
        }
    }
}

impl Stream {
    fn readiness(&self, options: &Options) -> u32 {
        match self.phase {
            // A deferred SYN waits for the octets that it carries.
            Phase::Connecting => bits(self.fast && !self.blocked, OUT),
            // Another process may have it; each use claims it.
            Phase::Connected if self.away.is_some() => 0,
            // As Linux: everything is ready, since nothing would block.
            Phase::Over => IN | OUT | HUP | RDHUP | bits(self.has_urgent(), PRI),
            Phase::Connected => {
                let ended = self.finished || self.deaf;
                bits(self.has(options) || ended, IN)
                    | bits(self.has_urgent(), PRI)
                    | bits(ended, RDHUP)
                    | bits(!self.blocked || self.mute, OUT)
                    | bits(ended && self.mute, HUP)
            }
        }
    }
}

fn bits(holds: bool, bits: u32) -> u32 {
    if holds { bits } else { 0 }
}
