//! TCP streams of a program over a stack inside it, with the kernel's TCP at the other end of a cable.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weever_app_library::{QueueConfig, Stack};
use weever_app_sockets::{AppQueue, Congestion, Event, StreamOption, TcpStream as Stream};
use weever_testbed::{Fixture, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 8080;
const ECONNREFUSED: u16 = 111;
const OURS: &str = "10.77.0.10";

/// A cable between a kernel at the right and a stack that is opened at the left.
fn net() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net
}

fn stack() -> Stack {
    let config = QueueConfig {
        path: "library:dev=left0,addr=10.77.0.10/24".into(),
        ..QueueConfig::default()
    };
    Stack::open(&config).unwrap()
}

fn octets(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + (at >> 8)) as u8).collect()
}

/// Octets of a stream that still have to be written, and whether its end follows.
#[derive(Default)]
struct Out {
    octets: Vec<u8>,
    ends: bool,
}

impl Out {
    fn write(&mut self, queue: &AppQueue, stream: Stream) {
        while !self.octets.is_empty() {
            match queue.write(stream, &self.octets) {
                Ok(done) => drop(self.octets.drain(..done)),
                Err(_) => return,
            }
        }
        if std::mem::take(&mut self.ends) {
            queue.finish(stream).unwrap();
        }
    }
}

/// Sends back what streams of `queue` bring, until it is told to stop. Returns how many streams were over.
fn echo(queue: &AppQueue, stop: &AtomicBool) -> usize {
    let mut out: HashMap<Stream, Out> = HashMap::new();
    let mut over = 0;
    loop {
        while let Some(event) = queue.next().unwrap() {
            match event {
                Event::Accepted(_, stream) => drop(out.insert(stream, Out::default())),
                Event::Octets(octets) => {
                    let stream = octets.stream();
                    let waiting = out.get_mut(&stream).unwrap();
                    waiting.octets.extend_from_slice(octets.octets());
                    drop(octets);
                    waiting.write(queue, stream);
                }
                Event::Writable(stream) => out.get_mut(&stream).unwrap().write(queue, stream),
                Event::Finished(stream) => {
                    let waiting = out.get_mut(&stream).unwrap();
                    waiting.ends = true;
                    waiting.write(queue, stream);
                }
                Event::StreamClosed(stream) => {
                    out.remove(&stream);
                    over += 1;
                }
                Event::StreamFailed(..) => {}
                other => panic!("{other:?}"),
            }
        }
        queue.commit().unwrap();
        if stop.load(Ordering::Relaxed) && out.is_empty() {
            return over;
        }
        queue.wait(Some(Duration::from_millis(20))).unwrap();
    }
}

fn client(net: &Fixture) -> TcpStream {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        match net.right.run(|| TcpStream::connect((OURS, PORT))) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn echoed(stream: TcpStream, len: usize) {
    let sent = octets(len);
    let (mut writer, mut reader, to_send) = (stream.try_clone().unwrap(), stream, sent.clone());
    let writing = std::thread::spawn(move || {
        writer.write_all(&to_send).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    reader.read_to_end(&mut heard).unwrap();
    writing.join().unwrap();
    assert!(heard == sent, "{} octets came back of {len}", heard.len());
}

#[test]
fn a_program_accepts_streams_of_the_kernel() {
    require_net_admin!();
    let net = net();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let server = net.left.spawn("server", move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        queue.listen_tcp(format!("0.0.0.0:{PORT}").parse().unwrap(), 128, false).unwrap();
        echo(&queue, &asked)
    });
    for len in [0, 1, 1460, 100_000, 3 << 20] {
        echoed(client(&net), len);
    }
    let many: Vec<_> = (0..20)
        .map(|number| {
            let stream = client(&net);
            std::thread::spawn(move || echoed(stream, 1000 * number))
        })
        .collect();
    many.into_iter().for_each(|thread| thread.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    assert_eq!(server.unwrap().join().unwrap(), 25);
}

#[test]
fn a_listener_spans_queues_which_take_turns() {
    require_net_admin!();
    let net = net();
    let stop = Arc::new(AtomicBool::new(false));
    let (open, opened) = std::sync::mpsc::channel();
    let asked = Arc::clone(&stop);
    let servers = net.left.spawn("servers", move || {
        let stack = stack();
        let serve = |_| {
            let (stack, asked, open) = (stack.clone(), Arc::clone(&asked), open.clone());
            std::thread::spawn(move || {
                let queue = stack.queue().unwrap();
                queue.listen_tcp(format!("0.0.0.0:{PORT}").parse().unwrap(), 128, true).unwrap();
                open.send(()).unwrap();
                echo(&queue, &asked)
            })
        };
        let threads: Vec<_> = (0..2).map(serve).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<usize>>()
    });
    (0..2).for_each(|_| opened.recv().unwrap());
    let many: Vec<_> = (0..20)
        .map(|number| {
            let stream = client(&net);
            std::thread::spawn(move || echoed(stream, 1000 * number))
        })
        .collect();
    many.into_iter().for_each(|thread| thread.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    let served = servers.unwrap().join().unwrap();
    assert!(served.iter().sum::<usize>() == 20 && !served.contains(&0), "{served:?}");
}

/// A listener of the kernel's at the other end, and its address.
fn kernels_listener(net: &Fixture) -> (TcpListener, std::net::SocketAddr) {
    let listener = net.right.run(|| TcpListener::bind(("0.0.0.0", PORT))).unwrap();
    (listener, std::net::SocketAddr::new(Fixture::RIGHT.into(), PORT))
}

#[test]
fn a_program_connects_to_the_kernel() {
    require_net_admin!();
    let net = net();
    let (listener, to) = kernels_listener(&net);
    let ours = net.left.spawn("client", move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let stream = queue.connect_tcp(to).unwrap();
        let mut out = Out { octets: octets(1 << 20), ends: true };
        let mut heard = Vec::new();
        loop {
            queue.commit().unwrap();
            match queue.next().unwrap() {
                Some(Event::Connected(there) | Event::Writable(there)) => {
                    out.write(&queue, there);
                }
                Some(Event::Octets(octets)) => heard.extend_from_slice(octets.octets()),
                Some(Event::Finished(of)) => {
                    assert_eq!(of, stream);
                    queue.close_stream(of).unwrap();
                    queue.commit().unwrap();
                    return heard;
                }
                Some(other) => panic!("{other:?}"),
                None => assert!(queue.wait(Some(PATIENCE)).unwrap(), "nothing came"),
            }
        }
    });
    let (mut kernel, _) = listener.accept().unwrap();
    kernel.set_read_timeout(Some(PATIENCE)).unwrap();
    kernel.write_all(b"welcome").unwrap();
    let mut all = Vec::new();
    kernel.read_to_end(&mut all).unwrap();
    assert!(all == octets(1 << 20), "{} octets arrived", all.len());
    drop(kernel);
    assert_eq!(ours.unwrap().join().unwrap(), b"welcome");
}

#[test]
fn a_refusal_reaches_the_program() {
    require_net_admin!();
    let net = net();
    let to = std::net::SocketAddr::new(Fixture::RIGHT.into(), PORT);
    net.left.run(|| {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let stream = queue.connect_tcp(to).unwrap();
        let mut failed = None;
        loop {
            queue.commit().unwrap();
            match queue.next().unwrap() {
                Some(Event::StreamFailed(of, errno)) => failed = Some((of, errno)),
                Some(Event::StreamClosed(_)) => break,
                Some(other) => panic!("{other:?}"),
                None => assert!(queue.wait(Some(PATIENCE)).unwrap(), "nothing came"),
            }
        }
        assert_eq!(failed, Some((stream, ECONNREFUSED)));
    });
}

/// The first event of a queue that `wanted` takes; others are passed over.
fn until<T>(queue: &AppQueue, mut wanted: impl FnMut(Event<'_>) -> Option<T>) -> T {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        queue.commit().unwrap();
        while let Some(event) = queue.next().unwrap() {
            if let Some(found) = wanted(event) {
                return found;
            }
        }
        assert!(std::time::Instant::now() < end, "it did not happen");
        queue.wait(Some(Duration::from_millis(20))).unwrap();
    }
}

#[test]
fn settings_hold_in_the_handshake_and_after_it() {
    require_net_admin!();
    let net = net();
    let (listener, to) = kernels_listener(&net);
    let ours = net.left.spawn("client", move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let stream = queue.connect_tcp(to).unwrap();
        queue.set_option(stream, StreamOption::MaxSegment(600)).unwrap();
        queue.set_option(stream, StreamOption::Congestion(Congestion::Reno)).unwrap();
        queue.set_option(stream, StreamOption::ReceiveBuffer(9000)).unwrap();
        until(&queue, |event| matches!(event, Event::Connected(_)).then_some(()));
        let mut out = Out { octets: octets(100_000), ends: false };
        out.write(&queue, stream);
        while queue.unacknowledged(stream).unwrap() > 0 || !out.octets.is_empty() {
            out.write(&queue, stream);
            queue.commit().unwrap();
            queue.wait(Some(Duration::from_millis(1))).unwrap();
            while queue.next().unwrap().is_some() {}
        }
        queue.request_info(stream).unwrap();
        let info = until(&queue, |event| match event {
            Event::Info(_, info) => Some(info),
            _ => None,
        });
        // What the peer has sent is not read: closing resets.
        until(&queue, |event| matches!(event, Event::Octets(_)).then_some(()));
        std::thread::sleep(Duration::from_millis(50));
        queue.close_stream(stream).unwrap();
        queue.commit().unwrap();
        info
    });
    let (mut kernel, _) = listener.accept().unwrap();
    kernel.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut all = vec![0; 100_000];
    kernel.read_exact(&mut all).unwrap();
    assert!(all == octets(100_000), "octets were changed");
    // The kernel's own view: the segments that it may send are as long as was announced.
    let mss = socket2::SockRef::from(&kernel).tcp_mss().unwrap();
    assert!(mss <= 600, "it sends {mss} octets at once");
    kernel.write_all(&[1]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    kernel.write_all(&[2; 2000]).unwrap();
    let info = ours.unwrap().join().unwrap();
    assert_eq!((info.state(), info.acknowledged()), (1, 100_000), "{info:?}");
    assert!(info.segment_size() <= 600 && info.round_trip() > 0, "{info:?}");
    let mut rest = Vec::new();
    let reset = kernel.read_to_end(&mut rest).unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_listener_that_defers_has_octets_to_read_with_each_stream() {
    require_net_admin!();
    let net = net();
    let (told, heard) = std::sync::mpsc::channel();
    let ours = net.left.spawn("server", move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let at = format!("0.0.0.0:{PORT}").parse().unwrap();
        let listener = queue.listen_tcp(at, 16, false).unwrap();
        queue.set_listener_option(listener, StreamOption::DeferAccept(1)).unwrap();
        queue.commit().unwrap();
        told.send(()).unwrap();
        let mut order = Vec::new();
        until(&queue, |event| {
            match event {
                Event::Accepted(_, stream) => {
                    order.push((queue.stream_ends(stream).unwrap().1.port(), false));
                }
                Event::Octets(octets) => {
                    let from = queue.stream_ends(octets.stream()).unwrap().1.port();
                    order.push((from, true));
                }
                other => panic!("{other:?}"),
            }
            (order.len() == 3).then_some(())
        });
        order
    });
    heard.recv_timeout(PATIENCE).unwrap();
    let silent = client(&net);
    let mut talks = client(&net);
    talks.write_all(b"hello").unwrap();
    let order = ours.unwrap().join().unwrap();
    let port = |stream: &TcpStream| stream.local_addr().unwrap().port();
    // The one that says something is first, though it came last; the other one's time is over at last.
    let expected = [(port(&talks), false), (port(&talks), true), (port(&silent), false)];
    assert_eq!(order, expected);
}
