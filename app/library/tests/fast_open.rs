//! Fast Open (RFC 7413), and the IP header of streams, with the kernel's TCP at the other end of a cable, in both roles.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weever_app_library::{QueueConfig, Stack};
use weever_app_sockets::{AppQueue, Event, StreamInfo, StreamOption};
use weever_testbed::{Fixture, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 8080;
const OURS: &str = "10.77.0.10:8080";
/// `MSG_FASTOPEN` and `TCP_FASTOPEN` (`linux/tcp.h`, `linux/socket.h`).
const MSG_FASTOPEN: i32 = 0x2000_0000;
/// `TCPI_OPT_SYN_DATA`: octets in the SYN were taken.
const SYN_DATA: u8 = 32;

/// A cable between a kernel that has Fast Open as client and server, at the right, and a stack at the left.
fn net() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    // 1: as client, 2: as server, 0x400: listeners have it without a socket option.
    net.right.sysctl("net/ipv4/tcp_fastopen", "1027").unwrap();
    net
}

fn stack() -> Stack {
    let config = QueueConfig {
        path: "library:dev=left0,addr=10.77.0.10/24".into(),
        ..QueueConfig::default()
    };
    Stack::open(&config).unwrap()
}

/// The next event that `wanted` accepts; others are skipped.
fn until<T>(queue: &AppQueue, mut wanted: impl FnMut(Event<'_>) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        queue.commit().unwrap();
        while let Some(event) = queue.next().unwrap() {
            if let Some(found) = wanted(event) {
                return found;
            }
        }
        assert!(Instant::now() < end, "it did not happen");
        queue.wait(Some(Duration::from_millis(20))).unwrap();
    }
}

/// A counter of the kernel's TCP (`/proc/net/netstat`).
fn kernels(net: &Fixture, name: &str) -> u64 {
    let all = net.right.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat")).unwrap();
    let mut lines = all.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    both.find(|(other, _)| *other == name).map(|(_, value)| value.parse().unwrap()).unwrap()
}

/// Asks the kernel's server three times, each time by a connection of its own: whether octets went with the SYNs.
fn ask_kernel(queue: &AppQueue, to: SocketAddr) -> Vec<bool> {
    let ask = |_| {
        let stream = queue.connect_tcp(to).unwrap();
        queue.set_option(stream, StreamOption::FastOpen(1)).unwrap();
        assert_eq!(queue.write(stream, b"question").unwrap(), 8);
        let mut answer = Vec::new();
        until(queue, |event| {
            if let Event::Octets(octets) = event {
                answer.extend_from_slice(octets.octets());
            }
            (answer.len() == 6).then_some(())
        });
        assert_eq!(answer, b"answer");
        queue.request_info(stream).unwrap();
        let info: StreamInfo = until(queue, |event| match event {
            Event::Info(_, info) => Some(info),
            _ => None,
        });
        queue.close_stream(stream).unwrap();
        queue.commit().unwrap();
        info.as_bytes()[5] & SYN_DATA != 0
    };
    (0..3).map(ask).collect()
}

#[test]
fn a_program_puts_its_question_into_the_syn() {
    require_net_admin!();
    let net = net();
    let listener = net.right.run(|| TcpListener::bind(("0.0.0.0", PORT))).unwrap();
    let to = SocketAddr::new(Fixture::RIGHT.into(), PORT);
    let ours = net.left.spawn("client", move || {
        let stack = stack();
        ask_kernel(&stack.queue().unwrap(), to)
    });
    let ours = ours.unwrap();
    for _ in 0..3 {
        let (mut kernel, _) = listener.accept().unwrap();
        kernel.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut question = [0; 8];
        kernel.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"question");
        kernel.write_all(b"answer").unwrap();
    }
    assert_eq!(ours.join().unwrap(), [false, true, true], "the first one asks for the cookie");
    assert_eq!(kernels(&net, "TCPFastOpenPassive"), 2, "connections made by a SYN with octets");
    assert_eq!(kernels(&net, "TCPFastOpenPassiveFail"), 0);
}

/// A server that answers its clients' requests at once.
fn serve(told: &Sender<()>, stop: &Receiver<()>) {
    let stack = stack();
    let queue = stack.queue().unwrap();
    let listener = queue.listen_tcp(format!("0.0.0.0:{PORT}").parse().unwrap(), 16, false).unwrap();
    queue.set_listener_option(listener, StreamOption::FastOpen(8)).unwrap();
    queue.commit().unwrap();
    told.send(()).unwrap();
    while stop.try_recv().is_err() {
        while let Some(event) = queue.next().unwrap() {
            match event {
                Event::Octets(octets) => {
                    assert_eq!(octets.octets(), b"question");
                    assert_eq!(queue.write(octets.stream(), b"answer").unwrap(), 6);
                }
                Event::Finished(stream) => queue.close_stream(stream).unwrap(),
                _ => {}
            }
        }
        queue.commit().unwrap();
        queue.wait(Some(Duration::from_millis(5))).unwrap();
    }
}

#[test]
fn a_program_takes_questions_in_syns_of_the_kernel() {
    require_net_admin!();
    let net = net();
    let ((told, heard), (end, stop)) = (channel(), channel());
    let ours = net.left.spawn("server", move || serve(&told, &stop)).unwrap();
    heard.recv_timeout(PATIENCE).unwrap();
    let to: SocketAddr = OURS.parse().unwrap();
    for _ in 0..3 {
        let make = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        let mut socket = net.right.run(make);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(socket.send_to_with_flags(b"question", &to.into(), MSG_FASTOPEN).unwrap(), 8);
        let mut answer = [0; 6];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
    assert_eq!(kernels(&net, "TCPFastOpenActive"), 2, "octets of SYNs that were acknowledged");
    assert_eq!(kernels(&net, "TCPFastOpenActiveFail"), 0);
    end.send(()).unwrap();
    ours.join().unwrap();
}

#[test]
fn the_class_and_the_hops_of_a_stream_are_in_its_packets() {
    require_net_admin!();
    let net = net();
    let listener = net.right.run(|| TcpListener::bind(("0.0.0.0", PORT))).unwrap();
    let ip = Protocol::from(i32::from(0x0800u16.to_be()));
    let ear = net.right.run(|| Socket::new(Domain::PACKET, Type::RAW, Some(ip)).unwrap());
    ear.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = SocketAddr::new(Fixture::RIGHT.into(), PORT);
    let ours = net.left.spawn("client", move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let stream = queue.connect_tcp(to).unwrap();
        // 0xb9: expedited forwarding, and a bit of ECN's, which is the stack's.
        queue.set_option(stream, StreamOption::TrafficClass(0xb9)).unwrap();
        queue.set_option(stream, StreamOption::Hops(7)).unwrap();
        queue.write(stream, b"octets").unwrap();
        until(&queue, |event| matches!(event, Event::Finished(_)).then_some(()));
    });
    let (mut kernel, _) = listener.accept().unwrap();
    kernel.set_read_timeout(Some(PATIENCE)).unwrap();
    kernel.read_exact(&mut [0; 6]).unwrap();
    drop(kernel);
    ours.unwrap().join().unwrap();
    let (mut frame, mut seen) = ([0; 2048], 0);
    // SYN, acknowledgement and octets have come.
    while seen < 3 {
        let len = (&ear).read(&mut frame).unwrap();
        let sent_by_us = frame[26..30] == [10, 77, 0, 10] && frame[23] == 6;
        if len > 34 && sent_by_us {
            assert_eq!((frame[15] & !3, frame[22]), (0xb8, 7), "class and hops");
            seen += 1;
        }
    }
}
