//! The cause of an error about a datagram.

use std::net::{IpAddr, SocketAddr};

use weever_app_ring::Cause as Told;

/// Bytes of ICMP's own header, and of those of a quoted datagram.
const ICMP: usize = 8;
const UDP: usize = 8;
const IPV6: usize = 40;

/// The cause of an error about a datagram that a socket has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub(crate) ends: (SocketAddr, SocketAddr),
    pub(crate) told: Told,
    pub(crate) mtu: u16,
}

impl Cause {
    /// Where the datagram was sent from.
    pub fn local(&self) -> SocketAddr {
        self.ends.0
    }

    /// Where it was to go.
    pub fn remote(&self) -> SocketAddr {
        self.ends.1
    }

    /// The sender of the ICMP message about it; `None` if this host itself found the error, without a message.
    pub fn sender(&self) -> Option<IpAddr> {
        self.told.sender
    }

    /// The ICMP or ICMPv6 message from its type on, as much of it as there is.
    pub fn message(&self) -> &[u8] {
        &self.told.message
    }

    /// For `EMSGSIZE`: bytes of the longest IP packet that would have gone; otherwise 0.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The octets of the datagram that the message quotes, as much of them as there is.
    pub fn datagram(&self) -> &[u8] {
        quoted(&self.told.message)
    }

    /// Whether Linux takes it to be a disturbance that passes, and has no connected socket fail by it that has not asked for such
    /// errors.
    pub fn may_pass(&self) -> bool {
        self.told.sender.is_some_and(|sender| passes(sender, &self.told.message))
    }
}

/// As `icmp_err_convert` in Linux' `net/ipv4/icmp.c` and `icmpv6_err_convert` in `net/ipv6/icmp.c`.
fn passes(sender: IpAddr, message: &[u8]) -> bool {
    matches!(
        (sender, message),
        (IpAddr::V4(_), [3, 0 | 1 | 5 | 11 | 12, ..] | [11, ..])
            | (IpAddr::V6(_), [1, 0 | 2 | 3, ..] | [3, ..])
    )
}

fn quoted(message: &[u8]) -> &[u8] {
    let packet = message.get(ICMP..).unwrap_or_default();
    let header = match packet.first().map_or(0, |first| first >> 4) {
        4 => usize::from(packet[0] & 15) * 4,
        6 => IPV6,
        _ => return &[],
    };
    packet.get(header + UDP..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_fails_no_socket() {
        let four = |code| passes([192, 0, 2, 1].into(), &[3, code, 0, 0]);
        let passing: Vec<u8> = (0..=15).filter(|code| four(*code)).collect();
        assert_eq!(passing, [0, 1, 5, 11, 12]);
        let six = |code| passes([0; 16].into(), &[1, code, 0, 0]);
        let passing: Vec<u8> = (0..=6).filter(|code| six(*code)).collect();
        assert_eq!(passing, [0, 2, 3]);
        // Time exceeded; parameter problem; cut after the type.
        assert!(passes([192, 0, 2, 1].into(), &[11, 0]) && passes([0; 16].into(), &[3, 0]));
        assert!(!passes([192, 0, 2, 1].into(), &[12, 0]) && !passes([0; 16].into(), &[4, 0]));
        assert!(!passes([192, 0, 2, 1].into(), &[3]) && !passes([192, 0, 2, 1].into(), &[]));
    }

    #[test]
    fn a_quoted_datagram_is_found_behind_its_headers_and_a_cut_one_is_empty() {
        let message = |first: u8, header: usize, payload: &[u8]| {
            let quote = [&[first][..], &vec![0; header - 1 + UDP], payload].concat();
            [&[0; ICMP][..], &quote].concat()
        };
        assert_eq!(quoted(&message(0x45, 20, b"four")), b"four");
        assert_eq!(quoted(&message(0x4f, 60, b"with options")), b"with options");
        assert_eq!(quoted(&message(0x60, 40, b"six")), b"six");
        assert_eq!(quoted(&message(0x50, 20, b"five")), b"");
        let whole = message(0x45, 20, b"");
        for len in 0..=whole.len() {
            assert_eq!(quoted(&whole[..len]), b"");
        }
    }
}
