//! weever's TCP services on the graph, with the kernel's TCP at the other end of a cable, in both families.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::kernel::{ALL, CLOSED, at, config, interface, payload, start, wire};
use common::peer::PATIENCE;
use socket2::SockRef;
use weever_daemon::Stack;
use weever_service_api::{Client, SetRequest};
use weever_testbed::{Fixture, VethEnd, require_net_admin};

const ECHO: u16 = 7;
const DISCARD: u16 = 9;
/// Octets of a long transfer.
const LONG: usize = 10 << 20;

fn serving(net: &Fixture) -> Stack {
    let mut config = config(vec![interface()]);
    (config.services.tcp_echo, config.services.tcp_discard) = (Some(ECHO), Some(DISCARD));
    start(&net.right, config)
}

/// Connects, again while the neighbour is not known or its address is tentative.
fn connect(from: &VethEnd, to: IpAddr, port: u16) -> TcpStream {
    let end = Instant::now() + PATIENCE;
    loop {
        let tried = from
            .namespace()
            .run(|| TcpStream::connect_timeout(&at(to, port, from), Duration::from_secs(2)));
        match tried {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < end, "{to}, port {port}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends `len` octets while it reads them back, ends its own side, and sees the other one end.
fn echoed(stream: TcpStream, len: usize) {
    let sent = payload(len);
    let mut writer = stream.try_clone().unwrap();
    let (to_send, mut reader) = (sent.clone(), stream);
    let writing = std::thread::spawn(move || {
        writer.write_all(&to_send).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    reader.read_to_end(&mut heard).unwrap();
    writing.join().unwrap();
    assert_eq!(heard.len(), sent.len());
    assert!(heard == sent, "the octets that came back differ from those that were sent");
}

fn counter(stack: &Stack, name: &str) -> u64 {
    let counters = stack.counters();
    let node = counters.nodes.iter().find(|node| node.name == "RxL4TCPEndpoint");
    let own = node.and_then(|node| node.own.iter().find(|counter| counter.name == name));
    own.map_or(0, |counter| counter.value)
}

fn await_counter(stack: &Stack, name: &str, least: u64) {
    let end = Instant::now() + PATIENCE;
    while counter(stack, name) < least {
        assert!(Instant::now() < end, "{name} is {}, not {least}", counter(stack, name));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn octets_of_any_number_come_back() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    for to in ALL {
        for len in [0, 1, 1459, 1460, 1461, 100_000, LONG] {
            echoed(connect(&net.veth.left, to, ECHO), len);
        }
    }
    assert_eq!(counter(&stack, "accepted"), 7 * ALL.len() as u64);
    let named: Vec<_> = stack.status().services.into_iter().map(|s| (s.protocol, s.port)).collect();
    assert!(named.contains(&("tcp".into(), ECHO)), "{named:?}");
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn many_connections_at_once() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    let threads: Vec<_> = (0..50)
        .map(|number| {
            let stream = connect(&net.veth.left, ALL[number % ALL.len()], ECHO);
            std::thread::spawn(move || echoed(stream, 20_000 + number * 1000))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn discarded_octets_are_read_and_the_peer_is_closed_after_its_own_end() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    for to in ALL {
        let mut stream = connect(&net.veth.left, to, DISCARD);
        stream.write_all(&payload(LONG)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "nothing is sent, and the end comes");
    }
    await_counter(&stack, "ended", ALL.len() as u64);
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn a_closed_port_refuses() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    drop(connect(&net.veth.left, ALL[0], ECHO));
    for to in ALL {
        // Only once the neighbour is known does the answer come for certain.
        drop(connect(&net.veth.left, to, ECHO));
        let before = counter(&stack, "resets_sent");
        let refused =
            net.left.run(|| TcpStream::connect_timeout(&at(to, CLOSED, &net.veth.left), PATIENCE));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{to}");
        await_counter(&stack, "resets_sent", before + 1);
    }
    assert_eq!(stack.stop().failure, None);
}

/// A reset of the kernel's ends the connection; so does one that it sends for octets nobody reads.
#[test]
fn a_reset_ends_the_connection() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    for to in ALL {
        let ended = counter(&stack, "ended");
        let mut stream = connect(&net.veth.left, to, ECHO);
        stream.write_all(b"never read").unwrap();
        stream.read_exact(&mut [0; 3]).unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        await_counter(&stack, "ended", ended + 1);
    }
    assert_eq!(stack.stop().failure, None);
}

/// A peer that does not read is held back, and gets all octets once it does.
#[test]
fn a_peer_that_reads_late_gets_everything() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    let stream = connect(&net.veth.left, ALL[0], ECHO);
    SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
    let (mut writer, mut reader) = (stream.try_clone().unwrap(), stream);
    writer.set_nonblocking(true).unwrap();
    let all = payload(LONG);
    let (mut sent, mut stalled) = (0, 0);
    while stalled < 20 {
        match writer.write(&all[sent..]) {
            Ok(n) => (sent, stalled) = (sent + n, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                stalled += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    assert!(sent < LONG, "the window closed after {sent} octets");
    writer.set_nonblocking(false).unwrap();
    writer.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    reader.read_to_end(&mut heard).unwrap();
    assert!(heard == all[..sent], "{} of {sent} octets came back", heard.len());
    assert_eq!(stack.stop().failure, None);
}

/// Ports change while connections go on.
#[test]
fn services_change_while_connections_stay() {
    require_net_admin!();
    let net = wire();
    let stack = serving(&net);
    let mut stream = connect(&net.veth.left, ALL[0], ECHO);
    let mut ask = |text: &[u8]| {
        stream.write_all(text).unwrap();
        let mut heard = vec![0; text.len()];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, text);
    };
    ask(b"before");
    let mut client = Client::connect(stack.control_path().unwrap()).unwrap();
    client.call(&"services.tcp-echo=8007".parse::<SetRequest>().unwrap()).unwrap();
    ask(b"after");
    echoed(connect(&net.veth.left, ALL[1], 8007), 5000);
    let refused =
        net.left.run(|| TcpStream::connect_timeout(&at(ALL[0], ECHO, &net.veth.left), PATIENCE));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(stack.stop().failure, None);
}
