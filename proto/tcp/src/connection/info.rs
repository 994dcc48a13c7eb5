//! The state of a connection for its application (`TCP_INFO`) and for operators.

use weever_net::MILLIS;
use weever_net::stream::StreamInfo;

use super::state::{State, Syn};
use crate::recovery::Phase;
use crate::{Connection, Nanos};

/// The number by which Linux's `net/tcp_states.h` names a state.
fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

fn micros(time: Nanos) -> u32 {
    u32::try_from(time / 1000).unwrap_or(u32::MAX)
}

impl Connection {
    /// How it is doing.
    pub fn info(&self, now: Nanos) -> StreamInfo {
        let (snd, rcv) = (&self.snd, &self.rcv);
        let options = u8::from(rcv.timestamps)
            | u8::from(rcv.sack) << 1
            | u8::from(rcv.scaling) << 2
            | u8::from(rcv.ecn) << 3
            | u8::from(self.syn == Syn::Octets) << 5;
        let recovery = match self.recovery.phase {
            Phase::Open => 0,
            Phase::Recovery => 3,
            Phase::Loss => 4,
        };
        let headers = self.tuple.ip_header_len() + 20;
        let sizes = self.window.mss + self.options_len() as u32;
        StreamInfo {
            state: number(self.state),
            recovery,
            backoff: self.rtt.backoff,
            probes: self.keep_alive_probes,
            options,
            window_scales: (snd.scale, rcv.scale),
            rto: micros(self.rtt.timeout(&self.config)),
            ack_delay: micros(self.config.delayed_ack),
            send_mss: self.window.mss,
            receive_mss: rcv.mss.into(),
            announced_mss: self.config.mtu.saturating_sub(headers).into(),
            in_flight: snd.nxt - snd.una,
            sacked: self.sent.sacked,
            lost: self.sent.lost,
            heard_ms: (self.timers.silence(now) / MILLIS) as u32,
            path_mtu: sizes + u32::from(headers),
            round_trip: (
                micros(self.rtt.smoothed()),
                micros(self.rtt.variation()),
                micros(self.rtt.min()),
            ),
            window: (self.window.cwnd, self.window.ssthresh),
            receive_space: rcv.capacity,
            retransmissions: self.recovery.resent.into(),
            acknowledged: snd.acked,
            received: rcv.received,
            unread: (rcv.received - rcv.consumed) as u32,
            unsent: snd.unsent(),
            offered: (snd.wnd, rcv.window()),
            congestion: self.control.name(),
        }
    }
}
