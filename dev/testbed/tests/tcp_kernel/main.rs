//! weever's TCP and the kernel's, over a TAP in a namespace of its own: both roles, all sizes, all orders
//! of closing, the kernel's congestion controls, and a thousand connections. Each octet is compared.

mod expert;
mod host;
mod stream;

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;

use expert::Capture;
use host::{Host, KERNEL, OURS, Outcome, PORT, Plan};
use stream::{End, Job, Stream, octet};
use weever_tcp::TcpConfig;
use weever_tcp::congestion::Algorithm;
use weever_testbed::require_net_admin;

const PATIENCE: Duration = Duration::from_secs(60);

fn config(job: &Job) -> TcpConfig {
    let capacity = Stream::capacity(job);
    TcpConfig {
        receive_capacity: capacity,
        max_receive_capacity: capacity,
        super_segment: 60_000,
        time_wait: 1_000_000,
        ..TcpConfig::default()
    }
}

/// Our end does nothing but `job`: for connections that are accepted, or that are asked for.
fn start(job: &Job) -> Host {
    start_with(job, None)
}

fn start_with(job: &Job, capture: Option<Capture>) -> Host {
    Host::start(Plan { config: config(job), accepts: Some(job.clone()), lose: 0, capture })
}

fn both_ways(size: u64, end: End) -> Job {
    Job { send: size, expect: size, end }
}

/// The kernel's end: sends `send` octets and reads to the end, at the same time. How many came.
fn kernel(mut socket: TcpStream, send: u64) -> u64 {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut writer = socket.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let mut at = 0;
        while at < send {
            let end = send.min(at + (64 << 10));
            let octets: Vec<u8> = (at..end).map(octet).collect();
            writer.write_all(&octets).unwrap();
            at = end;
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut buffer = vec![0; 256 << 10];
    let mut read = 0u64;
    loop {
        let got = socket.read(&mut buffer).expect("the connection ends in order");
        for (at, one) in (read..).zip(&buffer[..got]) {
            assert!(*one == octet(at), "octet {at} differs from weever's");
        }
        read += got as u64;
        if got == 0 {
            break;
        }
    }
    writing.join().unwrap();
    read
}

fn all_well(outcome: &Outcome, count: usize, size: u64) {
    assert_eq!((outcome.streams.len(), outcome.left, outcome.bad_checksums), (count, 0, 0));
    for stream in &outcome.streams {
        assert_eq!((stream.read, stream.written, stream.failure), (size, size, None));
    }
}

/// Sizes to move both ways at once; `WEEVER_TCP_OCTETS` adds a larger one.
fn sizes() -> Vec<u64> {
    let more = std::env::var("WEEVER_TCP_OCTETS").ok().and_then(|text| text.parse().ok());
    [1, 1447, 1448, 1449, 100_000, 5_000_000].into_iter().chain(more).collect()
}

fn kernel_connects(host: &Host) -> TcpStream {
    host.namespace.run(|| TcpStream::connect((OURS, PORT))).unwrap()
}

fn weever_connects(host: &Host, job: &Job) -> TcpStream {
    let listener = host.namespace.run(|| TcpListener::bind((KERNEL, 0))).unwrap();
    host.connect(listener.local_addr().unwrap().port(), job.clone());
    listener.accept().unwrap().0
}

#[test]
fn all_octets_arrive_both_ways_whoever_connects() {
    require_net_admin!();
    for size in sizes() {
        let job = both_ways(size, End::Shut);
        let host = start(&job);
        assert_eq!(kernel(kernel_connects(&host), size), size);
        assert_eq!(kernel(weever_connects(&host, &job), size), size);
        all_well(&host.finish(), 2, size);
    }
}

#[test]
fn lost_packets_are_sent_again_under_any_congestion_control() {
    require_net_admin!();
    move_with_losses(3_000_000);
}

/// So many octets both ways, with one packet in 97 lost, under each of the kernel's congestion controls.
fn move_with_losses(size: u64) {
    let ours = [Algorithm::Cubic, Algorithm::Reno, Algorithm::Cubic];
    for (theirs, algorithm) in ["reno", "cubic", "bbr"].into_iter().zip(ours) {
        let job = both_ways(size, End::Shut);
        let config = TcpConfig { congestion: algorithm, ..config(&job) };
        let plan = Plan { config, accepts: Some(job), lose: 97, capture: None };
        let host = Host::start(plan);
        let socket = kernel_connects(&host);
        setsockopt(&socket, TcpCongestion, &OsString::from(theirs)).unwrap();
        assert_eq!(kernel(socket, size), size, "{theirs}");
        all_well(&host.finish(), 1, size);
    }
}

#[test]
fn connections_end_in_any_order() {
    require_net_admin!();
    let size = 10_000;
    for end in [End::Shut, End::Follow] {
        let job = both_ways(size, end);
        let host = start(&job);
        for socket in [kernel_connects(&host), weever_connects(&host, &job)] {
            assert_eq!(kernel(socket, size), size);
        }
        all_well(&host.finish(), 2, size);
    }
    // Our end aborts: the kernel reads the data sent before, then ECONNRESET.
    let job = both_ways(size, End::Abort);
    let host = start(&job);
    let mut socket = kernel_connects(&host);
    let octets: Vec<u8> = (0..size).map(octet).collect();
    socket.write_all(&octets).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut all = Vec::new();
    let error = socket.read_to_end(&mut all).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    host.finish();
    // The kernel aborts: it closes with unread data.
    let job = Job { send: size, expect: 0, end: End::Follow };
    let host = start(&job);
    let socket = kernel_connects(&host);
    socket.peek(&mut [0]).unwrap();
    drop(socket);
    let outcome = host.finish();
    assert_eq!(outcome.streams[0].failure, Some(weever_tcp::Failure::Reset));
}

#[test]
fn a_port_that_nobody_listens_on_refuses_both_ends() {
    require_net_admin!();
    let job = both_ways(10, End::Shut);
    let host = start(&job);
    let error = host.namespace.run(|| TcpStream::connect((OURS, PORT + 1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    host.connect(9, job);
    let outcome = host.finish();
    assert_eq!(outcome.streams[0].failure, Some(weever_tcp::Failure::Refused));
}

#[test]
fn a_thousand_connections_at_once() {
    require_net_admin!();
    connect_at_once(1000);
}

/// So many connections, of which each carries a message both ways before any is closed.
fn connect_at_once(count: usize) {
    let size = 64;
    let job = both_ways(size, End::Follow);
    let host = start(&job);
    let mut sockets: Vec<_> = (0..count).map(|_| kernel_connects(&host)).collect();
    let octets: Vec<u8> = (0..size).map(octet).collect();
    for socket in &mut sockets {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&octets).unwrap();
    }
    for mut socket in sockets {
        let mut got = vec![0; octets.len()];
        socket.read_exact(&mut got).unwrap();
        assert_eq!(got, octets);
        socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(socket.read(&mut got).unwrap(), 0, "our FIN follows");
    }
    all_well(&host.finish(), count, size);
}

/// Sequence numbers, acknowledgements, options and sums as an independent program reads them. Packets that a busy
/// machine had us send again are only notes there; warnings are octets acknowledged that never were there,
/// gaps, resets, windows that are exceeded.
#[test]
fn tshark_finds_nothing_wrong_with_what_we_send() {
    require_net_admin!();
    if !expert::is_there() {
        return;
    }
    for (name, end) in [("shut", End::Shut), ("follow", End::Follow)] {
        let (size, job) = (300_000, both_ways(300_000, end));
        let host = start_with(&job, Some(Capture::new(name)));
        assert_eq!(kernel(kernel_connects(&host), size), size);
        assert_eq!(kernel(weever_connects(&host, &job), size), size);
        let mut outcome = host.finish();
        all_well(&outcome, 2, size);
        let found = outcome.capture.take().unwrap().findings(&[
            // Of warnings (0x600000) and errors; a full window is one, and in order. So is a D-SACK: a kernel that gets no
            // core in time sends again what has arrived.
            "ip.src == 10.80.0.2 && _ws.expert.severity >= 0x600000 && !tcp.analysis.window_full \
             && !tcp.analysis.zero_window && !tcp.options.sack.dsack",
            "ip.src == 10.80.0.2 && (tcp.checksum.status == 0 || ip.checksum.status == 0)",
        ]);
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

#[test]
#[ignore = "takes minutes: cargo test --release -p weever-testbed --test tcp_kernel -- --ignored"]
fn a_gigabyte_ten_thousand_connections_and_long_losses() {
    require_net_admin!();
    connect_at_once(10_000);
    println!("10,000 connections were served at once");
    move_with_losses(30_000_000);
    println!("30 MB both ways under each congestion control");
    let size = 1_000_000_000;
    let job = both_ways(size, End::Shut);
    let host = start(&job);
    assert_eq!(kernel(kernel_connects(&host), size), size);
    assert_eq!(kernel(weever_connects(&host, &job), size), size);
    all_well(&host.finish(), 2, size);
    println!("1 GB both ways on either end's connection");
}
