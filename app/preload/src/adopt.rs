//! Options that weever has: read from the kernel's socket, which has checked them, and passed on to the stack.

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int};
use weever_app_sockets::{Congestion, Fragment, StreamOption};

use crate::behind::option;
use crate::failure::limit;
use crate::file::{Kind, Listening, Phase};
use crate::state::State;

/// The options that weever has, for a socket that comes to it.
const ADOPTED: [(c_int, c_int); 27] = [
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    (IPPROTO_IP, libc::IP_RECVERR),
    (IPPROTO_IPV6, libc::IPV6_RECVERR),
    (SOL_SOCKET, libc::SO_RCVLOWAT),
    (SOL_SOCKET, libc::SO_RCVBUF),
    (SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_UDP, libc::UDP_SEGMENT),
    (IPPROTO_TCP, libc::TCP_NODELAY),
    (IPPROTO_TCP, libc::TCP_CORK),
    (SOL_SOCKET, libc::SO_KEEPALIVE),
    (IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (SOL_SOCKET, libc::SO_LINGER),
    (IPPROTO_IP, libc::IP_PKTINFO),
    (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (IPPROTO_IP, libc::IP_RECVTTL),
    (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (IPPROTO_IP, libc::IP_RECVTOS),
    (IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    (SOL_SOCKET, libc::SO_TIMESTAMP),
    (SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (IPPROTO_IP, libc::IP_TTL),
    (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (IPPROTO_IP, libc::IP_TOS),
    (libc::SOL_UDP, libc::UDP_GRO),
    (IPPROTO_IPV6, libc::IPV6_TCLASS),
];

/// Takes over options that were set before the socket came to weever.
pub(crate) fn adopt(state: &mut State, fd: c_int, place: u32) {
    let Some(file) = state.files.get(place) else { return };
    let (four, stream) = (file.family == libc::AF_INET, matches!(file.kind, Kind::Stream(_)));
    if matches!(file.kind, Kind::Listening(_)) {
        adopt_one(state, fd, place, IPPROTO_TCP, libc::TCP_FASTOPEN);
        adopt_one(state, fd, place, IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    }
    for (level, name) in ADOPTED {
        let foreign = level == IPPROTO_IPV6 && four
            || level == IPPROTO_TCP && !stream
            || level == libc::SOL_UDP && stream;
        // Defaults of the kernel's are not the program's wish.
        let default = match (level, name) {
            (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Some(64),
            (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => Some(0),
            (IPPROTO_IP, libc::IP_MTU_DISCOVER) | (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
                Some(libc::IP_PMTUDISC_WANT)
            }
            _ => None,
        };
        let plain = default.is_some() && option::<c_int>(fd, level, name) == default;
        // An option that is off is off at the stack as well.
        let off = level == IPPROTO_TCP && option::<c_int>(fd, level, name) == Some(0);
        if !foreign && !plain && !off {
            adopt_one(state, fd, place, level, name);
        }
    }
}

#[derive(Clone, Copy)]
struct Linger(libc::linger);

impl Default for Linger {
    fn default() -> Linger {
        Linger(libc::linger { l_onoff: 0, l_linger: 0 })
    }
}

#[derive(Clone, Copy)]
struct Time(libc::timeval);

impl Default for Time {
    fn default() -> Time {
        Time(libc::timeval { tv_sec: 0, tv_usec: 0 })
    }
}

/// Whether an option is on that both families have; a socket of IPv6 may have it for either.
fn either(fd: c_int, family: c_int, (four, six): (c_int, c_int)) -> bool {
    let is_on = |level, name| option::<c_int>(fd, level, name) == Some(1);
    is_on(IPPROTO_IP, four) || family == libc::AF_INET6 && is_on(IPPROTO_IPV6, six)
}

/// Passes on one option, with the value that the kernel has accepted.
pub(crate) fn adopt_one(state: &mut State, fd: c_int, place: u32, level: c_int, name: c_int) {
    let number = || option::<c_int>(fd, level, name);
    let Some(file) = state.files.get_mut(place) else { return };
    let (on, family) = (number() == Some(1), file.family);
    let options = &mut file.options;
    match (level, name) {
        (SOL_SOCKET, libc::SO_RCVTIMEO) => {
            options.receive_timeout = option::<Time>(fd, level, name).and_then(|t| limit(t.0));
        }
        (SOL_SOCKET, libc::SO_SNDTIMEO) => {
            options.send_timeout = option::<Time>(fd, level, name).and_then(|t| limit(t.0));
        }
        (IPPROTO_TCP, libc::TCP_FASTOPEN) => {
            options.fast_open =
                number().and_then(|pending| u32::try_from(pending).ok()).unwrap_or(0);
            let (pending, queue) = (options.fast_open, state.queue);
            if let Kind::Listening(listening) = &file.kind
                && let (Some(listener), Some(queue)) = (listening.listener, queue)
            {
                let _ = queue.set_listener_option(listener, StreamOption::FastOpen(pending));
            }
        }
        (IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => {
            let seconds = number().and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0);
            options.defer_accept = seconds;
            if let Kind::Listening(Listening { listener: Some(listener), .. }) = file.kind
                && let Some(queue) = state.queue
            {
                let _ = queue.set_listener_option(listener, StreamOption::DeferAccept(seconds));
            }
        }
        (SOL_SOCKET, libc::SO_LINGER) => {
            options.set_linger(option::<Linger>(fd, level, name).unwrap_or_default().0);
        }
        (SOL_SOCKET, libc::SO_RCVLOWAT) => {
            options.low_water = number().and_then(|least| usize::try_from(least).ok()).unwrap_or(0);
            state.touch(place);
        }
        (SOL_SOCKET, libc::SO_OOBINLINE) => {
            options.urgent_in_line = on;
            state.touch(place);
        }
        (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
            options.packet_info = either(fd, family, (libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO));
        }
        (IPPROTO_IP, libc::IP_RECVTTL) | (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => {
            options.hops = either(fd, family, (libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT));
        }
        (IPPROTO_IP, libc::IP_RECVTOS) | (IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => {
            options.class = either(fd, family, (libc::IP_RECVTOS, libc::IPV6_RECVTCLASS));
        }
        (IPPROTO_IP, libc::IP_MTU_DISCOVER) | (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
            options.send_fragment = match number() {
                Some(libc::IP_PMTUDISC_DO) => Fragment::Never,
                Some(libc::IP_PMTUDISC_PROBE) => Fragment::Probe,
                Some(libc::IP_PMTUDISC_WANT) | None => Fragment::Want,
                // `DONT`, and `INTERFACE` and `OMIT`, which heed no path's MTU.
                Some(_) => Fragment::Allow,
            };
        }
        (IPPROTO_IP, libc::IP_RECVERR) | (IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            options.receive_errors = either(fd, family, (libc::IP_RECVERR, libc::IPV6_RECVERR));
            if let Kind::Udp(udp) = &mut file.kind
                && !options.receive_errors
            {
                udp.errors.clear();
            }
        }
        (SOL_SOCKET, libc::SO_TIMESTAMP | libc::SO_TIMESTAMPNS) => {
            if on {
                options.timestamp = Some(name);
            } else if options.timestamp == Some(name) {
                options.timestamp = None;
            }
        }
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            let hops = number().unwrap_or(0);
            options.send_hops = u8::try_from(hops).ok();
            pass_on(state, fd, place, (level, name), hops);
        }
        (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            let class = number().unwrap_or(0);
            options.send_class = u8::try_from(class).ok();
            pass_on(state, fd, place, (level, name), class);
        }
        (libc::SOL_UDP, libc::UDP_SEGMENT) => {
            options.segment = number().and_then(|size| u16::try_from(size).ok()).unwrap_or(0);
        }
        (libc::SOL_UDP, libc::UDP_GRO) => options.receive_segments = on,
        _ => pass_on(state, fd, place, (level, name), number().unwrap_or(0)),
    }
}

/// `SO_BUF_LOCK` (`asm-generic/socket.h`) and its bits: the program has chosen the size of a buffer.
const SO_BUF_LOCK: c_int = 72;
const SEND_LOCKED: c_int = 1;
const RECEIVE_LOCKED: c_int = 2;

fn is_locked(fd: c_int, which: c_int) -> bool {
    option::<c_int>(fd, SOL_SOCKET, SO_BUF_LOCK).is_some_and(|locked| locked & which != 0)
}

/// The congestion control that the kernel's socket has been given, if weever has it too.
fn congestion(fd: c_int) -> Option<Congestion> {
    let name = option::<[u8; 16]>(fd, IPPROTO_TCP, libc::TCP_CONGESTION)?;
    let name = name.split(|byte| *byte == 0).next()?;
    Congestion::by_name(std::str::from_utf8(name).ok()?)
}

/// Tells the stack of an option of a connection.
fn pass_on(state: &mut State, fd: c_int, place: u32, which: (c_int, c_int), value: c_int) {
    let positive = |value: c_int| u32::try_from(value).unwrap_or(0);
    let short = |value: c_int| u16::try_from(value.max(0)).unwrap_or(u16::MAX);
    let told = match which {
        (IPPROTO_TCP, libc::TCP_NODELAY) => StreamOption::NoDelay(value != 0),
        (IPPROTO_TCP, libc::TCP_CORK) => StreamOption::Cork(value != 0),
        (SOL_SOCKET, libc::SO_KEEPALIVE) | (IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            let on = option::<c_int>(fd, SOL_SOCKET, libc::SO_KEEPALIVE) == Some(1);
            let idle = option::<c_int>(fd, IPPROTO_TCP, libc::TCP_KEEPIDLE).unwrap_or(7200);
            StreamOption::KeepAlive(if on { positive(idle) } else { 0 })
        }
        (IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => StreamOption::UserTimeout(positive(value)),
        (IPPROTO_TCP, libc::TCP_KEEPINTVL) => StreamOption::KeepAliveInterval(positive(value)),
        (IPPROTO_TCP, libc::TCP_KEEPCNT) => {
            StreamOption::KeepAliveProbes(u8::try_from(value).unwrap_or(u8::MAX))
        }
        (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            StreamOption::TrafficClass(value.clamp(0, 255) as u8)
        }
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            StreamOption::Hops(value.clamp(0, 255) as u8)
        }
        (IPPROTO_TCP, libc::TCP_QUICKACK) => StreamOption::QuickAck(value != 0),
        (IPPROTO_TCP, libc::TCP_MAXSEG) => StreamOption::MaxSegment(short(value)),
        (IPPROTO_TCP, libc::TCP_CONGESTION) => match congestion(fd) {
            Some(congestion) => StreamOption::Congestion(congestion),
            None => return,
        },
        // The kernel doubles what programs set, and locks it against its own tuning.
        (SOL_SOCKET, libc::SO_RCVBUF) if is_locked(fd, RECEIVE_LOCKED) => {
            StreamOption::ReceiveBuffer(positive(value / 2))
        }
        (SOL_SOCKET, libc::SO_SNDBUF) if is_locked(fd, SEND_LOCKED) => {
            StreamOption::SendBuffer(positive(value / 2))
        }
        _ => return,
    };
    let Some(queue) = state.queue else { return };
    let Some(Kind::Stream(stream)) = state.files.get(place).map(|file| &file.kind) else { return };
    if let Some(handle) = stream.stream.filter(|_| stream.phase != Phase::Over) {
        let _ = queue.set_option(handle, told);
    }
}
