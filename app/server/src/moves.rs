//! Streams that move between workers, with what their application does meanwhile.

use weever_app_ring::Kind;
use weever_net::stream::{StreamEvent, StreamId, StreamRequest, StreamState};

use crate::channels::Channels;
use crate::passage::{Action, Mail, Passage, Relay, Told};
use crate::stream::{Kept, Stream, Urgent};
use crate::streams::Streams;

/// A stream on its way.
struct Moved {
    stream: Stream,
    /// Requests that the transport had not taken.
    requests: Vec<StreamRequest>,
    from: u16,
}

impl Streams {
    /// Whether a stream may go to another worker: not before its application has changed over to this one.
    pub(crate) fn may_move(&self, id: StreamId) -> bool {
        self.open.get(&id).is_some_and(|stream| {
            let settled = stream.passage.is_none() && stream.rest.is_none();
            settled && stream.holders.is_empty() && stream.waits.is_none()
        })
    }

    /// Takes a stream out, which goes to another worker. What its application still does here is relayed.
    pub(crate) fn export(&mut self, id: StreamId) -> Option<StreamState> {
        if !self.may_move(id) {
            return None;
        }
        let mut stream = self.open.remove(&id)?;
        let requests = self.requests.take_of(&mut stream.last_request);
        if stream.open {
            let (queue, number) = (stream.queue, stream.number);
            let relay = Relay { queue, number, to: None, out: Default::default(), done: false };
            self.relays.insert(id, relay);
            stream.passage = Some(Box::default());
        }
        Some(Box::new(Moved { stream, requests, from: self.worker }))
    }

    /// Goes on with a stream of another worker's; false if it is none.
    pub(crate) fn import(
        &mut self,
        id: StreamId,
        state: StreamState,
        channels: &mut Channels,
    ) -> bool {
        let Ok(moved) = state.downcast::<Moved>() else { return false };
        let Moved { mut stream, requests, from } = *moved;
        for request in requests {
            self.requests.push_of(&mut stream.last_request, request);
        }
        let (queue, number, open) = (stream.queue, stream.number, stream.open);
        let worker = self.worker;
        // The worker before has not told of it, and does so no more.
        if stream.urgent.is_some_and(|urgent| !urgent.told)
            && let (Some(Urgent { end, .. }), Some(passage)) = (stream.urgent, &mut stream.passage)
        {
            passage.untold.push_front(Told::Event(StreamEvent::Urgent { end }));
        }
        if let Some(channel) = channels.of(queue) {
            stream.may_send_by(worker, channel);
        }
        let gone = open && channels.of(queue).is_none();
        if open && number != id {
            self.named.insert((queue, number), id);
        }
        self.open.insert(id, stream);
        if open {
            self.send(from, Mail::Here { stream: id, worker });
        }
        if gone {
            self.abandon(queue, channels);
        }
        true
    }

    /// Takes a message of another worker.
    pub(crate) fn receive(&mut self, mail: Mail) {
        match mail {
            Mail::GiveBack { queue, frame } => self.returns.push(((self.worker, queue), frame)),
            Mail::Here { stream, worker } => {
                let Some(relay) = self.relays.get_mut(&stream) else { return };
                relay.to = Some(worker);
                let (queue, out) = (relay.queue, std::mem::take(&mut relay.out));
                self.untold.push_back((stream, Told::Moved(worker)));
                let home = self.worker;
                for action in out {
                    self.send(worker, Mail::Action { stream, queue, home, action });
                }
                self.end_relay(stream);
            }
            Mail::Action { stream, queue, home, action } => {
                if !self.open.contains_key(&stream) {
                    // It has ended meanwhile.
                    if let Action::Octets(frame) = action {
                        self.returns.push(((home, queue), frame));
                    }
                } else if action == Action::End {
                    self.end_passage(stream);
                } else {
                    self.apply(stream, (home, queue), action);
                }
            }
        }
    }

    /// Has the worker do it that a stream has gone to.
    fn relay(&mut self, id: StreamId, action: Action) {
        let Some(relay) = self.relays.get_mut(&id) else { return };
        let (home, closes) = (self.worker, [Kind::Closed, Kind::Abort]);
        relay.done |= match &action {
            Action::End => true,
            Action::Request(kind, _) => closes.contains(kind),
            Action::Octets(_) => false,
        };
        match relay.to {
            Some(to) => {
                let queue = relay.queue;
                self.send(to, Mail::Action { stream: id, queue, home, action });
            }
            None => relay.out.push_back(action),
        }
        self.end_relay(id);
    }

    /// Does what an application asked for by this worker's channel; after what comes from the worker before, and
    /// at the next one if the stream has gone there. False if it makes no sense.
    pub(crate) fn take_action(&mut self, id: StreamId, action: Action) -> bool {
        if self.relays.contains_key(&id) {
            self.relay(id, action);
            return true;
        }
        match self.passage(id) {
            Some(passage) if !passage.ended => {
                passage.held.push_back(action);
                true
            }
            _ => self.apply_own(id, action),
        }
    }

    /// Does what the application has asked for by this worker's channel.
    fn apply_own(&mut self, id: StreamId, action: Action) -> bool {
        let Some(queue) = self.open.get(&id).map(|stream| stream.queue) else { return false };
        self.apply(id, (self.worker, queue), action)
    }

    fn passage(&mut self, id: StreamId) -> Option<&mut Passage> {
        self.open.get_mut(&id)?.passage.as_deref_mut()
    }

    /// The worker before has nothing more for a stream: what was held is done.
    fn end_passage(&mut self, id: StreamId) {
        let Some(passage) = self.passage(id) else { return };
        passage.ended = true;
        for action in std::mem::take(&mut passage.held) {
            self.apply_own(id, action);
        }
        self.settle(id);
    }

    /// The application has read all that the worker before has told it.
    pub(crate) fn note_ready(&mut self, id: StreamId) -> bool {
        let Some(passage) = self.passage(id) else { return false };
        passage.ready = true;
        let untold = std::mem::take(&mut passage.untold);
        self.untold.extend(untold.into_iter().map(|what| (id, what)));
        // Octets were not delivered before.
        self.freed = true;
        self.settle(id);
        true
    }

    /// Forgets a passage that is over.
    fn settle(&mut self, id: StreamId) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.passage.take_if(|passage| passage.ended && passage.ready);
        }
    }

    /// Forgets a relay that has nothing more to do.
    fn end_relay(&mut self, id: StreamId) {
        let over = |relay: &Relay| relay.done && relay.to.is_some();
        if self.relays.get(&id).is_some_and(over)
            && let Some(relay) = self.relays.remove(&id)
        {
            self.named.remove(&(relay.queue, relay.number));
        }
    }

    /// The application of a queue is gone, and with it what it could still have done here.
    pub(crate) fn abandon_relays(&mut self, queue: u32) {
        let of_queue = self.relays.iter().filter(|(_, relay)| relay.queue == queue);
        let all: Vec<StreamId> = of_queue.map(|(id, _)| *id).collect();
        for id in all {
            self.relay(id, Action::End);
        }
    }

    /// The stream that an entry of a channel names, which has gone to another worker.
    pub(crate) fn relayed(&self, queue: u32, number: u32) -> Option<StreamId> {
        let id = self.named.get(&(queue, number)).copied().unwrap_or(number);
        let relay = self.relays.get(&id)?;
        (relay.queue == queue && relay.number == number).then_some(id)
    }

    /// Gives frames back to the channels that they came by.
    pub(crate) fn give_back(&mut self, channels: &mut Channels) {
        let mut returns = std::mem::take(&mut self.returns);
        for ((home, queue), frame) in returns.drain(..) {
            if home != self.worker {
                self.send(home, Mail::GiveBack { queue, frame });
            } else if let Some(channel) = channels.of(queue) {
                channel.broken |= channel.end.give_back(frame).is_err();
                channel.dirty = true;
            }
        }
        // With its memory: each acknowledgement returns frames.
        self.returns = returns;
    }

    fn send(&self, worker: u16, mail: Mail) {
        if let Some(peer) = self.peers.get(usize::from(worker)) {
            peer.send(mail);
        }
    }

    /// Notes frames that are not needed any more.
    pub(crate) fn return_all(&mut self, frames: impl IntoIterator<Item = Kept>) {
        self.returns.extend(frames.into_iter().map(|kept| (kept.home, kept.frame)));
    }
}

impl Stream {
    /// Whether the application may be told something by this worker's channel.
    pub(crate) fn is_ready(&self) -> bool {
        self.rest.is_none() && self.passage.as_ref().is_none_or(|passage| passage.ready)
    }

    /// The application has gone: once all it did is done, this is what it did last.
    pub(crate) fn close_later(&mut self) -> bool {
        match &mut self.passage {
            Some(passage) if !passage.ended => {
                passage.held.push_back(Action::Request(Kind::Closed, 0));
                true
            }
            _ => false,
        }
    }
}
