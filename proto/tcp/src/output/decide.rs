//! Whether new data is sent: the peer's window, silly windows, Nagle (RFC 9293 §3.7.4, §3.8.6.2.1).

use weever_wire::tcp::Seq;

use crate::{Connection, State};

impl Connection {
    /// Octets that the peer's window still has room for: U.
    pub(crate) fn window_room(&self) -> u32 {
        let edge = self.snd.una + self.snd.wnd;
        if edge.gt(self.snd.nxt) { edge - self.snd.nxt } else { 0 }
    }

    /// Whether data or FIN has never been sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.snd.unsent() > 0 || (self.snd.fin && !self.snd.is_fin_sent())
    }

    /// Octets of payload that a segment can hold beside its options: Eff.snd.MSS.
    pub(crate) fn payload_room(&self) -> u32 {
        self.window.mss.saturating_sub(self.selective_len()).max(1)
    }

    /// How much new data to send now, and whether with FIN; congestion is not asked about.
    #[inline]
    pub(crate) fn sendable(&self) -> Option<(u32, bool)> {
        let unsent = self.snd.unsent();
        let fin_due = self.snd.fin && !self.snd.is_fin_sent();
        if !self.state.can_send() || (unsent == 0 && !fin_due) {
            return None;
        }
        let (room, window) = (self.payload_room(), self.window_room());
        let len = unsent.min(window).min(room);
        // FIN occupies a sequence number, which has to lie in the window as well.
        let fin = fin_due && len == unsent && window > len;
        if len == 0 && !fin {
            return None;
        }
        // "Send data: (1) if a maximum-sized segment can be sent, i.e., if: min(D,U) >= Eff.snd.MSS".
        if len == room || fin {
            return Some((len, fin));
        }
        if self.settings.cork {
            return None;
        }
        // "(2) or if the data is pushed and all queued data can be sent now, i.e., if: [SND.NXT =
        // SND.UNA and] PUSHed and D <= U (the bracketed condition is imposed by the Nagle
        // algorithm)". Data that an application queues count as pushed.
        let idle = self.snd.nxt == self.snd.una;
        if len == unsent && (idle || self.settings.no_delay) {
            return Some((len, false));
        }
        // "(3) or if at least a fraction Fs of the maximum window can be sent, i.e., if: [SND.NXT =
        // SND.UNA and] min(D,U) >= Fs * Max(SND.WND)", Fs = 1/2. (4), the override timeout, is the
        // probe of a closed window.
        let fraction = len >= self.snd.max_wnd / 2;
        (len < unsent && fraction && (idle || self.settings.no_delay)).then_some((len, false))
    }

    /// SND.NXT, or the end of the peer's window if that is before it: probes beyond it were not
    /// taken, and an acknowledgement with their number would not be, either.
    pub(crate) fn acceptable_seq(&self) -> Seq {
        let edge = self.snd.una + self.snd.wnd;
        if self.state < State::Established || edge.ge(self.snd.nxt) {
            self.snd.nxt
        } else {
            edge.max(self.snd.una)
        }
    }
}
