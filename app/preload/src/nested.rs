//! Epoll sets in other epoll sets, and in the lists of `poll` and `select`.
//!
//! The kernel says when an inner set is readable: for its own descriptors by itself, and for weever's sockets by the
//! inner set's eventfd, which is readable as long as one of them is ready. It is brought up to date before and after
//! each wait that an inner set can end. The queue's descriptor is in the inner set as well, and may wake the wait in
//! vain; so an inner set that turns out to be idle is taken out of the result.

use libc::{POLLIN, c_int, epoll_event, pollfd};

use crate::numbers::{self, Meaning};
use crate::real;
use crate::state::{State, ring};
use crate::wait::drain;

impl State {
    /// The program has added an epoll descriptor to a set, or taken it out.
    pub(crate) fn nest(&mut self, outer: u32, fd: c_int, is_in: bool) {
        let Some(Meaning::Set(inner)) = numbers::meaning(fd) else { return };
        let Some(set) = self.sets.get_mut(outer) else { return };
        set.nested.retain(|(there, _)| *there != fd);
        if is_in {
            set.nested.push((fd, inner));
        }
    }

    /// An epoll descriptor has become a set with weever's sockets: it may be in others already.
    pub(crate) fn nest_new(&mut self, fd: c_int) {
        let sets = self.sets.iter_mut();
        let outer = sets.filter(|(_, set)| set.interest.contains_key(&fd)).map(|(place, _)| place);
        let outer: Vec<u32> = outer.collect();
        outer.into_iter().for_each(|outer| self.nest(outer, fd, true));
    }

    /// A set is no more.
    pub(crate) fn unnest(&mut self, inner: u32) {
        for (_, set) in self.sets.iter_mut() {
            set.nested.retain(|(_, there)| *there != inner);
        }
    }

    /// Whether something in a set may be ready.
    pub(crate) fn may_be_ready(&self, set: u32) -> bool {
        self.sets.get(set).is_some_and(|set| {
            set.has_ready() || set.nested.iter().any(|(_, inner)| self.may_be_ready(*inner))
        })
    }

    /// Makes the sets in a set readable, or not.
    pub(crate) fn expose_nested(&mut self, outer: u32) {
        let nested = self.sets.get(outer).map(|set| set.nested.clone()).unwrap_or_default();
        for (_, inner) in nested {
            self.expose(inner);
        }
    }

    /// Makes a set's descriptor readable if one of its sockets is ready, else not.
    pub(crate) fn expose(&mut self, index: u32) {
        self.expose_nested(index);
        self.acknowledge();
        let files = &self.files;
        let Some(set) = self.sets.get_mut(index) else { return };
        let Some(kick) = set.kick else { return };
        let is_ready = set.is_ready(|place| files.get(place).map_or(0, |file| file.readiness()));
        match (is_ready, std::mem::replace(&mut set.exposed, is_ready)) {
            (true, false) => ring(kick),
            (false, true) => drain(kick),
            _ => {}
        }
    }

    /// Takes the events of inner sets that are not readable out of those that the kernel has reported; returns how
    /// many are left.
    pub(crate) fn drop_idle(&self, outer: u32, events: &mut [epoll_event]) -> usize {
        let mut kept = events.len();
        let Some(set) = self.sets.get(outer) else { return kept };
        for (fd, _) in &set.nested {
            let Some(data) = set.interest.get(fd).map(|interest| interest.data) else { continue };
            if is_readable(*fd) {
                continue;
            }
            let mut at = 0;
            while at < kept {
                if events[at].u64 == data {
                    events.copy_within(at + 1..kept, at);
                    kept -= 1;
                } else {
                    at += 1;
                }
            }
        }
        kept
    }
}

fn is_readable(fd: c_int) -> bool {
    let mut entry = pollfd { fd, events: POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { real::poll(&mut entry, 1, 0) > 0 }
}
