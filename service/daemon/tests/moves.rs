//! A TCP connection of a service goes on at the worker that the policy gives it.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::steered::{Bench, ECHO, STACK, config};
use socket2::{Domain, Socket, Type};
use weever_app_sockets::{AppQueue, Event, QueueConfig, StreamOption};
use weever_daemon::config::Share;
use weever_service_api::{Flows, SetRequest};
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

fn connect_from(bench: &Bench, port: u16) -> TcpStream {
    let stream = bench.net.right.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Fixture::RIGHT, port)).into()).unwrap();
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

/// Packets that worker 1 has received from the device.
fn received(bench: &Bench) -> u64 {
    let queues = bench.settled().queues;
    let of_device = queues.iter().filter(|queue| queue.link != "applications" && queue.queue == 1);
    of_device.map(|queue| queue.received).sum()
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

/// A filter of a port: it names no connection.
const PORT_POLICY: &str = "
objective = \"balance\"

[[class]]
name = \"echoed\"
match = \"tcp dst port 7\"
queues = { exclusive = 1 }
";

/// Waits until the policy knows of so many flows, all of them services', with so many filters, and more plans than
/// `plans` have been carried out; how many have.
fn await_flows(bench: &Bench, services: usize, plans: u64) -> u64 {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let Flows { flows, searches, .. } = bench.flows();
        let filters = flows.iter().flat_map(|flow| &flow.filters).count();
        if flows.len() == services && (filters > 0) == (services > 0) && searches > plans {
            return searches;
        }
        assert!(Instant::now() < end, "{services} services: {flows:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Changes in a row with which the state of all connections has to go. Behind one with which it did not, the next
/// may bring segments to where the state still is; so they are one more than there are directions.
const IN_A_ROW: usize = 3;

/// Connections that are silent for a while have no filters of their own: those of their port move them. A worker that
/// gets no core in time is late with the list of its connections, which then follow their segments later, as they
/// should; so changes are made until none is late.
#[test]
fn connections_move_with_a_filter_of_their_port() {
    require_net_admin!();
    let mut config = config(PORT_POLICY, None, Share::None);
    (config.services.echo, config.services.tcp_echo) = (None, Some(ECHO));
    let bench = Bench::start(config);
    let mut streams: Vec<TcpStream> = (0..8).map(|nth| connect_from(&bench, GOLD + nth)).collect();
    streams.iter_mut().for_each(|stream| exchange(stream, 4));
    let (lost, mut arrived) = (dropped(&bench), received(&bench));
    assert!(arrived > 32, "all arrive at worker 1: {arrived}");
    let (mut in_a_row, end) = (0, Instant::now() + Duration::from_secs(120));
    for (port, services) in [(None, 0), (Some(ECHO), 1)].into_iter().cycle() {
        let plans = await_flows(&bench, 1 - services, 0);
        let setting =
            format!("services.tcp-echo={}", port.map_or("none".into(), |p| p.to_string()));
        bench.ask(|client| client.call(&setting.parse::<SetRequest>().unwrap()).unwrap());
        await_flows(&bench, services, plans);
        let before = handed_over(&bench);
        streams.iter_mut().for_each(|stream| exchange(stream, 4));
        // The device's filters follow the plan, perhaps only behind the first segments.
        let now = received(&bench);
        let as_planned = (now > arrived) == (services == 1) && handed_over(&bench) == before;
        in_a_row = if as_planned { in_a_row + 1 } else { 0 };
        arrived = now;
        if in_a_row == IN_A_ROW {
            break;
        }
        assert!(Instant::now() < end, "their state does not go with the filter");
    }
    assert_eq!(dropped(&bench), lost, "none was lost");
    drop(streams);
    assert_eq!(bench.stack.stop().failure, None);
}

/// An application that sends back what its streams bring, until it is told to stop.
fn application(path: PathBuf, listens: Sender<()>, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let queue = AppQueue::connect(&QueueConfig { path, ..QueueConfig::default() }).unwrap();
        queue.listen_tcp(SocketAddr::from(([0, 0, 0, 0], ECHO)), 16, false).unwrap();
        listens.send(()).unwrap();
        while !stop.load(Ordering::Relaxed) {
            while let Ok(Some(event)) = queue.next() {
                match event {
                    Event::Octets(octets) => {
                        let (stream, octets) = (octets.stream(), octets.octets().to_vec());
                        assert_eq!(queue.write(stream, &octets).unwrap(), octets.len());
                    }
                    Event::Finished(stream) => queue.close_stream(stream).unwrap(),
                    Event::Accepted(_, stream) => {
                        queue.set_option(stream, StreamOption::NoDelay(true)).unwrap();
                    }
                    Event::Writable(_) | Event::StreamClosed(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            // The stack ends before the test does.
            let _disconnected = queue.wait(Some(Duration::from_millis(20)));
        }
    })
}

#[test]
fn a_connection_moves_with_its_filter_and_nothing_is_lost() {
    require_net_admin!();
    let mut config = config(POLICY, None, Share::None);
    config.services.tcp_echo = Some(ECHO);
    let bench = Bench::start(config);
    moves(bench);
}

#[test]
fn a_stream_of_an_application_moves_too() {
    require_net_admin!();
    let mut config = config(POLICY, None, Share::None);
    let path = std::env::temp_dir().join(format!("weever-moves-{}.sock", std::process::id()));
    config.apps = Some(path.clone());
    let bench = Bench::start(config);
    let stop = Arc::new(AtomicBool::new(false));
    let (listens, heard) = std::sync::mpsc::channel();
    let application = application(path, listens, Arc::clone(&stop));
    heard.recv_timeout(Duration::from_secs(10)).expect("it listens");
    moves(bench);
    stop.store(true, Ordering::Relaxed);
    application.join().unwrap();
}

/// Exchanges octets with the echo service before, while and after its connection moves.
fn moves(bench: Bench) {
    let mut stream = connect_from(&bench, GOLD);
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
    let before = (received(&bench), handed_over(&bench));
    exchange(&mut stream, 400);
    let after = (received(&bench), handed_over(&bench));
    assert!(after.0 - before.0 >= 400, "its segments arrive at worker 1: {before:?} {after:?}");
    assert_eq!(after.1, before.1, "worker 1 has its state");
    assert_eq!(dropped(&bench), lost, "none was lost");
    drop(stream);
    assert_eq!(bench.stack.stop().failure, None);
}
