//! Clients on the stack, with servers of the kernel's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};
use weever_testbed::{Fixture, require_net_admin};

use super::lab::{BOTH, Lab, PATIENCE, RIGHT6, has};

/// Serves one body for each of `count` connections, and returns who asked.
fn serve(
    listener: TcpListener,
    body: Vec<u8>,
    count: usize,
) -> std::thread::JoinHandle<Vec<IpAddr>> {
    std::thread::spawn(move || {
        let serve_one = |_| {
            let (mut stream, from) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while !lines.next().unwrap().unwrap().is_empty() {}
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
            stream.write_all(&body).unwrap();
            from.ip().to_canonical()
        };
        (0..count).map(serve_one).collect()
    })
}

#[test]
fn curl_and_wget_fetch_from_the_kernels_servers() {
    require_net_admin!();
    let lab = Lab::new();
    let body = lab.file("body", 2 << 20);
    for (host, address) in [
        (Fixture::RIGHT.to_string(), Fixture::RIGHT.into()),
        (format!("[{RIGHT6}]"), RIGHT6.into()),
    ] {
        let address: IpAddr = address;
        for (program, options) in [("curl", ["-gsS", "-o"]), ("wget", ["-q", "-O"])] {
            if !has(program) {
                continue;
            }
            let listener = lab.net.right.run(|| TcpListener::bind((address, 8001)).unwrap());
            let server = serve(listener, body.clone(), 1);
            let url = format!("http://{host}:8001/");
            lab.output(&[program, options[0], options[1], "got", &url]);
            assert!(std::fs::read(lab.folder.join("got")).unwrap() == body, "{program} {url}");
            // It came from the stack's address, not from one of the kernel's.
            let from = server.join().unwrap();
            let own = if address.is_ipv4() { super::lab::BOTH[0] } else { super::lab::BOTH[1] };
            assert_eq!(from, [own], "{program} {url}");
        }
    }
    if has("curl") {
        let mut refused =
            lab.command(&["--", "curl", "-sS", &format!("http://{}:9/", Fixture::RIGHT)]);
        let output = lab.net.left.run(|| refused.output().unwrap());
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    }
}

#[test]
fn a_connected_udp_socket_hears_its_peer_and_its_refusal() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let peer = lab.net.right.run(|| UdpSocket::bind("0.0.0.0:9001").unwrap());
    let answers = std::thread::spawn(move || {
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut question = [0; 100];
        let (len, from) = peer.recv_from(&mut question).unwrap();
        peer.send_to(&question[..len], from).unwrap();
        from.ip()
    });
    let script = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect(('10.77.0.2', 9001))
print(s.getpeername())
s.send(b'question')
print(s.recv(100))
t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
t.settimeout(20)
t.connect(('10.77.0.2', 9))
t.send(b'nobody')
try:
    t.recv(100)
except ConnectionRefusedError:
    print('refused')
";
    let told = lab.output(&["/usr/bin/python3", "-c", script]);
    assert_eq!(told, "('10.77.0.2', 9001)\nb'question'\nrefused\n");
    assert_eq!(answers.join().unwrap(), super::lab::BOTH[0]);
}

#[test]
fn what_is_the_kernels_stays_there() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let near = lab.net.left.run(|| TcpListener::bind("127.0.0.1:8002").unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, from) = near.accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        (text, from.ip())
    });
    let script = "
import socket, os, select
s = socket.create_connection(('127.0.0.1', 8002)); s.sendall(b'near'); s.close()
a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))
r, w = os.pipe(); os.write(w, b'y'); print(select.select([r], [], [], 0)[0] == [r])
";
    assert_eq!(lab.output(&["/usr/bin/python3", "-c", script]), "b'x'\nTrue\n");
    assert_eq!(served.join().unwrap(), ("near".into(), IpAddr::from([127, 0, 0, 1])));
}

/// Prints, for each read, the octets and the length of a datagram among them, once all were sent.
const JOINS: &str = "
import os, socket, struct, time
SOL_UDP, UDP_GRO = 17, 104
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.setsockopt(SOL_UDP, UDP_GRO, 1)
udp.bind(('::', 9003))
while not os.path.exists('sent'):
    time.sleep(0.02)
left = 20 * 100 + 50
while left:
    data, beside, _, peer = udp.recvmsg(65536, 100)
    segment = [struct.unpack('i', value)[0] for level, kind, value in beside if (level, kind) == (SOL_UDP, UDP_GRO)]
    assert data == bytes(len(data)), data
    print(len(data), *segment)
    left -= len(data)
";

#[test]
fn datagrams_of_one_flow_are_read_together() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    for to in BOTH {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        // How many have come when the program reads is not known: it is tried until some are read together.
        let together = (0..50).any(|_| {
            let sent = lab.folder.join("sent");
            drop(std::fs::remove_file(&sent));
            let mut command = lab.command(&["--require", "--", "/usr/bin/python3", "-c", JOINS]);
            command.stdout(std::process::Stdio::piped());
            let child = lab.net.left.run(|| command.spawn().unwrap());
            lab.await_listed(":9003 ", 1);
            let client = lab.net.right.run(|| UdpSocket::bind(any).unwrap());
            for len in [100; 20].into_iter().chain([50]) {
                client.send_to(&vec![0; len], (to, 9003)).unwrap();
            }
            std::fs::write(&sent, "").unwrap();
            let output = child.wait_with_output().unwrap();
            lab.await_listed(":9003 ", 0);
            let told = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{told}");
            for line in told.lines() {
                let (octets, segment) = line.split_once(' ').unwrap_or((line, line));
                let (octets, segment): (u32, u32) =
                    (octets.parse().unwrap(), segment.parse().unwrap());
                assert!(octets == segment || segment == 100 && octets > 100, "{told}");
            }
            told.contains(' ')
        });
        assert!(together, "{to}");
    }
}

/// Sets the class and the hops of a TCP stream before it connects.
const CLASS_AND_HOPS: &str = "
import socket, sys
stream = socket.socket()
stream.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xb8)
stream.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 7)
stream.connect((sys.argv[1], 9200))
stream.sendall(b'octets')
stream.recv(1)
";

#[test]
fn class_and_hops_that_a_program_sets_are_in_the_packets_of_its_stream() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let listener = lab.net.right.run(|| TcpListener::bind("0.0.0.0:9200").unwrap());
    let ip = Protocol::from(i32::from(0x0800u16.to_be()));
    let ear = lab.net.right.run(|| Socket::new(Domain::PACKET, Type::RAW, Some(ip)).unwrap());
    ear.set_read_timeout(Some(PATIENCE)).unwrap();
    let _client = lab.start(&["python3", "-c", CLASS_AND_HOPS, &Fixture::RIGHT.to_string()]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 6]).unwrap();
    let mut frame = [0; 2048];
    loop {
        let len = (&ear).read(&mut frame).unwrap();
        // The segment with the octets is behind Ethernet's header, which is 14 long.
        if frame[..len].ends_with(b"octets") {
            assert_eq!((frame[15] & !3, frame[22]), (0xb8, 7));
            break;
        }
    }
}
