//! Signals that come while their thread has the lock, or waits for it: the program's handler runs after the thread has
//! released the lock.
//!
//! The kernel lets a handler make any system call: PostgreSQL's forks. Inside this library the handler would wait for a
//! lock that its own thread has. So the signal is sent again later, to the same thread with the same `siginfo_t`, as if
//! it had come a moment later.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

use libc::{c_int, siginfo_t};

/// Signals below this number are deferred. Real-time signals would have to be queued; their
/// handlers run at once.
const MOST: usize = 32;

/// The deferred signals of a thread.
struct Deferred {
    /// The thread has the lock, or is about to take it.
    busy: Cell<bool>,
    /// A bit for each signal that has come meanwhile.
    came: Cell<u32>,
    infos: UnsafeCell<[MaybeUninit<siginfo_t>; MOST]>,
}

thread_local! {
    static DEFERRED: Deferred = const {
        Deferred {
            busy: Cell::new(false),
            came: Cell::new(0),
            infos: UnsafeCell::new([MaybeUninit::uninit(); MOST]),
        }
    };
}

/// The calling thread is about to take the lock.
#[inline]
pub(crate) fn begin() {
    DEFERRED.with(|deferred| deferred.busy.set(true));
}

/// Whether the calling thread has the lock: a call that it makes then is this library's own.
pub(crate) fn has_lock() -> bool {
    DEFERRED.with(|deferred| deferred.busy.get())
}

/// The calling thread has released the lock: signals that came meanwhile are sent again now.
#[inline]
pub(crate) fn end() {
    DEFERRED.with(|deferred| {
        deferred.busy.set(false);
        if deferred.came.get() != 0 {
            deferred.send_again();
        }
    });
}

/// Called in a child of `fork`: forgets the signals of its parent.
pub(crate) fn inherit() {
    DEFERRED.with(|deferred| deferred.came.set(0));
}

/// Called in a handler: whether the signal is deferred, and comes again later.
pub(crate) fn defers(signal: c_int, info: *const siginfo_t) -> bool {
    DEFERRED.with(|deferred| {
        let number = signal as usize;
        if !deferred.busy.get() || number >= MOST || info.is_null() {
            return false;
        }
        // SAFETY: the kernel's description of the signal. Only this thread uses the place, and it reads those whose bit is set
        // after the handler.
        unsafe { (*deferred.infos.get())[number].write(*info) };
        deferred.came.set(deferred.came.get() | 1 << number);
        true
    })
}

impl Deferred {
    #[cold]
    fn send_again(&self) {
        loop {
            let came = self.came.get();
            if came == 0 {
                return;
            }
            let number = came.trailing_zeros();
            self.came.set(came & !(1 << number));
            // SAFETY: written when its bit was set; a process may send itself any signal.
            unsafe {
                let info = (*self.infos.get())[number as usize].assume_init();
                let (process, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
                libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    process,
                    thread,
                    number,
                    &raw const info,
                );
            }
        }
    }
}
