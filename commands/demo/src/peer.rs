//! The other host, whichever implements it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Why the peer could not do its part. A missing answer is not an error but a finding.
#[derive(Debug, thiserror::Error)]
#[error("peer: {what}: {source}")]
pub struct PeerError {
    /// The operation that failed.
    pub what: &'static str,
    /// The system's word.
    pub source: std::io::Error,
}

impl PeerError {
    /// Makes one from the error of the operation `what`.
    pub(crate) fn of<E>(what: &'static str) -> impl Fn(E) -> PeerError
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |e| PeerError { what, source: std::io::Error::other(e) }
    }
}

/// Which of the addresses of both hosts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    V4,
    V6,
    LinkLocal,
}

impl Over {
    pub(crate) const ALL: [Over; 3] = [Over::V4, Over::V6, Over::LinkLocal];

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Over::V4 => "IPv4",
            Over::V6 => "IPv6",
            Over::LinkLocal => "IPv6 link-local",
        }
    }

    /// Most bytes behind an IP header and eight of ICMP or UDP in a frame of 1,500.
    pub(crate) fn room(self) -> usize {
        if self == Over::V4 { 1472 } else { 1452 }
    }
}

/// Both ends of the conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// weever's MAC address.
    pub stack_mac: [u8; 6],
    /// weever's address.
    pub stack: Ipv4Addr,
    /// weever's IPv6 address.
    pub stack6: Ipv6Addr,
    /// weever's link-local address.
    pub stack_ll: Ipv6Addr,
    /// The peer's MAC address.
    pub peer_mac: [u8; 6],
    /// The peer's address.
    pub peer: Ipv4Addr,
    /// The peer's IPv6 address.
    pub peer6: Ipv6Addr,
    /// The port on which the peer waits for echoes over IPv4.
    pub peer_port: u16,
}

impl Ends {
    /// weever's address of a kind.
    pub(crate) fn stack(&self, over: Over) -> IpAddr {
        match over {
            Over::V4 => self.stack.into(),
            Over::V6 => self.stack6.into(),
            Over::LinkLocal => self.stack_ll.into(),
        }
    }
}

/// The link-local address that is made of a MAC address (RFC 4291 appendix A).
pub(crate) fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let word = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f))
}

/// A host that talks to weever through a stack of its own: the kernel's, or smoltcp's.
pub(crate) trait Peer {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Addresses of both ends.
    fn ends(&self) -> Ends;

    /// Whether it can send datagrams that are longer than a frame.
    fn sends_long(&self, over: Over) -> bool;

    /// Sends one ICMP echo request with `payload` and waits for the answer; `None` when none came,
    /// else the payload that came back.
    fn ping(
        &mut self,
        over: Over,
        payload: &[u8],
        wait: Duration,
    ) -> Result<Option<Vec<u8>>, PeerError>;

    /// Sends a datagram to weever's UDP echo service.
    fn send(&mut self, over: Over, payload: &[u8]) -> Result<(), PeerError>;

    /// Receives a datagram from it, at most `wait` from now, and returns its length.
    fn receive(
        &mut self,
        over: Over,
        into: &mut [u8],
        wait: Duration,
    ) -> Result<Option<usize>, PeerError>;

    /// Puts a frame on the wire exactly as it is.
    fn send_frame(&mut self, frame: &[u8]) -> Result<(), PeerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_made_of_the_mac() {
        let made = link_local([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(made.to_string(), "fe80::11:22ff:fe33:4455");
    }
}
