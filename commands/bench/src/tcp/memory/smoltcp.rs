//! Two hosts of smoltcp's, with the same buffers and loads.

use std::net::Ipv4Addr;

use smoltcp::iface::{Config as IfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use super::engine::{A, B, BUFFER, BURST, MESSAGE, MTU, PORT, Pipe, TURN};

/// smoltcp's device: packets without a link layer.
#[derive(Default)]
struct Port {
    rx: Pipe,
    tx: Pipe,
}

struct Rx<'a>(Vec<u8>, &'a mut Vec<Vec<u8>>);
struct Tx<'a>(&'a mut Pipe);

impl RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let done = f(&self.0);
        self.1.push(self.0);
        done
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.0.buffer(len);
        let done = f(&mut packet);
        self.0.full.push_back(packet);
        done
    }
}

impl Device for Port {
    type RxToken<'a> = Rx<'a>;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx<'_>, Tx<'_>)> {
        let packet = self.rx.full.pop_front()?;
        Some((Rx(packet, &mut self.rx.free), Tx(&mut self.tx)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        (self.tx.full.len() < BURST).then_some(Tx(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

struct Theirs {
    iface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    port: Port,
}

impl Theirs {
    fn new(address: Ipv4Addr) -> Self {
        let mut port = Port::default();
        let config = IfaceConfig::new(HardwareAddress::Ip);
        let mut iface = Interface::new(config, &mut port, Instant::ZERO);
        iface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(IpAddress::Ipv4(address), 24));
        });
        let mut sockets = SocketSet::new(vec![]);
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        let socket = sockets.add(socket);
        Self { iface, sockets, socket, port }
    }

    fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }
}

/// Two hosts of smoltcp's.
pub(crate) struct Smoltcp {
    now: u64,
    hosts: [Theirs; 2],
    data: Vec<u8>,
}

impl Smoltcp {
    pub(crate) fn connected() -> Self {
        let hosts = [Theirs::new(A), Theirs::new(B)];
        let mut pair = Self { now: 1_000_000, hosts, data: vec![7; BUFFER] };
        pair.hosts[1].tcp().listen(PORT).expect("free");
        let client = &mut pair.hosts[0];
        let context = client.iface.context();
        let socket = client.sockets.get_mut::<tcp::Socket<'_>>(client.socket);
        socket.connect(context, (IpAddress::Ipv4(B), PORT), 50_000).expect("free");
        while !pair.hosts[0].tcp().may_send() || !pair.hosts[1].tcp().may_send() {
            pair.turn();
        }
        pair
    }

    fn turn(&mut self) {
        self.now += TURN;
        let now = Instant::from_micros((self.now / 1000) as i64);
        let [a, b] = &mut self.hosts;
        a.iface.poll(now, &mut a.port, &mut a.sockets);
        hand_over(&mut a.port, &mut b.port);
        b.iface.poll(now, &mut b.port, &mut b.sockets);
        hand_over(&mut b.port, &mut a.port);
    }

    pub(crate) fn bulk(&mut self, octets: u64) {
        let (mut sent, mut read) = (0, 0);
        while read < octets {
            let most = usize::try_from(octets - sent).unwrap_or(BUFFER).min(BUFFER);
            if most > 0 {
                sent += self.hosts[0].tcp().send_slice(&self.data[..most]).unwrap_or(0) as u64;
            }
            self.turn();
            read += self.read_all(1);
        }
    }

    fn read_all(&mut self, at: usize) -> u64 {
        let (socket, mut read) = (self.hosts[at].tcp(), 0);
        while socket.can_recv() {
            read += socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0) as u64;
        }
        read
    }

    pub(crate) fn transactions(&mut self, count: usize) {
        for _ in 0..count {
            let _ = self.hosts[0].tcp().send_slice(&self.data[..MESSAGE]);
            let (mut asked, mut answered) = (0, 0);
            while answered < MESSAGE as u64 {
                self.turn();
                asked += self.read_all(1);
                if asked >= MESSAGE as u64 {
                    asked = 0;
                    let _ = self.hosts[1].tcp().send_slice(&self.data[..MESSAGE]);
                }
                answered += self.read_all(0);
            }
        }
    }
}

fn hand_over(from: &mut Port, to: &mut Port) {
    std::mem::swap(&mut from.tx.free, &mut to.rx.free);
    to.rx.full.append(&mut from.tx.full);
}
