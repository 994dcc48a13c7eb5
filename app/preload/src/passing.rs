//! Connections that several processes hold: inherited by `fork`, kept across `exec`.
//!
//! ```text
//!  parent: before a fork ── a connection to the stack that holds the streams ──► child: away, by that holder
//!  first use in the child ── claim ──► on the child's queue;   the parent hears of it: away, by its own queue
//! ```
//!
//! A stream that is *away* has its descriptor, its ends and its options here, and its octets with another process or
//! the stack. Each use claims it. As long as another process holds a stream, what the program has read of it is told to
//! the stack exactly, and closing it only ends this process' hold.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use libc::c_int;
use weever_app_sockets::{Error, Handle, Holder, SocketId};

use crate::failure::{Answer, fail};
use crate::file::{File, Kind, Phase, Stream};
use crate::numbers::{self, Meaning};
use crate::state::State;
use crate::{inside, log};

/// The attempts to have the stack take entries out of a full ring.
const PATIENCE: usize = 1000;

/// A holder of streams, with a descriptor that the program does not use.
pub(crate) struct Passport(pub(crate) Holder);

impl Passport {
    /// A holder for this process or its child, with a descriptor of its own; `None` if no descriptor is
    /// free.
    pub(crate) fn new(holder: &Holder) -> Option<Passport> {
        let own = numbers::duplicate(holder.as_fd().as_raw_fd())?;
        numbers::set(own.as_raw_fd(), Some(Meaning::Internal));
        Some(Passport(Holder::over(own, holder.name())))
    }

    /// The holder whose connection has this number.
    pub(crate) fn take(fd: c_int, name: (u32, u64)) -> Option<Passport> {
        // SAFETY: a descriptor that was left for this library.
        let first = Holder::over(unsafe { OwnedFd::from_raw_fd(fd) }, name);
        Passport::new(&first)
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.0.as_fd().as_raw_fd()
    }
}

impl Drop for Passport {
    fn drop(&mut self) {
        numbers::set(self.descriptor(), None);
    }
}

/// The holder by which a stream that is away can be claimed.
#[derive(Clone)]
pub(crate) enum By {
    /// This process' queue, which had the stream before.
    Queue,
    Passport(Arc<Passport>),
}

/// A stream of which another process may have the octets.
#[derive(Clone)]
pub(crate) struct Away {
    pub(crate) by: By,
    /// Its number there.
    pub(crate) number: SocketId,
}

/// An inherited listener for which connections wait at the stack.
#[derive(Clone)]
pub(crate) struct HeldListener {
    by: Arc<Passport>,
    /// Its number at the queue that opened it.
    number: SocketId,
}

/// A holder, if there is one.
type MaybeHolder = Option<Arc<Passport>>;

/// What a child inherits, by places.
#[derive(Default)]
pub(crate) struct Inheritance {
    /// Streams, and how it can claim them.
    streams: Vec<(u32, Away)>,
    /// Listeners, each with the holder by which connections wait for the child.
    listeners: Vec<(u32, HeldListener)>,
}

impl State {
    /// Has the stack hold the streams of this process for a child.
    pub(crate) fn bequeath(&mut self) -> Inheritance {
        let mut inheritance =
            Inheritance { listeners: self.keep_listeners(), ..Inheritance::default() };
        let is_there = |file: &File| matches!(&file.kind, Kind::Stream(s) if s.is_connected());
        if inside::is_chosen()
            || !self.files.iter_mut().any(|(_, file)| !file.left && is_there(file))
        {
            return inheritance;
        }
        self.pump();
        self.say_what_was_read();
        let own = self.hold_all();
        let mut passports: Vec<(Arc<Passport>, Arc<Passport>)> = Vec::new();
        let (queue, rights) = (self.queue, self.rights());
        let path = &crate::queue::config().path;
        for (place, file) in self.files.iter_mut() {
            let Kind::Stream(stream) = &file.kind else { continue };
            let away = match (&stream.away, stream.stream, &own) {
                (Some(Away { by: By::Passport(old), number }), ..) => {
                    let there = passports.iter().find(|(before, _)| Arc::ptr_eq(before, old));
                    let new = match there {
                        Some((_, new)) => Arc::clone(new),
                        None => {
                            let held = rights.connect(|shown| old.0.hold(path, None, shown));
                            let Ok(new) = held else { continue };
                            let Some(new) = Passport::new(&new).map(Arc::new) else { continue };
                            passports.push((Arc::clone(old), Arc::clone(&new)));
                            new
                        }
                    };
                    Away { by: By::Passport(new), number: *number }
                }
                (Some(Away { by: By::Queue, number }), _, Some(own)) => {
                    Away { by: By::Passport(Arc::clone(own)), number: *number }
                }
                (None, Some(handle), Some(own)) if stream.phase == Phase::Connected => {
                    let Some(queue) = queue else { continue };
                    let number = queue.stream_number(handle);
                    Away { by: By::Passport(Arc::clone(own)), number }
                }
                _ => continue,
            };
            inheritance.streams.push((place, away));
        }
        inheritance
    }

    /// Holders of the listeners of this process, or of those that it has inherited itself, for a child.
    fn keep_listeners(&mut self) -> Vec<(u32, HeldListener)> {
        let mut kept: Vec<(u32, HeldListener)> = Vec::new();
        if inside::is_chosen() {
            return kept;
        }
        let (queue, rights, path) = (self.queue, self.rights(), &crate::queue::config().path);
        // By the holder that this process has; none for its own queue.
        let mut made: Vec<(MaybeHolder, MaybeHolder)> = Vec::new();
        for (place, file) in self.files.iter_mut() {
            let Kind::Listening(listening) = &file.kind else { continue };
            let (old, number) = match (&listening.kept, listening.listener, queue) {
                (Some(HeldListener { by, number }), ..) => (Some(Arc::clone(by)), *number),
                (None, Some(listener), Some(queue)) => match queue.listener_number(listener) {
                    Ok(number) => (None, number),
                    Err(_) => continue,
                },
                _ => continue,
            };
            let is_same = |(before, _): &&(MaybeHolder, _)| match (before, &old) {
                (Some(before), Some(old)) => Arc::ptr_eq(before, old),
                (None, None) => true,
                _ => false,
            };
            let new = match made.iter().find(is_same) {
                Some((_, new)) => new.clone(),
                None => {
                    let held = match (&old, queue) {
                        (Some(old), _) => rights.connect(|shown| old.0.hold_listeners(path, shown)),
                        (None, Some(queue)) => rights.connect(|shown| queue.hold_listeners(shown)),
                        (None, None) => continue,
                    };
                    let held = held.inspect_err(|error| {
                        log::note(format_args!("connections may not wait for a child: {error}"));
                    });
                    let new = held.ok().and_then(|held| Passport::new(&held)).map(Arc::new);
                    made.push((old, new.clone()));
                    new
                }
            };
            kept.extend(new.map(|by| (place, HeldListener { by, number })));
        }
        kept
    }

    /// A holder of all streams that this process' queue has, or had.
    fn hold_all(&mut self) -> Option<Arc<Passport>> {
        let queue = self.queue?;
        let rights = self.rights();
        for _ in 0..PATIENCE {
            match rights.connect(|shown| queue.hold(None, shown)) {
                Err(Error::WouldBlock) => self.wait_for_stack(),
                Ok(holder) => return Passport::new(&holder).map(Arc::new),
                Err(error) => {
                    log::note(format_args!("a child process cannot use connections: {error}"));
                    return None;
                }
            }
        }
        None
    }

    /// Reports octets that were read to the stack even within a frame.
    pub(crate) fn say_what_was_read(&mut self) {
        for (_, file) in self.files.iter_mut() {
            if let Kind::Stream(stream) = &mut file.kind {
                stream.settle_read();
            }
        }
        self.commit();
    }

    /// Called in the parent: its child holds the streams as well.
    pub(crate) fn share(&mut self, inheritance: Inheritance) {
        for (place, _) in inheritance.streams {
            if let Some(Kind::Stream(stream)) = self.files.get_mut(place).map(|f| &mut f.kind) {
                stream.shared = true;
            }
        }
    }

    /// Called in the child: the streams are away until it uses them, and connections wait for its listeners.
    pub(crate) fn inherit_from_parent(&mut self, inheritance: Inheritance) {
        for (_, file) in self.files.iter_mut() {
            match &mut file.kind {
                Kind::Stream(stream) => {
                    (stream.stream, stream.away) = (None, None);
                    if stream.phase != Phase::Over {
                        (stream.phase, file.error) = (Phase::Over, libc::ENOTCONN);
                    }
                }
                // The parent's own holder stays the parent's, also if there is none for this process.
                Kind::Listening(listening) => listening.kept = None,
                Kind::Udp(_) => {}
            }
        }
        for (place, kept) in inheritance.listeners {
            if let Some(Kind::Listening(listening)) = self.files.get_mut(place).map(|f| &mut f.kind)
            {
                listening.kept = Some(kept);
            }
        }
        for (place, away) in inheritance.streams {
            let Some(file) = self.files.get_mut(place) else { continue };
            if let Kind::Stream(stream) = &mut file.kind {
                file.error = 0;
                stream.go_away(away);
            }
        }
    }

    /// Brings a stream that is away to this process' queue.
    pub(crate) fn bring(&mut self, place: u32) -> Answer<()> {
        let Some(away) = self.away(place) else { return Ok(()) };
        let queue = self.need_queue()?;
        let claimed = match &away.by {
            By::Queue => queue.claim(away.number),
            By::Passport(passport) => passport.0.claim(away.number, queue),
        };
        let Some(file) = self.files.get_mut(place) else { return Ok(()) };
        let Kind::Stream(stream) = &mut file.kind else { return Ok(()) };
        stream.away = None;
        match claimed {
            Ok(handle) => {
                (stream.stream, stream.shared) = (Some(handle), true);
                self.name(Handle::Stream(handle), place);
                self.pump();
                Ok(())
            }
            Err(error) => {
                log::note(format_args!("a connection has ended, or cannot be claimed: {error}"));
                stream.phase = Phase::Over;
                fail(libc::ENOTCONN)
            }
        }
    }

    fn away(&mut self, place: u32) -> Option<Away> {
        match &self.files.get_mut(place)?.kind {
            Kind::Stream(stream) => stream.away.clone(),
            _ => None,
        }
    }

    /// Called before a process changes its user or root: opens everything now that it needs to claim its streams later
    /// and to sleep. The streams stay away, since another process may be the one that uses them.
    pub(crate) fn prepare(&mut self) {
        let away =
            |file: &File| matches!(&file.kind, Kind::Stream(stream) if stream.away.is_some());
        let any = self.files.iter_mut().any(|(_, file)| away(file));
        if any && self.need_queue().is_ok() {
            self.make_kick();
        }
    }

    /// Makes sure that a thread of a process with a queue can sleep without making a descriptor for it first.
    pub(crate) fn make_kick(&mut self) {
        if self.queue.is_some()
            && self.kicks.is_empty()
            && let Ok(kick) = crate::state::eventfd()
        {
            self.kicks.push(kick);
        }
    }

    /// Called before a process enters a sandbox that permits hardly more than reads and writes: claims its
    /// streams that are away.
    pub(crate) fn bring_all(&mut self) {
        let away =
            |file: &File| matches!(&file.kind, Kind::Stream(stream) if stream.away.is_some());
        let all: Vec<u32> =
            self.files.iter_mut().filter(|(_, file)| away(file)).map(|(place, _)| place).collect();
        for place in all {
            let _failed_later = self.bring(place);
        }
    }

    /// Connections wait for this process no more at a listener that it has inherited, and opened or closed now.
    pub(crate) fn give_up_held(&mut self, place: u32) {
        let Some(Kind::Listening(listening)) = self.files.get_mut(place).map(|f| &mut f.kind)
        else {
            return;
        };
        let Some(HeldListener { by, number }) = listening.kept.take() else { return };
        // With the last one, the connection ends.
        if Arc::strong_count(&by) == 1 {
            return;
        }
        match by.0.close_listener(number) {
            // Nothing is held by a stack that has ended.
            Ok(()) | Err(Error::Disconnected) => {}
            Err(error) => {
                log::note(format_args!("a listener stays open for this process: {error}"));
            }
        }
    }

    /// The program has closed a stream that is away: this process holds it no more.
    pub(crate) fn renounce(&mut self, away: &Away) {
        let released = match (&away.by, self.queue) {
            (By::Queue, Some(queue)) => queue.renounce(away.number),
            // With the last one, the connection ends.
            (By::Passport(passport), _) if Arc::strong_count(passport) > 1 => {
                passport.0.release(away.number)
            }
            _ => Ok(()),
        };
        released.unwrap_or_else(|error| log::note(format_args!("close: {error}")));
    }
}

impl Stream {
    /// A connected stream that is away.
    pub(crate) fn away(remote: std::net::SocketAddr, away: Away) -> Stream {
        Stream { away: Some(away), ..Stream::without_queue(remote) }
    }

    fn is_connected(&self) -> bool {
        self.away.is_some() || self.stream.is_some() && self.phase == Phase::Connected
    }

    /// Octets of the first buffer that were read are consumed.
    pub(crate) fn settle_read(&mut self) {
        if self.offset > 0
            && let Some(first) = self.received.front_mut()
        {
            first.advance(self.offset);
            self.offset = 0;
        }
    }

    /// Another process may have the stream from now on; octets that were not read are delivered
    /// again to it.
    pub(crate) fn go_away(&mut self, away: Away) {
        self.received.clear();
        (self.stream, self.offset, self.phase) = (None, 0, Phase::Connected);
        (self.finished, self.blocked, self.urgent) = (false, false, None);
        self.away = Some(away);
    }
}
