//! A program's sockets where a policy keeps flows apart.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use weever_testbed::{Fixture, require_net_admin};

use super::lab::{Lab, PATIENCE, has};
use crate::stack::STACK;

/// A datagram socket that waits for a connection before it reads, reports the first datagrams that it has read, and
/// echoes from then on.
const LATE: &str = "
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(('', 4711))
start = socket.create_server(('', 4712)).accept()[0]
order = []
for _ in range(200):
    data, peer = sock.recvfrom(100)
    order.append(data.decode())
start.sendall(' '.join(order).encode())
start.close()
while True:
    sock.sendto(*sock.recvfrom(100))
";

/// The high-priority class is known by its port.
const POLICY: &str = "objective = \"balance\"
[[class]]
name = \"high\"
match = \"udp src port 4000\"
queues = { exclusive = 1 }
priority = 1
";

#[test]
fn a_class_with_a_worker_of_its_own_does_not_wait_behind_others_in_a_socket() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    if weever_testbed::allowed_cores().unwrap().len() < 2 {
        return println!("skipped: needs two cores");
    }
    let policy = crate::stack::temporary("toml");
    std::fs::write(&policy, POLICY).unwrap();
    let flows = crate::stack::temporary("flows");
    let flow = format!("udp and src port 4000 and dst port 4711 and dst host {STACK}\n");
    std::fs::write(&flows, flow).unwrap();
    let (policy, flows) = (policy.to_str().unwrap(), flows.to_str().unwrap());
    let lab = Lab::with(&["--cores", "0-1", "--policy", policy, "--flows", flows]);
    let mut server = lab.start(&["python3", "-c", LATE]);
    let from = |port| {
        let bound = lab.net.right.run(|| UdpSocket::bind((Fixture::RIGHT, port)).unwrap());
        bound.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        bound.connect((STACK, 4711)).unwrap();
        bound
    };
    lab.await_listed(" *:4711 ", 1);
    let (high, best_effort) = (from(4000), from(5000));
    for sent in 1..200 {
        best_effort.send(b"be").unwrap();
        // No more at once than any ring has room for.
        if sent % 20 == 0 {
            lab.await_received(sent);
        }
    }
    high.send(b"hp").unwrap();
    lab.await_received(200);
    let mut start = lab.connect(&mut server, STACK.into(), 4712);
    let mut order = String::new();
    std::io::Read::read_to_string(&mut start, &mut order).unwrap();
    let at = order.split(' ').position(|datagram| datagram == "hp");
    assert!(at.is_some_and(|at| at < 2), "{at:?} in {order}");
    for client in [&high, &best_effort] {
        let since = Instant::now();
        while client.recv(&mut [0; 10]).is_err() {
            assert!(since.elapsed() < PATIENCE, "no answer; {}", server.told());
            client.send(b"again").unwrap();
        }
    }
    for file in [policy, flows] {
        drop(std::fs::remove_file(file));
    }
}
