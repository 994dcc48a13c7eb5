//! The descriptors of the process that mean something here, by number.
//!
//! A look is one load, so that calls on files and pipes cost nothing to speak of. Descriptors above the table
//! are the kernel's.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::c_int;

use crate::real;

const MOST: usize = 1 << 16;
const NOTHING: u32 = 0;
const INTERNAL: u32 = u32::MAX;
const SET: u32 = 1 << 31;

static TABLE: [AtomicU32; MOST] = [const { AtomicU32::new(NOTHING) }; MOST];

/// Above all descriptors that have had a meaning.
static END: AtomicI32 = AtomicI32::new(0);

/// The meaning of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A socket that is weever's, by its place in the state.
    File(u32),
    /// An epoll set with such sockets.
    Set(u32),
    /// One that this library needs; the program does not know it.
    Internal,
}

/// The meaning of a descriptor; nothing for the kernel's.
#[inline]
pub(crate) fn meaning(fd: c_int) -> Option<Meaning> {
    match TABLE.get(fd as usize)?.load(Ordering::Acquire) {
        NOTHING => None,
        INTERNAL => Some(Meaning::Internal),
        value if value & SET != 0 => Some(Meaning::Set(value & !SET)),
        value => Some(Meaning::File(value - 1)),
    }
}

/// The socket of a descriptor.
#[inline]
pub(crate) fn file(fd: c_int) -> Option<u32> {
    match meaning(fd) {
        Some(Meaning::File(file)) => Some(file),
        _ => None,
    }
}

/// Gives a descriptor a meaning, or takes it; false when its number is beyond the table.
pub(crate) fn set(fd: c_int, meaning: Option<Meaning>) -> bool {
    let Some(place) = TABLE.get(fd as usize) else { return false };
    let value = match meaning {
        None => NOTHING,
        Some(Meaning::Internal) => INTERNAL,
        Some(Meaning::Set(set)) => SET | set,
        Some(Meaning::File(file)) => file + 1,
    };
    place.store(value, Ordering::Release);
    if value != NOTHING && fd >= end() {
        END.fetch_max(fd + 1, Ordering::Relaxed);
    }
    true
}

/// A number above all descriptors with a meaning.
pub(crate) fn end() -> c_int {
    END.load(Ordering::Relaxed)
}

/// Where the numbers of descriptors begin that this library keeps: programs choose those below for `dup2` and the like.
/// They are the last quarter of those that the process may have, and of the first thousand if it may have more: tables
/// of descriptors, which a fork copies, are as long as the highest one.
pub(crate) fn high() -> c_int {
    static HIGH: OnceLock<c_int> = OnceLock::new();
    *HIGH.get_or_init(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a place for the limits.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
        (limit.rlim_cur.min(1024) as c_int / 4 * 3).max(3)
    })
}

/// Another descriptor of the same, with a high number if one is free.
pub(crate) fn duplicate(fd: c_int) -> Option<OwnedFd> {
    [high(), 3].into_iter().find_map(|from| {
        // SAFETY: it has no pointers.
        let new = unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, from as usize) };
        // SAFETY: a descriptor that nobody else owns.
        (new >= 0).then(|| unsafe { OwnedFd::from_raw_fd(new) })
    })
}

/// Gives a descriptor of this library's own a high number if one is free.
pub(crate) fn raise(fd: c_int) -> c_int {
    let Some(high) = duplicate(fd) else { return fd };
    // SAFETY: nobody else has it.
    unsafe { real::close(fd) };
    high.into_raw_fd()
}

/// The descriptors from `first` to `last` with a meaning.
pub(crate) fn used(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let end = last.saturating_add(1).min(end() as u32);
    (first..end).map(|fd| fd as c_int).filter(|fd| meaning(*fd).is_some())
}
