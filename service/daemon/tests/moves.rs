//! A TCP connection of a service goes on at the worker that the policy gives it.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::steered::{Bench, ECHO, STACK, config};
use socket2::{Domain, Socket, Type};
use weever_daemon::config::Share;
use weever_testbed::{Fixture, require_net_admin};

/// Of the high-priority client.
const GOLD: u16 = 4000;

const POLICY: &str = "
objective = \"balance\"

[[class]]
name = \"gold\"
match = \"tcp src port 4000\"
queues = { exclusive = 1 }
";

fn connect(bench: &Bench) -> TcpStream {
    let stream = bench.net.right.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Fixture::RIGHT, GOLD)).into()).unwrap();
        let to = SocketAddr::from((STACK, ECHO)).into();
        socket.connect_timeout(&to, Duration::from_secs(20)).unwrap();
        TcpStream::from(socket)
    });
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends so many segments, a few at a time, and reads them back.
fn exchange(stream: &mut TcpStream, segments: u32) {
    for first in (0..segments).step_by(4) {
        let sent: Vec<u8> = (first..first + 4).flat_map(u32::to_be_bytes).collect();
        sent.chunks(4).for_each(|segment| stream.write_all(segment).unwrap());
        let mut heard = [0; 16];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard[..], sent, "octets come back in their order");
    }
}

/// Packets that the workers have dropped.
fn dropped(bench: &Bench) -> u64 {
    bench.settled().queues.iter().map(|queue| queue.dropped).sum()
}

/// The segments that a worker has handed to the owner of their connection.
fn handed_over(bench: &Bench) -> u64 {
    let counters = bench.stack.counters();
    let endpoint = counters.nodes.iter().find(|node| node.name == "RxL4TCPEndpoint").unwrap();
    endpoint.spawned.iter().filter(|c| c.name == "to the owner").map(|c| c.packets).sum()
}

#[test]
fn a_connection_moves_with_its_filter_and_nothing_is_lost() {
    require_net_admin!();
    let mut config = config(POLICY, None, Share::None);
    config.services.tcp_echo = Some(ECHO);
    let bench = Bench::start(config);
    let mut stream = connect(&bench);
    exchange(&mut stream, 4);
    let lost = dropped(&bench);
    let name = format!("tcp {}:{GOLD} -> {STACK}:{ECHO}", Fixture::RIGHT);
    let end = Instant::now() + Duration::from_secs(60);
    let gold = loop {
        exchange(&mut stream, 40);
        let flows = bench.flows().flows;
        if let Some(flow) = flows.iter().find(|flow| flow.name == name && !flow.filters.is_empty())
        {
            break flow.queues[0];
        }
        assert!(Instant::now() < end, "{flows:?}");
    };
    assert_eq!(gold, 1, "new connections arrive at worker 0");
    exchange(&mut stream, 4);
    // Had the connection not moved with its filter, a hundred or so would have followed it.
    assert!(handed_over(&bench) < 60, "{} segments were handed over", handed_over(&bench));
    let before = (bench.settled().queues[1].received, handed_over(&bench));
    exchange(&mut stream, 400);
    let after = (bench.settled().queues[1].received, handed_over(&bench));
    assert!(after.0 - before.0 >= 400, "its segments arrive at worker 1: {before:?} {after:?}");
    assert_eq!(after.1, before.1, "worker 1 has its state");
    assert_eq!(dropped(&bench), lost, "none was lost");
    drop(stream);
    assert_eq!(bench.stack.stop().failure, None);
}
