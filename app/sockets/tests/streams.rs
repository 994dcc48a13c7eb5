//! Streams between two queues: the link of applications is the real one, turned in the test's thread,
//! and the transport a loopback that keeps to the contract of `StreamPort`.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weever_app_ring::Geometry;
use weever_app_ring::control::Request;
use weever_app_server::{AppLink, AppServer, HostNetwork, Identity, Session};
use weever_app_sockets::{
    Answer, AppQueue, Backend, Bind, Congestion, Error, Event, QueueConfig, StreamOption,
    TcpListener, TcpStream,
};
use weever_link::{Link, LinkQueue};
use weever_net::stream::{StreamEvent, StreamId, StreamInfo, StreamPort, StreamRequest};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};

struct NoNetwork;

impl HostNetwork for NoNetwork {
    fn interface(&self, _name: &str) -> Option<u16> {
        None
    }
    fn interface_name(&self, _interface: u16) -> Option<String> {
        None
    }
    fn interface_to(&self, _group: IpAddr) -> Option<u16> {
        None
    }
    fn source_to(&self, _address: IpAddr) -> Option<IpAddr> {
        None
    }
    fn has_address(&self, _address: IpAddr) -> bool {
        true
    }
    fn set_member(&self, _interface: u16, _group: IpAddr, _member: bool) -> Result<(), String> {
        Err("there are no groups".into())
    }
}

/// One end of a connection within the loopback.
#[derive(Default)]
struct Half {
    peer: StreamId,
    /// Octets that were queued, and those that the peer has got.
    queued: u64,
    done: u64,
    finished: bool,
    told: bool,
    closed: bool,
}

/// A transport that connects streams of this host with each other.
#[derive(Default)]
struct Loopback {
    listeners: HashMap<u16, StreamId>,
    halves: HashMap<StreamId, Half>,
    options: Vec<String>,
}

impl Loopback {
    fn turn(&mut self, port: &dyn StreamPort) {
        while let Some(request) = port.next_request() {
            match request {
                StreamRequest::Listen { listener, binding, .. } => {
                    self.listeners.insert(binding.local_port.unwrap(), listener);
                }
                StreamRequest::StopListening { listener } => {
                    self.listeners.retain(|_, there| *there != listener);
                }
                StreamRequest::Connect { stream, remote, .. } => {
                    self.connect(port, stream, remote);
                }
                StreamRequest::Send { stream, octets } => {
                    self.halves.get_mut(&stream).unwrap().queued += u64::from(octets);
                }
                StreamRequest::Finish { stream } | StreamRequest::Close { stream } => {
                    let half = self.halves.get_mut(&stream).unwrap();
                    half.finished = true;
                    half.closed |= matches!(request, StreamRequest::Close { .. });
                }
                StreamRequest::Abort { stream } => {
                    let peer = self.halves.remove(&stream).unwrap().peer;
                    port.tell(stream, StreamEvent::Closed);
                    if self.halves.remove(&peer).is_some() {
                        port.tell(peer, StreamEvent::Failed(104));
                        port.tell(peer, StreamEvent::Closed);
                    }
                }
                StreamRequest::Set { stream, option: StreamOption::Urgent } => {
                    let half = &self.halves[&stream];
                    port.tell(half.peer, StreamEvent::Urgent { end: half.queued });
                }
                StreamRequest::Set { option, .. } => self.options.push(format!("{option:?}")),
                StreamRequest::SetListener { option, .. } => {
                    self.options.push(format!("listener: {option:?}"));
                }
                StreamRequest::Inform { stream } => {
                    let queued = self.halves[&stream].queued;
                    let info =
                        StreamInfo { state: 1, acknowledged: queued, ..StreamInfo::default() };
                    port.inform(stream, &info);
                }
                _ => {}
            }
        }
        let all: Vec<StreamId> = self.halves.keys().copied().collect();
        all.into_iter().for_each(|stream| self.forward(port, stream));
        self.halves.retain(|stream, half| {
            let over = half.closed && half.told;
            if over {
                port.tell(*stream, StreamEvent::Closed);
            }
            !over
        });
    }

    fn connect(&mut self, port: &dyn StreamPort, stream: StreamId, remote: SocketAddr) {
        let local = SocketAddr::from(([192, 0, 2, 1], 50_000));
        let listener = self.listeners.get(&remote.port()).copied();
        let Some(peer) = listener.and_then(|listener| port.accept(listener, remote, local)) else {
            port.tell(stream, StreamEvent::Failed(111));
            port.tell(stream, StreamEvent::Closed);
            return;
        };
        self.halves.insert(stream, Half { peer, ..Half::default() });
        self.halves.insert(peer, Half { peer: stream, ..Half::default() });
        port.tell(stream, StreamEvent::Connected { local, remote });
    }

    fn forward(&mut self, port: &dyn StreamPort, stream: StreamId) {
        let Some(half) = self.halves.get_mut(&stream) else { return };
        let mut octets = [0; 4096];
        while half.done < half.queued {
            let most = octets.len().min((half.queued - half.done) as usize);
            let got = port.read_sent(stream, half.done, &mut octets[..most]);
            assert_eq!(got, most, "announced octets can be read");
            let done = port.deliver(half.peer, &octets[..got]);
            half.done += done as u64;
            if done < got {
                break;
            }
        }
        port.acknowledged(stream, half.done);
        if half.finished && half.done == half.queued && !half.told {
            half.told = true;
            port.tell(half.peer, StreamEvent::Finished);
        }
    }
}

/// A stack that is turned by its applications' calls.
struct Stack {
    server: AppServer,
    link: Box<dyn LinkQueue>,
    port: Arc<dyn StreamPort>,
    transport: Loopback,
    frames: PoolCache,
    burst: Box<Burst>,
}

impl Stack {
    fn new() -> Arc<Mutex<Stack>> {
        let config =
            PoolConfig { frames: 256, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let frames = Pool::new(config).unwrap().cache();
        let (mut link, server) =
            AppLink::new(1, None, Box::new(NoNetwork), [1, 2, 3, 4], 100).unwrap();
        let port = Arc::clone(&link.stream_ports()[0]);
        let link = link.take_queues().remove(0);
        let (transport, burst) = (Loopback::default(), Box::new(Burst::new()));
        Arc::new(Mutex::new(Stack { server, link, port, transport, frames, burst }))
    }

    /// A turn of the worker; the transport runs when a packet wakes it, as in the graph.
    fn turn(&mut self) {
        self.link.advance(0);
        let woken = self.link.rx(&mut self.frames, &mut self.burst, 64).unwrap();
        for packet in (0..woken).filter_map(|slot| self.burst.take(slot)) {
            assert_eq!(packet.meta().endpoints.protocol, 6);
            self.frames.free(packet);
            self.transport.turn(&*self.port);
        }
        self.link.flush(&mut self.frames).unwrap();
    }
}

struct Inside {
    stack: Arc<Mutex<Stack>>,
    session: Session,
    answers: VecDeque<Answer>,
}

impl Backend for Inside {
    fn send(&mut self, request: &Request) -> Result<(), Error> {
        let mut stack = self.stack.lock().unwrap();
        self.answers.push_back(self.session.answer(&mut stack.server, request.clone()));
        stack.turn();
        Ok(())
    }
    fn receive(&mut self, _blocking: bool) -> Result<Option<Answer>, Error> {
        Ok(self.answers.pop_front())
    }
    fn work(&mut self) -> Result<bool, Error> {
        self.stack.lock().unwrap().turn();
        Ok(false)
    }
    fn sleep(&mut self, _: BorrowedFd<'_>, _: Option<Duration>) -> Result<(), Error> {
        panic!("nothing sleeps here")
    }
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn restart(&mut self) -> Result<(), Error> {
        let mut stack = self.stack.lock().unwrap();
        self.session.close(&mut stack.server);
        stack.turn();
        Ok(())
    }
}

fn queue(stack: &Arc<Mutex<Stack>>) -> AppQueue {
    open(stack, Duration::ZERO)
}

/// A queue that polls for so long before it sleeps.
fn open(stack: &Arc<Mutex<Stack>>, spin: Duration) -> AppQueue {
    let session = Session::new(Identity { name: "test".into(), pid: 1, uid: 0 });
    let backend = Inside { stack: Arc::clone(stack), session, answers: VecDeque::new() };
    let geometry = Geometry { ring_len: 64, frames: 64, frame_size: 512 };
    let config = QueueConfig { geometry, spin, ..QueueConfig::default() };
    AppQueue::over(Box::new(backend), &config).unwrap()
}

/// The next event of a queue, after some turns at most.
fn next(queue: &AppQueue) -> Event<'_> {
    for _ in 0..10 {
        queue.commit().unwrap();
        if let Some(event) = queue.next().unwrap() {
            return event;
        }
    }
    panic!("nothing happened")
}

fn nothing(queue: &AppQueue) {
    for _ in 0..3 {
        queue.commit().unwrap();
        assert!(queue.next().unwrap().is_none());
    }
}

/// A connection: the client's end and the server's.
fn connected(client: &AppQueue, server: &AppQueue, at: TcpListener) -> (TcpStream, TcpStream) {
    let port = server.listener_addr(at).unwrap().port();
    let stream = client.connect_tcp(([192, 0, 2, 1], port).into()).unwrap();
    assert!(matches!(next(client), Event::Connected(which) if which == stream));
    let Event::Accepted(listener, accepted) = next(server) else { panic!("no stream") };
    assert_eq!(listener, at);
    (stream, accepted)
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

#[test]
fn a_question_and_its_answer_with_both_ends_closing() {
    let stack = Stack::new();
    let (client, server) = (queue(&stack), queue(&stack));
    let listener = server.listen_tcp(any(80), 16, false).unwrap();
    let taken = client.listen_tcp(any(80), 16, false).unwrap_err();
    assert!(matches!(taken, Error::Refused { .. }), "{taken}");
    let (question, answer) = connected(&client, &server, listener);
    assert_eq!(client.stream_ends(question).unwrap().1.port(), 80);
    assert_eq!(server.stream_ends(answer).unwrap().0.port(), 80);

    client.set_option(question, StreamOption::NoDelay(true)).unwrap();
    assert_eq!(client.write(question, b"GET").unwrap(), 3);
    client.finish(question).unwrap();
    assert!(matches!(client.write(question, b"more"), Err(Error::NoSocket)), "it is finished");
    client.commit().unwrap();
    let Event::Octets(octets) = next(&server) else { panic!("no octets") };
    assert_eq!((octets.stream(), octets.octets()), (answer, &b"GET"[..]));
    drop(octets);
    assert!(matches!(next(&server), Event::Finished(stream) if stream == answer));
    server.write(answer, b"200 OK").unwrap();
    server.close_stream(answer).unwrap();
    server.commit().unwrap();
    let Event::Octets(octets) = next(&client) else { panic!("no octets") };
    assert_eq!(octets.octets(), b"200 OK");
    drop(octets);
    assert!(matches!(next(&client), Event::Finished(stream) if stream == question));
    client.close_stream(question).unwrap();
    nothing(&client);
    nothing(&server);
    assert!(matches!(client.write(question, b"x"), Err(Error::NoSocket)), "it is closed");
    let stack = stack.lock().unwrap();
    assert!(stack.transport.halves.is_empty(), "both ends are over");
    assert_eq!(stack.transport.options, ["NoDelay(true)"]);
}

#[test]
fn urgent_data_is_announced_before_its_octets() {
    let stack = Stack::new();
    let (client, server) = (queue(&stack), queue(&stack));
    let listener = server.listen_tcp(any(80), 16, false).unwrap();
    let (from, to) = connected(&client, &server, listener);
    client.write(from, b"before").unwrap();
    client.commit().unwrap();
    assert!(matches!(next(&server), Event::Octets(octets) if octets.octets() == b"before"));
    client.write(from, b"now U").unwrap();
    client.set_option(from, StreamOption::Urgent).unwrap();
    client.write(from, b" after").unwrap();
    client.commit().unwrap();
    assert!(matches!(next(&server), Event::Urgent(stream, 5) if stream == to));
    assert!(matches!(next(&server), Event::Octets(octets) if octets.octets() == b"now U after"));
}

#[test]
fn octets_are_answered_in_their_frame_and_buffers_come_back_when_there_is_no_room() {
    let stack = Stack::new();
    let (client, server) = (queue(&stack), queue(&stack));
    let listener = server.listen(&Bind::at(any(0)), 16).unwrap();
    let wrong = server.listen(&Bind::at(any(0)).connected_to(any(9)), 16);
    assert!(matches!(wrong, Err(Error::Refused { .. })), "{wrong:?}");
    let (question, _) = connected(&client, &server, listener);
    let mut buffer = client.alloc_octets(question).unwrap();
    buffer.space()[..8].copy_from_slice(b"question");
    let (buffer, error) = buffer.send(10_000).unwrap_err();
    assert!(matches!(error, Error::TooLong { len: 10_000, .. }), "{error}");
    buffer.send(8).unwrap();
    client.commit().unwrap();
    let Event::Octets(mut octets) = next(&server) else { panic!("no octets") };
    octets.advance(5);
    assert_eq!(octets.octets(), b"ion");
    let place = octets.octets().as_ptr();
    let mut answer = octets.into_answer();
    assert_eq!(answer.space().as_ptr(), place, "it is where the octets lay");
    answer.space()[0] = b'I';
    answer.send(3).unwrap();
    server.commit().unwrap();
    let Event::Octets(octets) = next(&client) else { panic!("no octets") };
    assert_eq!(octets.octets(), b"Ion");
    drop(octets);

    // An eighth of 64 frames may be under way; the buffers were there before.
    let buffers: Vec<_> = (0..9).map(|_| client.alloc_octets(question).unwrap()).collect();
    let mut refused = buffers.into_iter().filter_map(|buffer| buffer.send(1).err());
    let Some((buffer, Error::WouldBlock)) = refused.next() else { panic!("the ninth has no room") };
    assert!(matches!(client.alloc_octets(question), Err(Error::WouldBlock)));
    client.commit().unwrap();
    assert!(matches!(next(&server), Event::Octets(_)));
    server.commit().unwrap();
    assert!(matches!(next(&client), Event::Writable(stream) if stream == question));
    buffer.send(1).unwrap();
    client.close_stream(question).unwrap();
}

#[test]
fn a_writer_is_held_back_by_its_reader_and_goes_on_without_loss() {
    let stack = Stack::new();
    let (client, server) = (queue(&stack), queue(&stack));
    let listener = server.listen_tcp(any(80), 16, false).unwrap();
    let (from, to) = connected(&client, &server, listener);
    let all: Vec<u8> = (0..200_000u32).map(|i| (i % 253) as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    let mut blocked = 0;
    while got.len() < all.len() {
        while sent < all.len() {
            match client.write(from, &all[sent..]) {
                Ok(count) => sent += count,
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        client.commit().unwrap();
        if sent < all.len() {
            blocked += 1;
        }
        while let Some(event) = server.next().unwrap() {
            let Event::Octets(octets) = event else { panic!("{event:?}") };
            assert_eq!(octets.stream(), to);
            got.extend_from_slice(octets.octets());
        }
        server.commit().unwrap();
        while let Some(event) = client.next().unwrap() {
            assert!(matches!(event, Event::Writable(stream) if stream == from), "{event:?}");
        }
    }
    assert!(got == all, "octets were lost or changed");
    assert!(blocked > 10, "64 frames do not hold all of it");
    client.commit().unwrap();
    let (free, lent) = client.frames();
    assert_eq!(free + lent, 64, "all frames have come back");
}

/// A queue that spins never arms its channels, where frames that have come back are looked for as well.
#[test]
fn a_queue_that_polls_is_told_when_a_stream_can_be_written_again() {
    let stack = Stack::new();
    let (client, server) = (open(&stack, Duration::MAX), queue(&stack));
    let listener = server.listen_tcp(any(80), 16, false).unwrap();
    let (from, _) = connected(&client, &server, listener);
    client.set_option(from, StreamOption::SendBuffer(1300)).unwrap();
    assert_eq!(client.write(from, &[7; 5000]).unwrap(), 3 * 448);
    assert!(client.wait(Some(Duration::from_secs(10))).unwrap(), "it waited for nothing");
    assert!(matches!(client.next(), Ok(Some(Event::Writable(stream))) if stream == from));
}

#[test]
fn refused_reset_and_ended_streams_say_so() {
    let stack = Stack::new();
    let (mut client, server) = (queue(&stack), queue(&stack));
    let refused = client.connect_tcp(([192, 0, 2, 1], 81).into()).unwrap();
    assert!(matches!(next(&client), Event::StreamFailed(stream, 111) if stream == refused));
    assert!(matches!(next(&client), Event::StreamClosed(stream) if stream == refused));

    let listener = server.listen_tcp(any(0), 16, false).unwrap();
    let (stream, accepted) = connected(&client, &server, listener);
    client.abort(stream).unwrap();
    client.commit().unwrap();
    assert!(matches!(next(&server), Event::StreamFailed(which, 104) if which == accepted));
    assert!(matches!(next(&server), Event::StreamClosed(which) if which == accepted));
    assert!(matches!(server.write(accepted, b"x"), Err(Error::NoSocket)));

    let (stream, accepted) = connected(&client, &server, listener);
    let own = client.listen_tcp(any(82), 4, false).unwrap();
    assert!(client.reconnect().unwrap().is_empty());
    assert!(matches!(next(&client), Event::StreamFailed(which, 104) if which == stream));
    assert_eq!(client.listener_addr(own).unwrap().port(), 82, "it is open again");
    assert!(matches!(next(&server), Event::Finished(which) if which == accepted));
    let (stream, accepted) = connected(&client, &server, listener);
    client.write(stream, b"held").unwrap();
    client.commit().unwrap();
    let Event::Octets(held) = next(&server) else { panic!("no octets") };
    server.close_stream(accepted).unwrap();
    drop(held);
    server.commit().unwrap();
    assert!(matches!(next(&client), Event::Finished(which) if which == stream), "all was seen");
    client.close_stream(stream).unwrap();
    let (stream, accepted) = connected(&client, &server, listener);
    client.write(stream, b"unseen").unwrap();
    client.commit().unwrap();
    server.close_stream(accepted).unwrap();
    server.commit().unwrap();
    assert!(matches!(next(&client), Event::StreamFailed(which, 104) if which == stream));
    assert!(matches!(next(&client), Event::StreamClosed(which) if which == stream));

    let late =
        client.connect_tcp(([192, 0, 2, 1], server.listener_addr(listener).unwrap().port()).into());
    client.commit().unwrap();
    server.close_listener(listener).unwrap();
    nothing(&server);
    let late = late.unwrap();
    let events = [next(&client), next(&client)];
    assert!(
        matches!(events, [Event::Connected(a), Event::StreamFailed(b, 104)] if (a, b) == (late, late)),
        "a connection that nobody will take is reset: {events:?}"
    );
    assert!(matches!(next(&client), Event::StreamClosed(stream) if stream == late));
    let again = server.listen_tcp(any(80), 16, false).unwrap();
    connected(&client, &server, again);
}

#[test]
fn settings_counts_and_state_of_streams_and_listeners() {
    let stack = Stack::new();
    let (client, mut server) = (queue(&stack), queue(&stack));
    let listener = server.listen_tcp(any(80), 16, false).unwrap();
    server.set_listener_option(listener, StreamOption::DeferAccept(2)).unwrap();
    server.commit().unwrap();
    let (from, to) = connected(&client, &server, listener);
    client.set_option(from, StreamOption::Congestion(Congestion::Reno)).unwrap();
    client.set_option(from, StreamOption::UserTimeout(1500)).unwrap();

    // Three frames of 448 octets each, of which no more may be on their way.
    client.set_option(from, StreamOption::SendBuffer(1300)).unwrap();
    assert_eq!(client.write(from, &[7; 5000]).unwrap(), 3 * 448);
    assert!(matches!(client.write(from, b"more"), Err(Error::WouldBlock)));
    assert_eq!(client.unacknowledged(from).unwrap(), 3 * 448);
    client.request_info(from).unwrap();
    let info = loop {
        match next(&client) {
            Event::Info(stream, info) if stream == from => break info,
            Event::Writable(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((info.state(), info.acknowledged()), (1, 3 * 448));
    for _ in 0..3 {
        client.commit().unwrap();
    }
    assert_eq!(client.unacknowledged(from).unwrap(), 0, "all of them have come back");

    // What was read is known to the stack before the stream is closed: it is no reset.
    let mut read = 0;
    while read < 3 * 448 {
        let Event::Octets(octets) = next(&server) else { panic!("no octets") };
        read += octets.octets().len();
    }
    server.close_stream(to).unwrap();
    server.commit().unwrap();
    let finished = loop {
        match next(&client) {
            Event::Writable(_) => {}
            other => break matches!(other, Event::Finished(stream) if stream == from),
        }
    };
    assert!(finished, "it was not reset");

    // A listener has its settings on the next stack, too.
    server.reconnect().unwrap();
    server.commit().unwrap();
    let options = &stack.lock().unwrap().transport.options;
    let expected = [
        "listener: DeferAccept(2)",
        "Congestion(Reno)",
        "UserTimeout(1500)",
        "listener: DeferAccept(2)",
    ];
    assert_eq!(options[..], expected);
}
