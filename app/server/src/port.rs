//! The transport's side of a worker's streams: what it takes from applications, and tells them.

use std::net::SocketAddr;

use weever_net::stream::{
    StreamEvent, StreamId, StreamInfo, StreamPort, StreamRequest, StreamState, StreamStatus,
};

use crate::passage::Told;
use crate::request::Connections;
use crate::stream::note;
use crate::stream::{Kept, Stream};
use crate::streams::{Ends, SharedEnds};
use crate::telling::tell_urgent;

/// The port of one worker's transport.
pub(crate) struct Port(pub(crate) SharedEnds);

impl StreamPort for Port {
    fn next_request(&self) -> Option<StreamRequest> {
        self.0.borrow_mut().streams.requests.pop()
    }

    fn accept(
        &self,
        listener: StreamId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<StreamId> {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        if streams.open.len() >= streams.most {
            return None;
        }
        streams.arrive(listener, (local, remote), channels)
    }

    fn deliver(&self, stream: StreamId, octets: &[u8]) -> usize {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        let Some(there) = streams.open.get_mut(&stream).filter(|stream| stream.open) else {
            return octets.len();
        };
        if !there.is_ready() {
            return 0;
        }
        let Some(channel) = channels.of(there.queue) else { return octets.len() };
        if !tell_urgent(there.number, there.delivered, &mut there.urgent, channel) {
            note(&mut streams.short, there.queue);
            return 0;
        }
        match channel.end.deliver_stream(there.number, octets, &mut there.filled) {
            Ok(done) => {
                channel.note_delivery(done > 0);
                there.unread += done as u64;
                there.delivered += done as u64;
                if done < octets.len() {
                    note(&mut streams.short, there.queue);
                }
                done
            }
            Err(_) => {
                channel.broken = true;
                octets.len()
            }
        }
    }

    fn read_sent(&self, stream: StreamId, offset: u64, out: &mut [u8]) -> usize {
        let ends = self.0.borrow();
        let Some(stream) = ends.streams.open.get(&stream) else { return 0 };
        let first = stream.sent.partition_point(|kept| kept.start <= offset);
        let mut done = 0;
        for kept in stream.sent.iter().skip(first.saturating_sub(1)) {
            let skip = (offset + done as u64).saturating_sub(kept.start);
            let Ok(skip) = usize::try_from(skip) else { break };
            let Some((_, frames)) = stream.frames.iter().find(|(home, _)| *home == kept.home)
            else {
                break;
            };
            done += frames.read(&kept.frame, skip, &mut out[done..]);
            if done == out.len() {
                break;
            }
        }
        done
    }

    fn acknowledged(&self, stream: StreamId, offset: u64) {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        let Some(stream) = streams.open.get_mut(&stream) else { return };
        let whole = |kept: &Kept| kept.start + kept.frame.len() as u64 <= offset;
        let count = stream.sent.iter().take_while(|kept| whole(kept)).count();
        streams.returns.extend(stream.sent.drain(..count).map(|kept| (kept.home, kept.frame)));
        streams.give_back(channels);
    }

    fn may_move(&self, stream: StreamId) -> bool {
        self.0.borrow().streams.may_move(stream)
    }

    fn export(&self, stream: StreamId) -> Option<StreamState> {
        self.0.borrow_mut().streams.export(stream)
    }

    fn import(&self, stream: StreamId, state: StreamState) -> bool {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        streams.import(stream, state, channels)
    }

    fn inform(&self, stream: StreamId, info: &StreamInfo) {
        self.say(stream, Told::Info(Box::new(info.to_linux())));
    }

    fn report(&self, connections: Vec<StreamStatus>, total: usize) {
        let streams = &mut self.0.borrow_mut().streams;
        let queue_of = |id| streams.open.get(&id).map(|stream: &Stream| stream.queue);
        let owned = |status: StreamStatus| (status.stream.and_then(queue_of), status);
        let all = connections.into_iter().map(owned).collect();
        if let Some(operator) = streams.reports.pop_front() {
            // An operator who did not wait for the answer is not told.
            let _ = operator.send(Connections { all, total });
        }
    }

    fn tell(&self, stream: StreamId, event: StreamEvent) {
        if let StreamEvent::Urgent { end } = event {
            let streams = &mut self.0.borrow_mut().streams;
            let there = streams.open.get_mut(&stream);
            if !there.is_some_and(|there| there.note_urgent(end)) {
                return;
            }
        }
        self.say(stream, Told::Event(event));
    }
}

impl Port {
    fn say(&self, stream: StreamId, what: Told) {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        let mut there = streams.open.get_mut(&stream);
        if let (Some(there), Told::Event(event)) = (&mut there, &what) {
            there.note_end(*event);
        }
        match there {
            // Told before the octets, once the stream has a queue.
            Some(Stream { rest: Some(_), .. })
                if matches!(what, Told::Event(StreamEvent::Urgent { .. })) => {}
            Some(Stream { rest: Some(rest), .. }) => rest.untold.push_back(what),
            Some(Stream { passage: Some(passage), .. }) if !passage.ready => {
                passage.untold.push_back(what);
            }
            _ => {
                streams.untold.push_back((stream, what));
                streams.tell_untold(channels);
            }
        }
    }
}
