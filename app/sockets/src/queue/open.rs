//! Sockets are opened, closed, and opened again on another stack.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use weever_app_ring::SocketId;
use weever_app_ring::control::{Request, Response, Share};

use super::AppQueue;
use crate::error::{Error, accepted};
use crate::opening::{Opened, OpenedQueue, Opening, UNDER_WAY, open_queue, socket_of};
use crate::returning::Credential;
use crate::table::{Bind, Entry, UdpSocket};

/// The way to an address, as the stack has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Way {
    /// The address is one of the stack's own.
    pub own: bool,
    /// The interface by which packets go there; without, there is no route.
    pub interface: Option<String>,
    /// The address from which they are sent where the socket is bound to none; without, the stack has none that fits.
    pub source: Option<IpAddr>,
}

impl AppQueue {
    /// Opens a UDP socket. An unspecified address is any of the stack's (an IPv6 one is of both
    /// families), port 0 an ephemeral one. Blocks until the stack has answered; the socket is in effect
    /// then.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Disconnected`].
    pub fn bind_udp(&self, local: SocketAddr) -> Result<UdpSocket, Error> {
        self.open(&Bind::at(local))
    }

    /// As [`bind_udp`](Self::bind_udp), but other sockets may have the same address and port, and
    /// divide the datagrams.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn bind_udp_shared(&self, local: SocketAddr, sharing: Share) -> Result<UdpSocket, Error> {
        self.open(&Bind::at(local).shared(sharing))
    }

    /// Opens a UDP socket that sends to one peer and receives from it alone.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn connect_udp(&self, local: SocketAddr, peer: SocketAddr) -> Result<UdpSocket, Error> {
        self.open(&Bind::at(local).connected_to(peer))
    }

    /// Opens a socket. Blocks until the stack has answered.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn open(&self, bind: &Bind) -> Result<UdpSocket, Error> {
        // Answers come in order: those to earlier requests are kept for `next_opened`.
        self.finish_openings()?;
        let opening = self.begin_open(bind)?;
        self.answer(true)?;
        let mut openings = self.openings.borrow_mut();
        match openings.done.pop_back() {
            Some((which, opened)) if which == opening => opened,
            _ => Err(Error::Protocol("an answer is missing".into())),
        }
    }

    /// Asks for a socket, and does not wait for the answer: [`next_opened`](Self::next_opened) has it
    /// when it has come. Many requests can be on their way together.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when too many are: take answers first. [`Error::Disconnected`].
    pub fn begin_open(&self, bind: &Bind) -> Result<Opening, Error> {
        let mut openings = self.openings.borrow_mut();
        if openings.under_way.len() >= UNDER_WAY {
            return Err(Error::WouldBlock);
        }
        self.backend.borrow_mut().send(&bind.request())?;
        openings.next += 1;
        let opening = Opening(openings.next);
        openings.under_way.push_back((opening, bind.clone()));
        Ok(opening)
    }

    /// The next answer to a [request](Self::begin_open), in their order: a socket, or why there is
    /// none. `None` when no answer has come, or none is to come. Does not block.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn next_opened(&self) -> Result<Option<Opened>, Error> {
        if self.openings.borrow().done.is_empty() {
            self.answer(false)?;
        }
        Ok(self.openings.borrow_mut().done.pop_front())
    }

    /// Opens many sockets; the requests are on their way together. The first that is refused ends
    /// it: those opened before stay open and come back with the error. Blocks.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn open_many(&self, binds: &[Bind]) -> (Vec<UdpSocket>, Result<(), Error>) {
        let mut opened = Vec::with_capacity(binds.len());
        let result = self.open_all(binds, &mut opened);
        (opened, result)
    }

    fn open_all(&self, binds: &[Bind], opened: &mut Vec<UdpSocket>) -> Result<(), Error> {
        let mut failed = Ok(());
        let mut waiting = binds.iter().peekable();
        let earlier = self.openings.borrow().next;
        loop {
            while failed.is_ok()
                && let Some(bind) = waiting.peek()
            {
                match self.begin_open(bind) {
                    Ok(_) => drop(waiting.next()),
                    Err(Error::WouldBlock) => break,
                    Err(error) => failed = Err(error),
                }
            }
            if !self.is_opening() {
                return failed;
            }
            self.answer(true)?;
            let mut openings = self.openings.borrow_mut();
            let Some(at) = openings.done.iter().position(|(which, _)| which.0 > earlier) else {
                continue;
            };
            match openings.done.remove(at) {
                Some((_, Ok(socket))) => opened.push(socket),
                Some((_, Err(error))) => failed = failed.and(Err(error)),
                None => {}
            }
        }
    }

    fn is_opening(&self) -> bool {
        !self.openings.borrow().under_way.is_empty()
    }

    /// Takes one answer, if a request is under way.
    fn answer(&self, blocking: bool) -> Result<(), Error> {
        let mut openings = self.openings.borrow_mut();
        if openings.under_way.is_empty() {
            return Ok(());
        }
        let Some((answer, _)) = self.backend.borrow_mut().receive(blocking)? else { return Ok(()) };
        let Some((opening, bind)) = openings.under_way.pop_front() else { return Ok(()) };
        let opened = socket_of(answer)
            .map(|(number, port)| self.table.borrow_mut().insert(number, bind, port));
        openings.done.push_back((opening, opened));
        Ok(())
    }

    /// Takes the answers to all openings under way, so that the next answer is to the next request.
    pub(super) fn finish_openings(&self) -> Result<(), Error> {
        while self.is_opening() {
            self.answer(true)?;
        }
        Ok(())
    }

    /// Makes a request whose answer has no content.
    pub(super) fn ask(&self, request: &Request) -> Result<Response, Error> {
        self.finish_openings()?;
        let mut backend = self.backend.borrow_mut();
        backend.send(request)?;
        match backend.receive(true)? {
            Some((answer, _)) => accepted(answer),
            None => Err(Error::Protocol("an answer is missing".into())),
        }
    }

    /// Asks for a [`Credential`] of the user as which this queue was opened, by which the process can
    /// [connect](crate::Process::present) after it has changed its user. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`] by a stack that gives none, [`Error::Disconnected`].
    pub fn credential(&self) -> Result<Credential, Error> {
        let answer = self.ask(&Request::Credential)?;
        Credential::of(answer, self.backend.borrow().stack_user()?)
    }

    /// Takes a port for the next connection that [`connect_tcp_from`](Self::connect_tcp_from) opens from it, until that is
    /// closed, if the stack has the kernel's addresses and the port is not taken for it yet; else nothing happens. `in_kernel`:
    /// the program has a kernel socket on it itself. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Disconnected`].
    pub fn take_port(&self, port: u16, in_kernel: bool) -> Result<(), Error> {
        let is_new = |ports: &BTreeSet<u16>| port != 0 && !ports.contains(&port);
        if self.taken_ports.borrow().as_ref().is_some_and(is_new) {
            self.ask(&Request::TakePort { port, in_kernel })?;
            self.taken_ports.borrow_mut().get_or_insert_default().insert(port);
        }
        Ok(())
    }

    /// The way to an address, as the stack has it. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`] by a stack of another version, [`Error::Disconnected`].
    pub fn route(&self, address: IpAddr) -> Result<Way, Error> {
        match self.ask(&Request::Route { address })? {
            Response::Route { own, interface, source } => Ok(Way { own, interface, source }),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Closes a socket. Blocks until the stack has answered. Datagrams that were not taken yet are
    /// discarded.
    ///
    /// # Errors
    /// [`Error::NoSocket`] when it is not open on this queue, [`Error::Disconnected`].
    pub fn close(&self, socket: UdpSocket) -> Result<(), Error> {
        let number = self.with(socket, |entry| entry.number)?;
        self.ask(&Request::Close { socket: number })?;
        self.table.borrow_mut().remove(socket);
        Ok(())
    }

    /// Joins a group: the socket receives datagrams to the group and its own port as well. `interface`
    /// is the stack's name of it; without, the route to the group decides. Blocks until the stack has
    /// answered. A group is left when its socket is closed; after [`reconnect`](Self::reconnect) it has
    /// to be joined again.
    ///
    /// # Errors
    /// [`Error::NoSocket`], [`Error::Refused`], [`Error::Disconnected`].
    pub fn join(
        &self,
        socket: UdpSocket,
        group: IpAddr,
        interface: Option<&str>,
    ) -> Result<(), Error> {
        self.set_member(socket, group, interface, true)
    }

    /// Leaves a group that was [joined](Self::join) with the same interface.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn leave(
        &self,
        socket: UdpSocket,
        group: IpAddr,
        interface: Option<&str>,
    ) -> Result<(), Error> {
        self.set_member(socket, group, interface, false)
    }

    fn set_member(
        &self,
        socket: UdpSocket,
        group: IpAddr,
        interface: Option<&str>,
        member: bool,
    ) -> Result<(), Error> {
        let socket = self.number(socket)?;
        let interface = interface.map(str::to_owned);
        self.ask(&if member {
            Request::Join { socket, group, interface }
        } else {
            Request::Leave { socket, group, interface }
        })
        .map(drop)
    }

    /// The local port of a socket.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn local_port(&self, socket: UdpSocket) -> Result<u16, Error> {
        self.with(socket, |entry| entry.port)
    }

    /// The number by which the stack knows a socket, as `weever sockets` shows it.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn number(&self, socket: UdpSocket) -> Result<SocketId, Error> {
        self.with(socket, |entry| entry.number)
    }

    /// How many sockets are open on this queue.
    pub fn sockets(&self) -> usize {
        self.table.borrow().len()
    }

    pub(super) fn with<T>(
        &self,
        socket: UdpSocket,
        what: impl FnOnce(&Entry) -> T,
    ) -> Result<T, Error> {
        self.table.borrow().get(socket).map(what).ok_or(Error::NoSocket)
    }

    /// After [`Error::Disconnected`]: opens the queue and its sockets anew, on the stack that serves
    /// applications there now. Handles stay valid, ports stay the same; datagrams on their way are lost.
    /// Sockets that cannot be had again are closed and come back with the reason. Streams have failed,
    /// with an event each; listeners are opened anew. Blocks until the
    /// stack has answered.
    ///
    /// # Errors
    /// [`Error::NoStack`] while there is none: the queue stays as it is, try again later.
    pub fn reconnect(&mut self) -> Result<Vec<(UdpSocket, Error)>, Error> {
        let backend = self.backend.get_mut();
        backend.restart()?;
        let OpenedQueue { name, wake, channels, shares_ports } =
            open_queue(backend.as_mut(), &self.config)?;
        *self.taken_ports.get_mut() = shares_ports.then(BTreeSet::new);
        (self.wake, self.channels) = (wake, channels);
        self.name.set(name);
        self.current.set(0);
        let openings = self.openings.get_mut();
        let lost = openings.under_way.drain(..).map(|(which, _)| (which, Err(Error::Disconnected)));
        openings.done.extend(lost);
        let listeners = self.forget_streams();
        let backend = self.backend.get_mut();
        let sockets = self.table.get_mut().forget_numbers();
        let mut failed = Vec::new();
        for group in sockets.chunks(UNDER_WAY) {
            group.iter().try_for_each(|(_, bind)| backend.send(&bind.request()))?;
            for (socket, _) in group {
                let (answer, _) = backend.receive(true)?.ok_or(Error::Disconnected)?;
                match socket_of(answer) {
                    Ok((number, port)) => self.table.get_mut().renumber(*socket, number, port),
                    Err(error) => {
                        self.table.get_mut().remove(*socket);
                        failed.push((*socket, error));
                    }
                }
            }
        }
        for listener in listeners {
            self.open_listener(listener)?;
        }
        Ok(failed)
    }
}
