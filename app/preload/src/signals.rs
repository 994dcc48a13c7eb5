//! Signals that come while a call waits: `EINTR`, or the call goes on, as `SA_RESTART` says (signal(7)).
//!
//! ```text
//!  sigaction(handler, flags) ──► noted here; the kernel gets `arrived`
//!  until ──► Watching ──► ppoll ◄── the watched thread's eventfd ◄── arrived ──► the program's handler
//!                           └──► interrupted: by a handler with SA_RESTART, or without?
//! ```
//!
//! A call waits in `ppoll`, which the kernel never restarts, and only the handler itself can tell which one has
//! interrupted it. So the kernel is given a handler that notes this and calls the program's. Signals that a thread
//! raises by itself (a fault, say) are not touched, and the program sees its own handlers when it asks.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

use libc::{SA_RESTART, SA_SIGINFO, SIG_DFL, SIG_ERR, SIG_IGN, sighandler_t, siginfo_t};

use crate::calls::calls;
use crate::state::ring;
use crate::{deferred, real};

/// Signals have numbers up to this.
const MOST: usize = 64;
/// The most threads whose waits distinguish handlers with and without `SA_RESTART`; in further ones
/// any signal ends a wait with `EINTR`.
const THREADS: usize = 256;

const RESTARTS: u8 = 1;
const INTERRUPTS: u8 = 2;

/// The program's handler of a signal.
struct Handler {
    address: AtomicUsize,
    flags: AtomicI32,
}

static HANDLERS: [Handler; MOST + 1] =
    [const { Handler { address: AtomicUsize::new(SIG_DFL), flags: AtomicI32::new(0) } }; MOST + 1];

/// A thread that waits.
struct Place {
    /// Its `pthread_self`; 0 if there is none.
    thread: AtomicUsize,
    kick: AtomicI32,
    seen: AtomicU8,
}

static PLACES: [Place; THREADS] = [const {
    Place { thread: AtomicUsize::new(0), kick: AtomicI32::new(-1), seen: AtomicU8::new(0) }
}; THREADS];

fn this_thread() -> usize {
    // SAFETY: it has no arguments, and works in a handler of signals.
    unsafe { libc::pthread_self() as usize }
}

/// The calling thread waits: handlers that run in it are noted, and those without `SA_RESTART` end the wait.
pub(crate) struct Watching(Option<&'static Place>);

impl Watching {
    /// `kick` is an eventfd that ends the wait.
    pub(crate) fn begin(kick: c_int) -> Watching {
        let thread = this_thread();
        let free = PLACES.iter().find(|place| {
            let free = &place.thread;
            free.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        if let Some(place) = free {
            place.seen.store(0, Ordering::Release);
            place.kick.store(kick, Ordering::Release);
        }
        Watching(free)
    }

    /// Whether a handler that ends calls has run.
    pub(crate) fn interrupted(&self) -> bool {
        self.seen() & INTERRUPTS != 0
    }

    /// Whether handlers have run, none of which ends calls.
    pub(crate) fn restarts(&self) -> bool {
        self.seen() == RESTARTS
    }

    fn seen(&self) -> u8 {
        self.0.map_or(0, |place| place.seen.load(Ordering::Acquire))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.kick.store(-1, Ordering::Release);
            place.thread.store(0, Ordering::Release);
        }
    }
}

/// In a child of `fork`: other threads, and their waits, are the parent's.
pub(crate) fn inherit() {
    deferred::inherit();
    PLACES.iter().for_each(|place| place.thread.store(0, Ordering::Release));
}

/// Notes that a handler runs in this thread.
fn note(restarts: bool) {
    let thread = this_thread();
    for place in &PLACES {
        if place.thread.load(Ordering::Acquire) != thread {
            continue;
        }
        place.seen.fetch_or(if restarts { RESTARTS } else { INTERRUPTS }, Ordering::AcqRel);
        let kick = place.kick.load(Ordering::Acquire);
        if !restarts && kick >= 0 {
            ring(kick);
        }
    }
}

/// The handler that the kernel has: calls the program's.
unsafe extern "C" fn arrived(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(handler) = usize::try_from(signal).ok().and_then(|number| HANDLERS.get(number)) else {
        return;
    };
    let errno = real::errno();
    note(handler.flags.load(Ordering::Acquire) & SA_RESTART != 0);
    let later = deferred::defers(signal, info);
    real::set_errno(errno);
    if later {
        return;
    }
    let address = handler.address.load(Ordering::Acquire);
    if address == SIG_DFL || address == SIG_IGN {
        // Changed while the signal was on its way.
        return;
    }
    type Call = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
    // SAFETY: the program has given it as a handler. One with a single argument does not look at the others.
    unsafe { std::mem::transmute::<usize, Call>(address)(signal, info, context) };
}

/// Whether handlers of a signal are noted: not where the thread itself is its cause.
fn is_noted(signal: c_int) -> bool {
    let own =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    (1..=MOST as c_int).contains(&signal) && !own.contains(&signal)
}

/// `sigaction`.
///
/// # Safety
/// As `sigaction` of the C library.
unsafe fn change(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller's promise, for all of the pointers.
    unsafe {
        if !is_noted(signal) {
            return real::sigaction(signal, new, old);
        }
        let handler = &HANDLERS[signal as usize];
        let before =
            (handler.address.load(Ordering::Acquire), handler.flags.load(Ordering::Acquire));
        let store = |(address, flags): (usize, c_int)| {
            handler.address.store(address, Ordering::Release);
            handler.flags.store(flags, Ordering::Release);
        };
        let mut given = new.as_ref().copied();
        if let Some(given) = &mut given
            && ![SIG_DFL, SIG_IGN].contains(&given.sa_sigaction)
        {
            store((given.sa_sigaction, given.sa_flags));
            given.sa_sigaction = arrived as *const () as usize;
            given.sa_flags |= SA_SIGINFO;
        }
        let given = given.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut found: libc::sigaction = std::mem::zeroed();
        let done = real::sigaction(signal, given, &mut found);
        if done != 0 {
            store(before);
        } else if let Some(old) = old.as_mut() {
            if found.sa_sigaction == arrived as *const () as usize {
                found.sa_sigaction = before.0;
                found.sa_flags = found.sa_flags & !SA_SIGINFO | before.1 & SA_SIGINFO;
            }
            *old = found;
        }
        done
    }
}

/// `signal` and its like, which differ in their flags.
///
/// # Safety
/// As `signal` of the C library.
unsafe fn set(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: all zero is a valid action; the caller's promise for the handler.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        (new.sa_sigaction, new.sa_flags) = (handler, flags);
        if change(signal, &new, &mut old) == 0 { old.sa_sigaction } else { SIG_ERR }
    }
}

calls! {
    /// Changes what a signal does.
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        change(signal, new, old)
    }

    /// The same by its other name.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        change(signal, new, old)
    }

    /// Sets a handler, with which calls go on.
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        set(signal, handler, SA_RESTART)
    }

    /// The same by its other name.
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        set(signal, handler, SA_RESTART)
    }

    /// Sets a handler for one signal, with which calls end.
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        set(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
    }

    /// The same by its other name.
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        set(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
    }

    /// Says whether calls end with a signal.
    fn siginterrupt(signal: c_int, ends: c_int) -> c_int {
        let mut action: libc::sigaction = std::mem::zeroed();
        if change(signal, std::ptr::null(), &mut action) != 0 {
            return -1;
        }
        match ends {
            0 => action.sa_flags |= SA_RESTART,
            _ => action.sa_flags &= !SA_RESTART,
        }
        change(signal, &action, std::ptr::null_mut())
    }
}
