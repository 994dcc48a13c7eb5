//! Events that a copying call has found for other sockets, until those are asked for them.
//!
//! They leave in the order of arrival by `weever_aq_poll`, or socket by socket by a copying call; either
//! way in constant time, whatever else is kept.

use std::collections::{HashMap, VecDeque};

use weever_app_sockets::{Event, Handle};

/// Places in the order that may be stale before they are cleared away.
const STALE: usize = 64;

struct Place {
    number: u64,
    event: Event<'static>,
}

#[derive(Default)]
pub(crate) struct Kept {
    by_socket: HashMap<Handle, VecDeque<Place>>,
    /// Where events stand in the order of arrival; those that were taken by their socket are stale.
    order: VecDeque<(u64, Handle)>,
    count: usize,
    next: u64,
}

impl Kept {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts an event behind all others.
    pub(crate) fn push(&mut self, event: Event<'static>) {
        let (number, socket) = (self.next, event.socket());
        self.next += 1;
        self.count += 1;
        self.by_socket.entry(socket).or_default().push_back(Place { number, event });
        self.order.push_back((number, socket));
        if self.order.len() > 2 * self.count + STALE {
            let by_socket = &self.by_socket;
            self.order.retain(|(number, socket)| {
                by_socket.get(socket).is_some_and(|there| find(there, *number).is_some())
            });
        }
    }

    /// Takes the event that came first.
    pub(crate) fn pop(&mut self) -> Option<Event<'static>> {
        while let Some((number, socket)) = self.order.pop_front() {
            let Some(there) = self.by_socket.get_mut(&socket) else { continue };
            let Some(at) = find(there, number) else { continue };
            self.count -= 1;
            return there.remove(at).map(|place| place.event);
        }
        None
    }

    /// Takes the first event of a socket that passes.
    pub(crate) fn take(
        &mut self,
        socket: Handle,
        passes: impl Fn(&Event<'static>) -> bool,
    ) -> Option<Event<'static>> {
        let there = self.by_socket.get_mut(&socket)?;
        let at = there.iter().position(|place| passes(&place.event))?;
        self.count -= 1;
        there.remove(at).map(|place| place.event)
    }

    /// The first event of a socket that passes, if one is kept, to take a part of it.
    pub(crate) fn first(
        &mut self,
        socket: Handle,
        passes: impl Fn(&Event<'static>) -> bool,
    ) -> Option<&mut Event<'static>> {
        let there = self.by_socket.get_mut(&socket)?;
        there.iter_mut().map(|place| &mut place.event).find(|event| passes(event))
    }

    /// Forgets the events of a socket.
    pub(crate) fn forget(&mut self, socket: Handle) {
        let there = self.by_socket.remove(&socket);
        self.count -= there.map_or(0, |there| there.len());
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Kept { next: self.next, ..Kept::default() };
    }
}

/// Where the event of this number stands among those of its socket, which are in its order.
fn find(there: &VecDeque<Place>, number: u64) -> Option<usize> {
    there.binary_search_by_key(&number, |place| place.number).ok()
}
