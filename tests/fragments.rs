//! Datagrams longer than the link's MTU, and an address from a DHCP server: `weever up` in a network
//! namespace, with the kernel as the peer.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weever_net::dhcp4::{CLIENT_PORT, SERVER_PORT};
use weever_testbed::{Fixture, require_net_admin};
use weever_wire::dhcp4::{DhcpOption, DhcpRepr, DhcpView, MessageType, option};

const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
const PATIENCE: Duration = Duration::from_secs(20);

struct Up {
    child: Child,
    socket: PathBuf,
}

impl Up {
    fn start(net: &Fixture, more: &[&str]) -> Up {
        let name = format!("weever-fragments-{}-{}.sock", std::process::id(), more.len());
        let socket = std::env::temp_dir().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(["up", "--dev", "left0", "--echo", "7"]).args(more);
        command.arg("--control").arg(&socket).stdout(Stdio::piped());
        let mut child = net.left.run(|| command.spawn().unwrap());
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("Ctrl-C"));
        assert!(ready, "it ended before its banner did");
        Up { child, socket }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_file(&self.socket));
    }
}

fn net() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net
}

/// A socket of the kernel's on the other side; the namespace's own address is chosen for it.
fn peer(net: &Fixture, port: u16) -> UdpSocket {
    net.right.run(|| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket.set_broadcast(true).unwrap();
        setsockopt(&socket, sockopt::RcvBuf, &(1 << 20)).unwrap();
        socket
    })
}

fn echoes(socket: &UdpSocket, to: Ipv4Addr, len: usize) -> bool {
    let payload: Vec<u8> = (0..len).map(|i| (i * 31 + (i >> 8)) as u8).collect();
    let mut answer = vec![0; 70_000];
    // The first packets may be spent on finding the neighbour.
    (0..10).any(|_| {
        socket.send_to(&payload, SocketAddrV4::new(to, 7)).unwrap();
        matches!(socket.recv(&mut answer), Ok(n) if answer[..n] == payload)
    })
}

#[test]
fn datagrams_of_every_length_are_echoed_to_the_kernel() {
    require_net_admin!();
    let net = net();
    let _up = Up::start(&net, &["--addr", "10.77.0.10/24"]);
    let socket = peer(&net, 0);
    for len in [1, 1472, 1473, 2960, 9000, 30_000, 65_507] {
        assert!(echoes(&socket, STACK, len), "{len} bytes");
    }
}

/// Answers one client until `done`.
fn serve(net: &Fixture, done: impl Fn() -> bool) -> Vec<MessageType> {
    let socket = peer(net, SERVER_PORT);
    let (mut buf, mut heard, deadline) = ([0; 2000], Vec::new(), Instant::now() + PATIENCE);
    // Bound to the link, or a broadcast would have no way out.
    while !done() && Instant::now() < deadline {
        let Ok(len) = socket.recv(&mut buf) else { continue };
        let Ok(message) = DhcpView::new(&buf[..len]) else { continue };
        let Some(kind) = message.message_type() else { continue };
        heard.push(kind);
        let kind = match kind {
            MessageType::Discover => MessageType::Offer,
            MessageType::Request => MessageType::Ack,
            _ => continue,
        };
        let server: [u8; 4] = [10, 77, 0, 2];
        let options = [
            DhcpOption { code: option::SERVER_ID, data: &server },
            DhcpOption { code: option::SUBNET_MASK, data: &[255, 255, 255, 0] },
            DhcpOption { code: option::LEASE_TIME, data: &[0, 0, 2, 88] },
        ];
        let header = message.header();
        let (xid, mac, your_ip) = (header.xid(), header.mac(), Ipv4Addr::new(10, 77, 0, 60));
        let (secs, broadcast, client_ip) = (0, true, Ipv4Addr::UNSPECIFIED);
        let repr =
            DhcpRepr { kind, xid, secs, broadcast, client_ip, your_ip, mac, options: &options };
        let mut out = vec![0; repr.buffer_len()];
        repr.emit(&mut out).unwrap();
        // To the subnet's broadcast address the kernel knows the way, and 255.255.255.255 is what
        // a client without an address hears.
        socket.send_to(&out, (Ipv4Addr::BROADCAST, CLIENT_PORT)).unwrap();
    }
    heard
}

#[test]
fn an_address_comes_from_a_server() {
    require_net_admin!();
    let net = net();
    // Without a default route the kernel does not know where to send to all.
    net.right.add_route(Ipv4Addr::UNSPECIFIED, 0, Ipv4Addr::new(10, 77, 0, 1)).unwrap();
    let _up = Up::start(&net, &["--dhcp"]);
    let probe = peer(&net, 0);
    let offered = Ipv4Addr::new(10, 77, 0, 60);
    let works = || {
        probe.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        probe.send_to(b"here?", SocketAddrV4::new(offered, 7)).unwrap();
        matches!(probe.recv(&mut [0; 9]), Ok(5))
    };
    let heard = serve(&net, works);
    assert!(heard.starts_with(&[MessageType::Discover, MessageType::Request]), "{heard:?}");
    let long = peer(&net, 0);
    assert!(echoes(&long, offered, 9000));
}
