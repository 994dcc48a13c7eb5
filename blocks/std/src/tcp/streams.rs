//! Applications' streams: their requests, and connections that wait to be accepted by them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_block::{Cx, FlowClaim, Nanos};
use weever_net::SECOND;
use weever_net::demux::{Binding, Family};
use weever_net::iface::IfaceId;
use weever_net::random::Key;
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_net::stream::{StreamEvent, StreamId, StreamOption, StreamPort, StreamRequest};
use weever_packet::NO_IFACE;
use weever_tcp::{
    ConnectError, Connection, Endpoint, Id, KeepAlive, ListenerConfig, ListenerId, Settings,
    TcpConfig,
};

use super::rx::flow_key;
use super::session::{Job, Session, Sessions, Stream, ends};

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
    open: HashMap<StreamId, Id>,
}

#[derive(Debug)]
struct Listener {
    number: StreamId,
    id: ListenerId,
    /// A connection for which the application had no room.
    pending: Option<Id>,
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
        let now = cx.now;
        let of = |stream| self.open.get(&stream).copied();
        let endpoint = &mut *parts.endpoint;
        match request {
            StreamRequest::Listen { listener, binding, backlog } => {
                self.listen(endpoint, listener, &binding, backlog);
            }
            StreamRequest::StopListening { listener } => {
                for gone in self.listeners.extract_if(.., |of| of.number == listener) {
                    endpoint.stop_listening(gone.id, now);
                    if let Some(id) = gone.pending {
                        endpoint.abort(id, now);
                        endpoint.close(id, now);
                    }
                }
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
            StreamRequest::Send { stream, octets } => {
                of(stream).map(|id| endpoint.queue(id, octets.into(), now));
            }
            StreamRequest::Consumed { stream, octets } => {
                of(stream).into_iter().for_each(|id| endpoint.consume(id, octets.into(), now));
            }
            StreamRequest::Finish { stream } => {
                of(stream).into_iter().for_each(|id| endpoint.shutdown(id, now));
            }
            StreamRequest::Close { stream } => {
                of(stream).into_iter().for_each(|id| close(parts, id, now));
            }
            StreamRequest::Abort { stream } => {
                if let Some(id) = of(stream) {
                    endpoint.abort(id, now);
                    endpoint.close(id, now);
                }
            }
            StreamRequest::Set { stream, option } => {
                of(stream).into_iter().for_each(|id| set(endpoint, id, option, now));
            }
            _ => {}
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
            self.listeners.push(Listener { number, id, pending: None });
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
    ) -> u64 {
        let mut accepted = 0;
        for listener in &mut self.listeners {
            while let Some(id) = listener.pending.take().or_else(|| endpoint.accept(listener.id)) {
                let Some((session, connection)) = sessions.get_mut(id).zip(endpoint.get(id)) else {
                    continue;
                };
                let (local, remote) = ends(connection, session.iface);
                let Some(number) = port.accept(listener.number, local, remote) else {
                    listener.pending = Some(id);
                    break;
                };
                session.job = Job::Stream(Stream::new(number, false));
                self.open.insert(number, id);
                served.push(id);
                accepted += 1;
            }
        }
        accepted
    }
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

/// The application lets go: octets to send still go. Octets that it was given count as read, since it may
/// not have had time to say so; others make the end a reset, as on Linux.
fn close(parts: &mut Parts<'_>, id: Id, now: Nanos) {
    let handed_over = match (parts.sessions.get_mut(id), parts.endpoint.get(id)) {
        (Some(session), Some(connection)) => session.has_handed_over(connection),
        _ => false,
    };
    if handed_over {
        parts.endpoint.consume(id, u64::MAX, now);
    }
    parts.endpoint.close(id, now);
}

fn set(endpoint: &mut Endpoint, id: Id, option: StreamOption, now: Nanos) {
    let Some(settings) = endpoint.get(id).map(Connection::settings) else { return };
    let settings = match option {
        StreamOption::NoDelay(no_delay) => Settings { no_delay, ..settings },
        StreamOption::Cork(cork) => Settings { cork, ..settings },
        StreamOption::KeepAlive(seconds) => {
            let idle = Nanos::from(seconds) * SECOND;
            let keep_alive = (seconds > 0).then_some(KeepAlive { idle, ..KeepAlive::default() });
            Settings { keep_alive, ..settings }
        }
        StreamOption::UserTimeout(0) => {
            Settings { user_timeout: TcpConfig::default().user_timeout, ..settings }
        }
        StreamOption::UserTimeout(seconds) => {
            Settings { user_timeout: Nanos::from(seconds) * SECOND, ..settings }
        }
        _ => settings,
    };
    endpoint.set(id, settings, now);
}
