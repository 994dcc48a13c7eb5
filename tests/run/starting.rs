//! Connections that come while a program with its stack inside starts, or starts again: silence or service, and never an
//! answer of the kernel's, which has the same addresses.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::require_net_admin;

use super::lab::{KERNELS, Lab, PATIENCE, Program, has};

/// How long an attempt to connect waits: shorter than the time after which the kernel sends its SYN again.
const ATTEMPT: Duration = Duration::from_millis(300);

/// Listens, and uses its sockets only when a file is there.
const LATE: &str = "
import os, select, socket, time
six = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
six.bind(('::', 8000))
six.listen(20)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9000))
open('listens', 'w').close()
while not os.path.exists('begin'):
    time.sleep(0.01)
while True:
    for ready in select.select([six, udp], [], [])[0]:
        if ready is udp:
            data, peer = udp.recvfrom(1000)
            udp.sendto(data[::-1], peer)
        else:
            stream, peer = six.accept()
            stream.sendall(repr(peer[0]).encode())
            stream.close()
";

fn all(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_kernel_does_not_answer_for_a_stack_that_is_to_come() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::inside_at_the_kernels();
    let mut server = lab.start(&["/usr/bin/python3", "-c", LATE]);
    lab.await_file("listens", &mut server);
    for to in KERNELS {
        let early = lab.net.right.run(|| TcpStream::connect_timeout(&(to, 8000).into(), ATTEMPT));
        assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut, "{to}");
    }
    // The kernel's own interfaces are served by it, later.
    let local = lab.net.left.run(|| TcpStream::connect(("127.0.0.1", 8000)).unwrap());
    let own = lab.net.left.run(|| TcpStream::connect((KERNELS[0], 8000)).unwrap());
    // The kernel sends these SYNs again, until there is a stack.
    let patient = KERNELS.map(|to| {
        let connect = move || TcpStream::connect_timeout(&(to, 8000).into(), PATIENCE);
        lab.net.right.spawn("patient", connect).unwrap()
    });
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(lab.folder.join("begin"), "").unwrap();
    for patient in patient {
        let stream = patient.join().unwrap().unwrap_or_else(|e| panic!("{e}; {}", server.told()));
        let from = all(stream);
        assert!(from.contains("10.77.0.2") || from.contains("fd77::2"), "{from}");
    }
    assert!(all(local).contains("127.0.0.1"), "{}", server.told());
    assert!(all(own).contains("10.77.0.1"), "{}", server.told());
    assert_eq!(lab.ask(&mut server, (KERNELS[0], 9000), b"abc"), b"cba");
}

#[test]
fn a_stack_that_does_not_start_leaves_its_addresses_to_the_kernel() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::inside_at_the_kernels();
    // More than AF_XDP has room for in a frame.
    for end in [&lab.net.veth.left, &lab.net.veth.right] {
        end.set_mtu(9000).unwrap();
    }
    let mut server = lab.start(&["/usr/bin/python3", "-c", LATE]);
    lab.await_file("listens", &mut server);
    std::fs::write(lab.folder.join("begin"), "").unwrap();
    for to in KERNELS {
        let stream = lab.net.right.run(|| TcpStream::connect_timeout(&(to, 8000).into(), PATIENCE));
        all(stream.unwrap_or_else(|error| panic!("{to}: {error}; {}", server.told())));
    }
    let told = server.told();
    assert!(told.contains("no stack inside") && told.contains("MTU"), "{told}");
}

/// What became of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Service,
    Silence,
    Refused,
}

/// Asks for a page; a reset, or an end without an answer, fails the test.
fn ask(lab: &Lab, to: IpAddr, server: &mut Program) -> Outcome {
    match lab.net.right.run(|| TcpStream::connect_timeout(&(to, 80).into(), ATTEMPT)) {
        Ok(mut stream) => {
            write!(stream, "GET / HTTP/1.0\r\n\r\n").unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut page = String::new();
            let read = stream.read_to_string(&mut page);
            read.unwrap_or_else(|error| panic!("{to}: {error}; {}", server.told()));
            assert!(page.ends_with("a page"), "{to}: {page:?}; {}", server.told());
            Outcome::Service
        }
        Err(error) => match error.kind() {
            ErrorKind::TimedOut => Outcome::Silence,
            ErrorKind::ConnectionRefused => Outcome::Refused,
            _ => panic!("{to}: {error}; {}", server.told()),
        },
    }
}

/// Asks until so many in a row were served; `refused` says whether the program may still be about to listen.
fn until_served(lab: &Lab, to: IpAddr, server: &mut Program, mut refused: bool) {
    let (since, mut served) = (Instant::now(), 0);
    while served < 20 {
        assert!(since.elapsed() < PATIENCE, "{to}: no service; {}", server.told());
        match ask(lab, to, server) {
            Outcome::Refused => assert!(refused, "{to}: refused; {}", server.told()),
            outcome => {
                refused = false;
                served = if outcome == Outcome::Service { served + 1 } else { 0 };
            }
        }
    }
}

/// The processes that a program has made, by the threads' lists of the kernel's.
fn children(program: &Program) -> Vec<i32> {
    let pid = program.child.id();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

fn nginx(workers: u32) {
    let lab = Lab::inside_at_the_kernels();
    let folder = lab.folder.display();
    std::fs::write(
        lab.folder.join("nginx.conf"),
        format!(
            "worker_processes {workers}; daemon off; user root; pid {folder}/pid;
             error_log {folder}/errors info; events {{ worker_connections 64; }}
             http {{ access_log off; server {{ listen 80; listen [::]:80; return 200 'a page'; }} }}"
        ),
    )
    .unwrap();
    let config = lab.folder.join("nginx.conf");
    let mut server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    until_served(&lab, KERNELS[0], &mut server, true);
    // The stack makes sure first that the IPv6 address is nobody else's: silence.
    until_served(&lab, KERNELS[1], &mut server, false);
    for _ in 0..3 {
        for worker in children(&server) {
            // Its master makes another one, which starts a stack.
            kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
        }
        until_served(&lab, KERNELS[0], &mut server, false);
    }
}

#[test]
fn clients_of_an_nginx_that_starts_are_served_or_wait() {
    require_net_admin!();
    if has("nginx") {
        nginx(1);
    }
}

#[test]
fn clients_of_an_nginx_of_several_workers_are_served_by_the_one_with_the_stack() {
    require_net_admin!();
    if has("nginx") {
        nginx(3);
    }
}
