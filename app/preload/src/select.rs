//! The sets of `select`, which have a bit for each descriptor.
//!
//! Linux takes any number of descriptors, looks at no more than the process' table has room for, and reads and writes
//! whole words of the sets (fs/select.c, `core_sys_select`). A program may pass more than that, and have sets of
//! `FD_SETSIZE` bits.

use std::time::Duration;

use libc::{c_int, c_ulong, fd_set, pollfd, sigset_t};

use crate::failure::{Answer, fail};
use crate::numbers;
use crate::wait::{is_watched, poll};

const BITS: usize = c_ulong::BITS as usize;

/// The events that a set asks for, and those that are told in it as well.
const MEANINGS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLERR | libc::POLLHUP),
    (libc::POLLOUT, libc::POLLERR),
    (libc::POLLPRI, 0),
];

/// The three sets of a call: descriptors to read, to write, and with exceptional conditions.
pub(crate) struct Sets([*mut c_ulong; 3]);

impl Sets {
    pub(crate) fn new(read: *mut fd_set, write: *mut fd_set, except: *mut fd_set) -> Sets {
        Sets([read.cast(), write.cast(), except.cast()])
    }

    /// A word of a set; nothing of one that is not there.
    ///
    /// # Safety
    /// `set` is null or has that word.
    unsafe fn word(set: *mut c_ulong, word: usize) -> c_ulong {
        // SAFETY: the caller's promise. Packed structures have sets, too.
        if set.is_null() { 0 } else { unsafe { set.add(word).read_unaligned() } }
    }

    /// Whether one of weever's sockets is in a set, or one of the program's epoll sets.
    ///
    /// # Safety
    /// As `select` of the C library.
    pub(crate) unsafe fn is_watched(&self, count: c_int) -> bool {
        // SAFETY: the caller's promise. A descriptor with a meaning is in the table.
        let has = |set: &*mut c_ulong, fd: usize| unsafe {
            Sets::word(*set, fd / BITS) >> (fd % BITS) & 1 != 0
        };
        (0..count.min(numbers::end()))
            .any(|fd| is_watched(fd) && self.0.iter().any(|set| has(set, fd as usize)))
    }

    /// The descriptors below `count` that are in a set.
    ///
    /// # Safety
    /// As `select` of the C library.
    unsafe fn list(&self, count: usize) -> Vec<pollfd> {
        let mut all = Vec::new();
        for word in 0..count.div_ceil(BITS) {
            // SAFETY: the caller's promise.
            let words = self.0.map(|set| unsafe { Sets::word(set, word) });
            let mut rest = words[0] | words[1] | words[2];
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let fd = word * BITS + bit;
                if fd >= count {
                    break;
                }
                let wanted = words.iter().zip(MEANINGS).filter(|(word, _)| **word >> bit & 1 != 0);
                let events = wanted.fold(0, |events, (_, (event, _))| events | event);
                all.push(pollfd { fd: fd as c_int, events, revents: 0 });
            }
        }
        all
    }

    /// Writes the bits of the ready descriptors; returns how many are set.
    ///
    /// # Safety
    /// As [`list`](Sets::list).
    unsafe fn write(&self, count: usize, found: &[pollfd]) -> c_int {
        let mut told = 0;
        for (set, (wanted, also)) in self.0.into_iter().zip(MEANINGS) {
            if set.is_null() {
                continue;
            }
            // SAFETY: the caller's promise. Bytes need no alignment.
            unsafe {
                set.cast::<u8>().write_bytes(0, count.div_ceil(BITS) * size_of::<c_ulong>());
            }
            let is_told = |entry: &&pollfd| {
                entry.events & wanted != 0 && entry.revents & (wanted | also) != 0
            };
            for entry in found.iter().filter(is_told) {
                let (word, bit) = (entry.fd as usize / BITS, entry.fd as usize % BITS);
                // SAFETY: as above.
                unsafe {
                    let place = set.add(word);
                    place.write_unaligned(place.read_unaligned() | 1 << bit);
                }
                told += 1;
            }
        }
        told
    }

    /// Waits as `poll` does, and writes the sets.
    ///
    /// # Safety
    /// As `select` of the C library.
    pub(crate) unsafe fn wait(
        &self,
        count: c_int,
        limit: Option<Duration>,
        mask: *const sigset_t,
    ) -> Answer<c_int> {
        let count = looked_at(count);
        // SAFETY: the caller's promise.
        let mut all = unsafe { self.list(count) };
        poll(&mut all, limit, mask)?;
        if all.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
            return fail(libc::EBADF);
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { self.write(count, &all) })
    }
}

/// How many descriptors are looked at of so many.
fn looked_at(count: c_int) -> usize {
    let count = count as usize;
    if count <= libc::FD_SETSIZE {
        return count;
    }
    let room = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:"))?;
        line.trim().parse().ok()
    };
    // Without that file, as far as is known.
    let known = || libc::FD_SETSIZE.max((numbers::end() as usize).next_multiple_of(BITS));
    count.min(room().unwrap_or_else(known))
}
