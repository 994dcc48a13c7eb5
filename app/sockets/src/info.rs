//! How a stream is doing: Linux's `struct tcp_info`, as programs know it.

/// Bytes of `struct tcp_info` (Linux 6.12).
const LEN: usize = 248;

/// The state of a stream when it was asked for. Its bytes are Linux's `struct tcp_info` (`linux/tcp.h`), so
/// that a program that knows that reads them as they are; times are in microseconds there. Values that
/// the stack does not keep are 0.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamInfo(Box<[u8; LEN]>);

impl StreamInfo {
    /// From an entry's payload; what is missing is 0.
    pub(crate) fn of(payload: &[u8]) -> StreamInfo {
        let mut bytes = Box::new([0; LEN]);
        let len = payload.len().min(LEN);
        bytes[..len].copy_from_slice(&payload[..len]);
        StreamInfo(bytes)
    }

    /// `struct tcp_info`, in native byte order.
    pub fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.0[at..].first_chunk().copied();
        u32::from_ne_bytes(bytes.unwrap_or_default())
    }

    fn long(&self, at: usize) -> u64 {
        let bytes = self.0[at..].first_chunk().copied();
        u64::from_ne_bytes(bytes.unwrap_or_default())
    }

    /// The state, by Linux's number: 1 is established.
    pub fn state(&self) -> u8 {
        self.0[0]
    }

    /// Octets of payload of a full segment that is sent (`tcpi_snd_mss`).
    pub fn segment_size(&self) -> u32 {
        self.word(16)
    }

    /// The smoothed round trip time in microseconds; 0 before it is measured (`tcpi_rtt`).
    pub fn round_trip(&self) -> u32 {
        self.word(68)
    }

    /// The congestion window in segments (`tcpi_snd_cwnd`).
    pub fn window(&self) -> u32 {
        self.word(80)
    }

    /// Segments that were sent again, up to 65,535 (`tcpi_total_retrans`).
    pub fn retransmissions(&self) -> u32 {
        self.word(100)
    }

    /// Octets that the peer has acknowledged (`tcpi_bytes_acked`).
    pub fn acknowledged(&self) -> u64 {
        self.long(120)
    }

    /// Octets received in order (`tcpi_bytes_received`).
    pub fn received(&self) -> u64 {
        self.long(128)
    }

    /// Octets that were never sent (`tcpi_notsent_bytes`).
    pub fn unsent(&self) -> u32 {
        self.word(144)
    }
}

impl std::fmt::Debug for StreamInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamInfo")
            .field("state", &self.state())
            .field("segment_size", &self.segment_size())
            .field("round_trip", &self.round_trip())
            .field("window", &self.window())
            .field("retransmissions", &self.retransmissions())
            .field("acknowledged", &self.acknowledged())
            .field("received", &self.received())
            .finish_non_exhaustive()
    }
}
