//! Requests that the transport has not taken yet.
//!
//! They are taken in the order in which they were made. A stream that moves takes its own along from anywhere in
//! the queue: each request knows the one before of the same stream, and the stream knows its last, so that
//! thousands of streams that move at once do not walk all requests each.

use std::collections::VecDeque;

use weever_net::stream::StreamRequest;

/// The last request of a stream, if it was not taken yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastRequest(Option<u64>);

struct Entry {
    /// `None`: its stream took it along.
    request: Option<StreamRequest>,
    before: LastRequest,
}

/// A queue of requests.
#[derive(Default)]
pub(crate) struct Pending {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    /// Entries with a request.
    count: usize,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a request that is about no stream.
    pub(crate) fn push(&mut self, request: StreamRequest) {
        self.push_of(&mut LastRequest::default(), request);
    }

    /// Adds a request of the stream whose last one is `last`.
    #[inline]
    pub(crate) fn push_of(&mut self, last: &mut LastRequest, request: StreamRequest) {
        let number = self.first + self.entries.len() as u64;
        let before = std::mem::replace(last, LastRequest(Some(number)));
        self.entries.push_back(Entry { request: Some(request), before });
        self.count += 1;
    }

    /// The next request for the transport.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<StreamRequest> {
        while let Some(entry) = self.entries.pop_front() {
            self.first += 1;
            if let Some(request) = entry.request {
                self.count -= 1;
                return Some(request);
            }
        }
        None
    }

    /// Takes the requests of a stream out, in their order.
    pub(crate) fn take_of(&mut self, last: &mut LastRequest) -> Vec<StreamRequest> {
        let mut requests = Vec::new();
        let mut at = std::mem::take(last).0;
        while let Some(place) = at.and_then(|number| number.checked_sub(self.first)) {
            // Numbers of a stream descend: those below the first were taken.
            let entry = &mut self.entries[place as usize];
            requests.extend(entry.request.take());
            at = entry.before.0;
        }
        self.count -= requests.len();
        requests.reverse();
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(stream: u32, octets: u32) -> StreamRequest {
        StreamRequest::Send { stream, octets }
    }

    #[test]
    fn a_stream_takes_its_requests_along_in_order_and_the_others_keep_theirs() {
        let (mut pending, mut last) = (Pending::default(), [LastRequest::default(); 3]);
        for octets in 0..4 {
            for (stream, last) in (0..3).zip(&mut last) {
                pending.push_of(last, send(stream, octets));
            }
        }
        pending.push(StreamRequest::Report { most: 1 });
        // The transport has taken the first of streams 0 and 1.
        assert_eq!([pending.pop(), pending.pop()], [Some(send(0, 0)), Some(send(1, 0))]);
        assert_eq!(pending.take_of(&mut last[1]), [1, 2, 3].map(|octets| send(1, octets)));
        assert_eq!(pending.take_of(&mut last[1]), [], "once");
        pending.push_of(&mut last[1], send(1, 9));
        assert_eq!(pending.take_of(&mut last[2]), [0, 1, 2, 3].map(|octets| send(2, octets)));
        let rest: Vec<_> = std::iter::from_fn(|| pending.pop()).collect();
        let own = [1, 2, 3].map(|octets| send(0, octets));
        let others = [StreamRequest::Report { most: 1 }, send(1, 9)];
        assert_eq!(rest, [own.as_slice(), &others].concat());
        assert!(pending.is_empty());
        assert_eq!(pending.take_of(&mut last[0]), [], "all were taken by the transport");
    }

    /// With a walk over all requests for each stream this takes minutes.
    #[test]
    fn a_hundred_thousand_streams_take_their_requests_along() {
        const STREAMS: u32 = 100_000;
        let mut pending = Pending::default();
        let mut last = vec![LastRequest::default(); STREAMS as usize];
        for round in 0..2 {
            for (stream, last) in (0..STREAMS).zip(&mut last) {
                pending.push_of(last, send(stream, round));
            }
        }
        for (stream, last) in (0..STREAMS).zip(&mut last).rev() {
            assert_eq!(pending.take_of(last), [send(stream, 0), send(stream, 1)]);
        }
        assert!(pending.is_empty() && pending.pop().is_none());
    }
}
