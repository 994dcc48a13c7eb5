//! The Linux kernel as the peer: ordinary sockets in a network namespace.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weever_link_sys::packet::{PacketSocket, Protocol as Seen};
use weever_testbed::Namespace;
use weever_wire::ipv4::Ipv4View;

use crate::icmp::{echo_reply, echo_request};
use crate::peer::{Ends, Peer, PeerError};

const IDENT: u16 = 0x7eee;

/// Sockets of the kernel's stack in one namespace.
pub(crate) struct KernelPeer {
    udp: UdpSocket,
    icmp: Socket,
    raw: PacketSocket,
    ends: Ends,
    sequence: u16,
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> PeerError {
    move |source| PeerError { what, source }
}

impl KernelPeer {
    /// Opens the sockets in `namespace`, whose interface is `interface`; `port` is where weever's
    /// echo service listens.
    pub(crate) fn open(
        namespace: &Namespace,
        interface: &str,
        ends: Ends,
        port: u16,
    ) -> Result<KernelPeer, PeerError> {
        namespace.run(|| {
            let udp = udp_socket(ends, port).map_err(failed("UDP socket"))?;
            let icmp = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))
                .map_err(failed("ICMP socket"))?;
            let to: SocketAddr = SocketAddrV4::new(ends.stack, 0).into();
            icmp.connect(&to.into()).map_err(failed("ICMP socket"))?;
            let raw = PacketSocket::open(interface, Seen::All)
                .map_err(|e| failed("packet socket")(io::Error::other(e)))?;
            let bound = udp.local_addr().map_err(failed("UDP socket"))?;
            let ends = Ends { peer_port: bound.port(), ..ends };
            Ok(KernelPeer { udp, icmp, raw, ends, sequence: 0 })
        })
    }

    fn echo_reply(&mut self, into: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
        let len = (&self.icmp).read(into)?;
        let packet = Ipv4View::new(&into[..len]).ok();
        Ok(packet.and_then(|ip| echo_reply(ip.payload(), self.sequence)))
    }
}

fn udp_socket(ends: Ends, port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((ends.stack, port))?;
    Ok(socket)
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Peer for KernelPeer {
    fn name(&self) -> &'static str {
        "the Linux kernel"
    }

    fn ends(&self) -> Ends {
        self.ends
    }

    fn ping(&mut self, payload: &[u8], wait: Duration) -> Result<Option<Vec<u8>>, PeerError> {
        let error = failed("ICMP echo");
        self.sequence += 1;
        self.icmp.send(&echo_request(IDENT, self.sequence, payload)).map_err(&error)?;
        let deadline = Instant::now() + wait;
        let mut buffer = [0u8; 2048];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.icmp.set_read_timeout(Some(left)).map_err(&error)?;
            match self.echo_reply(&mut buffer) {
                Ok(Some(reply)) => return Ok(Some(reply)),
                Ok(None) => {}
                Err(e) if timed_out(&e) => return Ok(None),
                Err(e) => return Err(error(e)),
            }
        }
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), PeerError> {
        self.udp.send(payload).map(drop).map_err(failed("UDP send"))
    }

    fn receive(&mut self, into: &mut [u8], wait: Duration) -> Result<Option<usize>, PeerError> {
        self.udp.set_read_timeout(Some(wait)).map_err(failed("UDP socket"))?;
        match self.udp.recv(into) {
            Ok(len) => Ok(Some(len)),
            Err(e) if timed_out(&e) => Ok(None),
            Err(e) => Err(failed("UDP receive")(e)),
        }
    }

    fn send_frame(&mut self, frame: &[u8]) -> Result<(), PeerError> {
        self.raw.send(frame).map_err(failed("packet socket"))
    }
}
