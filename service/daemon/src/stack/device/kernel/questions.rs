//! Neighbours that workers ask for, on their way to the thread that asks the kernel.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use weever_net::iface::IfaceId;

/// The most neighbours that are asked for at once: the caches repeat the others.
const MOST: usize = 1024;

/// Questions, each once, and a bell that wakes the thread that takes them.
#[derive(Debug)]
pub(super) struct Questions {
    waiting: Mutex<Waiting>,
    rope: UnixStream,
    bell: UnixStream,
}

#[derive(Debug, Default)]
struct Waiting {
    neighbours: BTreeSet<(IfaceId, IpAddr)>,
    /// The thread has ended: no more answers.
    ended: bool,
}

impl Questions {
    pub(super) fn new() -> io::Result<Questions> {
        let (rope, bell) = UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Questions { waiting: Mutex::default(), rope, bell })
    }

    /// Asks, without waiting. Only the first of several makes a system call.
    pub(super) fn ask(&self, iface: IfaceId, ip: IpAddr) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = waiting.neighbours.is_empty();
        if waiting.neighbours.len() < MOST {
            waiting.neighbours.insert((iface, ip));
        }
        drop(waiting);
        if is_first {
            self.ring();
        }
    }

    /// Ends the questions: [`take`](Self::take) then returns `None`.
    pub(super) fn end(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.ring();
    }

    /// The questions since the last call; `None` after the [`end`](Self::end).
    pub(super) fn take(&self) -> Option<BTreeSet<(IfaceId, IpAddr)>> {
        let mut rings = [0; 64];
        while matches!((&self.bell).read(&mut rings), Ok(n) if n == rings.len()) {}
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        (!waiting.ended).then(|| std::mem::take(&mut waiting.neighbours))
    }

    /// The descriptor to wait on.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn ring(&self) {
        match (&self.rope).write(&[1]) {
            Ok(_) => {}
            // A full counter has rung often enough.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => tracing::warn!("the kernel is not asked for a neighbour: {error}"),
        }
    }
}
