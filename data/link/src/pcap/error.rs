//! The errors of reading a capture file.

/// Why a capture file cannot be read, or read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The first bytes are of neither format.
    #[error("not a capture file: it starts with {start:02x?}; pcap and pcapng are understood")]
    NotACapture {
        /// The first bytes.
        start: [u8; 4],
    },
    /// The file ends in the middle of something.
    #[error("offset {offset}: the file ends within {what}; it was cut off or is still written to")]
    Truncated {
        /// Where that something starts.
        offset: u64,
        /// Its kind.
        what: &'static str,
    },
    /// The contents contradict themselves or the format.
    #[error("offset {offset}: {what}")]
    Malformed {
        /// Where.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// The file cannot be read.
    #[error("offset {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// The system's word.
        source: std::io::Error,
    },
}

impl PcapError {
    pub(super) fn malformed(offset: u64, what: impl Into<String>) -> PcapError {
        PcapError::Malformed { offset, what: what.into() }
    }
}
