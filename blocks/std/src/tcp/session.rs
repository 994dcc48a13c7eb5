//! A connection as the adapter knows it, and the use of its octets.

use std::net::SocketAddr;
use std::ops::Range;

use weever_block::{FlowKey, Nanos};
use weever_net::stream::{StreamEvent, StreamId, StreamOption, StreamPort};
use weever_packet::NO_IFACE;
use weever_tcp::{Connection, Endpoint, Events, Failure, Id, KeepAlive, Payload, Region, Settings};
use weever_wire::checksum;

use super::options::set;
use super::send::{Ip, Summed};

/// Octets of a connection's receive window at first, and of the region that keeps those not handed over yet.
pub(super) const REGION: u32 = 256 << 10;
/// What a window may grow to, when its connection could be quicker: 4 MiB, a gigabit over 32 ms.
pub(super) const MAX_REGION: u32 = 4 << 20;

/// The bits of a traffic class that belong to ECN.
const ECN: u8 = 3;

/// The use of a connection's octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Kept until the connection is accepted.
    Waiting,
    /// The same: it is accepted by this listener once octets have come.
    Deferred(StreamId),
    /// Sent back (RFC 862).
    Echo,
    /// Read and forgotten (RFC 863).
    Discard,
    /// Handed to an application.
    Stream(Stream),
}

/// A connection of an application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) number: StreamId,
    /// The application asked for it, and is to be told when it is established.
    pub(super) active: bool,
    /// Octets of the received stream that the application was given.
    delivered: u64,
    finish: Finish,
    /// The connection has ended in order; octets may still have to be handed over.
    over: bool,
}

/// Whether the peer's end of the stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    No,
    Heard,
    Told,
}

impl Stream {
    pub(super) fn new(number: StreamId, active: bool) -> Stream {
        Stream { number, active, delivered: 0, finish: Finish::No, over: false }
    }
}

/// What remains to be done after a connection was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// The application has no room for all octets: it is to be served again.
    Again,
    /// The connection has waited for octets, and may be accepted by this listener.
    Acceptable(StreamId),
    /// The connection is over.
    Over,
}

/// The adapter's record of a connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Id,
    pub(super) flow: FlowKey,
    /// The interface by which its last segment came.
    pub(super) iface: u16,
    pub(super) job: Job,
    /// The DSCP of its packets, in the upper six bits, and their hop limit; 0: the default.
    class: u8,
    hops: u8,
    /// Received octets that are still needed. An echo's are those that its peer has not acknowledged: the
    /// stream that is sent is the one that was received, so each octet has one place.
    region: Option<Region>,
    /// Octets that the region has to hold: the largest receive window so far.
    capacity: u32,
    /// Its application has chosen the size of its window.
    fixed: bool,
    /// It stands in the list of those to be served again.
    pub(super) listed: bool,
    /// The slot of another connection whose flow has the same key.
    pub(super) next: Option<u32>,
}

impl Session {
    pub(super) fn new(id: Id, flow: FlowKey, job: Job) -> Session {
        Session {
            id,
            flow,
            iface: NO_IFACE,
            job,
            class: 0,
            hops: 0,
            region: None,
            capacity: REGION,
            fixed: false,
            listed: false,
            next: None,
        }
    }

    /// The application's stream, if it is one's.
    pub(super) fn stream(&self) -> Option<StreamId> {
        match self.job {
            Job::Stream(stream) => Some(stream.number),
            _ => None,
        }
    }

    /// The IP header's values that do not follow from a segment.
    pub(super) fn ip(&self) -> Ip {
        Ip { iface: self.iface, class: self.class, hops: self.hops }
    }

    /// Changes a setting, here or at the endpoint.
    pub(super) fn set(&mut self, endpoint: &mut Endpoint, option: StreamOption, now: Nanos) {
        match option {
            StreamOption::TrafficClass(class) => self.class = class & !ECN,
            StreamOption::Hops(hops) => self.hops = hops,
            option => set(endpoint, self.id, option, now),
        }
        if let StreamOption::ReceiveBuffer(octets) = option {
            self.fix_region(octets);
        }
    }

    /// The application has chosen how large its window is: it does not grow by itself any more.
    fn fix_region(&mut self, capacity: u32) {
        self.fixed = true;
        self.grow(capacity.min(MAX_REGION));
    }

    /// The window becomes larger, and the region with it.
    fn grow(&mut self, capacity: u32) {
        self.capacity = self.capacity.max(capacity);
        let Job::Stream(stream) = self.job else { return };
        if let Some(region) = &mut self.region {
            region.grow(self.capacity as usize, stream.delivered);
        }
    }

    /// Tells the application where urgent data of the peer's ends, if there is any. Before the octets are handed over, so
    /// that nobody reads past it unknowingly.
    #[cold]
    pub(super) fn tell_urgent(&self, connection: &Connection, port: &dyn StreamPort) {
        if let (Some(stream), Some(end)) = (self.stream(), connection.urgent()) {
            port.tell(stream, StreamEvent::Urgent { end });
        }
    }

    /// Keeps payload that was accepted, or hands it over at once. `pieces` are the payloads of the segments that
    /// were joined, in their order, which `payload` counts over.
    pub(super) fn keep_joined<'a>(
        &mut self,
        payload: &Payload,
        pieces: impl Iterator<Item = &'a [u8]>,
        port: Option<&dyn StreamPort>,
    ) {
        let (mut at, accepted) = (0, &payload.range);
        for piece in pieces {
            let end = at + piece.len();
            let (from, until) = (accepted.start.clamp(at, end), accepted.end.clamp(at, end));
            if from < until {
                let offset = payload.offset + (from - accepted.start) as u64;
                let range = from - at..until - at;
                let part = Payload { offset, range, in_order: payload.in_order };
                self.keep(&part, piece, port);
            }
            at = end;
        }
    }

    /// Keeps payload that was accepted, or hands it over at once; `bytes` is the segment's.
    #[inline]
    pub(super) fn keep(&mut self, payload: &Payload, bytes: &[u8], port: Option<&dyn StreamPort>) {
        let Some(mut bytes) = bytes.get(payload.range.clone()) else { return };
        let mut offset = payload.offset;
        match (&mut self.job, port) {
            (Job::Discard, _) => return,
            (Job::Stream(stream), Some(port)) if payload.in_order && offset == stream.delivered => {
                let done = port.deliver(stream.number, bytes);
                (stream.delivered, offset) = (offset + done as u64, offset + done as u64);
                bytes = &bytes[done..];
            }
            _ => {}
        }
        if !bytes.is_empty() {
            let region = self.region.get_or_insert_with(|| Region::new(self.capacity as usize));
            region.write(offset, bytes);
        }
    }

    /// Writes a range of the stream that is sent: its sum, if anybody needs it here.
    #[inline]
    pub(super) fn read(
        &self,
        range: Range<u64>,
        out: &mut [u8],
        port: Option<&dyn StreamPort>,
        summed: Summed,
    ) -> u16 {
        match (&self.job, port, &self.region) {
            (Job::Stream(stream), Some(port), _) => {
                let done = port.read_sent(stream.number, range.start, out);
                // A frame that has gone back is not there any more, and what the buffer held before is nobody's
                // business.
                out[done..].fill(0);
                // The application may write to its frames meanwhile: only the copy can be summed.
                if summed == Summed::Here { checksum::sum(out) } else { 0 }
            }
            (Job::Echo, _, Some(region)) => region.read(range.start, out),
            _ => checksum::sum(out),
        }
    }

    /// The connection was accepted by a built-in service.
    pub(super) fn begin_service(&mut self, endpoint: &mut Endpoint, job: Job, now: Nanos) {
        self.job = job;
        if job == Job::Discard {
            self.region = None;
        }
        if let Some(settings) = endpoint.get(self.id).map(Connection::settings) {
            // A peer that has gone away without a word holds memory no longer than this.
            let keep_alive = Some(KeepAlive::default());
            endpoint.set(self.id, Settings { keep_alive, ..settings }, now);
        }
    }

    /// Handles the events.
    pub(super) fn serve(
        &mut self,
        endpoint: &mut Endpoint,
        events: Events,
        port: Option<&dyn StreamPort>,
        now: Nanos,
    ) -> Rest {
        if let (Job::Stream(_), Some(port)) = (self.job, port) {
            if events.has(Events::CRAMPED) && !self.fixed {
                let wanted = endpoint.get(self.id).map_or(0, Connection::wanted_receive);
                self.grow(wanted);
                endpoint.enlarge_receive(self.id, self.capacity, now);
            }
            return self.serve_stream(endpoint, events, port);
        }
        if events.has(Events::CLOSED) {
            return Rest::Over;
        }
        let Some(at) = endpoint.get(self.id).map(Progress::of) else { return Rest::Over };
        match self.job {
            Job::Echo => {
                // Acknowledged octets make room for as many to be received.
                if at.acknowledged > at.readable.start {
                    endpoint.consume(self.id, at.acknowledged - at.readable.start, now);
                }
                if at.readable.end > at.queued {
                    endpoint.queue(self.id, at.readable.end - at.queued, now);
                }
            }
            Job::Discard => {
                endpoint.consume(self.id, at.readable.end - at.readable.start, now);
            }
            // The application that accepts it learns it from the connection's state.
            Job::Waiting | Job::Stream(_) => return Rest::Nothing,
            Job::Deferred(_) if !events.has(Events::READABLE) && !events.has(Events::FINISHED) => {
                return Rest::Nothing;
            }
            Job::Deferred(listener) => {
                self.job = Job::Waiting;
                return Rest::Acceptable(listener);
            }
        }
        if events.has(Events::FINISHED) {
            // FIN follows the octets that are still to be sent back.
            endpoint.shutdown(self.id, now);
        }
        Rest::Nothing
    }

    fn serve_stream(&mut self, endpoint: &Endpoint, events: Events, port: &dyn StreamPort) -> Rest {
        let Job::Stream(stream) = &mut self.job else { return Rest::Nothing };
        let Some(connection) = endpoint.get(self.id) else { return Rest::Over };
        let number = stream.number;
        if events.has(Events::CONNECTED) && stream.active {
            let (local, remote) = ends(connection, self.iface);
            port.tell(number, StreamEvent::Connected { local, remote });
        }
        if events.has(Events::ACKED) {
            port.acknowledged(number, connection.acknowledged());
        }
        if stream.finish == Finish::No && connection.has_ended() {
            stream.finish = Finish::Heard;
        }
        let end = connection.readable().end;
        let all = hand_over(stream, self.region.as_ref(), end, port);
        if all && !connection.has_gaps() {
            self.region = None;
        }
        if all && stream.finish == Finish::Heard {
            stream.finish = Finish::Told;
            port.tell(number, StreamEvent::Finished);
        }
        if events.has(Events::CLOSED) {
            match connection.failure() {
                Some(failure) => {
                    port.tell(number, StreamEvent::Failed(errno(failure)));
                    return Rest::Over;
                }
                None => stream.over = true,
            }
        }
        match (all, stream.over) {
            (true, true) => Rest::Over,
            (true, false) => Rest::Nothing,
            (false, _) => Rest::Again,
        }
    }
}

/// Hands octets of the region over up to `end`; whether the application took all.
fn hand_over(
    stream: &mut Stream,
    region: Option<&Region>,
    end: u64,
    port: &dyn StreamPort,
) -> bool {
    let Some(region) = region else { return stream.delivered >= end };
    while stream.delivered < end {
        let (octets, _) = region.slices(stream.delivered..end);
        let done = port.deliver(stream.number, octets);
        stream.delivered += done as u64;
        if done < octets.len() {
            return false;
        }
    }
    true
}

/// Both ends of a connection; link-local ones with the interface as their zone.
pub(super) fn ends(connection: &Connection, iface: u16) -> (SocketAddr, SocketAddr) {
    let tuple = connection.tuple();
    let zoned = |address, port| match SocketAddr::new(address, port) {
        SocketAddr::V6(mut v6) if v6.ip().is_unicast_link_local() => {
            v6.set_scope_id(iface.into());
            v6.into()
        }
        other => other,
    };
    (zoned(tuple.local, tuple.local_port), zoned(tuple.remote, tuple.remote_port))
}

/// The errno of a connection's end, as Linux has it.
fn errno(failure: Failure) -> u16 {
    match failure {
        Failure::Refused => 111,
        Failure::Reset => 104,
        Failure::TimedOut => 110,
        Failure::Unreachable => 113,
        _ => 103,
    }
}

struct Progress {
    readable: Range<u64>,
    acknowledged: u64,
    queued: u64,
}

impl Progress {
    fn of(connection: &Connection) -> Progress {
        let (readable, queued) = (connection.readable(), connection.queued());
        Progress { readable, queued, acknowledged: connection.acknowledged() }
    }
}
