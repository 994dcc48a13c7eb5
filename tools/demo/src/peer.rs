//! The other host, whichever implements it.

use std::net::Ipv4Addr;
use std::time::Duration;

/// Why the peer could not do its part. A missing answer is not an error but a finding.
#[derive(Debug, thiserror::Error)]
#[error("peer: {what}: {source}")]
pub struct PeerError {
    /// What was tried.
    pub what: &'static str,
    /// The system's word.
    pub source: std::io::Error,
}

/// Both ends of the conversation, as hand-made frames need them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// weever's MAC address.
    pub stack_mac: [u8; 6],
    /// weever's address.
    pub stack: Ipv4Addr,
    /// The peer's MAC address.
    pub peer_mac: [u8; 6],
    /// The peer's address.
    pub peer: Ipv4Addr,
    /// The port on which the peer waits for echoes.
    pub peer_port: u16,
}

/// A host that talks to weever through a stack of its own: the kernel's, or smoltcp's.
pub(crate) trait Peer {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Addresses of both ends.
    fn ends(&self) -> Ends;

    /// Sends one ICMP echo request with `payload` and waits for the answer; `None` when none came,
    /// else the payload that came back.
    fn ping(&mut self, payload: &[u8], wait: Duration) -> Result<Option<Vec<u8>>, PeerError>;

    /// Sends a datagram to weever's UDP echo service.
    fn send(&mut self, payload: &[u8]) -> Result<(), PeerError>;

    /// Receives a datagram from it, at most `wait` from now, and returns its length.
    fn receive(&mut self, into: &mut [u8], wait: Duration) -> Result<Option<usize>, PeerError>;

    /// Puts a frame on the wire exactly as it is.
    fn send_frame(&mut self, frame: &[u8]) -> Result<(), PeerError>;
}
