//! The sockets of a queue.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weever_app_ring::control::{Refusal, Request, Share};
use weever_app_ring::{NumberMap, SocketId};

use crate::error::Error;

/// A UDP socket on a queue: a handle that stays the same when the queue
/// [reconnects](crate::AppQueue::reconnect), and names nothing once the socket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpSocket {
    pub(crate) slot: u32,
    /// No other socket of this process had the same.
    pub(crate) generation: u32,
}

impl UdpSocket {
    /// Names no socket of any queue.
    pub(crate) const NONE: UdpSocket = UdpSocket { slot: u32::MAX, generation: 0 };
}

pub(crate) fn next_generation() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The address, port and peer of a socket, or the address and port of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    local: SocketAddr,
    peer: Option<SocketAddr>,
    v6_only: bool,
    sharing: Share,
    interface: Option<Arc<str>>,
    accepts_each: bool,
    in_kernel: bool,
}

impl Bind {
    /// A socket or listener of this address and port. An unspecified address is any of the stack's (an IPv6
    /// one is of both families), port 0 an ephemeral one.
    pub fn at(local: SocketAddr) -> Bind {
        let sharing = Share::Exclusive;
        Bind {
            local,
            peer: None,
            v6_only: false,
            sharing,
            interface: None,
            accepts_each: false,
            in_kernel: false,
        }
    }

    /// From this peer only, to which it sends.
    #[must_use]
    pub fn connected_to(self, peer: SocketAddr) -> Bind {
        Bind { peer: Some(peer), ..self }
    }

    /// An unspecified IPv6 address is of IPv6 only.
    #[must_use]
    pub fn v6_only(self) -> Bind {
        Bind { v6_only: true, ..self }
    }

    /// Other sockets may have the same address and port, and divide the datagrams.
    #[must_use]
    pub fn shared(self, sharing: Share) -> Bind {
        Bind { sharing, ..self }
    }

    /// Packets come and go by this interface only, as the stack names it.
    #[must_use]
    pub fn on_interface(self, interface: &str) -> Bind {
        Bind { interface: Some(interface.into()), ..self }
    }

    /// A listener whose application [accepts](crate::AppQueue::accept) each connection: those that it has not accepted
    /// go to another listener with the same address and port when this one or its queue is closed.
    #[must_use]
    pub fn accepting_each(self) -> Bind {
        Bind { accepts_each: true, ..self }
    }

    /// The program has a kernel socket on this port itself. Where the stack has the kernel's addresses, that socket
    /// keeps the port from other programs, and the stack makes none for it.
    #[must_use]
    pub fn in_kernel(self) -> Bind {
        Bind { in_kernel: true, ..self }
    }

    /// The same with this local port.
    #[must_use]
    pub fn with_port(self, port: u16) -> Bind {
        Bind { local: SocketAddr::new(self.local.ip(), port), ..self }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The request for a listener there.
    pub(crate) fn listen_request(&self, backlog: u32) -> Result<Request, Error> {
        let Bind { local, peer, v6_only, sharing, ref interface, accepts_each, in_kernel } = *self;
        if peer.is_some() || interface.is_some() {
            let message = "a listener has neither a peer nor an interface of its own".into();
            return Err(Error::Refused { kind: Refusal::Invalid, message });
        }
        Ok(Request::Listen { local, v6_only, sharing, backlog, accepts_each, in_kernel })
    }

    pub(crate) fn request(&self) -> Request {
        let Bind { local, peer, v6_only, sharing, ref interface, in_kernel, .. } = *self;
        let interface = interface.as_deref().map(str::to_owned);
        Request::BindUdp { local, peer, v6_only, sharing, interface, in_kernel }
    }
}

/// An open socket.
pub(crate) struct Entry {
    /// The stack's number.
    pub(crate) number: SocketId,
    pub(crate) bind: Bind,
    pub(crate) port: u16,
    /// The channel by which it sends, but for replies: that of its latest datagram, else the first.
    pub(crate) home: Cell<u16>,
    /// Where its chain was in the list of ready sockets when last looked at.
    pub(crate) ready: Cell<u32>,
}

impl Entry {
    pub(crate) fn is_connected(&self) -> bool {
        self.bind.peer.is_some()
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

/// All sockets of a queue, by handle and by the stack's number.
#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    numbers: NumberMap<u32>,
}

impl Table {
    pub(crate) fn insert(&mut self, number: SocketId, bind: Bind, port: u16) -> UdpSocket {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let (home, ready) = (Cell::new(0), Cell::new(0));
        let place = &mut self.slots[slot as usize];
        place.generation = next_generation();
        place.entry = Some(Entry { number, bind, port, home, ready });
        self.numbers.insert(number, slot);
        UdpSocket { slot, generation: place.generation }
    }

    pub(crate) fn remove(&mut self, socket: UdpSocket) -> Option<Entry> {
        self.get(socket)?;
        let slot = &mut self.slots[socket.slot as usize];
        let entry = slot.entry.take()?;
        self.free.push(socket.slot);
        self.numbers.remove(&entry.number);
        Some(entry)
    }

    #[inline]
    pub(crate) fn get(&self, socket: UdpSocket) -> Option<&Entry> {
        let slot = self.slots.get(socket.slot as usize)?;
        slot.entry.as_ref().filter(|_| slot.generation == socket.generation)
    }

    /// The socket with this number of the stack's.
    #[inline]
    pub(crate) fn by_number(&self, number: SocketId) -> Option<(UdpSocket, &Entry)> {
        let slot = *self.numbers.get(&number)?;
        let there = &self.slots[slot as usize];
        Some((UdpSocket { slot, generation: there.generation }, there.entry.as_ref()?))
    }

    /// A new stack knows the socket by another number.
    pub(crate) fn renumber(&mut self, socket: UdpSocket, number: SocketId, port: u16) {
        let Some(entry) = self.slots[socket.slot as usize].entry.as_mut() else { return };
        (entry.number, entry.port) = (number, port);
        entry.home.set(0);
        self.numbers.insert(number, socket.slot);
    }

    /// Forgets the stack's numbers, and lists the sockets with their bindings.
    pub(crate) fn forget_numbers(&mut self) -> Vec<(UdpSocket, Bind)> {
        self.numbers.clear();
        let slots = (0..).zip(&self.slots);
        let open = slots.filter_map(|(slot, there)| {
            let entry = there.entry.as_ref()?;
            // An ephemeral port is asked for by number this time: peers know it.
            let bind = entry.bind.clone().with_port(entry.port);
            Some((UdpSocket { slot, generation: there.generation }, bind))
        });
        open.collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind() -> Bind {
        Bind::at("0.0.0.0:53".parse().unwrap())
    }

    #[test]
    fn a_handle_names_nothing_once_its_socket_is_closed() {
        let mut table = Table::default();
        let first = table.insert(7, bind(), 53);
        assert_eq!(table.by_number(7).map(|(socket, _)| socket), Some(first));
        assert!(table.remove(first).is_some());
        let second = table.insert(8, bind(), 53);
        assert_eq!(second.slot, first.slot, "the slot is used again");
        assert!(table.get(first).is_none() && table.remove(first).is_none());
        assert!(table.by_number(7).is_none());
        assert_eq!((table.get(second).unwrap().number, table.len()), (8, 1));
    }

    #[test]
    fn handles_stay_when_numbers_change() {
        let mut table = Table::default();
        let any = Bind::at("0.0.0.0:0".parse().unwrap());
        let socket = table.insert(7, any, 50_000);
        let open = table.forget_numbers();
        let port = Bind::at("0.0.0.0:50000".parse().unwrap());
        assert_eq!(open, [(socket, port)], "with the port that it had");
        table.renumber(socket, 1, 50_000);
        assert_eq!(table.by_number(1).map(|(socket, _)| socket), Some(socket));
        assert!(table.by_number(7).is_none());
    }
}
