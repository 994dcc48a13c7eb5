//! The Linux kernel as the peer: ordinary sockets in a network namespace.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weever_link_sys::packet::{PacketSocket, Protocol as Seen};
use weever_testbed::Namespace;
use weever_wire::ipv4::Ipv4View;

use crate::payloads::{echo_reply, echo_reply6, echo_request, echo_request6};
use crate::peer::{Ends, Over, Peer, PeerError};

/// Sockets of the kernel's stack in one namespace.
pub(crate) struct KernelPeer {
    talks: Vec<(Over, Talk)>,
    raw: PacketSocket,
    ends: Ends,
}

impl KernelPeer {
    /// Opens the sockets in `namespace`, whose interface is `interface` with this index; `port` is
    /// where weever's echo service listens. Without `ipv6` there are sockets for IPv4 only.
    pub(crate) fn open(
        namespace: &Namespace,
        interface: (&str, u32),
        ends: Ends,
        port: u16,
        ipv6: bool,
    ) -> Result<KernelPeer, PeerError> {
        namespace.run(|| {
            let mut talks = Vec::new();
            for over in Over::ALL.into_iter().filter(|over| ipv6 || *over == Over::V4) {
                talks.push((over, Talk::open(ends.stack(over), interface.1, port)?));
            }
            let raw = PacketSocket::open(interface.0, Seen::All);
            let raw = raw.map_err(PeerError::of("packet socket"))?;
            let peer_port = talks[0].1.port()?;
            Ok(KernelPeer { talks, raw, ends: Ends { peer_port, ..ends } })
        })
    }

    fn talk(&mut self, over: Over) -> Result<&mut Talk, PeerError> {
        let found = self.talks.iter_mut().find(|(known, _)| *known == over);
        let missing = || PeerError::of("socket")(io::Error::from(ErrorKind::NotFound));
        found.map(|(_, talk)| talk).ok_or_else(missing)
    }
}

impl Peer for KernelPeer {
    fn name(&self) -> &'static str {
        "the Linux kernel"
    }

    fn ends(&self) -> Ends {
        self.ends
    }

    fn sends_long(&self, _: Over) -> bool {
        true
    }

    fn ping(
        &mut self,
        over: Over,
        payload: &[u8],
        wait: Duration,
    ) -> Result<Option<Vec<u8>>, PeerError> {
        Ok(self.talk(over)?.ping(payload, wait)?.map(|reply| reply.payload))
    }

    fn send(&mut self, over: Over, payload: &[u8]) -> Result<(), PeerError> {
        self.talk(over)?.send(payload)
    }

    fn receive(
        &mut self,
        over: Over,
        into: &mut [u8],
        wait: Duration,
    ) -> Result<Option<usize>, PeerError> {
        self.talk(over)?.receive(into, wait)
    }

    fn send_frame(&mut self, frame: &[u8]) -> Result<(), PeerError> {
        self.raw.send(frame).map_err(PeerError::of("packet socket"))
    }
}

const IDENT: u16 = 0x7eee;
/// Linux's number for a datagram that is longer than its way is wide.
pub(crate) const EMSGSIZE: i32 = 90;

/// A UDP socket and a raw one for ICMP, both connected to one address. The calling thread's network
/// namespace is theirs.
pub(crate) struct Talk {
    udp: UdpSocket,
    icmp: Socket,
    v6: bool,
    sequence: u16,
}

/// The outcome of an echo request.
#[derive(Debug)]
pub(crate) struct EchoReply {
    pub(crate) payload: Vec<u8>,
    /// The time to live that was left; only IPv4's is seen.
    pub(crate) ttl: u8,
}

impl Talk {
    /// `interface` is the index of the one on which a link-local address is.
    pub(crate) fn open(to: IpAddr, interface: u32, port: u16) -> Result<Talk, PeerError> {
        let (any, domain, protocol): (IpAddr, _, _) = match to {
            IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Domain::IPV6, Protocol::ICMPV6),
        };
        let at = |port| match to {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddr::V6(SocketAddrV6::new(v6, port, 0, interface))
            }
            _ => SocketAddr::new(to, port),
        };
        let udp = UdpSocket::bind((any, 0)).map_err(PeerError::of("UDP socket"))?;
        udp.connect(at(port)).map_err(PeerError::of("UDP socket"))?;
        let icmp = Socket::new(domain, Type::RAW, Some(protocol));
        let icmp = icmp.map_err(PeerError::of("ICMP socket"))?;
        icmp.connect(&at(0).into()).map_err(PeerError::of("ICMP socket"))?;
        Ok(Talk { udp, icmp, v6: to.is_ipv6(), sequence: 0 })
    }

    /// The port that its UDP socket has.
    pub(crate) fn port(&self) -> Result<u16, PeerError> {
        let bound = self.udp.local_addr().map_err(PeerError::of("UDP socket"))?;
        Ok(bound.port())
    }

    pub(crate) fn ping(
        &mut self,
        payload: &[u8],
        wait: Duration,
    ) -> Result<Option<EchoReply>, PeerError> {
        self.sequence += 1;
        let request = if self.v6 { echo_request6 } else { echo_request };
        match self.icmp.send(&request(IDENT, self.sequence, payload)) {
            Ok(_) => self.await_reply(wait),
            // An ICMP error about an earlier datagram.
            Err(e) if is_told(&e) => Ok(None),
            Err(e) => Err(PeerError::of("ICMP echo")(e)),
        }
    }

    fn await_reply(&mut self, wait: Duration) -> Result<Option<EchoReply>, PeerError> {
        let deadline = Instant::now() + wait;
        let mut buffer = [0u8; 2048];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let timeout = self.icmp.set_read_timeout(Some(left));
            timeout.map_err(PeerError::of("ICMP echo"))?;
            match self.reply(&mut buffer) {
                Ok(Some(reply)) => return Ok(Some(reply)),
                Ok(None) => {}
                Err(e) if timed_out(&e) || is_told(&e) => return Ok(None),
                Err(e) => return Err(PeerError::of("ICMP echo")(e)),
            }
        }
    }

    fn reply(&mut self, into: &mut [u8]) -> io::Result<Option<EchoReply>> {
        let len = (&self.icmp).read(into)?;
        if self.v6 {
            let payload = echo_reply6(&into[..len], self.sequence);
            return Ok(payload.map(|payload| EchoReply { payload, ttl: 0 }));
        }
        let Ok(packet) = Ipv4View::new(&into[..len]) else { return Ok(None) };
        let payload = echo_reply(packet.payload(), self.sequence);
        Ok(payload.map(|payload| EchoReply { payload, ttl: packet.header().ttl() }))
    }

    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), PeerError> {
        self.udp.send(payload).map(drop).map_err(PeerError::of("UDP send"))
    }

    /// The same where an ICMP error of an earlier one may be told instead: it counts as sent.
    pub(crate) fn send_or_told(&self, payload: &[u8]) -> Result<(), PeerError> {
        match self.udp.send(payload) {
            Err(e) if is_told(&e) || e.raw_os_error() == Some(EMSGSIZE) => Ok(()),
            sent => sent.map(drop).map_err(PeerError::of("UDP send")),
        }
    }

    pub(crate) fn receive(
        &mut self,
        into: &mut [u8],
        wait: Duration,
    ) -> Result<Option<usize>, PeerError> {
        self.udp.set_read_timeout(Some(wait)).map_err(PeerError::of("UDP socket"))?;
        match self.udp.recv(into) {
            Ok(len) => Ok(Some(len)),
            Err(e) if timed_out(&e) || is_told(&e) => Ok(None),
            Err(e) if e.raw_os_error() == Some(EMSGSIZE) => Ok(None),
            Err(e) => Err(PeerError::of("UDP receive")(e)),
        }
    }
}

pub(crate) fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// An ICMP error that the kernel hands to the next call.
fn is_told(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::ConnectionRefused
    )
}
