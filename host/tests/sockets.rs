//! Applications with sockets on a running host: the client library over a real Unix socket, shared
//! memory and workers' threads. The far end of the cable is played by the test.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weever_app_server::{AppListener, ListenError};
use weever_app_sockets::{
    AppQueue, AsyncQueue, Bind, Error, Event, Events, Geometry, Handle, QueueConfig, RxBuf,
    SendOptions, Share,
};
use weever_blocks_std::testing::frames::{PEER, PEER_MAC, udp};
use weever_host::{HostBuilder, InterfaceConfig, RunningHost};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bench {
    listener: Option<AppListener>,
    _host: RunningHost,
    frames: PoolCache,
    cable: Box<dyn LinkQueue>,
    path: PathBuf,
}

fn pool() -> Pool {
    let config = PoolConfig { frames: 2048, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::new(config).unwrap()
}

fn bench(name: &str, workers: usize) -> Bench {
    let config = MemoryConfig { waitable: true, ..MemoryConfig::default() };
    let (ours, mut theirs) = pair(&config).unwrap();
    let mut builder = HostBuilder::new(pool());
    builder.workers(workers);
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap());
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let large = Pool::new(PoolConfig::large(64)).unwrap();
    let server = builder.applications(Some(large), 20_000).unwrap();
    let host = builder.start().unwrap();
    let path = std::env::temp_dir().join(format!("weever-{name}-{}.sock", std::process::id()));
    let listener =
        AppListener::start(&path, &weever_app_server::Access::default(), server).unwrap();
    let (frames, cable) = (pool().cache(), theirs.take_queues().remove(0));
    Bench { listener: Some(listener), _host: host, frames, cable, path }
}

impl Bench {
    fn config(&self) -> QueueConfig {
        let geometry = Geometry { ring_len: 256, frames: 256, frame_size: 2048 };
        QueueConfig {
            path: self.path.clone(),
            name: "test".into(),
            geometry,
            ..QueueConfig::default()
        }
    }

    fn connect(&self) -> AppQueue {
        AppQueue::connect(&self.config()).unwrap()
    }

    fn send(&mut self, frame: &[u8]) {
        let mut packet = self.frames.alloc().unwrap();
        assert!(packet.append(frame));
        self.cable.tx(&mut self.frames, &mut [packet].into()).unwrap();
        self.cable.flush(&mut self.frames).unwrap();
    }

    /// Waits for a frame with this at its end.
    fn expect(&mut self, end: &[u8]) -> Vec<u8> {
        let since = Instant::now();
        let mut burst = Burst::new();
        while since.elapsed() < PATIENCE {
            let count = self.cable.rx(&mut self.frames, &mut burst, 64).unwrap();
            let frames: Vec<_> = (0..count).filter_map(|slot| burst.take(slot)).collect();
            if let Some(found) = frames.iter().find(|frame| frame.data().ends_with(end)) {
                return found.data().to_vec();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing came that ends with {end:?}");
    }
}

/// The next datagram of a queue.
fn receive(queue: &AppQueue) -> RxBuf<'_> {
    loop {
        if let Some(event) = queue.next().unwrap() {
            let Event::Datagram(datagram) = event else { panic!("{event:?}") };
            return datagram;
        }
        assert!(queue.wait(Some(PATIENCE)).unwrap(), "nothing came");
    }
}

#[test]
fn an_echo_server_in_a_few_lines() {
    for workers in [1, 2] {
        let mut bench = bench(&format!("echo-{workers}"), workers);
        let queue = bench.connect();
        let socket = queue.bind_udp("0.0.0.0:53".parse().unwrap()).unwrap();
        for round in 0..20u8 {
            let payload = [b'q', round, b'.'];
            bench.send(&udp(4000, 53, &payload));
            let datagram = receive(&queue);
            assert_eq!(datagram.payload(), Some(&payload[..]));
            assert_eq!((datagram.socket(), datagram.remote()), (socket, (PEER, 4000).into()));
            datagram.reply().unwrap();
            queue.commit().unwrap();
            let frame = bench.expect(&payload);
            assert_eq!(frame[34..38], [0, 53, 0x0f, 0xa0], "from port 53 to port 4000");
        }
        let statuses: Vec<_> = bench.listener.as_ref().unwrap().server().sockets().collect();
        assert_eq!((statuses.len(), statuses[0].counts.sent), (1, 20));
        assert_eq!(statuses[0].owner.name, "test");
    }
}

#[test]
fn a_client_sends_first_and_long_datagrams_are_cut_on_the_wire() {
    let mut bench = bench("client", 1);
    let queue = bench.connect();
    let peer = (PEER, 9).into();
    let socket = queue.connect_udp("0.0.0.0:0".parse().unwrap(), peer).unwrap();
    let port = queue.local_port(socket).unwrap();
    assert!(port >= 49152);
    queue.send(socket, b"hello.").unwrap();
    queue.commit().unwrap();
    let frame = bench.expect(b"hello.");
    assert_eq!(frame[34..36], port.to_be_bytes());
    bench.send(&udp(9, port, b"welcome"));
    assert_eq!(receive(&queue).to_vec(), b"welcome");
    // From another port than the peer's it is nobody's.
    bench.send(&udp(10, port, b"stranger"));
    bench.send(&udp(9, port, b"friend"));
    assert_eq!(receive(&queue).to_vec(), b"friend");

    let long: Vec<u8> = (0..4000u32).map(|i| (i / 7) as u8).collect();
    let hops = SendOptions { hops: Some(7), ..SendOptions::default() };
    queue.send_to(socket, &long, peer, hops).unwrap();
    queue.commit().unwrap();
    let last = bench.expect(&long[3900..]);
    assert_eq!(last[14 + 8], 7, "its time to live");
    let most = 65_507;
    let error = queue.send_to(socket, &vec![0; most + 1], peer, hops).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    let foreign = SendOptions { source: Some([10, 0, 0, 77].into()), ..hops };
    queue.send_to(socket, b"forged", peer, foreign).unwrap();
    queue.send_to(socket, b"after", peer, hops).unwrap();
    queue.commit().unwrap();
    bench.expect(b"after");
}

#[test]
fn conflicts_name_the_holder_and_ports_are_free_again_when_it_is_gone() {
    let mut bench = bench("conflict", 1);
    let address = "0.0.0.0:53".parse().unwrap();
    let first = bench.connect();
    let held = first.bind_udp(address).unwrap();
    let second = bench.connect();
    let error = second.bind_udp(address).unwrap_err().to_string();
    assert!(error.contains(&format!("socket {}", first.number(held).unwrap())), "{error}");
    second.bind_udp_shared("0.0.0.0:54".parse().unwrap(), Share::ByFlow).unwrap();
    first.bind_udp_shared("0.0.0.0:54".parse().unwrap(), Share::ByFlow).unwrap();
    first.close(held).unwrap();
    let held = second.bind_udp(address).unwrap();
    assert!(first.close(held).is_err(), "another queue's");
    drop(second);
    let since = Instant::now();
    while first.bind_udp(address).is_err() {
        assert!(since.elapsed() < PATIENCE, "the stack has not noticed the end of a queue");
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.send(&udp(4000, 53, b"still here"));
    assert_eq!(receive(&first).to_vec(), b"still here");
}

#[test]
fn a_socket_spans_queues_and_each_flow_stays_with_one() {
    const FLOWS: u16 = 64;
    let mut bench = bench("span", 1);
    let queues = [bench.connect(), bench.connect()];
    for queue in &queues {
        queue.bind_udp_shared("0.0.0.0:53".parse().unwrap(), Share::ByFlow).unwrap();
    }
    let mut owners: Vec<Option<usize>> = vec![None; FLOWS.into()];
    for round in 0..3 {
        for flow in 0..FLOWS {
            bench.send(&udp(4000 + flow, 53, &flow.to_be_bytes()));
            let since = Instant::now();
            let at = loop {
                assert!(since.elapsed() < PATIENCE, "flow {flow} was lost");
                // Frames that were read serve the next datagrams.
                queues.iter().for_each(|queue| queue.commit().unwrap());
                let heard = |queue: &AppQueue| match queue.next().unwrap() {
                    Some(Event::Datagram(datagram)) => Some(datagram.to_vec()),
                    _ => None,
                };
                let found = queues.iter().map(heard).enumerate().find_map(|(at, o)| Some((at, o?)));
                if let Some((at, octets)) = found {
                    assert_eq!(octets, flow.to_be_bytes(), "once, and in order");
                    break at;
                }
                std::thread::yield_now();
            };
            let owner = owners[usize::from(flow)].get_or_insert(at);
            assert_eq!(*owner, at, "flow {flow} in round {round}");
        }
    }
    assert!(owners.contains(&Some(0)) && owners.contains(&Some(1)), "{owners:?}");
}

#[test]
fn ten_thousand_sockets_are_opened_and_gone_with_their_queue() {
    let mut bench = bench("many", 1);
    let queue = bench.connect();
    let port = |port: u16| Bind::at(([0, 0, 0, 0], port).into());
    let binds: Vec<_> = (10_000..20_000).map(port).collect();
    let (opened, result) = queue.open_many(&binds);
    result.unwrap();
    assert_eq!(opened.len(), binds.len());
    bench.send(&udp(4000, 19_999, b"the last"));
    assert_eq!(receive(&queue).socket(), opened[9_999]);
    let (none, result) = queue.open_many(&binds[..3]);
    assert!(none.is_empty() && result.is_err(), "they are taken");
    drop(queue);
    let since = Instant::now();
    while bench.listener.as_ref().unwrap().server().sockets().next().is_some() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_frame_comes_home_whatever_is_dropped() {
    let mut bench = bench("frames", 1);
    let queue = bench.connect();
    queue.bind_udp("0.0.0.0:53".parse().unwrap()).unwrap();
    let mut kept = Vec::new();
    for i in 0..100u8 {
        bench.send(&udp(4000, 53, &[i]));
        let datagram = receive(&queue);
        if i % 3 == 0 { kept.push(datagram) } else { drop(datagram) }
    }
    drop(kept);
    queue.commit().unwrap();
    let (free, lent) = queue.frames();
    assert_eq!(free + lent, 256);
}

#[test]
fn the_end_of_the_stack_is_an_error_and_no_silence() {
    let mut bench = bench("end", 1);
    let queue = bench.connect();
    assert!(matches!(
        AppListener::start(&bench.path, &weever_app_server::Access::default(), {
            let mut other = HostBuilder::new(pool());
            other.applications(None, 10).unwrap()
        }),
        Err(ListenError::Taken(_))
    ));
    drop(bench.listener.take());
    assert!(matches!(queue.wait(Some(PATIENCE)), Err(Error::Disconnected)));
    let error = AppQueue::connect(&bench.config()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("weever up"), "{error}");
}

#[test]
fn a_poll_finds_events_by_socket_or_in_the_order_of_arrival() {
    let mut bench = bench("poll", 1);
    let queue = bench.connect();
    let sockets = [53, 54].map(|port| queue.bind_udp(([0, 0, 0, 0], port).into()).unwrap());
    let mut events = Events::default();
    for by_socket in [true, false] {
        for (port, payload) in [(54, b"a"), (53, b"b"), (54, b"c")] {
            bench.send(&udp(4000, port, payload));
        }
        let since = Instant::now();
        let mut found = Vec::new();
        while found.len() < 3 {
            assert!(since.elapsed() < PATIENCE && queue.wait(Some(PATIENCE)).unwrap());
            queue.poll(&mut events).unwrap();
            let datagram = |event| {
                let Event::Datagram(datagram) = event else { panic!("{event:?}") };
                (datagram.socket(), datagram.to_vec())
            };
            if by_socket {
                while let Some((socket, chain)) = events.next_socket() {
                    let Handle::Udp(socket) = socket else { panic!("there are no streams") };
                    found.extend(chain.map(datagram).inspect(|(s, _)| assert_eq!(*s, socket)));
                }
            } else {
                found.extend(events.drain().map(datagram));
            }
        }
        let of = |socket| {
            let of = found.iter().filter(|(s, _)| *s == socket).map(|(_, payload)| payload[0]);
            of.collect::<Vec<_>>()
        };
        assert_eq!((of(sockets[0]), of(sockets[1])), (b"b".to_vec(), b"ac".to_vec()));
        if !by_socket {
            let order: Vec<u8> = found.iter().map(|(_, payload)| payload[0]).collect();
            assert_eq!(order, b"abc");
        }
    }
}

#[test]
fn an_answer_is_written_into_a_frame_of_the_queue() {
    let mut bench = bench("answer", 1);
    let queue = bench.connect();
    let socket = queue.bind_udp("0.0.0.0:53".parse().unwrap()).unwrap();
    bench.send(&udp(4000, 53, b"question"));
    let mut answer = receive(&queue).into_answer();
    assert_eq!(&answer.space()[..8], b"question", "still there");
    answer.space()[..6].copy_from_slice(b"answer");
    answer.send(6).unwrap();
    queue.commit().unwrap();
    assert_eq!(bench.expect(b"answer")[34..38], [0, 53, 0x0f, 0xa0], "to port 4000");
    let mut more = queue.alloc(socket).unwrap().to((PEER, 4001).into(), SendOptions::default());
    more.space()[..4].copy_from_slice(b"more");
    more.send(4).unwrap();
    let nowhere = queue.alloc(socket).unwrap();
    assert!(matches!(nowhere.send(1), Err(Error::NoDestination)));
    assert!(matches!(queue.send(socket, b"x"), Err(Error::NoDestination)));
    let mut long = queue.alloc(socket).unwrap();
    let most = long.space().len();
    assert!(matches!(long.send(most + 1), Err(Error::TooLong { .. })));
    queue.commit().unwrap();
    assert_eq!(bench.expect(b"more")[34..38], [0, 53, 0x0f, 0xa1], "to port 4001");
    queue.commit().unwrap();
    let (free, lent) = queue.frames();
    assert!(free + lent <= 256, "no frame is there twice");
}

#[test]
fn opening_does_not_wait_and_answers_come_in_order() {
    let bench = bench("opening", 1);
    let queue = bench.connect();
    let bind = |port: u16| Bind::at(([0, 0, 0, 0], port).into());
    let asked: Vec<_> =
        [2000, 2001, 2000, 2002].map(|port| queue.begin_open(&bind(port)).unwrap()).into();
    // One that waits takes the answers to those before it, and keeps them.
    let waited = queue.open(&bind(2003)).unwrap();
    assert_eq!(queue.local_port(waited).unwrap(), 2003);
    let mut opened = Vec::new();
    while let Some((which, result)) = queue.next_opened().unwrap() {
        opened.push((which, result.ok().map(|socket| queue.local_port(socket).unwrap())));
    }
    let ports = [Some(2000), Some(2001), None, Some(2002)];
    assert_eq!(opened, asked.into_iter().zip(ports).collect::<Vec<_>>());
    let full = (0..).find_map(|i| queue.begin_open(&bind(3000 + i)).err());
    assert!(matches!(full, Some(Error::WouldBlock)), "{full:?}");
}

#[test]
fn a_queue_and_its_sockets_come_back_on_another_stack() {
    let mut first = bench("again", 2);
    let mut queue = first.connect();
    let socket = queue.bind_udp("0.0.0.0:53".parse().unwrap()).unwrap();
    let peer = (PEER, 9).into();
    let client = queue.connect_udp("0.0.0.0:0".parse().unwrap(), peer).unwrap();
    let lost = queue.bind_udp("0.0.0.0:99".parse().unwrap()).unwrap();
    let port = queue.local_port(client).unwrap();
    drop(first.listener.take());
    assert!(matches!(queue.wait(Some(PATIENCE)), Err(Error::Disconnected)));
    assert!(matches!(queue.reconnect(), Err(Error::NoStack { .. })));
    assert_eq!(queue.sockets(), 3, "it waits for another stack");
    let mut second = bench("again", 1);
    let taker = second.connect();
    taker.bind_udp("0.0.0.0:99".parse().unwrap()).unwrap();
    let failed = queue.reconnect().unwrap();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].0 == lost && failed[0].1.to_string().contains("in use"), "{failed:?}");
    assert!(matches!(queue.local_port(lost), Err(Error::NoSocket)));
    second.send(&udp(4000, 53, b"again"));
    let datagram = receive(&queue);
    assert_eq!((datagram.socket(), datagram.to_vec()), (socket, b"again".to_vec()));
    drop(datagram);
    assert_eq!(queue.local_port(client).unwrap(), port, "peers know it");
    queue.send(client, b"to the peer").unwrap();
    queue.commit().unwrap();
    second.expect(b"to the peer");
}

#[test]
fn a_task_that_awaits_is_told_of_the_end_of_the_stack() {
    let mut bench = bench("task", 1);
    let queue = bench.connect();
    queue.bind_udp("0.0.0.0:53".parse().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = AsyncQueue::new(queue).unwrap();
        // An answer that nobody took is not the end.
        queue.queue().begin_open(&Bind::at("0.0.0.0:54".parse().unwrap())).unwrap();
        for payload in [b"one", b"two"] {
            bench.send(&udp(4000, 53, payload));
            let event = tokio::time::timeout(PATIENCE, queue.next()).await.unwrap().unwrap();
            let Event::Datagram(datagram) = event else { panic!("{event:?}") };
            assert_eq!(datagram.to_vec(), payload);
        }
        let ended = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(bench.listener.take());
            std::future::pending().await
        };
        let mut ended = std::pin::pin!(ended);
        let mut next = std::pin::pin!(tokio::time::timeout(PATIENCE, queue.next()));
        let result = std::future::poll_fn(|task| {
            let (): () = match ended.as_mut().poll(task) {
                std::task::Poll::Ready(never) => never,
                std::task::Poll::Pending => (),
            };
            next.as_mut().poll(task)
        });
        let error = result.await.unwrap().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Disconnected), "{error}");
    });
}
