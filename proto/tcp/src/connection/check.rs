//! Invariants that hold between any two calls.

use crate::{Connection, Endpoint, State};

impl Endpoint {
    /// Looks whether all connections are consistent, for tests and fuzzing: it takes time in the number
    /// of connections and segments in flight.
    ///
    /// # Panics
    /// If one is not.
    pub fn check_invariants(&self) {
        for connection in self.ids().filter_map(|id| self.get(id)) {
            connection.check();
        }
    }
}

impl Connection {
    fn check(&self) {
        let snd = &self.snd;
        assert!(snd.una.le(snd.nxt), "SND.UNA does not pass SND.NXT");
        assert!(snd.acked <= snd.queued, "only queued octets are acknowledged");
        assert!(snd.nxt.le(snd.end() + 1), "only queued octets are sent");
        assert!(snd.nxt.le(snd.end()) || snd.fin, "FIN is sent only if it was asked for");
        if self.state != State::Closed {
            self.sent.check(snd.una, snd.nxt);
        }
        let rcv = &self.rcv;
        assert!(rcv.consumed <= rcv.received, "only arrived octets are read");
        assert!(rcv.received - rcv.consumed <= u64::from(rcv.capacity), "the region is big enough");
        if rcv.fin_taken {
            assert!(rcv.ahead.is_empty(), "nothing is behind FIN");
        }
        assert!(self.window.mss >= 64 && self.window.mss <= 65535, "{:?}", self.window);
        if self.state.is_synchronized() {
            assert!(self.window.cwnd >= self.window.mss / 2, "{:?}", self.window);
        }
        assert!(self.pipe() <= snd.nxt - snd.una);
    }
}
