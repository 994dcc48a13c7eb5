//! System calls on sockets, as packetdrill makes them: those that block sleep until something has changed.

use std::net::SocketAddr;

use crate::calls::{Flags, Role};
use crate::stack::{Errno, Stack, State};

impl Stack {
    pub(crate) fn socket(&self, family: i32, kind: i32, protocol: i32) -> Result<i32, Errno> {
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if !matches!(family, libc::AF_INET | libc::AF_INET6) {
            return Err(libc::EAFNOSUPPORT);
        }
        if kind != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Err(libc::EPROTONOSUPPORT);
        }
        Ok(self.with(|state| {
            state.renew();
            state.add(family, nonblocking, Role::Fresh)
        }))
    }

    pub(crate) fn bind(&self, fd: i32, local: SocketAddr) -> Result<(), Errno> {
        self.with(|state| {
            let socket = state.socket(fd)?;
            if socket.local.is_some() {
                return Err(libc::EINVAL);
            }
            socket.local = Some(local);
            Ok(())
        })
    }

    pub(crate) fn listen(&self, fd: i32, backlog: i32) -> Result<(), Errno> {
        self.with(|state| state.listen(fd, backlog))
    }

    fn is_nonblocking(&self, fd: i32, flags: Flags) -> Result<bool, Errno> {
        self.with(|state| Ok(state.socket(fd)?.nonblocking || flags.has(libc::MSG_DONTWAIT)))
    }

    /// Does a call at once, or until it no longer would block.
    fn perform<T>(
        &self,
        nonblocking: bool,
        mut call: impl FnMut(&mut State) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if nonblocking { self.with(call) } else { self.wait(None, &mut call) }
    }

    pub(crate) fn accept(&self, fd: i32) -> Result<(i32, SocketAddr), Errno> {
        let nonblocking = self.is_nonblocking(fd, Flags::default())?;
        self.perform(nonblocking, |state| state.accept(fd))
    }

    pub(crate) fn connect(&self, fd: i32, to: SocketAddr) -> Result<(), Errno> {
        let nonblocking = self.is_nonblocking(fd, Flags::default())?;
        match self.with(|state| state.connect(fd, to)) {
            Err(libc::EINPROGRESS) if !nonblocking => self.wait(None, |state| state.connected(fd)),
            done => done,
        }
    }

    /// Connects and writes (`MSG_FASTOPEN`).
    pub(crate) fn write_fast(
        &self,
        fd: i32,
        octets: &[u8],
        flags: Flags,
        to: SocketAddr,
    ) -> Result<usize, Errno> {
        match self.with(|state| state.write_fast(fd, octets, to)) {
            Err(libc::EINPROGRESS) if !self.is_nonblocking(fd, flags)? => {
                self.wait(None, |state| state.connected(fd))?;
                self.write(fd, octets, flags)
            }
            done => done,
        }
    }

    /// Writes all, or as much as there is room for if it is not to block.
    pub(crate) fn write(&self, fd: i32, octets: &[u8], flags: Flags) -> Result<usize, Errno> {
        let waits_for = self.with(|state| state.socket(fd).ok().and_then(|it| it.waits_for.take()));
        if let Some(to) = waits_for {
            return self.write_fast(fd, octets, flags, to);
        }
        let nonblocking = self.is_nonblocking(fd, flags)?;
        let mut done = 0;
        let written = self.perform(nonblocking, |state| {
            done += state.write(fd, &octets[done..], flags)?;
            if done < octets.len() && !nonblocking { Err(libc::EAGAIN) } else { Ok(()) }
        });
        match written {
            Err(errno) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }

    pub(crate) fn read(&self, fd: i32, out: &mut [u8], flags: Flags) -> Result<usize, Errno> {
        let nonblocking = self.is_nonblocking(fd, flags)?;
        let all = flags.has(libc::MSG_WAITALL);
        let mut done = 0;
        let read = self.perform(nonblocking, |state| {
            let len = state.read(fd, &mut out[done..], flags)?;
            done += len;
            if all && len > 0 && done < out.len() { Err(libc::EAGAIN) } else { Ok(()) }
        });
        match read {
            Err(errno) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }

    pub(crate) fn close(&self, fd: i32) -> Result<(), Errno> {
        self.with(|state| state.close(fd))
    }

    pub(crate) fn shutdown(&self, fd: i32, how: i32) -> Result<(), Errno> {
        self.with(|state| state.shutdown(fd, how))
    }
}
