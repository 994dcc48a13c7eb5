//! The state of a connection as an application or an operator sees it (`TCP_INFO`).

/// Bytes of [`StreamInfo::to_linux`].
pub const LINUX_INFO_LEN: usize = 248;

/// The state of a connection. Times are in microseconds unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamInfo {
    /// The state, by Linux's number: see [`state_name`](Self::state_name).
    pub state: u8,
    /// Linux's state of recovery: 0 open, 3 recovery, 4 loss.
    pub recovery: u8,
    /// How often the retransmission timer ran out in a row.
    pub backoff: u8,
    /// Keep-alive probes that are not answered.
    pub probes: u8,
    /// Bits of Linux's `TCPI_OPT_*`: 1 timestamps, 2 selective acknowledgements, 4 window scaling, 8 ECN,
    /// 32 octets in the SYN that were taken.
    pub options: u8,
    /// Shifts of the peer's and of our window field.
    pub window_scales: (u8, u8),
    /// The retransmission timeout.
    pub rto: u32,
    /// How long acknowledgements are held back at most.
    pub ack_delay: u32,
    /// Octets of payload of a full segment that is sent.
    pub send_mss: u32,
    /// And of one that is expected.
    pub receive_mss: u32,
    /// The segment size that was announced.
    pub announced_mss: u32,
    /// Octets sent and not acknowledged.
    pub in_flight: u32,
    /// Octets of these that the peer has reported selectively.
    pub sacked: u32,
    /// Octets of these that count as lost and were not sent again yet.
    pub lost: u32,
    /// Milliseconds since the last acceptable segment came.
    pub heard_ms: u32,
    /// Bytes of the longest packet that the path is known to take.
    pub path_mtu: u32,
    /// The smoothed round trip time, its variation and the least of the last minutes; 0: not measured.
    pub round_trip: (u32, u32, u32),
    /// The congestion window and the slow start threshold, in octets.
    pub window: (u32, u32),
    /// Octets that the receive region holds.
    pub receive_space: u32,
    /// Segments that were sent again; 65,535 stands for that or more.
    pub retransmissions: u32,
    /// Octets that the peer has acknowledged.
    pub acknowledged: u64,
    /// Octets received in order.
    pub received: u64,
    /// Octets received in order and not read by the application.
    pub unread: u32,
    /// Octets that were never sent.
    pub unsent: u32,
    /// The peer's window and ours, in octets.
    pub offered: (u32, u32),
    /// The congestion control's name.
    pub congestion: &'static str,
}

impl StreamInfo {
    /// The name of the state, as `ss` has it.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            1 => "established",
            2 => "syn-sent",
            3 => "syn-received",
            4 => "fin-wait-1",
            5 => "fin-wait-2",
            6 => "time-wait",
            8 => "close-wait",
            9 => "last-ack",
            11 => "closing",
            _ => "closed",
        }
    }

    /// Octets that the application has given and the peer has not acknowledged (`SIOCOUTQ`).
    pub fn send_queue(&self) -> u64 {
        u64::from(self.in_flight) + u64::from(self.unsent)
    }

    /// The bytes of Linux's `struct tcp_info` (`linux/tcp.h`, 6.12), in native byte order. Values that weever
    /// does not keep are 0: times of single events, rates, and counts of segments.
    pub fn to_linux(&self) -> [u8; LINUX_INFO_LEN] {
        let mut out = [0; LINUX_INFO_LEN];
        let (theirs, ours) = self.window_scales;
        out[..7].copy_from_slice(&[
            self.state,
            self.recovery,
            self.backoff,
            self.probes,
            self.backoff,
            self.options,
            (theirs & 15) | ours << 4,
        ]);
        let mss = self.send_mss.max(1);
        let segments = |octets: u32| octets.div_ceil(mss);
        let (smoothed, variation, least) = self.round_trip;
        let (window, threshold) = self.window;
        let words: [(usize, u32); 24] = [
            (8, self.rto),
            (12, self.ack_delay),
            (16, self.send_mss),
            (20, self.receive_mss),
            (24, segments(self.in_flight)),
            (28, segments(self.sacked)),
            (32, segments(self.lost)),
            (52, self.heard_ms),
            (56, self.heard_ms),
            (60, self.path_mtu),
            (64, self.receive_space),
            (68, smoothed),
            (72, variation),
            // As on Linux, "none yet" is the largest 31-bit number.
            (76, if threshold == u32::MAX { 0x7fff_ffff } else { segments(threshold) }),
            (80, segments(window)),
            (84, self.announced_mss),
            // Segments that may be out of order: the sender's RFC 8985 measures time instead.
            (88, 3),
            (96, self.receive_space),
            (100, self.retransmissions),
            (144, self.unsent),
            (148, least),
            (228, self.offered.0),
            (232, self.offered.1),
            (192, u32::try_from(self.acknowledged / u64::from(mss)).unwrap_or(u32::MAX)),
        ];
        for (at, word) in words {
            out[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let sent = self.acknowledged + u64::from(self.in_flight);
        for (at, word) in
            [(112, u64::MAX), (120, self.acknowledged), (128, self.received), (200, sent)]
        {
            out[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_linux_has_them() {
        let info = StreamInfo {
            state: 1,
            options: 7,
            window_scales: (7, 2),
            rto: 200_000,
            send_mss: 1448,
            in_flight: 3 * 1448 + 1,
            round_trip: (80, 20, 60),
            window: (14_480, u32::MAX),
            retransmissions: 9,
            acknowledged: 1 << 40,
            received: 77,
            offered: (65_535, 1000),
            ..StreamInfo::default()
        };
        let bytes = info.to_linux();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((bytes[0], bytes[5], bytes[6]), (1, 7, 0x27));
        assert_eq!((word(8), word(16), word(24)), (200_000, 1448, 4), "rto, snd_mss, unacked");
        assert_eq!((word(68), word(72), word(148)), (80, 20, 60), "rtt, rttvar, min_rtt");
        assert_eq!((word(76), word(80), word(100)), (0x7fff_ffff, 10, 9));
        assert_eq!((long(120), long(128)), (1 << 40, 77), "bytes_acked, bytes_received");
        assert_eq!((word(228), word(232)), (65_535, 1000), "snd_wnd, rcv_wnd");
        assert_eq!(info.state_name(), "established");
        assert_eq!(info.send_queue(), 3 * 1448 + 1);
    }
}
