//! A thousand applications that come, ask an echo server and go, by fours, in whatever state they are: every frame
//! is accounted for, of those that they have by themselves and of those that the stack has lent them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use weever_app_server::{Access, AppListener, Trusted};
use weever_app_sockets::{AppQueue, Event, Geometry, QueueConfig, SendOptions};
use weever_blocks_std::testing::frames::{PEER, PEER_MAC};
use weever_host::{HostBuilder, InterfaceConfig};
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{HugePages, Pool, PoolConfig};

const PATIENCE: Duration = Duration::from_secs(120);
const APPLICATIONS: usize = 1000;
const OURS: [u8; 4] = [10, 0, 0, 1];
const ECHO: u16 = 7;
/// Frames that each worker lends: enough for the server and two others.
const LENT: usize = 3 * 128;

fn config(path: &Path) -> QueueConfig {
    let geometry = Geometry { ring_len: 128, frames: 128, frame_size: 2048 };
    QueueConfig { path: path.to_owned(), geometry, ..QueueConfig::default() }
}

/// Answers until it is told to stop.
fn serve(path: &Path, ready: &AtomicBool, stop: &AtomicBool) {
    let queue = AppQueue::connect(&config(path)).unwrap();
    queue.bind_udp(([0; 4], ECHO).into()).unwrap();
    ready.store(true, Relaxed);
    while !stop.load(Relaxed) {
        queue.wait(Some(Duration::from_millis(5))).unwrap();
        while let Some(event) = queue.next().unwrap() {
            if let Event::Datagram(datagram) = event {
                // An asker who does not read has its answer dropped.
                let _ = datagram.reply();
            }
        }
    }
}

/// Asks, and goes: with answers in its hands, on their way, or both. Returns whether it worked in packets' frames.
fn ask(path: &Path, number: usize) -> bool {
    let queue = AppQueue::connect(&config(path)).unwrap();
    let socket = queue.bind_udp(([0; 4], 0).into()).unwrap();
    let server = SocketAddr::from((OURS, ECHO));
    for round in 0..number % 7 {
        for _ in 0..number % 40 {
            let _full = queue.send_to(socket, &[round as u8; 300], server, SendOptions::default());
        }
        queue.commit().unwrap();
    }
    let mut held = Vec::new();
    if number % 7 > 1 && !number.is_multiple_of(40) {
        let since = Instant::now();
        while held.len() <= number % 3 {
            assert!(since.elapsed() < PATIENCE, "{number}: no answer");
            if !queue.wait(Some(Duration::from_millis(20))).unwrap() {
                // Some were dropped at the server, or there were fewer.
                let _full = queue.send_to(socket, &[9; 300], server, SendOptions::default());
            }
            if let Some(Event::Datagram(datagram)) = queue.next().unwrap() {
                assert_eq!(datagram.len(), 300);
                held.push(datagram);
            }
        }
    }
    let _full = queue.send_to(socket, &[8; 300], server, SendOptions::default());
    let trusted = queue.is_zero_copy();
    drop(held);
    trusted
}

#[test]
fn a_thousand_applications_under_traffic_leave_every_frame_behind() {
    let path = std::env::temp_dir().join(format!("weever-thousand-{}.sock", std::process::id()));
    let huge_pages = HugePages::Never;
    let pool = Pool::shareable(PoolConfig { frames: 4096, huge_pages, ..PoolConfig::default() });
    let pool = pool.unwrap();
    let (ours, theirs) = pair(&MemoryConfig { waitable: true, ..Default::default() }).unwrap();
    let mut builder = HostBuilder::new(pool.clone());
    builder.workers(2);
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap());
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let large = Pool::new(PoolConfig::large(64)).unwrap();
    let mut server = builder.applications(Some(large.clone()), 1000).unwrap();
    let me = rustix::process::getuid().as_raw();
    assert!(builder.lend_frames(&mut server, 0..2, LENT, &Trusted::Users(vec![me])));
    let host = builder.start().unwrap();
    let listener = AppListener::start(&path, &Access::default(), server).unwrap();

    let (ready, stop, next) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    let (trusted, untrusted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&path, &ready, &stop));
        while !ready.load(Relaxed) {
            assert!(!serving.is_finished(), "the server has failed");
            thread::yield_now();
        }
        let asker = || {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= APPLICATIONS {
                    break;
                }
                let which = if ask(&path, number) { &trusted } else { &untrusted };
                which.fetch_add(1, Relaxed);
            }
        };
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(asker)).collect();
        let results: Vec<_> = askers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert_eq!(trusted.load(Relaxed) + untrusted.load(Relaxed), APPLICATIONS);
    assert!(trusted.load(Relaxed) > 0 && untrusted.load(Relaxed) > 0);
    drop(listener);
    drop(host);
    // With what the host has announced on it.
    drop(theirs);
    assert!(pool.census().is_complete(), "{}", pool.census());
    assert!(large.census().is_complete(), "{}", large.census());
}
