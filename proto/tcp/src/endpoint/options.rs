//! Settings that an application changes while a connection or a listener is there.

use std::num::NonZeroU16;

use super::{Endpoint, ListenerId};
use crate::congestion::{Algorithm, Controller};
use crate::{Connection, Id, Nanos, Settings};

impl Endpoint {
    /// Changes an application's settings. Segments of a connection become shorter by
    /// [`max_segment`](Settings::max_segment), and never longer again.
    pub fn set(&mut self, id: Id, settings: Settings, now: Nanos) {
        self.with(id, now, |connection| connection.set(settings, now));
    }

    /// Chooses the congestion control of a connection (`TCP_CONGESTION`). The window stays as it is; the new
    /// algorithm begins without a memory.
    pub fn set_congestion(&mut self, id: Id, algorithm: Algorithm, now: Nanos) {
        self.with(id, now, |connection: &mut Connection| {
            connection.control = Controller::new(algorithm);
        });
    }

    /// Has the next segments acknowledged at once, or lets acknowledgements be delayed (`TCP_QUICKACK`). It
    /// lasts for some segments only, as on Linux.
    pub fn set_quick_ack(&mut self, id: Id, quick: bool, now: Nanos) {
        self.with(id, now, |connection| connection.set_quick(quick));
    }

    /// The receive region holds more octets now; it never holds less.
    pub fn enlarge_receive(&mut self, id: Id, capacity: u32, now: Nanos) {
        self.with(id, now, |connection| connection.enlarge(capacity));
    }

    /// The application wants so many octets to be received ahead of it (`SO_RCVBUF`), at least one segment,
    /// at most what is configured. Octets that were offered to the peer stay offered.
    pub fn set_receive(&mut self, id: Id, capacity: u32, now: Nanos) {
        self.with(id, now, |connection| connection.set_receive(capacity));
    }

    /// The longest segment of connections that a listener makes from now on; `None`: as the path allows.
    pub fn set_listener_segment(&mut self, id: ListenerId, most: Option<NonZeroU16>) {
        if let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) {
            listener.config.max_segment = most;
        }
    }
}
