//! Options of a listener that its connections begin with.
//!
//! In the kernel a connection is a copy of its listener's socket. Here the socket behind an accepted connection is a new
//! one: what the program has set at the listener is set at it again, and passed on to the stack.

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, c_void, socklen_t};

use crate::real;

const OPTIONS: [(c_int, c_int); 28] = [
    (IPPROTO_IP, libc::IP_TOS),
    (IPPROTO_IP, libc::IP_TTL),
    (IPPROTO_IPV6, libc::IPV6_TCLASS),
    (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (SOL_SOCKET, libc::SO_MARK),
    (SOL_SOCKET, libc::SO_KEEPALIVE),
    (SOL_SOCKET, libc::SO_LINGER),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, libc::SO_RCVBUF),
    (SOL_SOCKET, libc::SO_SNDBUF),
    (SOL_SOCKET, libc::SO_RCVLOWAT),
    (SOL_SOCKET, libc::SO_RCVTIMEO),
    (SOL_SOCKET, libc::SO_SNDTIMEO),
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_REUSEPORT),
    (IPPROTO_TCP, libc::TCP_NODELAY),
    (IPPROTO_TCP, libc::TCP_CORK),
    (IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (IPPROTO_TCP, libc::TCP_KEEPCNT),
    (IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (IPPROTO_TCP, libc::TCP_CONGESTION),
    (IPPROTO_TCP, libc::TCP_MAXSEG),
    (IPPROTO_TCP, libc::TCP_SYNCNT),
    (IPPROTO_TCP, libc::TCP_LINGER2),
    (IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (IPPROTO_TCP, libc::TCP_QUICKACK),
];
/// The longest value: the name of a congestion control.
const LONGEST: usize = 16;

/// An option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    octets: [u8; LONGEST],
    len: usize,
}

impl Value {
    fn of(fd: c_int, (level, name): (c_int, c_int)) -> Option<Value> {
        let mut value = Value { octets: [0; LONGEST], len: 0 };
        let mut len = LONGEST as socklen_t;
        let to = value.octets.as_mut_ptr().cast::<c_void>();
        // SAFETY: as many writable bytes.
        let done = unsafe { real::getsockopt(fd, level, name, to, &mut len) };
        value.len = (len as usize).min(LONGEST);
        (done == 0).then_some(value)
    }

    /// The value to set for the same effect: the kernel doubles the sizes of buffers.
    fn to_set(mut self, name: (c_int, c_int)) -> Value {
        if [(SOL_SOCKET, libc::SO_RCVBUF), (SOL_SOCKET, libc::SO_SNDBUF)].contains(&name)
            && let Some(octets) = self.octets.first_chunk_mut()
        {
            *octets = (c_int::from_ne_bytes(*octets) / 2).to_ne_bytes();
        }
        self
    }
}

/// The options that a listener's connections get, with their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited(Vec<(usize, Value)>);

impl Inherited {
    /// Those of a listener that differ from a new socket's.
    pub(crate) fn of(fd: c_int, family: c_int) -> Inherited {
        // SAFETY: it has no pointers.
        let new = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        if new < 0 {
            return Inherited::default();
        }
        let both = |option| Some((Value::of(fd, option)?, Value::of(new, option)?));
        let differs = |(at, option)| both(option).filter(|(a, b)| a != b).map(|(a, _)| (at, a));
        let differing = OPTIONS.into_iter().enumerate().filter_map(differs).collect();
        // SAFETY: it was made above.
        unsafe { real::close(new) };
        Inherited(differing)
    }

    /// The program has set an option of the listener.
    pub(crate) fn note(&mut self, fd: c_int, level: c_int, name: c_int) {
        let Some(at) = OPTIONS.iter().position(|option| *option == (level, name)) else { return };
        let Some(value) = Value::of(fd, (level, name)) else { return };
        self.0.retain(|(there, _)| *there != at);
        let behind = self.0.partition_point(|(there, _)| *there < at);
        self.0.insert(behind, (at, value));
    }

    /// Sets them at the socket behind a connection; returns their names.
    pub(crate) fn set_at(&self, fd: c_int) -> impl Iterator<Item = (c_int, c_int)> {
        self.0.iter().map(move |(at, value)| {
            let (level, name) = OPTIONS[*at];
            let value = value.to_set((level, name));
            let from = value.octets.as_ptr().cast::<c_void>();
            // SAFETY: as many readable bytes. What the kernel refuses stays as it is.
            unsafe { real::setsockopt(fd, level, name, from, value.len as socklen_t) };
            (level, name)
        })
    }
}
