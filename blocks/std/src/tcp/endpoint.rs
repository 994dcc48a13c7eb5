//! The endpoint of a worker: segments, ICMP errors and deadlines go in, segments to be sent come out.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, FlowClaim, FlowKey, Mask, Nanos,
    ParamDoc, PortDoc, Ports, READS, State, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::pmtu::View;
use weever_net::random::Key;
use weever_net::state::NetState;
use weever_net::stream::{StreamEvent, StreamPort};
use weever_packet::{Flags, NO_IFACE};
use weever_tcp::{
    Connection, Ecn, Endpoint, Events, Id, ListenerConfig, ListenerId, Reject, Segment, TcpConfig,
    Tuple,
};

use super::rx::{Said, flow_key, tuple, view};
use super::send::send;
use super::session::{Job, REGION, Rest, Session, Sessions};
use super::streams::{Parts, Streams};
use crate::headers::traffic_class;
use crate::host::{PathReader, Paths, Secret, StateReader};
use crate::kinds::network;
use crate::socket::Applications;

/// The endpoint of each worker.
pub static ENDPOINT: BlockType = BlockType {
    spawns: &["ipv4", "ipv6"],
    effects: READS.union(Effects::CONSUMES),
    state: StateKind::Sharded,
    params: &[
        ParamDoc { name: "echo", default: "0", doc: "port of the echo service, or 0 for none" },
        ParamDoc {
            name: "discard",
            default: "0",
            doc: "port of the discard service, or 0 for none",
        },
        ParamDoc {
            name: "connections",
            default: "262144",
            doc: "the most connections of a worker",
        },
    ],
    counters: &[
        "accepted",
        "ended",
        "sent",
        "resets_sent",
        "no_buffer",
        "mtu_lowered",
        "unreachable",
        "flows_full",
    ],
    ..BlockType::new(
        "TcpEndpoint",
        "Listens on the ports of services, answers segments (RFC 9293), and sends what its connections \
         have to send.",
        &[
            PortDoc { name: "out", doc: "taken by a connection or a listener" },
            PortDoc { name: "closed", doc: "nothing listens there: answered with a reset" },
            PortDoc { name: "group", doc: "to a group or a broadcast address" },
            PortDoc { name: "malformed", doc: "flags or options make no sense" },
            PortDoc { name: "stale", doc: "outside the window, or older than what came before" },
            PortDoc {
                name: "challenged",
                doc: "a reset, SYN or acknowledgement that may be forged",
            },
            PortDoc { name: "unwanted", doc: "data after its end was closed" },
            PortDoc { name: "full", doc: "a limit is reached" },
        ],
        make,
    )
};

const OUT: usize = 0;
const CLOSED: usize = 1;
const GROUP: usize = 2;
const MALFORMED: usize = 3;
const STALE: usize = 4;
const CHALLENGED: usize = 5;
const UNWANTED: usize = 6;
const FULL: usize = 7;

const ACCEPTED: usize = 0;
const ENDED: usize = 1;
const SENT: usize = 2;
const RESETS_SENT: usize = 3;
const NO_BUFFER: usize = 4;
const MTU_LOWERED: usize = 5;
const UNREACHABLE: usize = 6;
const FLOWS_FULL: usize = 7;

/// Segments that start in one call: the rest of the turn belongs to others.
const BUDGET: usize = 64;
/// When to ask again for a buffer.
const NO_BUFFER_WAIT: Nanos = 1_000_000;

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let secret = build.env.get_or_default::<Secret>();
    let port = |name| -> Result<Option<u16>, BuildError> {
        let port: u16 = build.param(name)?;
        Ok((port != 0).then_some(port))
    };
    let services = [(Job::Echo, port("echo")?), (Job::Discard, port("discard")?)];
    let paths = build.env.get_or_default::<Paths>();
    Ok(Box::new(TcpEndpoint {
        network: network(build)?.reader(),
        paths: paths.reader(),
        flows: secret.key("tcp flows"),
        root: secret.key("tcp"),
        services,
        most: build.param("connections")?,
        applications: build.env.get(),
        tcp: None,
        arrived: Vec::new(),
    }))
}

struct TcpEndpoint {
    network: StateReader,
    paths: PathReader,
    /// The key of flows' names, the same at all workers.
    flows: Key,
    /// The key of the engine's secrets, the same at all workers, so that a connection can move.
    root: Key,
    services: [(Job, Option<u16>); 2],
    most: usize,
    applications: Option<Arc<Applications>>,
    /// The state; made by the first call, which tells the time.
    tcp: Option<Box<Tcp>>,
    /// Connections of other workers' that came since: only a call tells the time.
    arrived: Vec<Moved>,
}

/// The state that a successor of the block goes on with.
struct Tcp {
    endpoint: Endpoint,
    sessions: Sessions,
    listeners: Vec<(Job, u16, ListenerId)>,
    streams: Streams,
    /// Connections whose received octets find no room at their applications.
    again: Vec<Id>,
    /// Generation of the network that the MTU was taken from.
    generation: u64,
}

/// A connection on its way from one worker to another.
struct Moved {
    connection: Box<Connection>,
    session: Session,
}

/// The connections of a flow.
type MovedFlow = Vec<Moved>;

/// The surroundings of one call.
struct Given<'a> {
    state: &'a NetState,
    paths: &'a View,
    /// The key of flows' names.
    flows: Key,
    /// The applications of this worker.
    port: Option<&'a dyn StreamPort>,
}

fn is_something(packet: &Buffer) -> bool {
    !packet.is_empty() || packet.meta().flags.has(Flags::ERROR)
}

impl TcpEndpoint {
    /// The applications' side at this worker.
    fn port(&self, worker: u16) -> Option<Arc<dyn StreamPort>> {
        self.applications.as_ref()?.streams.get(usize::from(worker)).cloned()
    }

    /// The state, with the listeners and the MTU that hold now.
    fn tcp(&mut self, now: Nanos) -> (&mut Tcp, &NetState, &View) {
        let state = self.network.load();
        let (root, most) = (self.root, self.most);
        let tcp = self.tcp.get_or_insert_with(|| Box::new(Tcp::new(root, most, now)));
        if tcp.generation != state.generation() {
            tcp.generation = state.generation();
            tcp.endpoint.set_mtu(least_mtu(state));
        }
        tcp.listen(&self.services, now);
        for moved in self.arrived.drain(..) {
            tcp.settle_in(moved, now);
        }
        (tcp, state, self.paths.load())
    }
}

/// The longest packet that every interface takes: segments announced and sent fit all of them. A path with
/// less is found by the routing, or by ICMP.
fn least_mtu(state: &NetState) -> u16 {
    let up = state.config().interfaces().iter().filter(|iface| iface.up);
    up.map(|iface| iface.mtu).min().unwrap_or(1500)
}

impl Block for TcpEndpoint {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (port, flows) = (self.port(cx.worker), self.flows);
        let (tcp, state, paths) = self.tcp(cx.now);
        let given = Given { state, paths, flows, port: port.as_deref() };
        for task in bits(input) {
            // Applications wake the endpoint by a packet without octets.
            let Some(packet) = burst.get(task).filter(|packet| is_something(packet)) else {
                ports.enable(OUT, 1 << task);
                continue;
            };
            let port = match Said::of(packet) {
                Some(said) => Some(tcp.take_error(cx, &said)),
                None => tcp.take(cx, &given, task, packet),
            };
            if let Some(port) = port {
                ports.enable(port, 1 << task);
            }
        }
        tcp.work(cx, &given);
    }

    fn poll(&mut self, cx: &mut Cx<'_>) {
        let (port, flows) = (self.port(cx.worker), self.flows);
        let (tcp, state, paths) = self.tcp(cx.now);
        let given = Given { state, paths, flows, port: port.as_deref() };
        tcp.endpoint.handle_timeout(cx.now);
        tcp.work(cx, &given);
    }

    fn export_state(&mut self) -> Option<State> {
        self.tcp.take().map(|tcp| tcp as State)
    }

    fn import_state(&mut self, state: State) -> Result<(), State> {
        self.tcp = Some(state.downcast::<Tcp>()?);
        Ok(())
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        let tuple = Said::of(packet).map(|said| said.tuple).or_else(|| tuple(packet))?;
        Some(flow_key(&tuple, self.flows))
    }

    fn export_flow(&mut self, flow: FlowKey) -> Option<State> {
        let tcp = self.tcp.as_mut()?;
        let mut all = MovedFlow::new();
        for id in tcp.sessions.of_flow(flow) {
            if tcp.sessions.get_mut(id).is_some_and(|it| matches!(it.job, Job::Stream(_))) {
                // Its octets lie with this worker's applications: it cannot move, and ends.
                tcp.endpoint.abort(id, 0);
                continue;
            }
            let session = tcp.sessions.remove(id);
            if let Some((connection, session)) = tcp.endpoint.export(id).zip(session) {
                all.push(Moved { connection: Box::new(connection), session });
            }
        }
        (!all.is_empty()).then(|| Box::new(all) as State)
    }

    fn import_flow(&mut self, _: FlowKey, state: State) -> Result<(), State> {
        let moved = state.downcast::<MovedFlow>()?;
        self.arrived.extend(*moved);
        Ok(())
    }
}

impl Tcp {
    fn new(root: Key, most: usize, now: Nanos) -> Tcp {
        let config = TcpConfig {
            receive_capacity: REGION,
            max_receive_capacity: REGION,
            max_connections: most,
            report_gone: true,
            ..TcpConfig::default()
        };
        Tcp {
            endpoint: Endpoint::new(config, root, now),
            sessions: Sessions::default(),
            listeners: Vec::new(),
            streams: Streams::default(),
            again: Vec::new(),
            generation: 0,
        }
    }

    /// Listens on the ports of the services, and no others. Established connections go on.
    fn listen(&mut self, services: &[(Job, Option<u16>)], now: Nanos) {
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

    /// Takes a segment: the port by which its task leaves, or none if another worker owns its flow.
    #[inline]
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        task: usize,
        packet: &Buffer,
    ) -> Option<usize> {
        let (Some(tuple), Some(view)) = (tuple(packet), view(packet)) else {
            return Some(MALFORMED);
        };
        let ecn = Ecn::from_bits(traffic_class(packet).unwrap_or(0));
        let Ok(segment) = Segment::parse(view, ecn) else { return Some(MALFORMED) };
        let found = self.endpoint.lookup(&tuple);
        if found.is_none()
            && let Err(port) = self.may_begin(cx, given, task, packet, &tuple)
        {
            return port;
        }
        let result = self.endpoint.handle_at(found, &tuple, &segment, cx.now);
        let iface = packet.meta().iface;
        let is_the_same = matches!(&result, Ok(handled) if handled.id == found && found.is_some());
        if !is_the_same {
            self.note_change(cx, given, found, &tuple, iface);
        }
        if let Ok(handled) = &result
            && let Some(session) = handled.id.and_then(|id| self.sessions.get_mut(id))
        {
            session.iface = iface;
            if let Some(payload) = &handled.payload {
                session.keep(payload, segment.payload, given.port);
            }
        }
        self.answer(cx, iface);
        Some(result.map_or_else(port_of, |_| OUT))
    }

    /// After a segment that may have made a connection between these ends, or put one in another's place.
    fn note_change(
        &mut self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        found: Option<Id>,
        tuple: &Tuple,
        iface: u16,
    ) {
        // The record of an earlier one may stand in the slot of the new one.
        self.bury(cx, given);
        let new = self.endpoint.lookup(tuple).filter(|id| Some(*id) != found);
        if let Some(id) = new {
            self.sessions.add(Session::new(id, flow_key(tuple, given.flows), Job::Waiting));
            let first = given.state.interface(IfaceId(iface)).map_or(1500, |iface| iface.mtu);
            let mtu = given.paths.mtu(tuple.remote, first.into()).min(u16::MAX.into()) as u16;
            self.endpoint.limit_mtu(id, mtu, cx.now);
        } else if found.is_none() {
            // Nothing was made of it: a cookie, a reset, or nothing at all.
            cx.release_flow(flow_key(tuple, given.flows));
        }
    }

    /// Looks whether a segment of no connection is for us, and claims the flow of one that a listener may
    /// make a connection of. Otherwise the port by which it leaves, or none if another worker owns the flow.
    fn may_begin(
        &self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        task: usize,
        packet: &Buffer,
        tuple: &Tuple,
    ) -> Result<(), Option<usize>> {
        if !is_for_us_alone(given.state, packet, tuple) {
            return Err(Some(GROUP));
        }
        if !self.endpoint.listens(tuple) {
            return Ok(());
        }
        let flow = flow_key(tuple, given.flows);
        match cx.claim_flow(flow) {
            FlowClaim::Mine => Ok(()),
            FlowClaim::Elsewhere(_) => {
                cx.send_to_owner(task, flow);
                Err(None)
            }
            FlowClaim::Full => {
                cx.count(FLOWS_FULL, 1);
                Err(Some(FULL))
            }
        }
    }

    /// An ICMP error about a connection.
    #[cold]
    fn take_error(&mut self, cx: &mut Cx<'_>, said: &Said) -> usize {
        match said.mtu {
            Some(mtu) => {
                let believed = self.endpoint.handle_mtu(&said.tuple, said.seq, mtu, cx.now);
                cx.count(MTU_LOWERED, believed.into());
            }
            None => {
                let believed = self.endpoint.handle_unreachable(&said.tuple, said.seq, cx.now);
                cx.count(UNREACHABLE, believed.into());
            }
        }
        OUT
    }

    /// Sends answers that belong to no connection, by the interface that their segment came by.
    fn answer(&mut self, cx: &mut Cx<'_>, iface: u16) {
        while let Some(reply) = self.endpoint.poll_reply() {
            let Some(packet) = cx.alloc() else {
                cx.count(NO_BUFFER, 1);
                continue;
            };
            let is_reset = reply.header.flags & weever_wire::tcp::flag::RST != 0;
            if send(cx, packet, &reply, iface, |_, _| {}) {
                cx.count(if is_reset { RESETS_SENT } else { SENT }, 1);
            }
        }
    }

    /// What follows from the segments, requests and deadlines of this call: services and applications are
    /// served, segments leave, flows end, and the next deadline is set.
    fn work(&mut self, cx: &mut Cx<'_>, given: &Given<'_>) {
        let mut again = std::mem::take(&mut self.again);
        if let Some(port) = given.port {
            let (endpoint, sessions) = (&mut self.endpoint, &mut self.sessions);
            let parts = &mut Parts { endpoint, sessions, network: given.state, flows: given.flows };
            self.streams.take_requests(cx, parts, port);
            let (endpoint, sessions) = (&mut self.endpoint, &mut self.sessions);
            let accepted = self.streams.accept(endpoint, sessions, port, &mut again);
            cx.count(ACCEPTED, accepted);
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
        for id in again {
            if let Some(session) = self.sessions.get_mut(id) {
                session.listed = false;
                self.serve(id, Events::default(), given.port, cx.now);
            }
        }
        while let Some((id, events)) = self.endpoint.poll_event() {
            self.serve(id, events, given.port, cx.now);
        }
        let more = self.transmit(cx, given.port);
        self.bury(cx, given);
        let next = self.endpoint.next_deadline();
        cx.set_deadline(more.into_iter().chain(next).min());
    }

    fn serve(&mut self, id: Id, events: Events, port: Option<&dyn StreamPort>, now: Nanos) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        match session.serve(&mut self.endpoint, events, port, now) {
            Rest::Nothing => {}
            Rest::Over => self.endpoint.close(id, now),
            Rest::Again => {
                if !std::mem::replace(&mut session.listed, true) {
                    self.again.push(id);
                }
            }
        }
    }

    /// Connections that are no more: their records go, applications learn of it, and their flows have no
    /// owner any longer.
    fn bury(&mut self, cx: &mut Cx<'_>, given: &Given<'_>) {
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

    /// Sends up to the budget. When to go on, if there is more.
    fn transmit(&mut self, cx: &mut Cx<'_>, port: Option<&dyn StreamPort>) -> Option<Nanos> {
        for _ in 0..BUDGET {
            // The buffer comes first: a segment taken from the engine and not sent counts as lost.
            let Some(packet) = cx.alloc() else {
                cx.count(NO_BUFFER, 1);
                return Some(cx.now + NO_BUFFER_WAIT);
            };
            let Some(transmit) = self.endpoint.poll_transmit(cx.now) else {
                cx.free(packet);
                return None;
            };
            let session = transmit.connection.and_then(|id| self.sessions.get_mut(id));
            let iface = session.as_ref().map_or(NO_IFACE, |session| session.iface);
            let fill = |range, out: &mut [u8]| {
                if let Some(session) = session {
                    session.read(range, out, port);
                }
            };
            if send(cx, packet, &transmit, iface, fill) {
                cx.count(SENT, 1);
            }
        }
        Some(cx.now + 1)
    }

    /// A connection that another worker had.
    fn settle_in(&mut self, moved: Moved, now: Nanos) {
        let Moved { connection, session } = moved;
        let accepted = session.job != Job::Waiting;
        if let Ok(id) = self.endpoint.import(*connection, accepted, now) {
            self.sessions.adopt(session, id);
        }
    }
}

/// Whether a segment was sent to an address of this host and to no one else: RFC 9293 §3.9.2.3, MUST-57.
fn is_for_us_alone(state: &NetState, packet: &Buffer, tuple: &Tuple) -> bool {
    let iface = IfaceId(packet.meta().iface);
    let is_ours = match tuple.local {
        std::net::IpAddr::V4(local) => state.is_ours(local),
        std::net::IpAddr::V6(local) => state.is_ours6(iface, local),
    };
    is_ours && !packet.meta().flags.has(Flags::LINK_BROADCAST)
}

fn port_of(reject: Reject) -> usize {
    match reject {
        Reject::Reset | Reject::Finished => OUT,
        Reject::NoConnection => CLOSED,
        Reject::BadOptions | Reject::BadFlags | Reject::NoAck | Reject::NoTimestamp => MALFORMED,
        Reject::OldTimestamp | Reject::OutsideWindow | Reject::OldAck => STALE,
        Reject::InexactReset | Reject::UnexpectedSyn | Reject::AckOfUnsent | Reject::BadCookie => {
            CHALLENGED
        }
        Reject::Unwanted | Reject::AfterFin => UNWANTED,
        _ => FULL,
    }
}
