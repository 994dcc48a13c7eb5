//! Applications' streams: their requests, and connections that wait to be accepted by them.

use std::collections::{HashMap, VecDeque};
use std::mem::discriminant;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;

use weever_block::{Cx, FlowClaim, Nanos};
use weever_net::SECOND;
use weever_net::demux::{Binding, Family};
use weever_net::iface::IfaceId;
use weever_net::random::Key;
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_net::stream::{
    StreamEvent, StreamId, StreamInfo, StreamOption, StreamPort, StreamRequest, StreamStatus,
};
use weever_packet::NO_IFACE;
use weever_tcp::{ConnectError, Connection, Endpoint, Id, ListenerConfig, ListenerId};
use weever_wire::numbers::ByNumber;

use super::rx::flow_key;
use super::session::{Job, Session, Stream, ends};
use super::sessions::Sessions;

/// Other ports are tried this often when another worker has a connection between the same ends.
const MAX_TRIES: usize = 64;

// Linux's numbers, as applications know them.
const EADDRNOTAVAIL: u16 = 99;
const ENETUNREACH: u16 = 101;
const ENOBUFS: u16 = 105;
const EHOSTUNREACH: u16 = 113;

/// Requests of a worker's applications to its endpoint.
#[derive(Debug, Default)]
pub(super) struct Streams {
    listeners: Vec<Listener>,
    /// By the numbers that the workers have given them.
    open: HashMap<StreamId, Id, ByNumber>,
    /// Connections to be reset behind what leaves in this turn.
    resetting: Vec<Id>,
}

#[derive(Debug)]
struct Listener {
    number: StreamId,
    id: ListenerId,
    /// Connections for which the application had no room, or that may be accepted after a while.
    pending: VecDeque<Id>,
    /// Settings that its streams begin with.
    options: Vec<StreamOption>,
    /// Connections wait for octets so long before they are accepted.
    defer: Nanos,
    /// Those that wait, and when they have waited long enough, in that order.
    deferred: VecDeque<(Id, Nanos)>,
}

/// The parts of the endpoint's state that requests concern.
pub(super) struct Parts<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) sessions: &'a mut Sessions,
    pub(super) network: &'a NetState,
    pub(super) flows: Key,
}

impl Streams {
    /// The stream's connection is no more.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.open.remove(&stream);
    }

    /// A stream that has moved here has this connection.
    pub(super) fn adopt(&mut self, stream: StreamId, id: Id) {
        self.open.insert(stream, id);
    }

    /// Carries out what applications have asked for since the last call.
    pub(super) fn take_requests(
        &mut self,
        cx: &mut Cx<'_>,
        parts: &mut Parts<'_>,
        port: &dyn StreamPort,
    ) {
        while let Some(request) = port.next_request() {
            self.take(cx, parts, port, request);
        }
    }

    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        parts: &mut Parts<'_>,
        port: &dyn StreamPort,
        request: StreamRequest,
    ) {
        match request {
            StreamRequest::Listen { listener, binding, backlog } => {
                self.listen(parts.endpoint, listener, &binding, backlog);
            }
            StreamRequest::StopListening { listener } => {
                self.stop_listening(parts.endpoint, listener, cx.now);
            }
            StreamRequest::SetListener { listener, option } => {
                let there = self.listeners.iter_mut().find(|there| there.number == listener);
                there.into_iter().for_each(|there| there.set(parts.endpoint, option));
            }
            StreamRequest::Connect { stream, local, remote } => {
                match connect(cx, parts, stream, local, remote) {
                    Ok(id) => drop(self.open.insert(stream, id)),
                    Err(errno) => {
                        port.tell(stream, StreamEvent::Failed(errno));
                        port.tell(stream, StreamEvent::Closed);
                    }
                }
            }
            StreamRequest::Inform { stream } => {
                let id = self.open.get(&stream);
                let connection = id.and_then(|id| parts.endpoint.get(*id));
                // One that is over is told as that.
                let over = StreamInfo { state: 7, ..StreamInfo::default() };
                port.inform(stream, &connection.map_or(over, |there| there.info(cx.now)));
            }
            StreamRequest::Report { most } => report(parts, port, most, cx.now),
            request => {
                let id = request.stream().and_then(|stream| self.open.get(&stream));
                let Some(id) = id.copied() else { return };
                match request {
                    StreamRequest::Abort { .. } => self.resetting.push(id),
                    request => act(parts, id, request, cx.now),
                }
            }
        }
    }

    fn stop_listening(&mut self, endpoint: &mut Endpoint, listener: StreamId, now: Nanos) {
        for gone in self.listeners.extract_if(.., |of| of.number == listener) {
            endpoint.stop_listening(gone.id, now);
            let deferred = gone.deferred.into_iter().map(|(id, _)| id);
            for id in gone.pending.into_iter().chain(deferred) {
                endpoint.abort(id, now);
                endpoint.close(id, now);
            }
        }
    }

    fn listen(&mut self, endpoint: &mut Endpoint, number: StreamId, binding: &Binding, most: u32) {
        let Some(port) = binding.local_port else { return };
        let any = match binding.family {
            Family::Both => None,
            Family::V4 => Some(Ipv4Addr::UNSPECIFIED.into()),
            Family::V6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        };
        let address = binding.local_addr.or(any);
        let accept_queue = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let config = ListenerConfig { address, accept_queue, ..ListenerConfig::new(port) };
        // Applications do not get the ports of services: the server has them reserved.
        if let Ok(id) = endpoint.listen(config) {
            let (pending, deferred) = (VecDeque::new(), VecDeque::new());
            let options = Vec::new();
            self.listeners.push(Listener { number, id, pending, options, defer: 0, deferred });
        }
    }

    /// Hands established connections to the applications that listen, as far as they have room. Returns how
    /// many; those connections are to be served.
    pub(super) fn accept(
        &mut self,
        endpoint: &mut Endpoint,
        sessions: &mut Sessions,
        port: &dyn StreamPort,
        served: &mut Vec<Id>,
        now: Nanos,
    ) -> u64 {
        let mut accepted = 0;
        for listener in &mut self.listeners {
            while let Some(id) = listener.next(endpoint, sessions, now) {
                let Some((session, connection)) = sessions.get_mut(id).zip(endpoint.get(id)) else {
                    continue;
                };
                let (local, remote) = ends(connection, session.iface);
                let Some(number) = port.accept(listener.number, local, remote) else {
                    listener.pending.push_front(id);
                    break;
                };
                session.job = Job::Stream(Stream::new(number, false));
                session.tell_urgent(connection, port);
                for option in &listener.options {
                    session.set(endpoint, *option, now);
                }
                self.open.insert(number, id);
                served.push(id);
                accepted += 1;
            }
        }
        accepted
    }

    /// Resets the connections of which the application wants it, after the octets left that it has written before and that may
    /// leave at once, as on Linux; whether there were any.
    pub(super) fn reset(&mut self, endpoint: &mut Endpoint, now: Nanos) -> bool {
        let any = !self.resetting.is_empty();
        for id in self.resetting.drain(..) {
            endpoint.abort(id, now);
            endpoint.close(id, now);
        }
        any
    }

    /// A connection that was deferred has octets, or is over: its application learns of it.
    pub(super) fn ready(&mut self, listener: StreamId, id: Id) {
        let there = self.listeners.iter_mut().find(|there| there.number == listener);
        there.into_iter().for_each(|there| there.pending.push_back(id));
    }

    /// When the next connection has waited long enough for octets.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.listeners.iter().filter_map(|listener| Some(listener.deferred.front()?.1)).min()
    }
}

impl Listener {
    /// The next connection that may be accepted.
    fn next(&mut self, endpoint: &mut Endpoint, sessions: &mut Sessions, now: Nanos) -> Option<Id> {
        while let Some(id) =
            self.deferred.front().filter(|(_, until)| *until <= now).map(|(id, _)| *id)
        {
            self.deferred.pop_front();
            // One that had octets before is in the other queue.
            let waits = |session: &Session| session.job == Job::Deferred(self.number);
            if let Some(session) = sessions.get_mut(id).filter(|session| waits(session)) {
                session.job = Job::Waiting;
                self.pending.push_back(id);
            }
        }
        if let Some(id) = self.pending.pop_front() {
            return Some(id);
        }
        loop {
            let id = endpoint.accept(self.id)?;
            let silent = |connection: &Connection| {
                connection.readable().is_empty()
                    && !connection.has_ended()
                    && connection.failure().is_none()
            };
            if self.defer == 0 || !endpoint.get(id).is_some_and(silent) {
                return Some(id);
            }
            if let Some(session) = sessions.get_mut(id) {
                session.job = Job::Deferred(self.number);
                self.deferred.push_back((id, now.saturating_add(self.defer)));
            }
        }
    }

    /// Changes a setting; of two for the same, the later one holds.
    fn set(&mut self, endpoint: &mut Endpoint, option: StreamOption) {
        match option {
            StreamOption::DeferAccept(seconds) => self.defer = Nanos::from(seconds) * SECOND,
            StreamOption::FastOpen(pending) => endpoint.set_listener_fast_open(self.id, pending),
            option => {
                if let StreamOption::MaxSegment(octets) = option {
                    endpoint.set_listener_segment(self.id, NonZeroU16::new(octets));
                }
                let other = |there: &StreamOption| discriminant(there) != discriminant(&option);
                self.options.retain(other);
                self.options.push(option);
            }
        }
    }
}

/// Does what an application asks of one of its connections.
fn act(parts: &mut Parts<'_>, id: Id, request: StreamRequest, now: Nanos) {
    let endpoint = &mut *parts.endpoint;
    match request {
        StreamRequest::Send { octets, .. } => {
            endpoint.queue(id, octets.into(), now);
        }
        StreamRequest::Consumed { octets, .. } => endpoint.consume(id, octets.into(), now),
        StreamRequest::Finish { .. } => endpoint.shutdown(id, now),
        StreamRequest::Close { .. } => endpoint.close(id, now),
        StreamRequest::Set { option, .. } => {
            let session = parts.sessions.get_mut(id);
            session.into_iter().for_each(|session| session.set(endpoint, option, now));
        }
        _ => {}
    }
}

/// Lists the connections for an operator.
fn report(parts: &mut Parts<'_>, port: &dyn StreamPort, most: usize, now: Nanos) {
    let mut all = Vec::new();
    for id in parts.endpoint.ids().take(most) {
        let Some(connection) = parts.endpoint.get(id) else { continue };
        let session = parts.sessions.get_mut(id);
        let iface = session.as_ref().map_or(NO_IFACE, |session| session.iface);
        let (local, remote) = ends(connection, iface);
        let stream = session.and_then(|session| session.stream());
        all.push(StreamStatus { stream, local, remote, info: connection.info(now) });
    }
    port.report(all, parts.endpoint.len());
}

/// Begins a connection; the errno if it cannot be.
fn connect(
    cx: &mut Cx<'_>,
    parts: &mut Parts<'_>,
    stream: StreamId,
    local: SocketAddr,
    remote: SocketAddr,
) -> Result<Id, u16> {
    let (address, iface) = source(parts.network, local.ip(), remote).ok_or(ENETUNREACH)?;
    let local = SocketAddr::new(address, local.port());
    for _ in 0..MAX_TRIES {
        let id = parts.endpoint.connect(local, remote, cx.now).map_err(errno)?;
        let Some(tuple) = parts.endpoint.get(id).map(|connection| *connection.tuple()) else {
            break;
        };
        let flow = flow_key(&tuple, parts.flows);
        if cx.claim_flow(flow) == FlowClaim::Mine {
            let mut session = Session::new(id, flow, Job::Stream(Stream::new(stream, true)));
            session.iface = iface;
            parts.sessions.add(session);
            return Ok(id);
        }
        // Another worker's connection has these ends. Nothing was sent yet, so nothing is reset.
        parts.endpoint.abort(id, cx.now);
        parts.endpoint.close(id, cx.now);
        if local.port() != 0 {
            break;
        }
    }
    Err(EADDRNOTAVAIL)
}

/// Our address for a peer, and the interface that its zone names.
fn source(network: &NetState, local: IpAddr, remote: SocketAddr) -> Option<(IpAddr, u16)> {
    let blocked = |kind| {
        matches!(kind, Kind::Martian | Kind::Unreachable | Kind::Prohibited | Kind::Blackhole)
    };
    match remote {
        SocketAddr::V4(remote) => {
            let hop = network.route4(*remote.ip()).filter(|hop| !blocked(hop.kind))?;
            let own = if hop.kind == Kind::Local { *remote.ip() } else { hop.source };
            Some((if local.is_unspecified() { own.into() } else { local }, NO_IFACE))
        }
        SocketAddr::V6(remote) => {
            let zone = u16::try_from(remote.scope_id()).ok().filter(|_| remote.scope_id() != 0);
            let linked = remote.ip().is_unicast_link_local();
            let chosen = IfaceId(zone.filter(|_| linked).unwrap_or(NO_IFACE));
            let hop = network.hop6(chosen, *remote.ip()).filter(|hop| !blocked(hop.kind))?;
            let iface = if linked { hop.iface.0 } else { NO_IFACE };
            if !local.is_unspecified() {
                return Some((local, iface));
            }
            let own = match hop.kind {
                Kind::Local => *remote.ip(),
                _ => network.source6(hop.iface, *remote.ip())?,
            };
            Some((own.into(), iface))
        }
    }
}

fn errno(error: ConnectError) -> u16 {
    match error {
        ConnectError::InUse | ConnectError::PortsExhausted => EADDRNOTAVAIL,
        ConnectError::TooManyConnections | ConnectError::NoMemory => ENOBUFS,
        _ => EHOSTUNREACH,
    }
}
