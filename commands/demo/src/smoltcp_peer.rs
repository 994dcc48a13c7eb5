//! smoltcp as the peer: an independent stack at the other end of a memory link.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{icmp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use weever_link::LinkQueue;
use weever_packet::{Buffer, Burst, PoolCache};

use crate::payloads::{echo_reply, echo_reply6, echo_request, echo_request6};
use crate::peer::{Ends, Over, Peer, PeerError, link_local};

const IDENT: u16 = 0x7eee;
/// Where the UDP socket is bound.
pub(crate) const UDP_PORT: u16 = 40_000;

/// A smoltcp host with a UDP and an ICMP socket.
pub(crate) struct SmoltcpPeer {
    cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    udp: SocketHandle,
    icmp: SocketHandle,
    ends: Ends,
    port: u16,
    started: std::time::Instant,
    sequence: u16,
}

fn failed(what: &'static str) -> impl Fn(String) -> PeerError {
    move |text| PeerError { what, source: io::Error::other(text) }
}

impl SmoltcpPeer {
    /// A host at the end of `queue`; `port` is where weever's echo service listens.
    pub(crate) fn new(
        queue: Box<dyn LinkQueue>,
        pool: PoolCache,
        ends: Ends,
        port: u16,
    ) -> SmoltcpPeer {
        let empty = || VecDeque::with_capacity(256);
        let mut cable = Cable { queue, pool, arrived: empty(), leaving: empty(), mtu: 1500 };
        let address = HardwareAddress::Ethernet(EthernetAddress(ends.peer_mac));
        let mut interface = Interface::new(Config::new(address), &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|list| {
            let six = [ends.peer6, link_local(ends.peer_mac)].map(|ip| (IpAddress::Ipv6(ip), 64));
            for (ip, len) in [(IpAddress::Ipv4(ends.peer), 24)].into_iter().chain(six) {
                let pushed = list.push(IpCidr::new(ip, len));
                debug_assert!(pushed.is_ok(), "a fresh interface has room for addresses");
            }
        });
        let mut sockets = SocketSet::new(Vec::new());
        let udp = sockets.add(udp_socket());
        let icmp = sockets.add(icmp_socket());
        let started = std::time::Instant::now();
        SmoltcpPeer { cable, interface, sockets, udp, icmp, ends, port, started, sequence: 0 }
    }

    fn turn(&mut self) -> io::Result<()> {
        self.cable.pump()?;
        let now = Instant::from_micros(self.started.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
        self.cable.pump()
    }

    /// Turns until `done` gives something or `wait` is over. Yields the core in between: the
    /// stack's worker may need it.
    fn wait<T>(
        &mut self,
        wait: Duration,
        mut done: impl FnMut(&mut SocketSet<'static>) -> Option<T>,
    ) -> Result<Option<T>, PeerError> {
        let deadline = std::time::Instant::now() + wait;
        loop {
            self.turn().map_err(|source| PeerError { what: "memory link", source })?;
            if let Some(result) = done(&mut self.sockets) {
                return Ok(Some(result));
            }
            if std::time::Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }
}

fn udp_socket() -> udp::Socket<'static> {
    let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 128], vec![0; 1 << 18]);
    let mut socket = udp::Socket::new(buffer(), buffer());
    let bound = socket.bind(UDP_PORT);
    debug_assert!(bound.is_ok(), "a fresh socket can be bound");
    socket
}

fn icmp_socket() -> icmp::Socket<'static> {
    let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 8], vec![0; 1 << 14]);
    let mut socket = icmp::Socket::new(buffer(), buffer());
    let bound = socket.bind(icmp::Endpoint::Ident(IDENT));
    debug_assert!(bound.is_ok(), "a fresh socket can be bound");
    socket
}

impl Peer for SmoltcpPeer {
    fn name(&self) -> &'static str {
        "smoltcp"
    }

    fn ends(&self) -> Ends {
        self.ends
    }

    fn sends_long(&self, over: Over) -> bool {
        // smoltcp cuts up IPv4 packets only.
        over == Over::V4
    }

    fn ping(
        &mut self,
        over: Over,
        payload: &[u8],
        wait: Duration,
    ) -> Result<Option<Vec<u8>>, PeerError> {
        self.sequence += 1;
        let (handle, wanted) = (self.icmp, self.sequence);
        let v4 = over == Over::V4;
        let request = if v4 { echo_request } else { echo_request6 };
        let socket = self.sockets.get_mut::<icmp::Socket<'_>>(handle);
        // Else those before still wait for the neighbour.
        if socket.can_send() {
            let to = self.ends.stack(over).into();
            let sent = socket.send_slice(&request(IDENT, wanted, payload), to);
            sent.map_err(|e| failed("ICMP echo")(e.to_string()))?;
        }
        self.wait(wait, |sockets| {
            let socket = sockets.get_mut::<icmp::Socket<'_>>(handle);
            let (message, _) = socket.recv().ok()?;
            if v4 { echo_reply(message, wanted) } else { echo_reply6(message, wanted) }
        })
    }

    fn send(&mut self, over: Over, payload: &[u8]) -> Result<(), PeerError> {
        let to = (IpAddress::from(self.ends.stack(over)), self.port);
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.udp);
        socket.send_slice(payload, to).map_err(|e| failed("UDP send")(e.to_string()))?;
        self.turn().map_err(|source| PeerError { what: "UDP send", source })
    }

    fn receive(
        &mut self,
        _: Over,
        into: &mut [u8],
        wait: Duration,
    ) -> Result<Option<usize>, PeerError> {
        let handle = self.udp;
        self.wait(wait, |sockets| {
            let socket = sockets.get_mut::<udp::Socket<'_>>(handle);
            socket.recv_slice(into).ok().map(|(len, _)| len)
        })
    }

    fn send_frame(&mut self, frame: &[u8]) -> Result<(), PeerError> {
        let exhausted = || failed("memory link")("the pool is exhausted".into());
        let mut buffer = self.cable.pool.alloc().ok_or_else(exhausted)?;
        if !buffer.append(frame) {
            return Err(failed("memory link")("the frame is too long".into()));
        }
        self.cable.leaving.push_back(buffer);
        self.turn().map_err(|source| PeerError { what: "memory link", source })
    }
}

/// A memory link's queue as a smoltcp device.
pub(super) struct Cable {
    pub(super) queue: Box<dyn LinkQueue>,
    pub(super) pool: PoolCache,
    pub(super) arrived: VecDeque<Buffer>,
    pub(super) leaving: VecDeque<Buffer>,
    pub(super) mtu: usize,
}

impl Cable {
    /// Moves received frames in and frames to send out.
    pub(super) fn pump(&mut self) -> io::Result<()> {
        let mut burst = Burst::new();
        let n = self.queue.rx(&mut self.pool, &mut burst, 64).map_err(io::Error::other)?;
        self.arrived.extend((0..n).filter_map(|i| burst.take(i)));
        self.queue.tx(&mut self.pool, &mut self.leaving).map_err(io::Error::other)?;
        self.queue.flush(&mut self.pool).map_err(io::Error::other)
    }
}

pub(super) struct Arrived<'a>(Buffer, &'a mut PoolCache);
pub(super) struct Leaving<'a>(&'a mut VecDeque<Buffer>, Option<Buffer>);

impl RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.0.data());
        self.1.free(self.0);
        result
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        if let Some(mut buffer) = self.1
            && buffer.append(&bytes)
        {
            self.0.push_back(buffer);
        }
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        let buffer = self.arrived.pop_front()?;
        let reply = self.pool.alloc();
        Some((Arrived(buffer, &mut self.pool), Leaving(&mut self.leaving, reply)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        let buffer = self.pool.alloc()?;
        Some(Leaving(&mut self.leaving, Some(buffer)))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + 14;
        capabilities
    }
}
