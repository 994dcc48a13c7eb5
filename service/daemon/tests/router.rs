//! A stack that forwards between two kernels whose transport checksums are left to the devices.

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use common::temporary_path;
use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Share};
use weever_testbed::{Namespace, Veth, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(10);

struct Net {
    hosts: [Namespace; 2],
    stack: Option<Stack>,
    _router: Namespace,
    _cables: [Veth; 2],
}

/// `ip` with these arguments; false where there is none.
fn ip(namespace: &Namespace, args: &str) -> bool {
    let run = || Command::new("ip").args(args.split(' ')).output();
    match namespace.run(run) {
        Ok(output) => {
            assert!(output.status.success(), "ip {args}: {output:?}");
            true
        }
        Err(_) => false,
    }
}

/// Two hosts, and a stack between them that speaks both families; `None` without `ip`.
fn net() -> Option<Net> {
    let (router, a, b) =
        (Namespace::new().unwrap(), Namespace::new().unwrap(), Namespace::new().unwrap());
    let cables = [
        Veth::create(&router, "r0", &a, "h0", 1).unwrap(),
        Veth::create(&router, "r1", &b, "h1", 1).unwrap(),
    ];
    let hosts = [a, b];
    let interface = |n: usize| {
        let addresses = [format!("10.{n}.0.254/24"), format!("fd0{n}::fe/64")];
        let addresses = addresses.map(|text| text.parse().unwrap()).into();
        let mut interface = Interface::new(format!("r{n}"), addresses);
        interface.share = Share::None;
        interface
    };
    let mut config = Config::of(vec![interface(0), interface(1)]);
    config.forwarding = true;
    config.control = Some(temporary_path());
    config.pool.frames = 8192;
    config.probe = false;
    let stack = Some(router.run(|| Stack::start(config)).unwrap());
    for (n, host) in hosts.iter().enumerate() {
        let (dev, other) = (format!("h{n}"), 1 - n);
        if !ip(host, &format!("addr add 10.{n}.0.1/24 dev {dev}")) {
            return None;
        }
        host.sysctl(&format!("net/ipv6/conf/{dev}/disable_ipv6"), "0").unwrap();
        ip(host, &format!("-6 addr add fd0{n}::1/64 dev {dev} nodad"));
        ip(host, &format!("route add 10.{other}.0.0/24 via 10.{n}.0.254"));
        ip(host, &format!("-6 route add fd0{other}::/64 via fd0{n}::fe"));
    }
    Some(Net { hosts, stack, _router: router, _cables: cables })
}

fn addresses(v6: bool) -> [IpAddr; 2] {
    let texts = if v6 { ["fd00::1", "fd01::1"] } else { ["10.0.0.1", "10.1.0.1"] };
    texts.map(|text| text.parse().unwrap())
}

fn datagrams(net: &Net, v6: bool) {
    let [from, to] = addresses(v6);
    let sockets: Vec<UdpSocket> = net
        .hosts
        .iter()
        .zip([from, to])
        .map(|(host, ip)| host.run(|| UdpSocket::bind((ip, 0))).unwrap())
        .collect();
    let [sender, receiver] = &sockets[..] else { unreachable!("there are two hosts") };
    receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let to: SocketAddr = receiver.local_addr().unwrap();
    for length in [0usize, 1, 255, 1400] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let end = Instant::now() + PATIENCE;
        let mut buffer = [0; 2000];
        loop {
            sender.send_to(&payload, to).unwrap();
            match receiver.recv(&mut buffer) {
                Ok(n) if buffer[..n] == payload => break,
                _ => assert!(
                    Instant::now() < end,
                    "{length} bytes do not get to {to}: {:?}",
                    net.stack.as_ref().map(|stack| stack.counters().drops)
                ),
            }
        }
    }
}

fn stream(net: &Net, v6: bool) {
    let [_, to] = addresses(v6);
    let listener = net.hosts[1].run(|| TcpListener::bind((to, 0))).unwrap();
    let to = listener.local_addr().unwrap();
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let sent = bytes.clone();
    let send = move || {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&sent).unwrap();
    };
    let sender = net.hosts[0].spawn("sender", send).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == bytes, "{} of {} bytes are right", received.len(), bytes.len());
}

#[test]
fn what_kernels_leave_to_their_devices_is_completed_on_the_way() {
    require_net_admin!();
    let Some(mut net) = net() else { return println!("skipped: needs ip") };
    for v6 in [false, true] {
        datagrams(&net, v6);
        stream(&net, v6);
    }
    assert_eq!(net.stack.take().unwrap().stop().failure, None);
}
