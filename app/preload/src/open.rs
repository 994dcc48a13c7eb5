//! A descriptor becomes a socket on weever: by `bind`, `listen`, `connect` or the first datagram that it sends.
//!
//! Until then it is the kernel's alone, and afterwards the kernel's socket stays behind it: it keeps the number,
//! the port (so that `EADDRINUSE` means the same on both), and the options that the program sets and reads.

use std::sync::OnceLock;

use libc::{SOL_SOCKET, c_int};
use weever_app_sockets::{Bind, Handle, Selection, Share, StreamOption};

use crate::behind::{is_v6_only, option};
use crate::failure::{Answer, Failure, limit};
use crate::file::{File, Kind, Listening, Options, Udp};
use crate::inherited::Inherited;
use crate::numbers::{self, Meaning};
use crate::state::State;
use crate::{address, log, real};

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
        serial: 0,
        kernel: false,
        bequeathed: false,
        owner: None,
        error: 0,
        options: Options::default(),
        watchers: Vec::new(),
        kind,
    }
}

impl State {
    /// Puts a socket behind a descriptor, with the options that the program has set before.
    pub(crate) fn attach(&mut self, fd: c_int, mut file: File) -> Answer<u32> {
        // SAFETY: it has no pointers.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
        file.nonblocking = flags & libc::O_NONBLOCK != 0;
        // SAFETY: it has no pointers.
        let is_owned = unsafe { real::fcntl(fd, libc::F_GETOWN, 0) } != 0;
        file.v6_only = is_v6_only(fd, file.family);
        let timeout = |name| option::<Timeval>(fd, SOL_SOCKET, name).and_then(|t| limit(t.0));
        file.options.receive_timeout = timeout(libc::SO_RCVTIMEO);
        file.options.send_timeout = timeout(libc::SO_SNDTIMEO);
        file.descriptors = 1;
        if let Kind::Listening(listening) = &mut file.kind {
            listening.inherited = Inherited::of(fd, file.family);
        }
        let place = self.add(file);
        if !numbers::set(fd, Some(Meaning::File(place))) {
            self.files.remove(place);
            log::note(format_args!("descriptor {fd} is the kernel's: its number is too high"));
            return Err(Failure::Kernel);
        }
        crate::adopt::adopt(self, fd, place);
        if is_owned {
            self.note_owner(fd, place);
        }
        self.adopt_interest(fd, place);
        self.adopt_twins(fd, place);
        Ok(place)
    }

    /// Opens a UDP socket or a listener on this process' queue, if it is not open there.
    pub(crate) fn ensure(&mut self, place: u32) -> Answer<()> {
        // With the queue, a stack inside gets all sockets that have waited for it, perhaps this one.
        if self.files.get(place).is_some_and(File::is_unopened) {
            self.need_queue()?;
        }
        let Some(file) = self.files.get(place) else { return Err(Failure::Kernel) };
        let (local, v6_only) = (file.local, file.v6_only);
        match &file.kind {
            Kind::Udp(Udp { socket: None, peer, .. }) => {
                let peer = *peer;
                let queue = self.need_queue()?;
                let mut bind = Bind::at(local).shared(Share::ByFlow).in_kernel();
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
                let mut bind = Bind::at(local).shared(Share::ByFlow).accepting_each().in_kernel();
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
                // Connections that have waited come to this process now.
                self.give_up_held(place);
                let options = self.files.get(place).map(|file| &file.options);
                let (pending, seconds) =
                    options.map_or((0, 0), |options| (options.fast_open, options.defer_accept));
                if pending > 0 {
                    queue.set_listener_option(listener, StreamOption::FastOpen(pending))?;
                }
                if seconds > 0 {
                    queue.set_listener_option(listener, StreamOption::DeferAccept(seconds))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// As [`ensure`](Self::ensure), but for a socket that can wait until the program uses it.
    pub(crate) fn ensure_unless_waiting(&mut self, place: u32) -> Answer<()> {
        let local = self.files.get(place).map(|file| file.local.ip());
        if local.is_some_and(|local| self.can_wait(local)) { Ok(()) } else { self.ensure(place) }
    }

    /// As [`use_it`](Self::use_it), for a call that can wait for the next stack.
    pub(crate) fn use_or_wait(&mut self, place: u32) -> Answer<()> {
        match self.use_it(place) {
            Err(Failure::Kernel) if self.awaits_stack() => Ok(()),
            done => done,
        }
    }

    /// This process is about to wait: what [rests](Self::rest_until_used) in its epoll sets is used again.
    #[inline]
    pub(crate) fn use_resting(&mut self) {
        while let Some(place) = self.resting.pop() {
            if let Some(File { kind: Kind::Listening(_), .. }) = self.files.get(place)
                && let Err(why) = self.use_it(place)
            {
                log::note(format_args!("a listener goes on to rest: {why:?}"));
            }
        }
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
