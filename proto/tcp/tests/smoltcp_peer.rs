//! smoltcp, which others wrote, as the peer: it opens, and it listens; bulk both ways, over a network that
//! loses and reorders.

mod sim;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use sim::{Faults, MILLIS, Network, PORT, Packet, SECOND, pseudo};
use smoltcp::iface::{Config as IfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use weever_tcp::{Ecn, Endpoint, Id, ListenerConfig, Region, Segment, TcpConfig, Tuple};
use weever_wire::tcp::TcpView;

const OURS: [u8; 4] = [192, 0, 2, 1];
const THEIRS: [u8; 4] = [192, 0, 2, 2];
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// smoltcp's end of the cable: whole frames.
#[derive(Default)]
struct Cable {
    to_smoltcp: VecDeque<Vec<u8>>,
    from_smoltcp: VecDeque<Vec<u8>>,
}

struct Rx(Vec<u8>);
struct Tx<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let done = f(&mut frame);
        self.0.push_back(frame);
        done
    }
}

impl Device for Cable {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx, Tx<'_>)> {
        let frame = self.to_smoltcp.pop_front()?;
        Some((Rx(frame), Tx(&mut self.from_smoltcp)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.from_smoltcp))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

/// An IPv4 packet in an Ethernet frame.
fn frame(segment: &[u8]) -> Vec<u8> {
    let total = (20 + segment.len()) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend(OURS);
    ip.extend(THEIRS);
    let sum = !weever_wire::checksum::sum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&THEIR_MAC[..], &OUR_MAC, &[8, 0], &ip, segment].concat()
}

struct World {
    now: u64,
    endpoint: Endpoint,
    id: Option<Id>,
    send: Region,
    receive: Region,
    got: Vec<u8>,
    iface: Interface,
    cable: Cable,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    there: Network,
    back: Network,
}

fn octet(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

impl World {
    fn new(seed: u64, faults: Faults, config: TcpConfig) -> Self {
        let mut cable = Cable::default();
        let hardware = HardwareAddress::Ethernet(EthernetAddress(THEIR_MAC));
        let mut iface = Interface::new(IfaceConfig::new(hardware), &mut cable, Instant::ZERO);
        let address = IpAddress::v4(THEIRS[0], THEIRS[1], THEIRS[2], THEIRS[3]);
        iface.update_ip_addrs(|all| all.push(IpCidr::new(address, 24)).unwrap());
        let mut sockets = SocketSet::new(vec![]);
        let buffer = || tcp::SocketBuffer::new(vec![0; 65536]);
        let socket = sockets.add(tcp::Socket::new(buffer(), buffer()));
        // It learns our link address from an announcement, and needs no answer to a question.
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &OUR_MAC, &OURS, &THEIR_MAC, &THEIRS].concat();
        cable.to_smoltcp.push_back([&THEIR_MAC[..], &OUR_MAC, &[8, 6], &arp].concat());
        Self {
            now: SECOND,
            endpoint: Endpoint::new(config, [1, 2], 0),
            id: None,
            send: Region::new(1 << 16),
            receive: Region::new(1 << 22),
            got: Vec::new(),
            iface,
            cable,
            sockets,
            socket,
            there: Network::new(seed, faults),
            back: Network::new(seed ^ 77, faults),
        }
    }

    fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Both ends, at this instant.
    fn step(&mut self) {
        self.endpoint.handle_timeout(self.now);
        let ours = IpAddr::from(OURS);
        let theirs = IpAddr::from(THEIRS);
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            let mut bytes = vec![0; transmit.len()];
            transmit.emit(&mut bytes, |range, out| self.send.read(range.start, out)).unwrap();
            self.there.send(Packet { from: ours, to: theirs, ecn: Ecn::NotEct, bytes }, self.now);
        }
        while let Some(packet) = self.there.receive(self.now) {
            self.cable.to_smoltcp.push_back(frame(&packet.bytes));
        }
        let instant = Instant::from_micros((self.now / 1000) as i64);
        self.iface.poll(instant, &mut self.cable, &mut self.sockets);
        while let Some(frame) = self.cable.from_smoltcp.pop_front() {
            if frame[12..14] == [8, 0] {
                let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                let bytes = frame[34..14 + total].to_vec();
                let packet = Packet { from: theirs, to: ours, ecn: Ecn::NotEct, bytes };
                self.back.send(packet, self.now);
            }
        }
        while let Some(packet) = self.back.receive(self.now) {
            self.take(&packet.bytes);
        }
        self.endpoint.check_invariants();
    }

    fn take(&mut self, bytes: &[u8]) {
        let (ours, theirs) = (IpAddr::from(OURS), IpAddr::from(THEIRS));
        if !pseudo(theirs, ours, bytes.len()).verifies(bytes) {
            return;
        }
        let view = TcpView::new(bytes).unwrap();
        let (local_port, remote_port) = (view.header().dst_port(), view.header().src_port());
        let tuple = Tuple { local: ours, remote: theirs, local_port, remote_port };
        let segment = Segment::parse(view, Ecn::NotEct).unwrap();
        let Ok(handled) = self.endpoint.handle(&tuple, &segment, self.now) else { return };
        if let Some(payload) = handled.payload {
            self.receive.write(payload.offset, &segment.payload[payload.range]);
        }
    }

    fn next(&self) -> u64 {
        let nets = [self.there.next_arrival(), self.back.next_arrival()];
        let ours = self.endpoint.next_deadline();
        let soonest = nets.into_iter().chain([ours]).flatten().min().unwrap_or(u64::MAX);
        // smoltcp is looked at each millisecond.
        soonest.clamp(self.now + 1000, self.now + MILLIS)
    }

    /// Exchanges `size` octets each way and closes.
    fn exchange(&mut self, size: usize) {
        let (mut written, mut their_written, mut their_got) = (0u64, 0, Vec::new());
        let limit = self.now + 2000 * SECOND;
        while self.now < limit {
            self.step();
            if let Some(id) = self.id
                && let Some(connection) = self.endpoint.get(id)
            {
                let readable = connection.readable();
                let (first, second) = self.receive.slices(readable.clone());
                self.got.extend(first.iter().chain(second));
                let free = (1 << 16) - (written - connection.acknowledged());
                let len = free.min(size as u64 - written);
                let finished = connection.is_finished() || readable.end as usize == size;
                let octets: Vec<u8> =
                    (written..written + len).map(|at| octet(at as usize)).collect();
                self.send.write(written, &octets);
                self.endpoint.consume(id, readable.end - readable.start, self.now);
                if len > 0 {
                    written += self.endpoint.queue(id, len, self.now);
                }
                if finished && written == size as u64 {
                    self.endpoint.shutdown(id, self.now);
                }
            }
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.socket);
            if socket.can_send() && their_written < size {
                let octets: Vec<u8> = (their_written..size).map(octet).collect();
                their_written += socket.send_slice(&octets).unwrap();
            }
            while socket.can_recv() {
                let _ = socket.recv(|bytes| {
                    their_got.extend_from_slice(bytes);
                    (bytes.len(), ())
                });
            }
            if their_written == size && their_got.len() == size {
                socket.close();
            }
            if self.got.len() == size && their_got.len() == size && !socket.is_open() {
                break;
            }
            self.now = self.next();
        }
        let expected: Vec<u8> = (0..size).map(octet).collect();
        assert!(self.got == expected, "{} of {size} octets arrived here", self.got.len());
        assert!(their_got == expected, "{} of {size} octets arrived there", their_got.len());
    }
}

fn connects(seed: u64, faults: Faults, size: usize) {
    let mut world = World::new(seed, faults, TcpConfig::default());
    world.step();
    world.tcp().listen(PORT).unwrap();
    let (from, to) = (SocketAddr::from((OURS, 0)), SocketAddr::from((THEIRS, PORT)));
    world.id = Some(world.endpoint.connect(from, to, world.now).unwrap());
    world.exchange(size);
}

fn is_connected_to(seed: u64, faults: Faults, size: usize) {
    let mut world = World::new(seed, faults, TcpConfig::default());
    let listener = world.endpoint.listen(ListenerConfig::new(PORT)).unwrap();
    world.step();
    let to = (IpAddress::v4(OURS[0], OURS[1], OURS[2], OURS[3]), PORT);
    let context = world.iface.context();
    world.sockets.get_mut::<tcp::Socket<'_>>(world.socket).connect(context, to, 50000).unwrap();
    while world.id.is_none() {
        world.now = world.next();
        world.step();
        world.id = world.endpoint.accept(listener);
        assert!(world.now < 300 * SECOND);
    }
    world.exchange(size);
}

const BAD: Faults =
    Faults { loss: 30, duplicate: 20, jitter: 8 * MILLIS, corrupt: 10, ..Faults::NONE };

#[test]
fn smoltcp_listens() {
    connects(1, Faults::NONE, 500_000);
}

#[test]
fn smoltcp_connects() {
    is_connected_to(2, Faults::NONE, 500_000);
}

#[test]
fn smoltcp_listens_over_a_bad_network() {
    (0..8).for_each(|seed| connects(seed, BAD, 100_000));
}

#[test]
fn smoltcp_connects_over_a_bad_network() {
    (0..8).for_each(|seed| is_connected_to(seed, BAD, 100_000));
}
