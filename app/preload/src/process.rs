//! Fork, and changes of the user: a process has a queue of its own.
//!
//! Rings have one writer, so a child does not touch its parent's queue. It connects to the stack at once, while it is
//! still the user that its parent was, and opens its queue and the sockets that it has inherited when it first uses
//! one. A listener that its process has not used gets no connections from then on: they go to those that accept, and
//! wait while no process does.

use std::cell::UnsafeCell;
use std::sync::MutexGuard;

use libc::c_int;

use crate::file::Kind;
use crate::passing::Inheritance;
use crate::real;
use crate::state::{Held, State, lock};
use crate::{environment, inside, interfaces, log, numbers, owners, rings, signals};

/// The lock, while a fork is under way.
struct Fork(UnsafeCell<Option<(MutexGuard<'static, State>, Inheritance)>>);

// SAFETY: the C library runs one fork at a time, and its handlers in the forking thread.
unsafe impl Sync for Fork {}

static FORK: Fork = Fork(UnsafeCell::new(None));

/// Runs before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    crate::queue::config();
    environment::remember();
    rings::are_for_files();
    log::prepare();
    lock().take_over();
    // SAFETY: functions that live as long as the process; without memory for them a fork is not noticed.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let mut held = lock();
    held.share_datagrams();
    let inheritance = held.bequeath();
    // SAFETY: see `Fork`.
    unsafe { *FORK.0.get() = Some((held.into_guard(), inheritance)) };
}

fn take() -> Option<(Held, Inheritance)> {
    // SAFETY: see `Fork`.
    let (guard, inheritance) = unsafe { (*FORK.0.get()).take() }?;
    Some((Held::from_guard(guard), inheritance))
}

extern "C" fn in_parent() {
    let Some((mut held, inheritance)) = take() else { return };
    held.share(inheritance);
    held.rest_until_used();
}

extern "C" fn in_child() {
    signals::inherit();
    owners::inherit();
    let Some((mut held, inheritance)) = take() else { return };
    held.inherit(inheritance);
}

impl State {
    /// After a fork, listeners rest until this process uses them: it may leave them to its child, even if it has accepted or
    /// waited for connections before. Where a thread waits for something, it may be for them, and those that were used go on.
    fn rest_until_used(&mut self) {
        let waits = !self.sleepers.is_empty();
        let mut idle = Vec::new();
        for (place, file) in self.files.iter_mut() {
            if let Kind::Listening(listening) = &mut file.kind
                && !(listening.used && waits)
            {
                listening.used = false;
                idle.push(place);
            }
        }
        for place in idle {
            if self.files.get(place).is_some_and(|file| !file.watchers.is_empty()) {
                self.resting.push(place);
            }
            self.rest(place);
        }
    }

    /// Before a fork: datagrams that wait are for whichever process reads first.
    fn share_datagrams(&mut self) {
        if inside::is_chosen() || !self.files.iter_mut().any(|(_, file)| file.is_udp()) {
            return;
        }
        self.pump();
        let mut kept = 0;
        for (_, file) in self.files.iter_mut() {
            if let Kind::Udp(udp) = &mut file.kind {
                kept += udp.received.share();
            }
        }
        if kept > 0 {
            log::note(format_args!(
                "{kept} waiting datagrams stay with this process; its child cannot read them"
            ));
        }
        self.commit();
    }

    /// The state of a child, made of its parent's.
    fn inherit(&mut self, inheritance: Inheritance) {
        self.sleepers.clear();
        self.resting.clear();
        drop(self.take_reserved());
        match self.queue {
            Some(_) if inside::is_chosen() => self.abandon(),
            _ => self.drop_queue(),
        }
        self.forget_left();
        let mut kicks = std::mem::take(&mut self.kicks);
        for (_, set) in self.sets.iter_mut() {
            kicks.extend(set.kick.take());
        }
        kicks.into_iter().for_each(close);
        let (mut waiting, mut serves) = (Vec::new(), false);
        for (_, file) in self.files.iter_mut() {
            match &mut file.kind {
                Kind::Udp(udp) => (udp.socket, serves) = (None, true),
                Kind::Listening(listening) => {
                    (listening.listener, listening.used, serves) = (None, false, true);
                    listening.rests = false;
                    waiting.extend(std::mem::take(&mut listening.pending));
                }
                Kind::Stream(_) => {}
            }
        }
        for place in waiting {
            self.files.remove(place);
        }
        self.inherit_from_parent(inheritance);
        if serves {
            self.reserve();
        }
    }
}

fn close(fd: c_int) {
    numbers::set(fd, None);
    // SAFETY: an eventfd of this library's own.
    unsafe { real::close(fd) };
}

/// The program is about to restrict its system calls: before that, the library claims inherited streams, and opens the
/// descriptor by which threads sleep.
pub(crate) fn before_sandbox() {
    let mut held = lock();
    held.bring_all();
    held.make_kick();
    if held.queue.is_some() {
        interfaces::remember();
    }
}

/// The program is about to change its user, or its root: it connects to the stack while it can.
pub(crate) fn before_change() {
    let mut held = lock();
    held.reserve();
    held.prepare();
    held.ask_for_credential();
}

/// Whether the process stays closed to others of its user, though it asks to be dumpable: it has a credential of
/// the user that it was, and they could read that in its memory.
pub(crate) fn stays_closed() -> bool {
    let closed = lock().rights().are_shown();
    if closed {
        log::note(format_args!(
            "the process makes no core dumps: others of its user could read its credential"
        ));
    }
    closed
}
