//! Clients on the stack, with servers of the kernel's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};

use weever_testbed::{Fixture, require_net_admin};

use super::lab::{Lab, PATIENCE, RIGHT6, has};

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
