//! A stack inside this process, on a link in memory whose far end is played by the test.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weever_app_library::Library;
use weever_app_sockets::{
    AppQueue, AsyncQueue, AsyncTcp, Bind, Error, Event, Geometry, QueueConfig, Share,
};
use weever_blocks_std::testing::frames::{HOST_MAC, PEER, PEER_MAC, arp, udp};
use weever_host::{HostBuilder, InterfaceConfig};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any test: the threads that use the queues do all the work.
const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(1);
/// ARP's number for a request.
const REQUEST: u16 = 1;

fn pool() -> Pool {
    let config = PoolConfig { frames: 2048, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::shareable(config).unwrap()
}

struct Bench {
    library: Library,
    frames: PoolCache,
    cable: Box<dyn LinkQueue>,
}

fn bench(workers: usize, patience: Duration) -> Bench {
    let config = MemoryConfig { waitable: true, ..MemoryConfig::default() };
    let (ours, mut theirs) = pair(&config).unwrap();
    // The frames of the cable's far end are the host's, as those of a device are.
    let pool = pool();
    let mut builder = HostBuilder::new(pool.clone());
    builder.workers(workers);
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap());
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let library = Library::start(builder, patience).unwrap();
    Bench { library, frames: pool.cache(), cable: theirs.take_queues().remove(0) }
}

impl Bench {
    fn queue(&self) -> AppQueue {
        let geometry = Geometry { ring_len: 256, frames: 256, frame_size: 2048 };
        self.library.queue(&QueueConfig { geometry, ..QueueConfig::default() }).unwrap()
    }

    fn send(&mut self, frame: &[u8]) {
        let mut packet = self.frames.alloc().unwrap();
        assert!(packet.append(frame));
        self.cable.tx(&mut self.frames, &mut [packet].into()).unwrap();
        self.cable.flush(&mut self.frames).unwrap();
    }

    /// A frame that came with this in it, if one has.
    fn came(&mut self, part: &[u8]) -> bool {
        let mut burst = Burst::new();
        let count = self.cable.rx(&mut self.frames, &mut burst, 64).unwrap();
        let frames: Vec<_> = (0..count).filter_map(|slot| burst.take(slot)).collect();
        frames.iter().any(|frame| frame.data().windows(part.len()).any(|window| window == part))
    }

    fn expect(&mut self, part: &[u8]) {
        let since = Instant::now();
        while !self.came(part) {
            assert!(since.elapsed() < PATIENCE, "nothing came with {part:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn port(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}

fn receive(queue: &AppQueue) -> Vec<u8> {
    loop {
        if let Some(Event::Datagram(datagram)) = queue.next().unwrap() {
            return datagram.to_vec();
        }
        assert!(queue.wait(Some(PATIENCE)).unwrap(), "nothing came");
    }
}

#[test]
fn the_thread_that_polls_does_the_work() {
    let mut bench = bench(1, NEVER);
    let queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    for round in 0..20u8 {
        bench.send(&udp(4000, 53, &[b'q', round]));
        // No other thread is woken: this one receives it, and one commit sends the answer.
        assert!(queue.wait(Some(Duration::from_secs(20))).unwrap(), "nothing came");
        let Some(Event::Datagram(datagram)) = queue.next().unwrap() else { panic!("nothing") };
        assert_eq!(datagram.to_vec(), [b'q', round]);
        datagram.reply().unwrap();
        queue.commit().unwrap();
        assert!(bench.came(&[b'q', round]));
    }
    assert!(matches!(queue.bind_udp(port(53)), Err(Error::Refused { .. })), "in use");
}

#[test]
fn a_batch_is_answered_when_nothing_more_is_there_to_receive() {
    let mut bench = bench(1, NEVER);
    let queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    // More than the queue has frames: an answer that waited for the last request would hold one of them.
    for round in 0..1000u16 {
        let number = round.to_be_bytes();
        bench.send(&udp(4000, 53, &number));
        let Some(Event::Datagram(datagram)) = queue.next().unwrap() else { panic!("{round}") };
        datagram.reply().unwrap();
        // The turn that finds nothing takes the answer along: `commit` is not called.
        assert!(queue.next().unwrap().is_none());
        assert!(bench.came(&number), "{round}");
    }
}

#[test]
fn a_packet_is_found_whichever_thread_has_turned_the_worker() {
    let mut bench = bench(1, NEVER);
    let queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let library = bench.library.clone();
        let done = &done;
        scope.spawn(move || {
            let other = library.queue(&QueueConfig::default()).unwrap();
            // Each of these has the only worker turned by this thread.
            while !done.load(Ordering::Relaxed) {
                let socket = other.bind_udp(port(0)).unwrap();
                other.close(socket).unwrap();
            }
        });
        for round in 0..10000u16 {
            bench.send(&udp(4000, 53, &round.to_be_bytes()));
            let found = matches!(queue.next(), Ok(Some(Event::Datagram(_))));
            done.store(!found || round == 9999, Ordering::Relaxed);
            assert!(found, "{round}");
            queue.commit().unwrap();
        }
    });
}

#[test]
fn a_thread_that_sleeps_in_its_queue_is_woken_by_a_packet() {
    let mut bench = bench(1, NEVER);
    let queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    assert!(!queue.wait(Some(Duration::from_millis(5))).unwrap(), "nothing was sent");
    let (told, ask) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let bench = &mut bench;
        scope.spawn(move || {
            ask.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            bench.send(&udp(4000, 53, b"wake up"));
        });
        told.send(()).unwrap();
        assert_eq!(receive(&queue), b"wake up");
    });
}

#[test]
fn neighbours_are_answered_while_the_application_does_something_else() {
    let mut bench = bench(1, SOON);
    let queue = bench.queue();
    let socket = queue.bind_udp(port(53)).unwrap();
    for _ in 0..3 {
        // The application is busy with something else: nobody polls.
        let ours = [10, 0, 0, 1].into();
        bench.send(&arp(REQUEST, (PEER_MAC, PEER), (Default::default(), ours)));
        bench.expect(&HOST_MAC.0);
        bench.send(&udp(4000, 53, b"meanwhile"));
        bench.send(&udp(4000, 54, b"closed"));
        // The keeper delivers, and answers for the port that is closed.
        bench.expect(b"closed");
        // The application is back, and takes its worker from the keeper.
        assert_eq!(receive(&queue), b"meanwhile");
        queue.send_to(socket, b"back", (PEER, 9).into(), Default::default()).unwrap();
        queue.commit().unwrap();
        bench.expect(b"back");
    }
}

#[test]
fn an_event_loop_of_ones_own_is_woken_by_the_descriptor() {
    let mut bench = bench(1, NEVER);
    let queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    for round in 0..3u8 {
        assert!(queue.arm().unwrap(), "nothing is there");
        // The keeper was told to take over; its patience would never end.
        bench.send(&udp(4000, 53, &[round, 1, 2]));
        let mut fds = [PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1);
        queue.acknowledge();
        assert_eq!(receive(&queue), [round, 1, 2]);
    }
}

#[test]
fn threads_have_a_worker_each_and_queues_beyond_share_theirs() {
    let mut bench = bench(2, SOON);
    let first = bench.queue();
    assert_eq!(first.channels(), 2);
    first.bind_udp_shared(port(53), Share::ByFlow).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in [53, 54] {
            let queue = bench.queue();
            let stop = &stop;
            scope.spawn(move || {
                queue.bind_udp_shared(port(number), Share::ByFlow).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    queue.wait(Some(Duration::from_millis(5))).unwrap();
                    while let Some(event) = queue.next().unwrap() {
                        if let Event::Datagram(datagram) = event {
                            datagram.reply().unwrap();
                        }
                    }
                }
            });
        }
        drop(first);
        for round in 0..50u8 {
            for number in [53, 54] {
                // Until both are bound, the port is closed.
                let since = Instant::now();
                let echo = [0xec, number as u8, round];
                let from = [(number >> 8) as u8, number as u8, 0x0f, 0xa0];
                let mut answered = false;
                while !answered {
                    assert!(since.elapsed() < PATIENCE, "{number} does not answer");
                    bench.send(&udp(4000, number, &echo));
                    std::thread::sleep(Duration::from_millis(2));
                    answered = bench.came(&from);
                }
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn ten_thousand_sockets_go_with_their_queue() {
    let bench = bench(1, SOON);
    let queue = bench.queue();
    let binds: Vec<_> = (10_000..20_000).map(|number| Bind::at(port(number))).collect();
    let (opened, result) = queue.open_many(&binds);
    result.unwrap();
    assert_eq!(opened.len(), 10_000);
    drop(queue);
    let again = bench.queue();
    again.bind_udp(port(10_000)).unwrap();
    again.bind_udp(port(19_999)).unwrap();
}

#[test]
fn the_stack_outlives_its_handle_and_ends_with_its_last_queue() {
    let bench = bench(1, SOON);
    let mut queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    drop(bench.library);
    queue.bind_udp(port(54)).unwrap();
    assert!(queue.reconnect().unwrap().is_empty());
    assert_eq!(queue.sockets(), 2);
}

#[test]
fn a_task_awaits_its_queue() {
    let mut bench = bench(1, NEVER);
    let queue = bench.queue();
    queue.bind_udp(port(53)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = AsyncQueue::new(queue).unwrap();
        for round in 0..3u8 {
            let waiting = tokio::time::timeout(Duration::from_millis(5), queue.next()).await;
            assert!(waiting.is_err(), "nothing was sent, and giving up loses nothing");
            bench.send(&udp(4000, 53, &[round, 7]));
            let event = tokio::time::timeout(PATIENCE, queue.next()).await.unwrap().unwrap();
            let Event::Datagram(datagram) = event else { panic!("{event:?}") };
            assert_eq!(datagram.to_vec(), [round, 7]);
            datagram.reply().unwrap();
            queue.queue().commit().unwrap();
            bench.expect(&[round, 7]);
        }
    });
}

#[test]
fn tasks_read_and_write_streams() {
    let bench = bench(1, NEVER);
    let queue = bench.queue();
    let udp = bench.queue();
    udp.bind_udp(port(53)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    let work = tasks.run_until(async {
        let refused = AsyncTcp::new(udp).unwrap_err();
        assert!(matches!(refused, Error::Protocol(_)), "{refused}");
        let tcp = AsyncTcp::new(queue).unwrap();
        let listener = tcp.listen(&Bind::at(port(80)), 64).unwrap();
        assert_eq!(listener.local_addr().unwrap().port(), 80);
        let server = tokio::task::spawn_local(async move {
            loop {
                let (mut stream, peer) = listener.accept().await.unwrap();
                assert_eq!(stream.peer_addr().unwrap(), peer);
                tokio::task::spawn_local(async move {
                    let mut space = [0; 700];
                    loop {
                        let len = stream.read(&mut space).await.unwrap();
                        if len == 0 {
                            return stream.shutdown().await.unwrap();
                        }
                        stream.write_all(&space[..len]).await.unwrap();
                    }
                });
            }
        });
        let clients = (0..10usize).map(|number| {
            let tcp = tcp.clone();
            tokio::task::spawn_local(async move {
                let stream = tcp.connect(([10, 0, 0, 1], 80).into()).await.unwrap();
                let sent: Vec<u8> =
                    (0..number * 20_000).map(|at| (at * 31 + number) as u8).collect();
                let (mut from, mut to) = tokio::io::split(stream);
                let question = sent.clone();
                let writer = tokio::task::spawn_local(async move {
                    to.write_all(&question).await.unwrap();
                    to.shutdown().await.unwrap();
                    assert!(to.write_all(b"more").await.is_err(), "it sends no more");
                });
                let mut heard = Vec::new();
                from.read_to_end(&mut heard).await.unwrap();
                writer.await.unwrap();
                assert!(heard == sent, "{} of {} octets came back", heard.len(), sent.len());
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        let refused = tcp.connect(([10, 0, 0, 1], 81).into()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

        // A stream that is dropped with octets that nobody has read resets its peer.
        let listener = tcp.listen(&Bind::at(port(82)), 64).unwrap();
        let mut stream = tcp.connect(([10, 0, 0, 1], 82).into()).await.unwrap();
        stream.write_all(b"unread").await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(accepted);
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        server.abort();
    });
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.unwrap() });
}
