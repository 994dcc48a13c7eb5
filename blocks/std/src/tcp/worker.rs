//! The state of a worker's endpoint, and the work that follows from segments, requests and deadlines.

use weever_block::{Buffer, Cx, Nanos, Priority};
use weever_net::SECOND;
use weever_net::demux::PortRange;
use weever_net::pmtu::View;
use weever_net::random::Key;
use weever_net::state::NetState;
use weever_net::stream::{StreamEvent, StreamPort, StreamState};
use weever_packet::{Flags, NO_IFACE};
use weever_tcp::{
    Connection, Endpoint, Events, Id, ListenerConfig, ListenerId, State, TcpConfig, Transmit,
};
use weever_wire::checksum;

use super::rx::flow_key;
use super::send::{Ip, Summed, send};
use super::session::{Job, MAX_REGION, REGION, Rest, Session};
use super::sessions::Sessions;
use super::streams::{Parts, Streams};

// The block's counters, by their places.
pub(super) const ACCEPTED: usize = 0;
pub(super) const ENDED: usize = 1;
pub(super) const SENT: usize = 2;
pub(super) const RESETS_SENT: usize = 3;
pub(super) const NO_BUFFER: usize = 4;
pub(super) const MTU_LOWERED: usize = 5;
pub(super) const UNREACHABLE: usize = 6;
pub(super) const FLOWS_FULL: usize = 7;
pub(super) const LEFT_TO_LINK: usize = 8;

/// Segments that start in one call: the rest of the turn belongs to others.
const BUDGET: usize = 64;
/// Octets of a connection that the engine gives at once, to be cut here: as much as a connection sends before it
/// is another's turn, at the MTU of Ethernet.
const SUPER_SEGMENT: u32 = 16 * 1460;
/// There is another connection between the ends of one that has moved here.
const ECONNABORTED: u16 = 103;
/// The spawn edge of the task that brings a buffer.
const BUFFER: usize = 2;
/// When to look for a buffer if none has come: the request may have been refused, and is made again then, or a change
/// of the graph has dropped it.
const LOOK_AGAIN: Nanos = SECOND;

/// The state that a successor of the block goes on with.
pub(super) struct Tcp {
    pub(super) endpoint: Endpoint,
    pub(super) sessions: Sessions,
    pub(super) listeners: Vec<(Job, u16, ListenerId)>,
    pub(super) streams: Streams,
    /// The segment that is sent, or its rest: if [`is_cut`](Self::is_cut), a super-segment whose first segments left.
    /// It is written in place, since moving it would cost more than all other work on it.
    next: Box<Transmit>,
    is_cut: bool,
    /// Connections whose received octets find no room at their applications.
    pub(super) again: Vec<Id>,
    /// Connections that waited for octets may be accepted.
    acceptable: bool,
    /// Generation of the network that the MTU was taken from.
    pub(super) generation: u64,
    /// When a buffer was asked for that has not come: there is something to send, and none was free.
    asked: Option<Nanos>,
    /// Buffers that came, for what is sent next.
    spare: Vec<Buffer>,
    /// When the engine calls the block next, as it was asked to.
    pub(super) deadline: Option<Nanos>,
}

/// A connection on its way from one worker to another.
pub(super) struct Moved {
    pub(super) connection: Box<Connection>,
    pub(super) session: Session,
    /// The application's side of it, if it is an application's.
    pub(super) stream: Option<StreamState>,
}

/// The connections of a flow.
pub(super) type MovedFlow = Vec<Moved>;

/// The surroundings of one call.
pub(super) struct Given<'a> {
    pub(super) state: &'a NetState,
    pub(super) paths: &'a View,
    /// The key of flows' names.
    pub(super) flows: Key,
    /// The applications of this worker.
    pub(super) port: Option<&'a dyn StreamPort>,
}

impl Tcp {
    pub(super) fn new(root: Key, most: usize, ports: PortRange, now: Nanos) -> Tcp {
        let config = TcpConfig {
            ports,
            receive_capacity: REGION,
            max_receive_capacity: MAX_REGION,
            max_connections: most,
            super_segment: SUPER_SEGMENT,
            report_gone: true,
            ..TcpConfig::default()
        };
        Tcp {
            endpoint: Endpoint::new(config, root, now),
            sessions: Sessions::default(),
            listeners: Vec::new(),
            streams: Streams::default(),
            next: Box::new(Transmit::place()),
            is_cut: false,
            again: Vec::new(),
            acceptable: false,
            generation: 0,
            asked: None,
            spare: Vec::new(),
            deadline: None,
        }
    }

    /// Whether a packet without octets is the buffer that was asked for. Others, by which applications wake the
    /// transport, have ends.
    pub(super) fn has_asked_for(&self, packet: &Buffer) -> bool {
        self.asked.is_some() && !packet.meta().flags.has(Flags::ENDPOINTS)
    }

    /// The buffers that were asked for.
    pub(super) fn take_buffers(&mut self, buffers: impl Iterator<Item = Buffer>) {
        self.spare.extend(buffers);
        self.asked = None;
    }

    /// Listens on the ports of the services, and no others. Established connections go on.
    pub(super) fn listen(&mut self, services: &[(Job, Option<u16>)], now: Nanos) {
        let is_wanted = |of: &(Job, u16, ListenerId)| services.contains(&(of.0, Some(of.1)));
        let wanted = services.iter().filter(|(_, port)| port.is_some()).count();
        if self.listeners.len() == wanted && self.listeners.iter().all(is_wanted) {
            return;
        }
        for (.., id) in self.listeners.extract_if(.., |of| !is_wanted(of)) {
            self.endpoint.stop_listening(id, now);
        }
        for (service, port) in
            services.iter().filter_map(|(service, port)| Some((*service, (*port)?)))
        {
            // Two services on one port are refused with the configuration.
            if let Ok(id) = self.endpoint.listen(ListenerConfig::new(port)) {
                self.listeners.push((service, port, id));
            }
        }
    }

    /// Sends answers that belong to no connection, by the interface that their segment came by.
    pub(super) fn answer(&mut self, cx: &mut Cx<'_>, iface: u16) {
        while let Some(reply) = self.endpoint.poll_reply() {
            let Some(packet) = cx.alloc() else {
                cx.count(NO_BUFFER, 1);
                continue;
            };
            let is_reset = reply.header.flags & weever_wire::tcp::flag::RST != 0;
            if send(cx, packet, &reply, (Ip::by(iface), Summed::Here), |_, out| checksum::sum(out))
            {
                cx.count(if is_reset { RESETS_SENT } else { SENT }, 1);
            }
        }
    }

    /// What follows from the segments, requests and deadlines of this call: services and applications are
    /// served, segments leave, flows end, and the next deadline is set.
    pub(super) fn work(&mut self, cx: &mut Cx<'_>, given: &Given<'_>) {
        let mut again = std::mem::take(&mut self.again);
        if let Some(port) = given.port {
            let (endpoint, sessions) = (&mut self.endpoint, &mut self.sessions);
            let parts = &mut Parts { endpoint, sessions, network: given.state, flows: given.flows };
            self.streams.take_requests(cx, parts, port);
            self.accept(cx, port, &mut again);
        }
        for at in 0..self.listeners.len() {
            let (job, _, listener) = self.listeners[at];
            while let Some(id) = self.endpoint.accept(listener) {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.begin_service(&mut self.endpoint, job, cx.now);
                }
                cx.count(ACCEPTED, 1);
            }
        }
        self.serve_all(&mut again, given.port, cx.now);
        while let Some((id, events)) = self.endpoint.poll_event() {
            self.serve(id, events, given.port, cx.now);
        }
        if let Some(port) = given.port.filter(|_| std::mem::take(&mut self.acceptable)) {
            self.accept(cx, port, &mut again);
            self.serve_all(&mut again, given.port, cx.now);
        }
        let mut more = self.transmit(cx, given);
        if self.streams.reset(&mut self.endpoint, cx.now) {
            more = self.transmit(cx, given);
        }
        self.bury(cx, given);
        let (next, deferred) = (self.endpoint.next_deadline(), self.streams.next_deadline());
        let deadline = more.into_iter().chain(next).chain(deferred).min();
        // The engine's timer is moved only if it has to be.
        if self.deadline != deadline {
            self.deadline = deadline;
            cx.set_deadline(deadline);
        }
    }

    /// Offers connections to the applications that listen; those that were accepted go to `served`.
    fn accept(&mut self, cx: &mut Cx<'_>, port: &dyn StreamPort, served: &mut Vec<Id>) {
        let (endpoint, sessions) = (&mut self.endpoint, &mut self.sessions);
        let accepted = self.streams.accept(endpoint, sessions, port, served, cx.now);
        cx.count(ACCEPTED, accepted);
    }

    /// Serves connections without an event: octets that arrived before find room now.
    fn serve_all(&mut self, all: &mut Vec<Id>, port: Option<&dyn StreamPort>, now: Nanos) {
        for id in all.drain(..) {
            if let Some(session) = self.sessions.get_mut(id) {
                session.listed = false;
                self.serve(id, Events::default(), port, now);
            }
        }
    }

    fn serve(&mut self, id: Id, events: Events, port: Option<&dyn StreamPort>, now: Nanos) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        match session.serve(&mut self.endpoint, events, port, now) {
            Rest::Nothing => {}
            Rest::Over => self.endpoint.close(id, now),
            Rest::Acceptable(listener) => {
                self.streams.ready(listener, id);
                self.acceptable = true;
            }
            Rest::Again => {
                if !std::mem::replace(&mut session.listed, true) {
                    self.again.push(id);
                }
            }
        }
    }

    /// Connections that are no more: their records go, applications learn of it, and their flows have no
    /// owner any longer.
    pub(super) fn bury(&mut self, cx: &mut Cx<'_>, given: &Given<'_>) {
        while let Some((id, tuple)) = self.endpoint.poll_gone() {
            if let Some(session) = self.sessions.remove(id)
                && let Job::Stream(stream) = session.job
            {
                self.streams.forget(stream.number);
                if let Some(port) = given.port {
                    port.tell(stream.number, StreamEvent::Closed);
                }
            }
            if self.endpoint.lookup(&tuple).is_none() {
                cx.release_flow(flow_key(&tuple, given.flows));
            }
            cx.count(ENDED, 1);
        }
    }

    /// Has a task bring the next free buffer. When to look for one in any case.
    fn ask_for_buffer(&mut self, cx: &mut Cx<'_>) -> Nanos {
        cx.count(NO_BUFFER, 1);
        // One request at a time: each takes a place among the tasks that wait.
        if self.asked.is_none() && cx.spawn_with_buffer(BUFFER, Priority::High) {
            self.asked = Some(cx.now);
        }
        cx.now.saturating_add(LOOK_AGAIN)
    }

    /// Writes the next segment to send to its place, or a super-segment to be cut; false if there is
    /// none.
    fn take_next(&mut self, now: Nanos) -> bool {
        (std::mem::take(&mut self.is_cut) && self.is_wanted())
            || self.endpoint.poll_into(&mut self.next, now)
    }

    /// Whether the rest of a super-segment may still be sent: its connection may have ended meanwhile, and the peer
    /// may claim to have octets that were never sent, whose frames went back to the application then.
    fn is_wanted(&self) -> bool {
        let rest = &self.next;
        let connection = rest.connection.and_then(|id| self.endpoint.get(id));
        connection.is_some_and(|connection| {
            connection.state() != State::Closed && connection.acknowledged() <= rest.payload.start
        })
    }

    /// Sends up to the budget. When to go on, if there is more.
    fn transmit(&mut self, cx: &mut Cx<'_>, given: &Given<'_>) -> Option<Nanos> {
        let completed = given.state.config().interfaces().iter().any(|iface| iface.tx_checksum);
        for _ in 0..BUDGET {
            if !self.is_cut && !self.endpoint.may_transmit() {
                return self.rest_from_sending(cx);
            }
            // The buffer comes first: a segment taken from the engine and not sent counts as lost.
            let Some(packet) = self.spare.pop().or_else(|| cx.alloc()) else {
                return Some(self.ask_for_buffer(cx));
            };
            // Buffers are free, but none has come for a long time: the task with the buffer was
            // refused.
            self.asked = self.asked.filter(|asked| cx.now < asked.saturating_add(LOOK_AGAIN));
            if !self.take_next(cx.now) {
                cx.free(packet);
                return self.rest_from_sending(cx);
            }
            let piece;
            let transmit = if self.next.is_super() {
                piece = self.next.split_first();
                self.is_cut = true;
                &piece
            } else {
                &*self.next
            };
            let session = transmit.connection.and_then(|id| self.sessions.get_mut(id));
            let ip = session.as_ref().map_or(Ip::by(NO_IFACE), |session| session.ip());
            let summed = match completed {
                true => Summed::of(transmit, ip, given.state),
                false => Summed::Here,
            };
            let fill = |range, out: &mut [u8]| match session {
                Some(session) => session.read(range, out, given.port, summed),
                None => checksum::sum(out),
            };
            if send(cx, packet, transmit, (ip, summed), fill) {
                cx.count(SENT, 1);
                cx.count(LEFT_TO_LINK, u64::from(summed == Summed::ByLink));
            }
        }
        Some(cx.now + 1)
    }

    /// There is nothing to send: no buffer is needed.
    fn rest_from_sending(&mut self, cx: &mut Cx<'_>) -> Option<Nanos> {
        while let Some(packet) = self.spare.pop() {
            cx.free(packet);
        }
        None
    }

    /// A connection that another worker goes on with.
    pub(super) fn send_off(&mut self, id: Id, port: Option<&dyn StreamPort>) -> Option<Moved> {
        let number = self.sessions.stream(id);
        let stream = number.and_then(|number| port?.export(number));
        if number.is_some() && stream.is_none() {
            // It cannot move, and this worker has no endpoint any more: it ends.
            self.endpoint.abort(id, 0);
            return None;
        }
        number.into_iter().for_each(|number| self.streams.forget(number));
        let session = self.sessions.remove(id);
        let (connection, session) = self.endpoint.export(id).zip(session)?;
        Some(Moved { connection: Box::new(connection), session, stream })
    }

    /// A connection that another worker had.
    pub(super) fn settle_in(&mut self, moved: Moved, port: Option<&dyn StreamPort>, now: Nanos) {
        let Moved { connection, session, stream } = moved;
        let number = session.stream();
        if let (Some(number), Some(state), Some(port)) = (number, stream, port) {
            port.import(number, state);
        }
        let accepted = !matches!(session.job, Job::Waiting | Job::Deferred(_));
        if let Ok(id) = self.endpoint.import(*connection, accepted, now) {
            self.sessions.adopt(session, id);
            if let Some(number) = number {
                // What was not delivered there is offered here.
                self.streams.adopt(number, id);
                self.again.push(id);
            }
        } else if let (Some(number), Some(port)) = (number, port) {
            port.tell(number, StreamEvent::Failed(ECONNABORTED));
            port.tell(number, StreamEvent::Closed);
        }
    }
}
