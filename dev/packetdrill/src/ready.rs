//! Readiness: `poll` and `epoll`.

use std::collections::BTreeMap;

use weever_net::MILLIS;
use weever_tcp::State as TcpState;

use crate::calls::Role;
use crate::stack::{Errno, Stack, State};

// The same bits for poll and epoll on Linux.
const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// The descriptors that an epoll instance watches.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    watched: BTreeMap<i32, Watch>,
}

#[derive(Debug)]
struct Watch {
    events: u32,
    data: u64,
    /// The state that was reported last, for edges: readiness, octets to read, octets acknowledged.
    reported: (u32, u64, u64),
}

impl Poller {
    pub(crate) fn forget(&mut self, fd: i32) {
        self.watched.remove(&fd);
    }
}

/// Nanoseconds of a timeout in milliseconds; `None`: as long as it takes.
fn nanoseconds(timeout: i32) -> Option<u64> {
    u64::try_from(timeout).ok().map(|timeout| timeout * MILLIS)
}

impl State {
    /// The readiness of a socket.
    fn readiness(&mut self, fd: i32) -> Result<u32, Errno> {
        let socket = self.socket(fd)?;
        let (deaf, told) = (socket.deaf, socket.told);
        match socket.role {
            Role::Fresh => return Ok(OUT | HUP),
            Role::Listening { .. } => return Ok(if self.has_waiting(fd) { IN } else { 0 }),
            Role::Connection(_) => {}
        }
        let (_, there) = self.connection(fd)?;
        let readable = there.readable();
        let (ended, state, failure) = (there.has_ended(), there.state(), there.failure());
        let mut ready = 0;
        if readable.end > readable.start || ended || deaf {
            ready |= IN;
        }
        if ended || deaf {
            ready |= RDHUP;
        }
        if state == TcpState::Closed {
            ready |= IN | OUT | HUP | RDHUP;
        }
        if failure.is_some() && !told {
            ready |= ERR;
        }
        let writes = matches!(state, TcpState::Established | TcpState::CloseWait);
        if writes && self.send_room(fd) > 0 {
            ready |= OUT;
        }
        Ok(ready)
    }

    /// The values whose change is an edge.
    fn mark(&mut self, fd: i32, ready: u32) -> (u32, u64, u64) {
        let there =
            self.connection(fd).map(|(_, there)| (there.readable().end, there.acknowledged()));
        let (arrived, acknowledged) = there.unwrap_or_default();
        (ready, arrived, acknowledged)
    }

    fn take_ready(&mut self, fd: i32, most: usize) -> Result<Vec<(u32, u64)>, Errno> {
        let watched: Vec<i32> =
            self.pollers.get(&fd).ok_or(libc::EBADF)?.watched.keys().copied().collect();
        let mut found = Vec::new();
        for socket in watched {
            let Ok(ready) = self.readiness(socket) else { continue };
            let mark = self.mark(socket, ready);
            let Some(watch) =
                self.pollers.get_mut(&fd).and_then(|poller| poller.watched.get_mut(&socket))
            else {
                continue;
            };
            let wanted = ready & (watch.events | ERR | HUP);
            let is_new = watch.events & ET == 0 || watch.reported != mark;
            if wanted == 0 || !is_new || found.len() == most {
                continue;
            }
            watch.reported = mark;
            if watch.events & ONESHOT != 0 {
                watch.events = ET | ONESHOT;
            }
            found.push((wanted, watch.data));
        }
        if found.is_empty() { Err(libc::EAGAIN) } else { Ok(found) }
    }
}

impl Stack {
    /// Fills in what is ready and returns how many are. A descriptor that is none is ready with `POLLNVAL`.
    pub(crate) fn poll(&self, fds: &mut [libc::pollfd], timeout: i32) -> usize {
        let polled = self.wait(nanoseconds(timeout), |state| {
            let mut ready = 0;
            for place in fds.iter_mut().filter(|place| place.fd >= 0) {
                let found = state
                    .readiness(place.fd)
                    .map(|ready| ready & (place.events as u32 | ERR | HUP));
                place.revents = found.map_or(libc::POLLNVAL, |ready| ready as i16);
                ready += usize::from(place.revents != 0);
            }
            if ready == 0 { Err(libc::EAGAIN) } else { Ok(ready) }
        });
        polled.unwrap_or(0)
    }

    pub(crate) fn epoll_create(&self) -> i32 {
        self.with(|state| {
            let fd = state.free_descriptor();
            state.pollers.insert(fd, Poller::default());
            fd
        })
    }

    pub(crate) fn epoll_control(
        &self,
        poller: i32,
        op: i32,
        fd: i32,
        (events, data): (u32, u64),
    ) -> Result<(), Errno> {
        self.with(|state| {
            state.socket(fd)?;
            let watched = &mut state.pollers.get_mut(&poller).ok_or(libc::EBADF)?.watched;
            let watch = Watch { events, data, reported: (0, 0, 0) };
            match (op, watched.contains_key(&fd)) {
                (libc::EPOLL_CTL_ADD, true) => return Err(libc::EEXIST),
                (libc::EPOLL_CTL_ADD, false) | (libc::EPOLL_CTL_MOD, true) => {
                    watched.insert(fd, watch);
                }
                (libc::EPOLL_CTL_DEL, true) => drop(watched.remove(&fd)),
                (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => return Err(libc::ENOENT),
                _ => return Err(libc::EINVAL),
            }
            Ok(())
        })
    }

    /// Events and data of what is ready, at most so many.
    pub(crate) fn epoll_wait(
        &self,
        poller: i32,
        most: usize,
        timeout: i32,
    ) -> Result<Vec<(u32, u64)>, Errno> {
        match self.wait(nanoseconds(timeout), |state| state.take_ready(poller, most)) {
            Err(libc::EAGAIN) => Ok(Vec::new()),
            done => done,
        }
    }
}
