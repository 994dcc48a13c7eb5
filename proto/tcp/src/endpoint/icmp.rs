//! ICMP errors about connections: only one that quotes a segment in flight is believed (RFC 5927
//! §4).

use weever_wire::tcp::Seq;

use super::Endpoint;
use crate::connection::Failure;
use crate::{Connection, Nanos, State, Tuple};

impl Endpoint {
    /// A router says that packets between these ends must not exceed `mtu` bytes. `seq` is that of
    /// the segment that it quotes. Whether it was believed.
    ///
    /// Connections whose segments were too large send them again at once, in smaller pieces, which
    /// counts as no congestion (RFC 8201 §5.4, RFC 1191 §6.4).
    pub fn handle_mtu(&mut self, tuple: &Tuple, seq: u32, mtu: u16, now: Nanos) -> bool {
        let believed = self.find(tuple).and_then(|index| {
            let connection = self.slots[index].connection.as_mut()?;
            connection.take_mtu(Seq(seq), mtu).then_some(index)
        });
        if let Some(index) = believed {
            self.settle(index, now);
        }
        believed.is_some()
    }

    /// The network says that the peer cannot be reached. `seq` is that of the segment that it quotes.
    ///
    /// RFC 1122 §4.2.3.9 and RFC 5461 §4: a connection that is established outlives it; one that is
    /// being opened ends.
    pub fn handle_unreachable(&mut self, tuple: &Tuple, seq: u32, now: Nanos) -> bool {
        let Some(index) = self.find(tuple) else { return false };
        let Some(connection) = self.slots[index].connection.as_mut() else {
            return false;
        };
        let opening = connection.state == State::SynSent;
        if !opening || !connection.is_in_flight(Seq(seq)) {
            return false;
        }
        connection.end(Some(Failure::Unreachable));
        self.settle(index, now);
        true
    }
}

impl Connection {
    /// RFC 5927 §4.1: the sequence number must be one of data that was sent and not acknowledged.
    fn is_in_flight(&self, seq: Seq) -> bool {
        seq.ge(self.snd.una) && seq.lt(self.snd.nxt)
    }

    fn take_mtu(&mut self, seq: Seq, mtu: u16) -> bool {
        let headers = self.tuple.ip_header_len() + 20;
        // RFC 1191 §3: never below 68; RFC 8201 §4: not below 1,280.
        let floor = if self.tuple.local.is_ipv4() { 576 } else { 1280 };
        let limit = mtu.max(floor).saturating_sub(headers);
        let smaller = u32::from(limit) < self.window.mss + self.options_len() as u32;
        if !self.is_in_flight(seq) || !smaller {
            return false;
        }
        self.set_segment_size(limit);
        let mss = self.window.mss;
        self.sent.mark_lost(|record| record.len() > mss + u32::from(record.is_fin()));
        true
    }
}
