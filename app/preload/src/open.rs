//! A descriptor becomes a socket on weever: by `bind`, `listen`, `connect` or the first datagram that it sends.
//!
//! Until then it is the kernel's alone, and afterwards the kernel's socket stays behind it: it keeps the number,
//! the port (so that `EADDRINUSE` means the same on both), and the options that the program sets and reads.

use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use libc::{AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, c_int, c_void, socklen_t};
use weever_app_sockets::{
    AppQueue, Backend, Bind, Handle, Process, QueueConfig, Selection, Share, StreamOption,
};

use crate::failure::{Answer, Failure, fail, limit};
use crate::file::{File, Kind, Listening, Options, Udp};
use crate::numbers::{self, Meaning};
use crate::state::{State, Way};
use crate::{address, inside, log, real};

/// The most ways that are remembered; then they are asked for again.
const MOST_WAYS: usize = 4096;

/// An option of the kernel's socket.
pub(crate) fn option<T: Copy + Default>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as socklen_t;
    let to = (&raw mut value).cast::<c_void>();
    // SAFETY: `len` bytes to write to, of a type for which the callers' integers and timevals are valid.
    let done = unsafe { real::getsockopt(fd, level, name, to, &mut len) };
    (done == 0).then_some(value)
}

/// The address that the kernel's socket is bound to.
pub(crate) fn kernel_name(fd: c_int) -> Option<SocketAddr> {
    let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: `len` bytes to write to, and as many to read afterwards.
    unsafe {
        let to = storage.as_mut_ptr().cast();
        let done = real::getsockname(fd, to, &mut len);
        if done == 0 { address::read(to, len) } else { None }
    }
}

/// A kind of socket that weever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) family: c_int,
    pub(crate) stream: bool,
}

/// The kind of a descriptor of the kernel's, if weever has such sockets.
pub(crate) fn kind_of(fd: c_int) -> Option<Type> {
    let family = option::<c_int>(fd, SOL_SOCKET, libc::SO_DOMAIN)?;
    if family != AF_INET && family != AF_INET6 {
        return None;
    }
    let protocol = option::<c_int>(fd, SOL_SOCKET, libc::SO_PROTOCOL)?;
    match (option::<c_int>(fd, SOL_SOCKET, libc::SO_TYPE)?, protocol) {
        (SOCK_STREAM, libc::IPPROTO_TCP) => Some(Type { family, stream: true }),
        (SOCK_DGRAM, libc::IPPROTO_UDP) => Some(Type { family, stream: false }),
        _ => None,
    }
}

/// Whether this program's sockets with this port are to be on weever (`WEEVER_PRELOAD_ONLY`).
pub(crate) fn is_selected(stream: bool, ports: &[u16]) -> bool {
    static SELECTION: OnceLock<Selection> = OnceLock::new();
    let selection = SELECTION.get_or_init(|| {
        let text = std::env::var("WEEVER_PRELOAD_ONLY").unwrap_or_default();
        text.parse().unwrap_or_else(|error| {
            log::always(format_args!("WEEVER_PRELOAD_ONLY: {error}; every socket is the kernel's"));
            Selection::nothing()
        })
    });
    ports.iter().any(|port| selection.covers(stream, *port))
}

/// A socket without a descriptor yet.
pub(crate) fn file(family: c_int, kind: Kind) -> File {
    File {
        left: false,
        descriptors: 0,
        family,
        nonblocking: false,
        v6_only: false,
        local: address::unspecified(family),
        kernel: false,
        error: 0,
        options: Options::default(),
        watchers: Vec::new(),
        kind,
    }
}

/// The queue's configuration, as the environment says when the program starts: some clear it later.
pub(crate) fn config() -> &'static QueueConfig {
    static CONFIG: OnceLock<QueueConfig> = OnceLock::new();
    CONFIG.get_or_init(|| {
        // Room for the windows of some hundred connections that are not read.
        let geometry =
            weever_app_sockets::Geometry { ring_len: 4096, frames: 8192, ..Default::default() };
        QueueConfig { geometry, ..QueueConfig::default() }
    })
}

impl State {
    /// The process' queue, opened if it is not there yet.
    pub(crate) fn need_queue(&mut self) -> Answer<&'static AppQueue> {
        if let Some(queue) = self.queue {
            return Ok(queue);
        }
        if self.refused {
            if std::mem::take(&mut self.orphaned) {
                log::always(format_args!(
                    "the stack is inside this process' parent, and sockets here are the kernel's: a program of \
                     several processes needs `weever run --stack daemon`"
                ));
            }
            return Err(Failure::Kernel);
        }
        let config = config();
        let opened = self
            .backend(config)
            .and_then(|backend| AppQueue::over(backend, config).map_err(|error| error.to_string()));
        match opened {
            Ok(queue) => {
                let queue: &'static AppQueue = Box::leak(Box::new(queue));
                for fd in queue.descriptors() {
                    numbers::set(fd, Some(Meaning::Internal));
                }
                (self.queue, self.inside) = (Some(queue), inside::is_chosen());
                self.lost = false;
                Ok(queue)
            }
            // The stack that was there may come back.
            Err(_) if self.lost && !inside::is_chosen() => Err(Failure::Kernel),
            Err(error) => {
                log::note(format_args!("sockets are the kernel's: {error}"));
                self.refused = true;
                Err(Failure::Kernel)
            }
        }
    }

    /// The stack as a queue sees it.
    fn backend(&mut self, config: &QueueConfig) -> Result<Box<dyn Backend>, String> {
        if inside::is_chosen() {
            return inside::start(config);
        }
        let process = self.reserved.take().map_or_else(|| Process::connect(config), Ok);
        let process = process.map_err(|error| error.to_string())?;
        Ok(Box::new(process))
    }

    /// Connects to the stack as the user that the program is now.
    pub(crate) fn reserve(&mut self) {
        if !inside::is_chosen() && self.queue.is_none() && self.reserved.is_none() && !self.refused
        {
            self.reserved = Process::connect(config()).ok();
        }
    }

    /// The way to an address.
    pub(crate) fn way(&mut self, to: IpAddr) -> Answer<Way> {
        if let Some(way) = self.ways.get_or_insert_default().get(&to) {
            return Ok(way.clone());
        }
        let (own, interface) = self.need_queue()?.route(to)?;
        let index = interface.and_then(|name| {
            let name = std::ffi::CString::new(name).ok()?;
            // SAFETY: a name that ends with a zero. An interface that the kernel does not know has number 0.
            Some(unsafe { libc::if_nametoindex(name.as_ptr()) })
        });
        let way = Way { own, interface: index, kernels: address::is_kernels(to) };
        let ways = self.ways.get_or_insert_default();
        if ways.len() >= MOST_WAYS {
            ways.clear();
        }
        ways.insert(to, way.clone());
        Ok(way)
    }

    /// Whether packets to an address go by weever.
    pub(crate) fn reaches(&mut self, to: IpAddr) -> bool {
        if to.is_loopback() || to.is_unspecified() {
            return false;
        }
        self.way(to).is_ok_and(|way| (way.own || way.interface.is_some()) && !way.kernels)
    }

    /// Puts a socket behind a descriptor, with the options that the program has set before.
    pub(crate) fn attach(&mut self, fd: c_int, mut file: File) -> Answer<u32> {
        // SAFETY: it has no pointers.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
        file.nonblocking = flags & libc::O_NONBLOCK != 0;
        file.v6_only = option::<c_int>(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
        let timeout = |name| option::<Timeval>(fd, SOL_SOCKET, name).and_then(|t| limit(t.0));
        file.options.receive_timeout = timeout(libc::SO_RCVTIMEO);
        file.options.send_timeout = timeout(libc::SO_SNDTIMEO);
        file.descriptors = 1;
        let place = self.add(file);
        if !numbers::set(fd, Some(Meaning::File(place))) {
            self.files.remove(place);
            log::note(format_args!("descriptor {fd} is the kernel's: its number is too high"));
            return Err(Failure::Kernel);
        }
        crate::options::adopt(self, fd, place);
        self.adopt_interest(fd, place);
        Ok(place)
    }

    /// Opens a UDP socket or a listener on this process' queue, if it is not open there.
    pub(crate) fn ensure(&mut self, place: u32) -> Answer<()> {
        let Some(file) = self.files.get(place) else { return Err(Failure::Kernel) };
        let (local, v6_only) = (file.local, file.v6_only);
        match &file.kind {
            Kind::Udp(Udp { socket: None, peer, .. }) => {
                let peer = *peer;
                let queue = self.need_queue()?;
                let mut bind = Bind::at(local).shared(Share::ByFlow);
                if v6_only {
                    bind = bind.v6_only();
                }
                if let Some(peer) = peer {
                    bind = bind.connected_to(peer);
                }
                let socket = queue.open(&bind)?;
                let port = queue.local_port(socket)?;
                self.name(Handle::Udp(socket), place);
                if let Some(file) = self.files.get_mut(place) {
                    file.local.set_port(port);
                    if let Kind::Udp(udp) = &mut file.kind {
                        udp.socket = Some(socket);
                    }
                }
            }
            Kind::Stream(stream) if stream.away.is_some() => self.bring(place)?,
            Kind::Listening(Listening { listener: None, backlog, .. }) => {
                let backlog = *backlog;
                let queue = self.need_queue()?;
                let mut bind = Bind::at(local).shared(Share::ByFlow).accepting_each();
                if v6_only {
                    bind = bind.v6_only();
                }
                let listener = queue.listen(&bind, backlog.max(1))?;
                self.name(Handle::Listener(listener), place);
                if let Some(Kind::Listening(listening)) =
                    self.files.get_mut(place).map(|file| &mut file.kind)
                {
                    listening.listener = Some(listener);
                }
                let file = self.files.get(place);
                if let Some(pending) = file.map(|file| file.options.fast_open).filter(|it| *it > 0)
                {
                    queue.set_listener_option(listener, StreamOption::FastOpen(pending))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// As [`ensure`](Self::ensure), but for a socket that can wait until the program uses it.
    fn ensure_unless_waiting(&mut self, place: u32) -> Answer<()> {
        let local = self.files.get(place).map(|file| file.local.ip());
        if local.is_some_and(|local| self.can_wait(local)) { Ok(()) } else { self.ensure(place) }
    }

    /// Whether an address is the stack's.
    fn is_own(&mut self, address: IpAddr) -> bool {
        self.can_wait(address) || self.way(address).is_ok_and(|way| way.own)
    }

    /// A listener is used by this process from now on.
    pub(crate) fn use_it(&mut self, place: u32) -> Answer<()> {
        let mut rested = None;
        if let Some(Kind::Listening(listening)) = self.files.get_mut(place).map(|f| &mut f.kind) {
            listening.used = true;
            if std::mem::take(&mut listening.rests) {
                rested = listening.listener;
            }
        }
        if let Some((listener, queue)) = rested.zip(self.queue) {
            queue.serve(listener, true)?;
        }
        self.ensure(place)
    }
}

/// A `timeval` with a default, for [`option`].
#[derive(Clone, Copy)]
struct Timeval(libc::timeval);

impl Default for Timeval {
    fn default() -> Timeval {
        Timeval(libc::timeval { tv_sec: 0, tv_usec: 0 })
    }
}

/// Binds the kernel's socket, to an address of weever's as well.
///
/// # Safety
/// As `bind` of the C library.
pub(crate) unsafe fn reserve_port(
    state: &mut State,
    fd: c_int,
    to: SocketAddr,
    raw: (*const libc::sockaddr, socklen_t),
) -> Answer<()> {
    // SAFETY: the caller's promise.
    if unsafe { real::bind(fd, raw.0, raw.1) } == 0 {
        return Ok(());
    }
    let errno = real::errno();
    if errno != libc::EADDRNOTAVAIL || !state.is_own(to.ip()) {
        return fail(errno);
    }
    free_bind(fd);
    // SAFETY: the caller's promise.
    if unsafe { real::bind(fd, raw.0, raw.1) } == 0 { Ok(()) } else { fail(real::errno()) }
}

/// Lets the kernel's socket have an address that is not the kernel's.
fn free_bind(fd: c_int) {
    let on: c_int = 1;
    let (value, len) = ((&raw const on).cast(), size_of::<c_int>() as socklen_t);
    // SAFETY: an integer to read. A kernel that refuses says so at `bind`.
    unsafe {
        real::setsockopt(fd, libc::IPPROTO_IP, libc::IP_FREEBIND, value, len);
        real::setsockopt(fd, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, value, len);
    }
}

/// Whether the kernel's socket behind one that is bound to this address receives as well.
fn kernel_serves(state: &mut State, local: SocketAddr) -> bool {
    local.ip().is_unspecified()
        || !state.can_wait(local.ip()) && state.way(local.ip()).map_or(true, |way| way.kernels)
}

/// `bind`.
///
/// # Safety
/// As `bind` of the C library.
pub(crate) unsafe fn bind(
    state: &mut State,
    fd: c_int,
    raw: (*const libc::sockaddr, socklen_t),
) -> Answer<c_int> {
    // SAFETY: the caller's promise.
    let to = unsafe { address::read(raw.0, raw.1) }.ok_or(Failure::Kernel)?;
    if numbers::file(fd).is_some() {
        return fail(libc::EINVAL);
    }
    let kind = kind_of(fd).ok_or(Failure::Kernel)?;
    if to.ip().is_loopback() || !is_selected(kind.stream, &[to.port()]) {
        return Err(Failure::Kernel);
    }
    if !state.can_wait(to.ip()) {
        state.need_queue()?;
    }
    // SAFETY: the caller's promise.
    unsafe { reserve_port(state, fd, to, raw) }?;
    // A listener is opened by `listen`, a connection by `connect`: the kernel's socket keeps the address.
    if !kind.stream {
        bind_udp(state, fd, kind.family)?;
    }
    Ok(0)
}

/// Opens the UDP socket of a descriptor whose kernel's socket is bound.
fn bind_udp(state: &mut State, fd: c_int, family: c_int) -> Answer<u32> {
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if !local.ip().is_unspecified() && !state.is_own(local.ip()) && !local.ip().is_multicast() {
        return Ok(0);
    }
    let kernel = kernel_serves(state, local);
    let file = File { local, kernel, ..file(family, Kind::Udp(Udp::default())) };
    let place = state.attach(fd, file)?;
    match state.ensure_unless_waiting(place) {
        Ok(()) => Ok(place),
        Err(why) => {
            log::note(format_args!("{local} by UDP is the kernel's alone: {why:?}"));
            state.detach(fd);
            Err(why)
        }
    }
}

/// A UDP socket that is about to send, without having been bound: to this address.
pub(crate) fn bind_to_send(state: &mut State, fd: c_int, to: SocketAddr) -> Answer<u32> {
    let kind = kind_of(fd).filter(|kind| !kind.stream).ok_or(Failure::Kernel)?;
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if local.ip().is_loopback()
        || !is_selected(false, &[to.port(), local.port()])
        || !state.reaches(to.ip())
    {
        return Err(Failure::Kernel);
    }
    if local.port() == 0 {
        let any = address::unspecified(kind.family);
        let (bytes, len) = address::encoded(any, kind.family);
        // SAFETY: an address of that length.
        if unsafe { real::bind(fd, bytes.as_ptr().cast(), len as socklen_t) } != 0 {
            return Err(Failure::Kernel);
        }
    }
    bind_udp(state, fd, kind.family)?;
    numbers::file(fd).ok_or(Failure::Kernel)
}

/// `listen`.
pub(crate) fn listen(state: &mut State, fd: c_int, backlog: c_int) -> Answer<c_int> {
    if let Some(place) = numbers::file(fd) {
        if !state.files.get(place).is_some_and(|f| matches!(f.kind, Kind::Listening(_))) {
            return fail(libc::EINVAL);
        }
        // SAFETY: it has no pointers.
        let done = unsafe { real::listen(fd, backlog) };
        if let Some(Kind::Listening(listening)) = state.files.get_mut(place).map(|f| &mut f.kind) {
            listening.backlog = backlog.max(0) as u32;
        }
        return if done == 0 { Ok(0) } else { fail(real::errno()) };
    }
    let kind = kind_of(fd).filter(|kind| kind.stream).ok_or(Failure::Kernel)?;
    let before = kernel_name(fd).ok_or(Failure::Kernel)?;
    if before.ip().is_loopback() || !is_selected(true, &[before.port()]) {
        return Err(Failure::Kernel);
    }
    if !state.can_wait(before.ip()) {
        state.need_queue()?;
    }
    // SAFETY: it has no pointers.
    if unsafe { real::listen(fd, backlog) } != 0 {
        return fail(real::errno());
    }
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if !local.ip().is_unspecified() && !state.is_own(local.ip()) {
        return Ok(0);
    }
    let kernel = kernel_serves(state, local);
    let listening = Listening { backlog: backlog.max(0) as u32, ..Listening::default() };
    let file = File { local, kernel, ..file(kind.family, Kind::Listening(listening)) };
    let place = state.attach(fd, file)?;
    if let Err(why) = state.ensure_unless_waiting(place) {
        log::note(format_args!("{local} by TCP is the kernel's alone: {why:?}"));
        state.detach(fd);
        return Err(why);
    }
    Ok(0)
}
