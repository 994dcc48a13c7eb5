//! The kernel's hosts beside the router: they send, receive, and hear ICMP errors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weever_testbed::Namespace;
use weever_wire::icmpv4::IcmpView;
use weever_wire::ipv4::Ipv4View;

use super::net::Side;
use crate::peer::PeerError;
use crate::talk::{Talk, timed_out};

/// Where the hosts' own services listen.
pub(super) const SERVICE: u16 = 4000;
/// How long weever may take to make sure of its IPv6 addresses, and to find a neighbour.
pub(super) const SETTLING: Duration = Duration::from_secs(8);

/// Sockets of `from` that talk to `to`.
pub(super) fn talk(from: &Side, to: impl Into<IpAddr>) -> Result<Talk, PeerError> {
    let (to, index) = (to.into(), from.end.index);
    from.namespace().run(|| Talk::open(to, index, SERVICE))
}

/// Pings until an answer comes, or patience ends.
pub(super) fn answers(talk: &mut Talk, patience: Duration) -> Result<bool, PeerError> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if talk.ping(b"there?", Duration::from_millis(200))?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}

/// A UDP socket in a namespace. Receiving waits for half a second.
pub(super) fn bound(namespace: &Namespace, at: IpAddr, port: u16) -> Result<UdpSocket, PeerError> {
    let socket = namespace.run(|| UdpSocket::bind((at, port)));
    let socket = socket.map_err(PeerError::of("UDP socket"))?;
    let timeout = socket.set_read_timeout(Some(Duration::from_millis(500)));
    timeout.map_err(PeerError::of("UDP socket"))?;
    Ok(socket)
}

/// The ICMP errors that reach a host.
pub(super) struct Errors(Socket);

impl Errors {
    pub(super) fn open(side: &Side) -> Result<Errors, PeerError> {
        let icmp = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4));
        side.namespace().run(icmp).map(Errors).map_err(PeerError::of("ICMP socket"))
    }

    /// The next one about a packet to `about`: its sender, its type and code.
    pub(super) fn next(
        &mut self,
        about: Ipv4Addr,
        wait: Duration,
    ) -> Result<Option<(Ipv4Addr, u8, u8)>, PeerError> {
        let (deadline, mut buffer) = (Instant::now() + wait, [0; 2048]);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.read(left, &mut buffer) {
                Ok(len) => {
                    if let Some(error) = error_about(&buffer[..len], about) {
                        return Ok(Some(error));
                    }
                }
                Err(e) if timed_out(&e) => return Ok(None),
                Err(e) => return Err(PeerError::of("ICMP socket")(e)),
            }
        }
    }

    fn read(&mut self, wait: Duration, into: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(wait))?;
        io::Read::read(&mut &self.0, into)
    }
}

fn error_about(packet: &[u8], about: Ipv4Addr) -> Option<(Ipv4Addr, u8, u8)> {
    let ip = Ipv4View::new(packet).ok()?;
    let icmp = IcmpView::new(ip.payload()).ok().filter(|icmp| icmp.checksum_ok())?;
    let (kind, code) = (icmp.header().kind(), icmp.header().code());
    let quoted: [u8; 4] = *icmp.data().get(16..)?.first_chunk()?;
    let matches = matches!(kind, 3 | 11 | 12) && Ipv4Addr::from(quoted) == about;
    matches.then(|| (ip.header().src(), kind, code))
}
