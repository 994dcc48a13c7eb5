//! Signals of sockets: `SIGURG` and `SIGIO`, for the process that the program has named by `F_SETOWN` (fcntl(2)).
//!
//! The kernel keeps the name with the socket behind the descriptor, but sees nothing of what happens on weever. Whichever
//! thread takes an event from the queue sends its signal. The program may do something else at that time, and waits for
//! the signal: so a thread of this library's own waits for events, once a socket has an owner.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libc::pid_t;
use weever_app_sockets::Event;

use crate::collect::LOOK;
use crate::file::{IN, OUT, PRI};
use crate::inside::block_signals;
use crate::state::{State, lock};
use crate::{log, real, wait};

// `asm-generic/fcntl.h`.
const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;
const TID: c_int = 0;
const PGRP: c_int = 2;
// `asm-generic/sockios.h`.
const FIOSETOWN: libc::c_ulong = 0x8901;
const SIOCSPGRP: libc::c_ulong = 0x8902;

/// `struct f_owner_ex`.
#[repr(C)]
struct Named {
    kind: c_int,
    id: pid_t,
}

/// The process that gets the signals of a socket, and which signals.
pub(crate) struct Owner {
    kind: c_int,
    id: pid_t,
    /// `F_SETSIG`; 0: `SIGIO`.
    signal: c_int,
    /// `O_ASYNC`: not only `SIGURG`.
    all: bool,
    /// The descriptor that the program has used.
    fd: c_int,
}

/// What a signal says of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Readable,
    Writable,
    Urgent,
}

impl Reason {
    /// The reason that an event is for a signal.
    pub(crate) fn of(event: &Event<'_>) -> Option<Reason> {
        match event {
            Event::Urgent(..) => Some(Reason::Urgent),
            Event::Connected(_) | Event::Writable(_) => Some(Reason::Writable),
            Event::Info(..) | Event::Released(_) => None,
            _ => Some(Reason::Readable),
        }
    }
}

/// Whether a call of `fcntl` may have changed the owner.
pub(crate) fn is_changed_by(command: c_int) -> bool {
    matches!(command, libc::F_SETOWN | F_SETOWN_EX | F_SETSIG | libc::F_SETFL)
}

/// Whether a call of `ioctl` may have.
pub(crate) fn is_changed_by_ioctl(request: libc::c_ulong) -> bool {
    matches!(request, libc::FIOASYNC | FIOSETOWN | SIOCSPGRP)
}

impl State {
    /// Notes the owner of a socket, as the kernel has it.
    pub(crate) fn note_owner(&mut self, fd: c_int, place: u32) {
        let mut named = Named { kind: 0, id: 0 };
        // SAFETY: a place for the answer.
        let done = unsafe { real::fcntl(fd, F_GETOWN_EX, &raw mut named as usize) };
        let Some(file) = self.files.get_mut(place) else { return };
        file.owner = (done == 0 && named.id != 0).then(|| {
            // SAFETY: they have no pointers.
            let (signal, flags) =
                unsafe { (real::fcntl(fd, F_GETSIG, 0), real::fcntl(fd, libc::F_GETFL, 0)) };
            let all = flags & libc::O_ASYNC != 0;
            Box::new(Owner { kind: named.kind, id: named.id, signal: signal.max(0), all, fd })
        });
        self.watch_for_owners();
    }

    /// Sees to it that events are taken, if a socket has an owner.
    pub(crate) fn watch_for_owners(&mut self) {
        let has_owner = self.files.iter_mut().any(|(_, file)| file.owner.is_some());
        if self.queue.is_some() && has_owner && !WATCHED.swap(true, Ordering::Relaxed) {
            let signals = block_signals();
            let started = thread::Builder::new().name("weever-signals".into()).spawn(watch);
            // SAFETY: the set that was in force before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut()) };
            if let Err(why) = started {
                log::note(format_args!("sockets send signals only during calls: {why}"));
            }
        }
    }
}

/// This process has the thread.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// In a child of `fork`, which has no thread but one.
pub(crate) fn inherit() {
    WATCHED.store(false, Ordering::Relaxed);
}

fn watch() {
    loop {
        // Without descriptors to sleep by.
        if wait::for_any(lock()).is_err() {
            thread::sleep(LOOK);
        }
    }
}

impl Owner {
    /// Sends the signal for an event, if there is one.
    pub(crate) fn tell(&self, reason: Reason) {
        match (reason, self.signal) {
            (Reason::Urgent, _) => self.send(libc::SIGURG),
            _ if !self.all => {}
            (_, 0) => self.send(libc::SIGIO),
            (reason, signal) => self.send_with_reason(signal, reason),
        }
    }

    fn send(&self, signal: c_int) {
        // SAFETY: they have no pointers. An owner that is gone gets no signal.
        unsafe {
            match self.kind {
                TID => drop(libc::syscall(libc::SYS_tkill, self.id, signal)),
                PGRP => _ = libc::kill(-self.id, signal),
                _ => _ = libc::kill(self.id, signal),
            }
        }
    }

    /// With the descriptor and what holds of it (`si_fd`, `si_band`). Only the kernel may name the reason in `si_code`.
    fn send_with_reason(&self, signal: c_int, reason: Reason) {
        let band = match reason {
            Reason::Readable => IN,
            Reason::Writable => OUT,
            Reason::Urgent => PRI,
        };
        // SAFETY: all zero is a valid description.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        (info.si_signo, info.si_code) = (signal, libc::SI_SIGIO);
        let described = &raw mut info;
        // SAFETY: `si_band`, a long, and `si_fd` begin at the alignment of a long behind three integers, within the 128
        // bytes. The kernel only reads them.
        let done = unsafe {
            let fields = described.cast::<libc::c_long>().add(2);
            fields.write(band.into());
            fields.add(1).cast::<c_int>().write(self.fd);
            match self.kind {
                TID => libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    libc::getpid(),
                    self.id,
                    signal,
                    described,
                ),
                PGRP => -1,
                _ => libc::syscall(libc::SYS_rt_sigqueueinfo, self.id, signal, described),
            }
        };
        if done != 0 {
            self.send(signal);
        }
    }
}
