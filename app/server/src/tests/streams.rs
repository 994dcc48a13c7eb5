//! Streams: a transport that the test plays, and applications on their channels.

use std::sync::Arc;

use weever_app_ring::STREAMS;
use weever_net::demux::Binding;
use weever_net::stream::{
    Congestion, StreamEvent, StreamInfo, StreamOption, StreamPort, StreamRequest, StreamStatus,
};

use super::*;

pub(super) struct Streams {
    pub(super) bench: Bench,
    pub(super) port: Arc<dyn StreamPort>,
    pub(super) queue: u32,
    pub(super) key: u64,
    pub(super) app: AppEnd,
}

pub(super) fn streams() -> Streams {
    let mut bench = bench();
    let port = Arc::clone(&bench.port);
    let (queue, key, app) = bench.open_with_key();
    bench.turn(Vec::new());
    Streams { bench, port, queue, key, app }
}

impl Streams {
    fn listen(&mut self, port: u16) -> u32 {
        let backlog = Some(16);
        let request = SocketRequest { local_port: Some(port), backlog, ..SocketRequest::default() };
        self.bench.server.open_socket(self.queue, &request).unwrap().id
    }

    /// A turn of the worker; whether it woke the transport.
    pub(super) fn turn(&mut self) -> bool {
        let _ = self.app.commit().unwrap();
        let packets = self.bench.turn(Vec::new());
        packets.iter().any(|packet| packet.meta().endpoints.protocol == 6)
    }

    pub(super) fn requests(&self) -> Vec<StreamRequest> {
        std::iter::from_fn(|| self.port.next_request()).collect()
    }

    /// Kind, number and payload of the entries that the application finds; its frames are released.
    pub(super) fn received(&mut self) -> Vec<(Kind, u32, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(received) = self.app.receive().unwrap() {
            all.push((received.kind, received.socket, self.app.payload(&received).to_vec()));
            received.frame.into_iter().for_each(|frame| self.app.release(frame));
        }
        all
    }

    pub(super) fn send(&mut self, stream: u32, octets: &[u8]) {
        let mut frame = self.app.alloc().unwrap().unwrap();
        self.app.payload_mut(&mut frame)[..octets.len()].copy_from_slice(octets);
        self.app.submit_stream(frame, stream, (INFO_SIZE, octets.len() as u16)).unwrap();
    }
}

pub(super) fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// A worker that polls has made many turns before the next request comes.
#[test]
fn the_answer_to_what_was_delivered_is_taken_at_once_after_a_long_silence() {
    let mut s = streams();
    let listener = s.listen(80);
    s.turn();
    s.requests();
    let stream = s.port.accept(listener, here(80), peer()).unwrap();
    for silence in 1000..1032 {
        for _ in 0..silence {
            s.turn();
        }
        assert_eq!(s.port.deliver(stream, b"request"), 7);
        s.turn();
        assert!(!s.received().is_empty());
        s.send(stream, b"answer");
        assert!(s.turn(), "the transport learns of it in the next turn");
        s.requests();
        s.port.acknowledged(stream, 6 * (silence - 999));
    }
}

#[test]
fn an_accepted_stream_carries_octets_both_ways_until_both_ends_have_finished() {
    let mut s = streams();
    let listener = s.listen(80);
    assert!(s.turn(), "the transport is woken to listen");
    let [StreamRequest::Listen { listener: asked, binding, backlog: 16 }] = s.requests()[..] else {
        panic!("one listener");
    };
    assert_eq!((asked, binding.local_port), (listener, Some(80)));
    assert!(!s.turn(), "nothing is left to do");

    let stream = s.port.accept(listener, here(80), peer()).unwrap();
    assert!(stream >= STREAMS);
    assert_eq!(s.port.deliver(stream, b"GET"), 3);
    s.port.tell(stream, StreamEvent::Finished);
    s.turn();
    let expected = [
        (Kind::Connected, stream, listener.to_ne_bytes().to_vec()),
        (Kind::Stream, stream, b"GET".to_vec()),
        (Kind::Finished, stream, Vec::new()),
    ];
    assert_eq!(s.received(), expected);

    assert!(s.app.request(Kind::Consumed, stream, 3).unwrap());
    assert!(s.app.request(Kind::Option, stream, StreamOption::NoDelay(true).to_word()).unwrap());
    s.send(stream, b"200 ");
    s.send(stream, b"OK");
    assert!(s.app.request(Kind::Finished, stream, 0).unwrap());
    s.send(stream, b"too late");
    assert!(s.turn());
    let option = StreamOption::NoDelay(true);
    let expected = [
        StreamRequest::Consumed { stream, octets: 3 },
        StreamRequest::Set { stream, option },
        StreamRequest::Send { stream, octets: 4 },
        StreamRequest::Send { stream, octets: 2 },
        StreamRequest::Finish { stream },
    ];
    assert_eq!(s.requests(), expected);
    assert_eq!(s.bench.queue.stats().rx_invalid, 1, "octets behind the end");

    let mut out = [0; 8];
    assert_eq!(s.port.read_sent(stream, 2, &mut out[..3]), 3, "over two frames");
    assert_eq!(&out[..3], b"0 O");
    assert_eq!(s.port.read_sent(stream, 5, &mut out), 1);
    assert_eq!(s.port.read_sent(stream, 6, &mut out), 0);
    let _ = s.app.commit().unwrap();
    assert_eq!(s.app.next_returned(), Some((stream, 8)), "the frame that was refused");
    s.port.acknowledged(stream, 5);
    s.turn();
    let _ = s.app.commit().unwrap();
    assert_eq!((s.app.next_returned(), s.app.next_returned()), (Some((stream, 4)), None));
    s.port.acknowledged(stream, 6);
    s.port.tell(stream, StreamEvent::Closed);
    s.turn();
    assert_eq!(s.received(), [(Kind::Closed, stream, Vec::new())]);
    let _ = s.app.commit().unwrap();
    assert_eq!(s.app.next_returned(), Some((stream, 2)));
    assert_eq!(s.port.read_sent(stream, 0, &mut out), 0, "it is forgotten");
}

#[test]
fn a_stream_is_connected_by_a_number_of_the_application_which_another_cannot_use() {
    let mut s = streams();
    let frame = s.app.alloc().unwrap().unwrap();
    let ends = PacketInfo { remote: peer(), ..PacketInfo::default() };
    s.app.submit_connect(frame, 7, &ends).unwrap();
    assert!(s.turn());
    let [StreamRequest::Connect { stream, remote, .. }] = s.requests()[..] else {
        panic!("one connection");
    };
    assert_eq!(remote, peer());
    s.port.tell(stream, StreamEvent::Connected { local: here(50_000), remote });
    s.turn();
    assert_eq!(s.received(), [(Kind::Connected, 7, 7u32.to_ne_bytes().to_vec())]);

    let (_, mut thief) = s.bench.open();
    s.bench.turn(Vec::new());
    for number in [7, stream] {
        assert!(thief.request(Kind::Abort, number, 0).unwrap());
    }
    let _ = thief.commit().unwrap();
    assert!(!s.turn() && s.requests().is_empty(), "it is another application's");
    assert_eq!(s.bench.queue.stats().rx_invalid, 2);

    s.port.tell(stream, StreamEvent::Failed(104));
    s.port.tell(stream, StreamEvent::Closed);
    s.turn();
    let expected = [(Kind::Error, 7, Vec::new()), (Kind::Closed, 7, Vec::new())];
    assert_eq!(s.received(), expected);
}

#[test]
fn a_reader_without_frames_gets_the_rest_when_it_has_some_again() {
    let mut s = streams();
    let listener = s.listen(80);
    s.turn();
    s.requests();
    let stream = s.port.accept(listener, here(80), peer()).unwrap();
    let octets = vec![5; 200_000];
    let first = s.port.deliver(stream, &octets);
    assert!(first < octets.len());
    assert_eq!(s.port.accept(listener, here(80), peer()), None, "it waits to be accepted");
    assert!(!s.turn(), "no frame, no use in waking the transport");
    let got: usize = s.received().iter().map(|(_, _, payload)| payload.len()).sum();
    assert_eq!(got - 4, first);
    assert!(s.turn(), "frames came back");
    assert!(s.port.deliver(stream, &octets[first..]) > 0);
}

#[test]
fn octets_of_an_application_that_has_ended_can_still_be_sent() {
    let mut s = streams();
    let listener = s.listen(80);
    s.turn();
    s.requests();
    let (read, unread) =
        (s.port.accept(listener, here(80), peer()), s.port.accept(listener, here(80), peer()));
    let (read, unread) = (read.unwrap(), unread.unwrap());
    assert_eq!(s.port.deliver(unread, b"never read"), 10);
    s.send(read, b"last words");
    assert!(s.turn());
    s.requests();
    s.bench.server.close_queue(s.queue).unwrap();
    s.bench.turn(Vec::new());
    let mut expected = s.requests();
    expected.sort_by_key(|request| matches!(request, StreamRequest::StopListening { .. }));
    assert!(expected.contains(&StreamRequest::Close { stream: read }), "{expected:?}");
    assert!(expected.contains(&StreamRequest::Abort { stream: unread }), "{expected:?}");
    assert!(expected.contains(&StreamRequest::StopListening { listener }), "{expected:?}");
    let mut out = [0; 10];
    assert_eq!(s.port.read_sent(read, 0, &mut out), 10);
    assert_eq!(&out, b"last words");
    assert_eq!(s.port.deliver(read, b"more"), 4, "nobody reads it");
    s.port.acknowledged(read, 10);
    s.port.tell(read, StreamEvent::Closed);
    s.port.tell(unread, StreamEvent::Closed);
    assert_eq!(s.port.read_sent(read, 0, &mut out), 0);
}

#[test]
fn listeners_with_one_binding_take_turns_and_the_last_one_ends_it() {
    let mut s = streams();
    let shared = SocketRequest {
        local_port: Some(80),
        backlog: Some(16),
        sharing: Sharing::ByFlow,
        ..SocketRequest::default()
    };
    let first = s.bench.server.open_socket(s.queue, &shared).unwrap().id;
    let second = s.bench.server.open_socket(s.queue, &shared).unwrap().id;
    s.turn();
    assert_eq!(s.requests().len(), 1, "one listener for the transport");
    for _ in 0..4 {
        s.port.accept(first, here(80), peer()).unwrap();
    }
    s.turn();
    let at: Vec<Vec<u8>> = s.received().into_iter().map(|(_, _, listener)| listener).collect();
    let turns = [second, first, second, first].map(|id| id.to_ne_bytes().to_vec());
    assert_eq!(at, turns);
    s.bench.server.close_socket(s.queue, first).unwrap();
    s.turn();
    assert!(s.requests().is_empty());
    assert!(s.port.accept(first, here(80), peer()).is_some(), "the other goes on");
    s.bench.server.close_socket(s.queue, second).unwrap();
    s.turn();
    assert_eq!(s.requests(), [StreamRequest::StopListening { listener: first }]);
    let used = s.bench.server.open_socket(s.queue, &shared);
    assert!(used.is_ok(), "the port is free again");
}

#[test]
fn ports_of_streams_are_apart_from_ports_of_datagrams() {
    let mut s = streams();
    let any = |port| Binding { local_port: Some(port), ..Binding::default() };
    s.bench.server.reserve(any(80), false).unwrap();
    s.bench.server.reserve(any(7), true).unwrap();
    let listener = s.listen(80);
    let listed: Vec<_> = s.bench.server.sockets().map(|there| (there.id, there.listens)).collect();
    assert_eq!(listed, [(listener, true)]);
    let backlog = Some(16);
    let taken = SocketRequest { local_port: Some(7), backlog, ..SocketRequest::default() };
    let refused = s.bench.server.open_socket(s.queue, &taken).unwrap_err();
    assert!(matches!(refused, ServerError::Bind(_)), "a service of the stack listens there");
    s.bench.bind(s.queue, 7);
}

#[test]
fn a_stream_that_was_not_read_or_wants_it_is_reset_when_it_is_closed() {
    let mut s = streams();
    let listener = s.listen(80);
    s.turn();
    s.requests();
    let accept = || s.port.accept(listener, here(80), peer()).unwrap();
    let (read, unread, wants) = (accept(), accept(), accept());
    assert_eq!(s.port.deliver(read, b"all of it"), 9);
    assert_eq!(s.port.deliver(unread, b"all of it"), 9);
    assert!(s.app.request(Kind::Consumed, read, 9).unwrap());
    assert!(s.app.request(Kind::Consumed, unread, 8).unwrap());
    assert!(
        s.app.request(Kind::Option, wants, StreamOption::ResetOnClose(true).to_word()).unwrap()
    );
    for stream in [read, unread, wants] {
        assert!(s.app.request(Kind::Closed, stream, 0).unwrap());
    }
    s.turn();
    let closed: Vec<StreamRequest> = s
        .requests()
        .into_iter()
        .filter(|request| !matches!(request, StreamRequest::Consumed { .. }))
        .collect();
    let expected = [
        StreamRequest::Close { stream: read },
        StreamRequest::Abort { stream: unread },
        StreamRequest::Abort { stream: wants },
    ];
    assert_eq!(closed, expected);
}

#[test]
fn listeners_have_settings_and_streams_say_how_they_are_doing() {
    let mut s = streams();
    let listener = s.listen(80);
    s.turn();
    s.requests();
    let settings = [StreamOption::DeferAccept(3), StreamOption::Congestion(Congestion::Reno)];
    for setting in settings {
        assert!(s.app.request(Kind::Option, listener, setting.to_word()).unwrap());
    }
    assert!(s.turn());
    let expected = [StreamOption::DeferAccept(3), StreamOption::Congestion(Congestion::Reno)];
    assert_eq!(
        s.requests(),
        expected.map(|option| StreamRequest::SetListener { listener, option })
    );

    let stream = s.port.accept(listener, here(80), peer()).unwrap();
    assert!(s.app.request(Kind::Option, stream, StreamOption::DeferAccept(3).to_word()).unwrap());
    assert!(s.app.request(Kind::Info, stream, 0).unwrap());
    s.turn();
    assert_eq!(s.requests(), [StreamRequest::Inform { stream }], "only listeners can defer");
    let info = StreamInfo { state: 1, retransmissions: 5, ..StreamInfo::default() };
    s.port.inform(stream, &info);
    s.turn();
    let received = s.received();
    let (kind, number, bytes) = received.last().unwrap();
    assert_eq!((*kind, *number, &bytes[..]), (Kind::Info, stream, &info.to_linux()[..]));

    let status = StreamStatus { stream: Some(stream), local: here(80), remote: peer(), info };
    let port = Arc::clone(&s.port);
    port.report(vec![status], 1);
    // The worker's turns, while the operator waits in a thread.
    let asked = std::thread::scope(|scope| {
        let Bench { server, queue, cache, burst, .. } = &mut s.bench;
        let operator = scope.spawn(|| server.connections(7));
        while !operator.is_finished() {
            queue.advance(0);
            let received = queue.rx(cache, burst, 64).unwrap();
            (0..received).for_each(|at| cache.free(burst.take(at).unwrap()));
            if let Some(request) = port.next_request() {
                assert_eq!(request, StreamRequest::Report { most: 7 });
                port.report(vec![status], 12);
            }
        }
        operator.join().unwrap()
    });
    let (connections, total) = asked;
    assert_eq!((connections.len(), total), (1, 12));
    let owner = connections[0].owner.as_ref().unwrap();
    assert_eq!((owner.0, connections[0].info), (s.queue, info));
}

#[test]
fn memory_of_a_closed_queue_counts_until_its_connections_have_ended() {
    let mut s = streams();
    s.bench.server.set_memory(GEOMETRY.total_size());
    let listener = s.listen(80);
    s.turn();
    s.requests();
    let stream = s.port.accept(listener, here(80), peer()).unwrap();
    s.turn();
    s.received();
    s.send(stream, b"not acknowledged");
    s.turn();
    s.bench.server.close_queue(s.queue).unwrap();
    s.bench.turn(Vec::new());
    let refused = s.bench.server.open_queue(identity(0), GEOMETRY).unwrap_err();
    assert!(matches!(refused, ServerError::Memory { queues: 1, .. }), "{refused}");
    s.port.tell(stream, StreamEvent::Closed);
    s.bench.turn(Vec::new());
    s.bench.open();
}
