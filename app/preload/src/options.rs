//! Options: the kernel's socket checks and keeps them; those that weever has are passed on.

use std::mem::size_of;

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, c_void, socklen_t};
use weever_app_sockets::{Congestion, StreamOption};

use crate::failure::{Answer, fail, limit};
use crate::file::{Kind, Phase, Stream};
use crate::open::option;
use crate::real;
use crate::state::{State, lock};

/// `setsockopt`.
///
/// # Safety
/// As `setsockopt` of the C library.
pub(crate) unsafe fn set(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Answer<c_int> {
    let mut held = lock();
    let (place, file) = held.of(fd)?;
    let unconnected = !file.kernel;
    // SAFETY: the caller's promise.
    if unsafe { real::setsockopt(fd, level, name, value, len) } != 0 {
        let errno = real::errno();
        // The kernel's socket is not connected, and says so for options that only connections have.
        if !(unconnected && errno == libc::ENOTCONN) {
            return fail(errno);
        }
    }
    // SAFETY: the kernel has read as much.
    let group = unsafe { membership(level, name, value, len) };
    if let Some((group, join)) = group {
        held.ensure(place)?;
        let queue = held.opened()?;
        if let Some(Kind::Udp(udp)) = held.files.get(place).map(|file| &file.kind)
            && let Some(socket) = udp.socket
        {
            let changed = match join {
                true => queue.join(socket, group, None),
                false => queue.leave(socket, group, None),
            };
            changed.unwrap_or_else(|error| crate::log::note(format_args!("{group}: {error}")));
        }
        return Ok(0);
    }
    adopt_one(&mut held, fd, place, level, name);
    Ok(0)
}

/// A group that is joined, or left, by an option.
///
/// # Safety
/// `value` has `len` readable bytes.
unsafe fn membership(
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<(std::net::IpAddr, bool)> {
    let len = len as usize;
    match (level, name) {
        (IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP)
            if len >= size_of::<libc::ip_mreq>() =>
        {
            // SAFETY: by the length; the group comes first in all forms of the option.
            let group = unsafe { value.cast::<libc::ip_mreq>().read_unaligned() };
            let group = group.imr_multiaddr.s_addr.to_ne_bytes();
            Some((group.into(), name == libc::IP_ADD_MEMBERSHIP))
        }
        (IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP)
            if len >= size_of::<libc::ipv6_mreq>() =>
        {
            // SAFETY: as above.
            let group = unsafe { value.cast::<libc::ipv6_mreq>().read_unaligned() };
            let group = group.ipv6mr_multiaddr.s6_addr;
            Some((group.into(), name == libc::IPV6_ADD_MEMBERSHIP))
        }
        _ => None,
    }
}

/// The options that weever has, for a socket that comes to it.
const ADOPTED: [(c_int, c_int); 22] = [
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
    (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (IPPROTO_IPV6, libc::IPV6_TCLASS),
];

/// Takes over options that were set before the socket came to weever.
pub(crate) fn adopt(state: &mut State, fd: c_int, place: u32) {
    let Some(file) = state.files.get(place) else { return };
    let (four, stream) = (file.family == libc::AF_INET, matches!(file.kind, Kind::Stream(_)));
    if matches!(file.kind, Kind::Listening(_)) {
        adopt_one(state, fd, place, IPPROTO_TCP, libc::TCP_FASTOPEN);
    }
    for (level, name) in ADOPTED {
        let foreign = level == IPPROTO_IPV6 && four
            || level == IPPROTO_TCP && !stream
            || level == libc::SOL_UDP && stream;
        // Defaults of the kernel's are not the program's wish.
        let default = match (level, name) {
            (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Some(64),
            (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => Some(0),
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

/// Passes on one option, with the value that the kernel has accepted.
fn adopt_one(state: &mut State, fd: c_int, place: u32, level: c_int, name: c_int) {
    let number = || option::<c_int>(fd, level, name);
    let Some(file) = state.files.get_mut(place) else { return };
    let on = number() == Some(1);
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
        (SOL_SOCKET, libc::SO_LINGER) => {
            options.set_linger(option::<Linger>(fd, level, name).unwrap_or_default().0);
        }
        (SOL_SOCKET, libc::SO_RCVLOWAT) => {
            options.low_water = number().and_then(|least| usize::try_from(least).ok()).unwrap_or(0);
            state.touch(place);
        }
        (IPPROTO_IP, libc::IP_PKTINFO) | (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
            options.packet_info = on || options.packet_info && level != IPPROTO_IPV6;
        }
        (IPPROTO_IP, libc::IP_RECVTTL) | (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => {
            options.hops = on || options.hops && level != IPPROTO_IPV6;
        }
        (IPPROTO_IP, libc::IP_RECVTOS) | (IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => {
            options.class = on || options.class && level != IPPROTO_IPV6;
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
        _ => pass_on(state, fd, place, (level, name), number().unwrap_or(0)),
    }
}

/// Times that a connection's state is looked for, a millisecond apart.
const INFO_LOOKS: u32 = 100;
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

/// `getsockopt`.
///
/// # Safety
/// As `getsockopt` of the C library.
pub(crate) unsafe fn get(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let mut held = lock();
    held.of(fd)?;
    held.pump();
    let (_, file) = held.of(fd)?;
    if (level, name) == (SOL_SOCKET, libc::SO_ERROR) {
        // SAFETY: the caller's promise.
        if value.is_null() || unsafe { len.as_ref() }.is_none_or(|len| len.cast_signed() < 0) {
            // The kernel reports the right error.
            return Err(crate::failure::Failure::Kernel);
        }
        let errno = std::mem::take(&mut file.error);
        // SAFETY: the caller's promise.
        unsafe { put(value, len, &errno) };
        return Ok(0);
    }
    if (level, name) == (IPPROTO_TCP, libc::TCP_INFO) && matches!(file.kind, Kind::Stream(_)) {
        // SAFETY: the caller's promise.
        return unsafe { info(&mut held, fd, value, len) };
    }
    Err(crate::failure::Failure::Kernel)
}

/// `TCP_INFO`: asks the stack, which answers in its next turn. Without an answer, or a connection, the kernel fills it
/// in, and the state of its socket is corrected.
///
/// # Safety
/// As [`get`].
unsafe fn info(
    held: &mut State,
    fd: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let connected = |stream: &Stream| stream.stream.filter(|_| stream.phase == Phase::Connected);
    let handle = held.stream(fd).and_then(|stream| {
        stream.info = None;
        connected(stream)
    });
    if let Some(handle) = handle
        && held.opened()?.request_info(handle).is_ok()
    {
        held.commit();
        for _ in 0..INFO_LOOKS {
            held.pump();
            if let Some(info) = held.stream(fd).and_then(|stream| stream.info.take()) {
                // SAFETY: the caller's promise.
                unsafe { put(value, len, info.as_bytes()) };
                return Ok(0);
            }
            held.wait_for_stack();
        }
    }
    // TCP_ESTABLISHED, TCP_SYN_SENT, TCP_CLOSE.
    let state = match held.stream(fd).map(|stream| stream.phase) {
        Some(Phase::Connected) => 1,
        Some(Phase::Connecting) => 2,
        _ => 7,
    };
    // SAFETY: the caller's promise.
    unsafe {
        if real::getsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, value, len) != 0 {
            return fail(real::errno());
        }
        if *len > 0 {
            value.cast::<u8>().write(state);
        }
    }
    Ok(0)
}

/// Writes an option's value, as much as there is room for.
///
/// # Safety
/// `len` names the writable bytes at `value`.
unsafe fn put<T>(value: *mut c_void, len: *mut socklen_t, from: &T) {
    // SAFETY: the caller's promise.
    unsafe {
        let count = (*len as usize).min(size_of::<T>());
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), value.cast(), count);
        *len = count as socklen_t;
    }
}

/// `ioctl`, for what sockets answer themselves.
///
/// # Safety
/// As `ioctl` of the C library.
pub(crate) unsafe fn control(
    fd: c_int,
    request: libc::c_ulong,
    argument: *mut c_void,
) -> Answer<c_int> {
    let mut held = lock();
    held.of(fd)?;
    held.pump();
    let (_, file) = held.of(fd)?;
    let count = match (request, &file.kind) {
        (libc::FIONBIO, _) => {
            // SAFETY: the caller's promise: an integer.
            file.nonblocking = unsafe { argument.cast::<c_int>().read() } != 0;
            return Err(crate::failure::Failure::Kernel);
        }
        (libc::FIONREAD | libc::TIOCOUTQ, Kind::Listening(_)) => return fail(libc::EINVAL),
        (libc::FIONREAD, Kind::Stream(stream)) => stream.readable(),
        (libc::FIONREAD, Kind::Udp(udp)) => match udp.received.first() {
            Some(first) => first.len(),
            None => return Err(crate::failure::Failure::Kernel),
        },
        (libc::TIOCOUTQ, Kind::Stream(stream)) => match stream.stream {
            Some(stream) => held.opened()?.unacknowledged(stream)? as usize,
            None => 0,
        },
        _ => return Err(crate::failure::Failure::Kernel),
    };
    // SAFETY: the caller's promise: an integer.
    unsafe { argument.cast::<c_int>().write(count as c_int) };
    Ok(0)
}
