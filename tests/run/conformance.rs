//! The same calls on the kernel's stack and on weever's: results, error numbers and order are to be equal.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;

use weever_testbed::{Fixture, require_net_admin};

use super::lab::{LEFT6, Lab, PATIENCE, RIGHT6, has};

/// Programs that print a line for each case. Their peer echoes datagrams and connections, both at port 9100.
const CALLS: &str = concat!(include_str!("common.py"), include_str!("cases.py"));
const RARE: &str = concat!(include_str!("common.py"), include_str!("rare.py"));
const SOCKETS: &str = concat!(include_str!("common.py"), include_str!("sockets.py"));
const URGENT: &str = concat!(include_str!("common.py"), include_str!("urgent.py"));
const ERRORS: &str = concat!(include_str!("common.py"), include_str!("errors.py"));
const SIGNALS: &str = concat!(include_str!("common.py"), include_str!("signals.py"));

/// The peer of the cases, of the kernel's: echoes until its thread's sockets are gone with the process.
fn serve(net: &Fixture) {
    let at: SocketAddr = (Fixture::RIGHT, 9100).into();
    let (udp, tcp) =
        net.right.run(|| (UdpSocket::bind(at).unwrap(), TcpListener::bind(at).unwrap()));
    let six = net.right.run(|| UdpSocket::bind((RIGHT6, 9100)).unwrap());
    for udp in [udp, six] {
        std::thread::spawn(move || {
            let mut datagram = [0; 65_536];
            while let Ok((len, from)) = udp.recv_from(&mut datagram) {
                let _gone = udp.send_to(&datagram[..len], from);
            }
        });
    }
    // On the other host, since it makes connections of its own.
    let accept = move || {
        // The address comes with the connection, which may be reset before anybody asks.
        while let Ok((stream, peer)) = tcp.accept() {
            std::thread::spawn(move || echo(stream, peer));
        }
    };
    drop(net.right.spawn("echo", accept).unwrap());
}

/// Echoes until the end. `urgent WORDS` sends [these](send_urgent). A line `reset` resets the connection; after `quiet` the peer reads no more; `call PORT` makes
/// another connection, to that port of the same peer, which echoes in the same manner; behind the port may be words that it
/// sends first, as `urgent` does.
fn echo(mut stream: TcpStream, peer: SocketAddr) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut octets = [0; 65_536];
    while let Ok(len) = stream.read(&mut octets) {
        if len == 0 {
            let _gone = stream.shutdown(Shutdown::Write);
            return;
        }
        if let Some(parts) = octets[..len].strip_prefix(b"urgent ") {
            send_urgent(&stream, parts.trim_ascii());
            continue;
        }
        if octets[..len] == *b"quiet\n" {
            std::thread::sleep(PATIENCE);
            return;
        }
        if octets[..len] == *b"reset\n" {
            socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            return;
        }
        if let Some(port) = octets[..len].strip_prefix(b"call ") {
            let call = port.trim_ascii();
            let end = call.iter().position(|octet| *octet == b' ').unwrap_or(call.len());
            let port: u16 = String::from_utf8_lossy(&call[..end]).parse().unwrap();
            let words = call[end..].trim_ascii().to_vec();
            let peer = SocketAddr::new(peer.ip(), port);
            let called = TcpStream::connect_timeout(&peer, PATIENCE);
            std::thread::spawn(move || {
                let Ok(called) = called else { return };
                if !words.is_empty() {
                    send_urgent(&called, &words);
                }
                echo(called, peer);
            });
            continue;
        }
        if stream.write_all(&octets[..len]).is_err() {
            return;
        }
    }
}

/// Sends words, each in segments of its own: the last octet of one behind a `!` is urgent. A last word `.` ends the
/// stream, so that the program knows when everything is there.
fn send_urgent(stream: &TcpStream, words: &[u8]) {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_nodelay(true).unwrap();
    for word in words.split(|octet| *octet == b' ') {
        // The program may have gone.
        let _sent = match word {
            b"." => stream.shutdown(Shutdown::Write).map(|()| 0),
            [b'!', urgent @ ..] => socket.send_out_of_band(urgent),
            _ => socket.send(word),
        };
    }
}

/// Runs a program of cases on both stacks.
fn compare(cases: &str, least: usize) {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    // The peer takes octets in SYNs, without being asked to by an option.
    lab.net.right.sysctl("net/ipv4/tcp_fastopen", "1027").unwrap();
    for limit in ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"] {
        lab.net.right.sysctl(limit, "0").unwrap();
    }
    serve(&lab.net);
    // The kernel's stack of this host speaks IPv6, too.
    lab.net.veth.left.speak_ipv6(LEFT6, 64).unwrap();
    let (peer, six) = (Fixture::RIGHT.to_string(), RIGHT6.to_string());
    let run = |mut command: std::process::Command| {
        // A call that never ends is a difference, too.
        command.args(["/usr/bin/timeout", "-s", "KILL", "120"]);
        command.args(["/usr/bin/python3", "-c", cases, &peer, &six]).stdin(Stdio::null());
        let output = lab.net.left.run(|| command.output().unwrap());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{told}{errors}");
        told
    };
    let mut plain = std::process::Command::new("/usr/bin/env");
    plain.current_dir(&lab.folder);
    let kernel = run(plain);
    let weever = run(lab.command(&["--require", "--"]));
    println!("{kernel}");
    assert!(kernel.lines().count() >= least, "{kernel}");
    let both = kernel.lines().zip(weever.lines());
    let differ = both.filter(|(kernel, weever)| kernel != weever);
    let differ: Vec<String> = differ.map(|(k, w)| format!("kernel {k}\nweever {w}")).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(weever.lines().count(), kernel.lines().count());
}

#[test]
fn calls_mean_the_same_on_weever_as_on_the_kernel() {
    compare(CALLS, 60);
}

#[test]
fn sockets_mean_the_same_on_weever_as_on_the_kernel() {
    compare(SOCKETS, 60);
}

#[test]
fn urgent_octets_mean_the_same_on_weever_as_on_the_kernel() {
    compare(URGENT, 30);
}

#[test]
fn queues_of_errors_mean_the_same_on_weever_as_on_the_kernel() {
    compare(ERRORS, 10);
}

#[test]
fn signals_end_calls_on_weever_as_on_the_kernel() {
    compare(SIGNALS, 15);
}

#[test]
fn rare_calls_and_misuse_mean_the_same_on_weever_as_on_the_kernel() {
    compare(RARE, 30);
}
