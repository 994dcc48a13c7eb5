//! Streams that move between two workers, both of which the test turns.

use std::sync::Arc;

use weever_net::stream::{StreamEvent, StreamPort, StreamRequest};

use super::*;

struct Worker {
    queue: Box<dyn LinkQueue>,
    port: Arc<dyn StreamPort>,
    app: AppEnd,
}

struct Two {
    workers: [Worker; 2],
    server: AppServer,
    queue: u32,
    cache: PoolCache,
    listener: u32,
}

fn two() -> Two {
    let pool = Pool::new(PoolConfig { frames: 128, ..PoolConfig::default() }).unwrap();
    let network = Box::new(Joined::default());
    let (mut link, mut server) = AppLink::new(2, None, network, [1, 2, 3, 4], 1000).unwrap();
    let OpenedQueue { id, channels, .. } = server.open_queue(identity(0), GEOMETRY).unwrap();
    let ports = link.stream_ports().to_vec();
    let parts = link.take_queues().into_iter().zip(ports).zip(channels);
    let worker =
        |((queue, port), channel)| Worker { queue, port, app: AppEnd::map(channel).unwrap() };
    let workers: Vec<Worker> = parts.map(worker).collect();
    let request =
        SocketRequest { local_port: Some(80), backlog: Some(4), ..SocketRequest::default() };
    let listener = server.open_socket(id, &request).unwrap().id;
    let workers = workers.try_into().unwrap_or_else(|_| panic!("two workers"));
    let mut two = Two { workers, server, queue: id, cache: pool.cache(), listener };
    for worker in [0, 1] {
        two.turn(worker);
        two.requests(worker);
    }
    two
}

impl Two {
    /// A turn of a worker, and of the application's channel to it.
    fn turn(&mut self, worker: usize) {
        let Worker { queue, app, .. } = &mut self.workers[worker];
        let _ = app.commit().unwrap();
        let mut burst = Burst::new();
        queue.advance(0);
        let received = queue.rx(&mut self.cache, &mut burst, 64).unwrap();
        (0..received).for_each(|at| self.cache.free(burst.take(at).unwrap()));
        queue.flush(&mut self.cache).unwrap();
        app.reap().unwrap();
    }

    fn requests(&self, worker: usize) -> Vec<StreamRequest> {
        std::iter::from_fn(|| self.workers[worker].port.next_request()).collect()
    }

    fn accept(&mut self) -> u32 {
        let here = SocketAddr::from(([192, 0, 2, 1], 80));
        let stream = self.workers[0].port.accept(self.listener, here, peer()).unwrap();
        self.turn(0);
        assert_eq!(self.received(0).len(), 1);
        stream
    }

    fn send(&mut self, worker: usize, stream: u32, octets: &[u8]) {
        let app = &mut self.workers[worker].app;
        let mut frame = app.alloc().unwrap().unwrap();
        app.payload_mut(&mut frame)[..octets.len()].copy_from_slice(octets);
        app.submit_stream(frame, stream, (INFO_SIZE, octets.len() as u16)).unwrap();
    }

    fn tell(&mut self, worker: usize, kind: Kind, stream: u32, value: u32) {
        assert!(self.workers[worker].app.request(kind, stream, value).unwrap());
    }

    fn received(&mut self, worker: usize) -> Vec<(Kind, Vec<u8>)> {
        let app = &mut self.workers[worker].app;
        let mut all = Vec::new();
        while let Some(received) = app.receive().unwrap() {
            let value = received.offset.to_ne_bytes().to_vec();
            let payload = app.payload(&received).to_vec();
            all.push((received.kind, if received.frame.is_some() { payload } else { value }));
            received.frame.into_iter().for_each(|frame| app.release(frame));
        }
        all
    }

    /// Moves a stream from worker 0 to worker 1.
    fn move_it(&mut self, stream: u32) {
        let state = self.workers[0].port.export(stream).unwrap();
        assert!(self.workers[1].port.import(stream, state));
        assert!(!self.workers[1].port.may_move(stream), "not before it has settled");
    }

    /// Has the application confirm that move, to both workers.
    fn settle(&mut self, stream: u32) {
        self.tell(0, Kind::Moved, stream, 0);
        self.tell(1, Kind::Moved, stream, 1);
        self.turn(0);
        self.turn(1);
    }

    fn sent(&self, worker: usize, stream: u32) -> Vec<u8> {
        let mut out = [0; 64];
        let len = self.workers[worker].port.read_sent(stream, 0, &mut out);
        out[..len].to_vec()
    }

    fn returned(&mut self, worker: usize) -> usize {
        std::iter::from_fn(|| self.workers[worker].app.next_returned()).count()
    }
}

fn send(stream: u32, octets: u32) -> StreamRequest {
    StreamRequest::Send { stream, octets }
}

#[test]
fn octets_keep_their_order_both_ways_when_a_stream_moves() {
    let mut two = two();
    let stream = two.accept();
    assert_eq!(two.workers[0].port.deliver(stream, b"one"), 3);
    two.send(0, stream, b"abc");
    two.turn(0);
    assert_eq!(two.requests(0), [send(stream, 3)]);
    two.send(0, stream, b"def");
    two.turn(0);
    // The transport has not taken this request: it goes along.
    two.move_it(stream);
    assert_eq!(two.requests(0), []);
    assert_eq!(two.requests(1), [send(stream, 3)]);
    assert_eq!(two.sent(1, stream), b"abcdef");

    // The application does not know yet.
    two.send(0, stream, b"ghi");
    two.turn(0);
    assert_eq!(two.workers[1].port.deliver(stream, b"two"), 0, "`one` was not read yet");
    two.turn(1);
    assert_eq!(two.requests(1), [send(stream, 3)], "by way of the old worker");
    let expected = [(Kind::Stream, b"one".to_vec()), (Kind::Moved, 1u16.to_ne_bytes().to_vec())];
    assert_eq!(two.received(0), expected);

    // It changes over, and what it writes there first waits for the last word from the old channel.
    two.send(1, stream, b"jkl");
    two.tell(1, Kind::Moved, stream, 1);
    two.tell(0, Kind::Moved, stream, 0);
    two.turn(1);
    assert_eq!(two.requests(1), [], "the old worker may have more");
    two.turn(0);
    two.turn(1);
    assert_eq!(two.requests(1), [send(stream, 3)]);
    assert_eq!(two.sent(1, stream), b"abcdefghijkl");
    assert!(two.workers[1].port.may_move(stream), "it has settled");
    assert_eq!(two.workers[1].port.deliver(stream, b"two"), 3);
    two.turn(1);
    assert_eq!(two.received(1), [(Kind::Stream, b"two".to_vec())]);

    // Frames go back to the channels that they came by.
    two.workers[1].port.acknowledged(stream, 12);
    two.turn(0);
    two.turn(1);
    assert_eq!((two.returned(0), two.returned(1)), (3, 1));
    // Six octets were delivered, at both workers, and are read here.
    two.tell(1, Kind::Consumed, stream, 6);
    two.tell(1, Kind::Closed, stream, 0);
    two.turn(1);
    let expected = [StreamRequest::Consumed { stream, octets: 6 }, StreamRequest::Close { stream }];
    assert_eq!(two.requests(1), expected);
}

#[test]
fn urgent_data_is_told_by_the_worker_that_has_the_stream() {
    let mut two = two();
    let stream = two.accept();
    let urgent = |two: &Two, worker: usize, end| {
        two.workers[worker].port.tell(stream, StreamEvent::Urgent { end });
    };
    assert_eq!(two.workers[0].port.deliver(stream, b"one"), 3);
    urgent(&two, 0, 5);
    two.move_it(stream);
    urgent(&two, 1, 5);
    urgent(&two, 1, 6);
    assert_eq!(two.workers[1].port.deliver(stream, b"two"), 0);
    two.turn(0);
    two.turn(1);
    let told = |ahead: u16| (Kind::Urgent, ahead.to_ne_bytes().to_vec());
    let moved = (Kind::Moved, 1u16.to_ne_bytes().to_vec());
    assert_eq!(two.received(0), [(Kind::Stream, b"one".to_vec()), told(2), moved]);
    assert_eq!(two.received(1), []);
    two.settle(stream);
    assert_eq!(two.workers[1].port.deliver(stream, b"two"), 3);
    two.turn(1);
    assert_eq!(two.received(1), [told(3), (Kind::Stream, b"two".to_vec())]);
}

/// Its ring is full when the stream goes.
#[test]
fn what_the_worker_before_could_not_tell_of_urgent_data_the_next_one_tells() {
    let mut two = two();
    let stream = two.accept();
    let mut before = 0;
    while two.workers[0].port.deliver(stream, b"x") == 1 {
        before += 1;
    }
    for end in before + 1..=before + 100 {
        two.workers[0].port.tell(stream, StreamEvent::Urgent { end });
    }
    two.move_it(stream);
    for worker in [0, 1, 0] {
        two.turn(worker);
        two.received(0);
    }
    two.settle(stream);
    assert_eq!(two.workers[1].port.deliver(stream, b"yU"), 2);
    two.turn(1);
    let told = (Kind::Urgent, 100u16.to_ne_bytes().to_vec());
    assert_eq!(two.received(1), [told, (Kind::Stream, b"yU".to_vec())]);
}

#[test]
fn a_stream_that_moves_can_be_closed_and_its_application_can_end_at_any_time() {
    // Closed before the application knows.
    let mut two = two();
    let stream = two.accept();
    two.move_it(stream);
    two.send(0, stream, b"last");
    two.tell(0, Kind::Closed, stream, 0);
    two.turn(0);
    two.turn(1);
    two.turn(0);
    two.turn(1);
    assert_eq!(two.requests(1), [send(stream, 4), StreamRequest::Close { stream }]);
    two.workers[1].port.acknowledged(stream, 4);
    two.workers[1].port.tell(stream, StreamEvent::Closed);
    two.turn(0);
    assert_eq!(two.returned(0), 1);
    two.send(0, stream, b"too late");
    two.turn(0);
    assert_eq!(two.workers[0].queue.stats().rx_invalid, 1, "nobody relays it any more");

    // The application ends: what it wrote before goes before the end.
    let stream = two.accept();
    two.move_it(stream);
    two.send(0, stream, b"last");
    two.turn(0);
    two.turn(1);
    two.turn(0);
    two.server.close_queue(two.queue).unwrap();
    two.turn(1);
    let before: Vec<_> = two.requests(1);
    assert!(!before.contains(&StreamRequest::Close { stream }), "{before:?}");
    two.turn(0);
    two.turn(1);
    let all = [before, two.requests(1)].concat();
    let at = |wanted| all.iter().position(|request| *request == wanted).unwrap();
    assert!(at(send(stream, 4)) < at(StreamRequest::Close { stream }), "{all:?}");
    assert_eq!(two.sent(1, stream), b"last");
}
