//! Connections that go from one queue to another: those that no program has accepted, and those that several processes
//! hold.

use weever_app_ring::STREAMS;
use weever_net::stream::{StreamEvent, StreamRequest};

use super::streams::{Streams, here, streams};
use super::*;

/// Another queue, and its end of the channel.
pub(super) struct Other {
    pub(super) queue: u32,
    pub(super) key: u64,
    pub(super) app: AppEnd,
}

/// A listener whose application reports the connections that it accepts.
fn listening() -> SocketRequest {
    SocketRequest {
        local_port: Some(80),
        backlog: Some(16),
        sharing: Sharing::ByFlow,
        accepts_each: true,
        ..SocketRequest::default()
    }
}

impl Streams {
    pub(super) fn other(&mut self) -> Other {
        let (queue, key, app) = self.bench.open_with_key();
        self.turn();
        Other { queue, key, app }
    }

    /// A listener of a queue whose application reports the connections that it accepts.
    fn listen_for(&mut self, queue: u32) -> u32 {
        let listener = self.bench.server.open_socket(queue, &listening()).unwrap().id;
        self.turn();
        listener
    }

    /// A connection that has brought these octets.
    fn arrive(&mut self, listener: u32, octets: &[u8]) -> u32 {
        let stream = self.port.accept(listener, here(80), peer()).unwrap();
        assert_eq!(self.port.deliver(stream, octets), octets.len());
        stream
    }

    /// The entries that the other side's application finds after a turn.
    fn found(&mut self, other: &mut Other) -> Vec<(Kind, u32, Vec<u8>)> {
        let _ = other.app.commit().unwrap();
        // A claim is carried out after earlier requests, in the next turn.
        self.turn();
        self.turn();
        let mut all = Vec::new();
        while let Some(received) = other.app.receive().unwrap() {
            all.push((received.kind, received.socket, other.app.payload(&received).to_vec()));
            received.frame.into_iter().for_each(|frame| other.app.release(frame));
        }
        all
    }

    /// A connection of the first queue's, accepted, which a holder holds as well; the holder, and its key.
    pub(super) fn shared(&mut self, octets: &[u8]) -> (u32, u32, u64) {
        let listener = self.listen_for(self.queue);
        let stream = self.arrive(listener, octets);
        self.turn();
        self.requests();
        assert!(self.app.request(Kind::Accepted, stream, 0).unwrap());
        self.turn();
        let (holder, key) =
            self.bench.server.hold(self.queue, self.key, None, identity(0)).unwrap();
        self.turn();
        (stream, holder, key)
    }
}

#[test]
fn connections_that_nobody_has_accepted_go_to_the_next_listener_in_order_with_what_they_brought() {
    let mut s = streams();
    let listener = s.listen_for(s.queue);
    let accepted = s.arrive(listener, b"accepted");
    let declined = [s.arrive(listener, b"first"), s.arrive(listener, b"second")];
    s.port.tell(declined[0], StreamEvent::Finished);
    s.turn();
    let mut other = s.other();
    let next = s.listen_for(other.queue);
    s.requests();
    assert!(s.app.request(Kind::Accepted, accepted, 0).unwrap());
    for stream in [declined[1], declined[0]] {
        assert!(s.app.request(Kind::Released, stream, 0).unwrap());
    }
    s.bench.server.close_socket(s.queue, listener).unwrap();
    let expected = [
        (Kind::Connected, declined[0], next.to_ne_bytes().to_vec()),
        (Kind::Stream, declined[0], b"first".to_vec()),
        (Kind::Connected, declined[1], next.to_ne_bytes().to_vec()),
        (Kind::Stream, declined[1], b"second".to_vec()),
        (Kind::Finished, declined[0], Vec::new()),
    ];
    let _ = s.app.commit().unwrap();
    assert_eq!(s.found(&mut other), expected);
    assert!(s.received().iter().any(|(kind, of, _)| (*kind, *of) == (Kind::Released, declined[0])));
    assert_eq!(s.requests(), [], "nothing was closed, and nothing read");

    // The one that was accepted dies with its process, the others live on with theirs.
    s.bench.server.close_queue(s.queue).unwrap();
    s.turn();
    assert_eq!(s.requests(), [StreamRequest::Abort { stream: accepted }]);
    assert_eq!(s.port.deliver(declined[1], b"more"), 4);
    assert_eq!(s.found(&mut other), [(Kind::Stream, declined[1], b"more".to_vec())]);
    s.bench.server.close_queue(other.queue).unwrap();
    s.turn();
    s.turn();
    let mut reset = s.requests();
    reset.retain(|request| matches!(request, StreamRequest::Abort { .. }));
    assert_eq!(reset.len(), 2, "no listener is left");
}

#[test]
fn connections_of_a_process_that_died_go_on_and_wait_while_no_listener_serves() {
    let mut s = streams();
    let mut master = s.other();
    let resting = s.listen_for(master.queue);
    let listener = s.listen_for(s.queue);
    s.bench.server.serve(master.queue, resting, false).unwrap();
    s.turn();
    s.requests();
    let stream = s.arrive(resting, b"asked before");
    s.turn();
    assert_eq!(s.received()[0].2, listener.to_ne_bytes(), "the one that serves has it");
    s.bench.server.close_queue(s.queue).unwrap();
    s.turn();
    let late = s.port.accept(resting, here(80), peer()).unwrap();
    assert_eq!(s.port.deliver(late, b"late"), 0, "nobody takes octets");
    assert_eq!((s.found(&mut master), s.requests()), (Vec::new(), Vec::new()), "both wait");
    s.bench.server.serve(master.queue, resting, true).unwrap();
    let expected = [
        (Kind::Connected, stream, resting.to_ne_bytes().to_vec()),
        (Kind::Stream, stream, b"asked before".to_vec()),
        (Kind::Connected, late, resting.to_ne_bytes().to_vec()),
    ];
    assert_eq!(s.found(&mut master), expected);
    assert_eq!(s.port.deliver(late, b"late"), 4);
}

#[test]
fn a_claimed_stream_brings_what_was_not_read_and_takes_what_was_written_before() {
    let mut s = streams();
    let (stream, holder, _) = s.shared(b"head and body");
    let mut child = s.other();
    // The parent has read a part of a frame, and written, just before the claim.
    assert!(s.app.request(Kind::Consumed, stream, 9).unwrap());
    s.send(stream, b"by the parent");
    let _ = s.app.commit().unwrap();
    let claimed = s.bench.server.claim((holder, stream), child.queue, child.key).unwrap();
    let expected = [(Kind::Stream, stream, b"body".to_vec())];
    assert_eq!(s.found(&mut child), expected);
    assert_eq!(claimed.try_recv().unwrap().stream, stream);
    let expected =
        [StreamRequest::Consumed { stream, octets: 9 }, StreamRequest::Send { stream, octets: 13 }];
    assert_eq!(s.requests(), expected);
    let mut out = [0; 20];
    assert_eq!(s.port.read_sent(stream, 0, &mut out), 13);
    assert_eq!(&out[..13], b"by the parent");
    let released = s.received().pop().unwrap();
    assert_eq!((released.0, released.1), (Kind::Released, stream));

    // The parent closes its descriptor; the child still has the connection.
    assert!(s.app.request(Kind::Released, stream, 1).unwrap());
    assert_eq!(s.port.deliver(stream, b" and more"), 9);
    s.turn();
    assert_eq!(s.found(&mut child), [(Kind::Stream, stream, b" and more".to_vec())]);
    assert_eq!(s.requests(), []);
    assert!(child.app.request(Kind::Consumed, stream, 13).unwrap());
    assert!(child.app.request(Kind::Closed, stream, 0).unwrap());
    s.found(&mut child);
    s.turn();
    let expected =
        [StreamRequest::Consumed { stream, octets: 13 }, StreamRequest::Close { stream }];
    assert_eq!(s.requests(), expected, "closed by the last one, which has read everything");
}

#[test]
fn a_stream_rests_while_only_holders_are_left_and_is_closed_with_the_last() {
    let mut s = streams();
    let (stream, holder, key) = s.shared(b"");
    let (second, _) = s.bench.server.hold(holder, key, None, identity(0)).unwrap();
    s.bench.server.close_queue(s.queue).unwrap();
    s.turn();
    assert!(!s.requests().iter().any(|request| request.stream().is_some()), "others hold it");
    assert_eq!(s.port.deliver(stream, b"waits"), 0, "octets stay in the window");
    s.port.tell(stream, StreamEvent::Finished);
    s.bench.server.let_go(holder, None);
    s.turn();
    assert_eq!(s.requests(), []);
    let mut child = s.other();
    let claimed = s.bench.server.claim((second, stream), child.queue, child.key).unwrap();
    assert_eq!(s.found(&mut child), [(Kind::Finished, stream, Vec::new())]);
    assert!(claimed.try_recv().is_ok());
    assert_eq!(s.port.deliver(stream, b"waits"), 5);

    let again = s.bench.server.claim((second, stream), child.queue, child.key).unwrap();
    let foreign = s.bench.server.claim((child.queue, stream), child.queue, 7);
    assert!(foreign.is_err(), "with a key that is not the queue's");
    s.found(&mut child);
    assert!(again.try_recv().is_err(), "it was claimed before");
    assert!(s.bench.server.hold(child.queue, 7, None, identity(0)).is_err());
    let (third, _) = s.bench.server.hold(child.queue, child.key, None, identity(0)).unwrap();
    s.found(&mut child);
    s.bench.server.close_queue(child.queue).unwrap();
    s.turn();
    s.bench.server.let_go(third, Some(stream | 5));
    s.turn();
    s.requests();
    s.bench.server.let_go(third, Some(stream));
    s.turn();
    assert_eq!(s.requests(), [StreamRequest::Abort { stream }], "octets were not read");
    assert!(stream >= STREAMS);
}

#[test]
fn a_connection_comes_to_its_queue_again_by_another_listener_after_it_was_let_go() {
    let mut s = streams();
    let before = s.listen_for(s.queue);
    let after = s.listen_for(s.queue);
    s.bench.server.serve(s.queue, after, false).unwrap();
    s.turn();
    let stream = s.arrive(before, b"asked");
    s.turn();
    assert_eq!(s.received().len(), 2);
    s.bench.server.close_socket(s.queue, before).unwrap();
    s.bench.server.serve(s.queue, after, true).unwrap();
    assert!(s.app.request(Kind::Released, stream, 0).unwrap());
    s.turn();
    s.turn();
    let expected = [
        (Kind::Released, stream, Vec::new()),
        (Kind::Connected, stream, after.to_ne_bytes().to_vec()),
    ];
    assert_eq!(s.received()[..2], expected, "the number is free before it is used again");
}

#[test]
fn a_holder_of_a_holder_keeps_a_listener_until_it_is_closed_by_its_number_at_its_queue() {
    let mut s = streams();
    let listener = s.listen_for(s.queue);
    let (parent, key) = s.bench.server.hold_listeners(s.queue, s.key, identity(0)).unwrap();
    let (child, _) = s.bench.server.hold_listeners(parent, key, identity(0)).unwrap();
    s.bench.server.close_queue(s.queue).unwrap();
    let held: Vec<_> = s.bench.server.held_listeners().map(|h| (h.queue, h.owner)).collect();
    assert_eq!(held, [(parent, identity(0)), (child, identity(0))]);
    assert_eq!((s.bench.server.sockets().count(), s.bench.server.held_count()), (0, 2));
    let close = |s: &mut Streams, holder, number| s.bench.server.close_held(holder, number);
    // Another process may have the port once nobody holds it.
    let other = s.other().queue;
    let alone = SocketRequest { sharing: Sharing::Exclusive, ..listening() };
    let is_free = |s: &mut Streams| s.bench.server.open_socket(other, &alone).is_ok();
    assert!(matches!(close(&mut s, child, listener + 100), Err(ServerError::NoSocket(_))));
    close(&mut s, parent, listener).unwrap();
    assert!(matches!(close(&mut s, parent, listener), Err(ServerError::NoSocket(_))));
    assert!(!is_free(&mut s), "the child holds it");
    close(&mut s, child, listener).unwrap();
    assert_eq!(s.bench.server.held_count(), 0);
    assert!(is_free(&mut s));
}
