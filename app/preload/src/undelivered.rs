//! Datagrams that waited in a socket when its process forked: on Linux they wait in the socket, and whichever process
//! reads first has them.
//!
//! Before the fork they are copied out of the frames of the process' queue, which its child cannot use. Parent and
//! child have the copies by the fork itself; only the number of the next one lies in memory that they share. A process
//! takes a datagram by raising that number, so each is read once, in the order of arrival, whoever dies meanwhile.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use weever_app_sockets::{Info, RxBuf};

/// A copy of a datagram.
pub(crate) struct Copied {
    pub(crate) info: Info,
    pub(crate) octets: Box<[u8]>,
}

impl Copied {
    pub(crate) fn of(datagram: &RxBuf<'_>) -> Copied {
        Copied { info: datagram.info(), octets: datagram.to_vec().into() }
    }
}

/// The datagrams of one socket that waited at one fork.
pub(crate) struct Undelivered {
    datagrams: Vec<Copied>,
    next: Shared,
}

impl Undelivered {
    /// No datagrams yet; `None` without memory.
    pub(crate) fn new() -> Option<Undelivered> {
        Some(Undelivered { datagrams: Vec::new(), next: Shared::new()? })
    }

    /// Adds a datagram behind the others, before the fork.
    pub(crate) fn push(&mut self, datagram: Copied) {
        self.datagrams.push(datagram);
    }

    /// How many no process has taken.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len().saturating_sub(self.next.get().load(Ordering::Relaxed))
    }

    /// The next one, which another process may take at any time.
    pub(crate) fn first(&self) -> Option<&Copied> {
        self.datagrams.get(self.next.get().load(Ordering::Relaxed))
    }

    /// Takes the next one for this process.
    pub(crate) fn take(&self) -> Option<&Copied> {
        // Nothing else is published by the number: the copies were there before the fork.
        let taken = self.next.get().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            (next < self.datagrams.len()).then_some(next + 1)
        });
        self.datagrams.get(taken.ok()?)
    }
}

/// A number in memory that children of this process share with it.
struct Shared(NonNull<AtomicUsize>);

impl Shared {
    /// Zero.
    fn new() -> Option<Shared> {
        let (len, access) = (size_of::<AtomicUsize>(), libc::PROT_READ | libc::PROT_WRITE);
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, at a place that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then(|| NonNull::new(start.cast()).map(Shared)).flatten()
    }

    fn get(&self) -> &AtomicUsize {
        // SAFETY: mapped as long as this value lives, aligned to a page, and zero is a valid value.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not borrowed any more. Other processes keep their mappings.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<AtomicUsize>()) };
    }
}
