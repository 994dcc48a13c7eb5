//! Urgent data: applications are told of it before they get its octets, whatever happens to the stream.

use weever_net::stream::StreamEvent;

use super::sharing::Other;
use super::streams::{Streams, streams};
use super::*;

/// What an application finds, in order: octets, and how far ahead urgent data ends.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Octets(Vec<u8>),
    Urgent(i32),
}

fn octets(octets: &[u8]) -> Found {
    Found::Octets(octets.to_vec())
}

fn found(app: &mut AppEnd) -> Vec<Found> {
    let mut all = Vec::new();
    while let Some(received) = app.receive().unwrap() {
        match received.kind {
            Kind::Stream => all.push(octets(app.payload(&received))),
            Kind::Urgent => all.push(Found::Urgent(received.value().cast_signed())),
            _ => {}
        }
        received.frame.into_iter().for_each(|frame| app.release(frame));
    }
    all
}

fn urgent(s: &Streams, stream: u32, end: u64) {
    s.port.tell(stream, StreamEvent::Urgent { end });
}

impl Streams {
    fn found_by(&mut self, other: &mut Other) -> Vec<Found> {
        let _ = other.app.commit().unwrap();
        self.turn();
        self.turn();
        found(&mut other.app)
    }
}

#[test]
fn urgent_data_is_told_once_and_its_place_counts_from_what_was_delivered() {
    let mut s = streams();
    let (stream, ..) = s.shared(b"abc");
    urgent(&s, stream, 5);
    assert_eq!(s.port.deliver(stream, b"dU"), 2);
    urgent(&s, stream, 5);
    urgent(&s, stream, 4);
    // Late: its last octet is there already.
    assert_eq!(s.port.deliver(stream, b" efV"), 4);
    urgent(&s, stream, 9);
    urgent(&s, stream, 8);
    urgent(&s, stream, 70_000);
    s.turn();
    let expected = [
        octets(b"abc"),
        Found::Urgent(2),
        octets(b"dU"),
        octets(b" efV"),
        Found::Urgent(0),
        Found::Urgent(69_991),
    ];
    assert_eq!(found(&mut s.app), expected);
}

#[test]
fn a_full_ring_gets_the_latest_place_before_further_octets() {
    let mut s = streams();
    let (stream, ..) = s.shared(b"");
    let mut before = 0;
    while s.port.deliver(stream, b"x") == 1 {
        before += 1;
    }
    for ahead in 1..100 {
        urgent(&s, stream, before + ahead);
    }
    assert_eq!(s.port.deliver(stream, b"y"), 0);
    s.turn();
    found(&mut s.app);
    // The next delivery finds room before the worker's turn has told what waits.
    let _ = s.app.commit().unwrap();
    assert_eq!(s.port.deliver(stream, b"y"), 1);
    s.turn();
    assert_eq!(found(&mut s.app), [Found::Urgent(99), octets(b"y")]);
}

#[test]
fn another_process_is_told_anew_before_it_gets_the_octets_again() {
    let mut s = streams();
    let (stream, holder, _) = s.shared(b"head");
    urgent(&s, stream, 9);
    assert_eq!(s.port.deliver(stream, b" bodU"), 5);
    let mut child = s.other();
    assert!(s.app.request(Kind::Consumed, stream, 6).unwrap());
    let _ = s.app.commit().unwrap();
    s.bench.server.claim((holder, stream), child.queue, child.key).unwrap();
    let expected = [Found::Urgent(3), octets(b"odU")];
    assert_eq!(s.found_by(&mut child), expected);
    // What comes counts from there.
    urgent(&s, stream, 12);
    assert_eq!(s.port.deliver(stream, b" V"), 2);
    assert_eq!(s.found_by(&mut child), [Found::Urgent(3), octets(b" V")]);
}

#[test]
fn a_stream_that_rests_tells_its_next_queue_of_what_came_meanwhile_and_not_of_what_was_read() {
    for (end, expected) in [(9, vec![Found::Urgent(5)]), (4, vec![])] {
        let mut s = streams();
        let (stream, holder, _) = s.shared(b"read");
        assert!(s.app.request(Kind::Consumed, stream, 4).unwrap());
        urgent(&s, stream, 4);
        s.turn();
        s.bench.server.close_queue(s.queue).unwrap();
        s.turn();
        urgent(&s, stream, end);
        assert_eq!(s.port.deliver(stream, b"late"), 0);
        let mut child = s.other();
        s.bench.server.claim((holder, stream), child.queue, child.key).unwrap();
        assert_eq!(s.found_by(&mut child), expected);
    }
}
