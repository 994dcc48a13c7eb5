//! An epoll set of the program's: which of weever's sockets are in it, and which may be ready.
//!
//! The kernel's set behind the descriptor holds everything else, and the queue's descriptor beside it, so that
//! one call waits for both. Sockets that the kernel serves as well (a listener of any address) are in both.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use libc::{EPOLLET, EPOLLONESHOT, c_int};
use weever_app_ring::NumberHasher;

/// The `data` of descriptors that this library adds to the kernel's set.
pub(crate) const OWN: u64 = 0x7765_6576_6572_7130;

/// One descriptor in a set, as the program has registered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// The place of weever's socket; without, it is the kernel's alone.
    pub(crate) file: Option<u32>,
    /// In the list of those that may be ready.
    queued: bool,
    /// One event was reported, and it is to be the only one.
    spent: bool,
}

impl Interest {
    pub(crate) fn new(events: u32, data: u64, file: Option<u32>) -> Interest {
        Interest { events, data, file, queued: false, spent: false }
    }

    fn is_exclusive(&self) -> bool {
        self.events & libc::EPOLLEXCLUSIVE as u32 != 0
    }

    /// The events of interest that hold, by `readiness` of the socket's place.
    fn holding(&self, readiness: &impl Fn(u32) -> u32) -> u32 {
        let Some(place) = self.file.filter(|_| !self.spent) else { return 0 };
        readiness(place) & (self.events | libc::EPOLLERR as u32 | libc::EPOLLHUP as u32)
    }
}

#[derive(Default)]
pub(crate) struct Set {
    /// Descriptors of this process that lead to it.
    pub(crate) descriptors: u32,
    /// By their descriptors; those whose descriptor was closed while a duplicate stays have a negative number, by which
    /// no call names them.
    pub(crate) interest: HashMap<c_int, Interest, BuildHasherDefault<NumberHasher>>,
    /// The last number of such a one.
    outlived: c_int,
    ready: VecDeque<c_int>,
    /// How many of weever's sockets are in it.
    pub(crate) files: usize,
    /// How many descriptors are in it with `EPOLLEXCLUSIVE`.
    exclusive: usize,
    /// A thread that waits here is about to be woken for a socket that is here with `EPOLLEXCLUSIVE`.
    pub(crate) called: bool,
    /// The queue's descriptor is in the kernel's set.
    pub(crate) wake: bool,
    /// Epoll sets in this one: their descriptors and places.
    pub(crate) nested: Vec<(c_int, u32)>,
    /// The eventfd is readable because something in the set is ready.
    pub(crate) exposed: bool,
    /// The last answer had no place left for the kernel's descriptors: they come first in the next one.
    pub(crate) kernels_first: bool,
    /// An eventfd in the kernel's set, by which another thread wakes those that wait here.
    pub(crate) kick: Option<c_int>,
}

impl Set {
    /// An empty set of one descriptor.
    pub(crate) fn new() -> Set {
        Set { descriptors: 1, ..Set::default() }
    }

    /// A socket may have become ready.
    pub(crate) fn look_at(&mut self, fd: c_int) {
        if let Some(interest) = self.interest.get_mut(&fd)
            && !interest.queued
            && !interest.spent
        {
            interest.queued = true;
            self.ready.push_back(fd);
        }
    }

    /// Whether a descriptor is in it with `EPOLLEXCLUSIVE`, and one of its events holds, by its `readiness`.
    pub(crate) fn holds_exclusively(&self, fd: c_int, readiness: impl Fn() -> u32) -> bool {
        self.exclusive > 0
            && self.interest.get(&fd).is_some_and(|interest| {
                interest.is_exclusive() && interest.holding(&|_| readiness()) != 0
            })
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether one is ready, by `readiness` of its place.
    pub(crate) fn is_ready(&self, readiness: impl Fn(u32) -> u32) -> bool {
        self.ready.iter().any(|fd| {
            let interest = self.interest.get(fd);
            interest.is_some_and(|interest| interest.holding(&readiness) != 0)
        })
    }

    /// How many may be ready.
    pub(crate) fn candidates(&self) -> usize {
        self.ready.len()
    }

    /// The next candidate that is ready, by `readiness` of its place, and what the program is told. A socket of
    /// level-triggered interest stays a candidate for as long as it is ready.
    pub(crate) fn next(&mut self, readiness: impl Fn(u32) -> u32) -> Option<(u32, u64)> {
        let fd = self.ready.pop_front()?;
        let interest = self.interest.get_mut(&fd)?;
        interest.queued = false;
        let events = interest.holding(&readiness);
        if events == 0 {
            return None;
        }
        interest.spent = interest.events & EPOLLONESHOT as u32 != 0;
        if interest.events & (EPOLLONESHOT | EPOLLET) as u32 == 0 {
            interest.queued = true;
            self.ready.push_back(fd);
        }
        Some((events, interest.data))
    }

    /// Notes a descriptor, new or changed.
    pub(crate) fn put(&mut self, fd: c_int, interest: Interest) {
        let was = self.interest.insert(fd, interest);
        self.files += usize::from(interest.file.is_some());
        self.files -= usize::from(was.is_some_and(|was| was.file.is_some()));
        self.exclusive += usize::from(interest.is_exclusive());
        self.exclusive -= usize::from(was.is_some_and(|was| was.is_exclusive()));
        if let Some(interest) = self.interest.get_mut(&fd) {
            interest.queued = was.is_some_and(|was| was.queued);
        }
        if interest.file.is_some() {
            self.look_at(fd);
        }
    }

    pub(crate) fn remove(&mut self, fd: c_int) -> Option<Interest> {
        let was = self.interest.remove(&fd)?;
        self.files -= usize::from(was.file.is_some());
        self.exclusive -= usize::from(was.is_exclusive());
        if was.queued {
            self.ready.retain(|there| *there != fd);
        }
        Some(was)
    }

    /// A descriptor leads to this socket. What is noted of another one is that of an earlier descriptor with its number,
    /// which was closed since.
    pub(crate) fn forget_others(&mut self, fd: c_int, place: u32) {
        if self.interest.get(&fd).is_some_and(|there| there.file != Some(place)) {
            self.remove(fd);
        }
    }

    /// A descriptor is closed, and its socket stays: returns the number by which it is here from now on.
    pub(crate) fn outlive(&mut self, fd: c_int) -> Option<c_int> {
        let interest = self.interest.remove(&fd)?;
        self.outlived = self.outlived.checked_sub(1).unwrap_or(-1);
        self.interest.insert(self.outlived, interest);
        self.ready
            .iter_mut()
            .filter(|there| **there == fd)
            .for_each(|there| *there = self.outlived);
        Some(self.outlived)
    }
}
