//! The endpoint of a worker: segments, ICMP errors and deadlines go in, segments to be sent come out.

use std::net::SocketAddr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, FlowEnds, FlowKey, Mask, Nanos,
    ParamDoc, PortDoc, Ports, READS, State, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::random::Key;
use weever_net::state::NetState;
use weever_net::stream::StreamPort;
use weever_packet::Flags;
use weever_tcp::Connection;
use weever_wire::ipv4::protocol;

use super::arrive::OUT;
use super::rx::{FLOWS, Said, flow_key, tuple};
use super::session::Job;
use super::worker::{Given, Moved, MovedFlow, Tcp};
use crate::host::{PathReader, Paths, Secret, StateReader};
use crate::kinds::network;
use crate::socket::Applications;

/// The endpoint of each worker.
pub static ENDPOINT: BlockType = BlockType {
    spawns: &["ipv4", "ipv6", "buffer"],
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
        ParamDoc {
            name: "flows",
            default: "262144",
            doc: "room for connections of all workers together, some 36 octets for each",
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
        "left_to_link",
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
        flows: secret.key(FLOWS),
        root: secret.key("tcp"),
        services,
        most: build.param("connections")?,
        applications: build.env.get(),
        tcp: None,
        worker: 0,
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
    /// The worker that runs it, as the last call told.
    worker: u16,
    /// Connections of other workers' that came since: only a call tells the time.
    arrived: Vec<Moved>,
}

fn is_something(packet: &Buffer) -> bool {
    !packet.is_empty() || packet.meta().flags.has(Flags::ERROR)
}

impl TcpEndpoint {
    /// The applications' side at this worker.
    fn port(&self, worker: u16) -> Option<Arc<dyn StreamPort>> {
        self.applications.as_ref()?.streams.get(usize::from(worker)).cloned()
    }

    /// The state, with the listeners and the MTU that hold now, and its surroundings.
    fn tcp(&mut self, worker: u16, now: Nanos) -> (&mut Tcp, Given<'_>) {
        let TcpEndpoint { network, paths, flows, root, services, most, applications, tcp, .. } =
            self;
        self.worker = worker;
        let port = applications.as_ref().and_then(|all| all.streams.get(usize::from(worker)));
        let port = port.map(|port| &**port as &dyn StreamPort);
        let state = network.load();
        let ports = applications.as_ref().map(|all| all.ephemeral).unwrap_or_default();
        let tcp = tcp.get_or_insert_with(|| Box::new(Tcp::new(*root, *most, ports, now)));
        if tcp.generation != state.generation() {
            tcp.generation = state.generation();
            tcp.endpoint.set_mtu(least_mtu(state));
        }
        tcp.listen(services, now);
        for moved in self.arrived.drain(..) {
            tcp.settle_in(moved, port, now);
        }
        (tcp, Given { state, paths: paths.load(), flows: *flows, port })
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
        let (tcp, given) = self.tcp(cx.worker, cx.now);
        let mut left = input;
        while let Some(task) = bits(left).next() {
            left &= !(1 << task);
            // Applications wake the endpoint by a packet without octets; a buffer that it waited for is one.
            let Some(packet) = burst.get(task).filter(|packet| is_something(packet)) else {
                if burst.get(task).is_some_and(|packet| tcp.has_asked_for(packet)) {
                    cx.consume(1 << task);
                } else {
                    ports.enable(OUT, 1 << task);
                }
                continue;
            };
            let (tasks, port) = match Said::of(packet) {
                Some(said) => (1 << task, Some(tcp.take_error(cx, &said))),
                None => tcp.take(cx, &given, burst, task, left),
            };
            left &= !tasks;
            if let Some(port) = port {
                ports.enable(port, tasks);
            }
        }
        tcp.work(cx, &given);
    }

    /// The buffers that it waited for: what was to be sent goes on.
    fn collect(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, claimed: Mask) {
        let (tcp, given) = self.tcp(cx.worker, cx.now);
        tcp.take_buffers(bits(claimed).filter_map(|task| burst.take(task)));
        tcp.work(cx, &given);
    }

    fn poll(&mut self, cx: &mut Cx<'_>) {
        let (tcp, given) = self.tcp(cx.worker, cx.now);
        tcp.deadline = None;
        tcp.endpoint.handle_timeout(cx.now);
        tcp.work(cx, &given);
    }

    fn export_state(&mut self) -> Option<State> {
        self.tcp.take().map(|tcp| tcp as State)
    }

    fn import_state(&mut self, state: State) -> Result<(), State> {
        let mut tcp = state.downcast::<Tcp>()?;
        // That was the predecessor's.
        tcp.deadline = None;
        self.tcp = Some(tcp);
        Ok(())
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        let tuple = Said::of(packet).map(|said| said.tuple).or_else(|| tuple(packet))?;
        Some(flow_key(&tuple, self.flows))
    }

    /// Connections that have just come, and are no more than a message yet, are missed.
    fn list_flows(&self, from: usize, list: &mut Vec<FlowEnds>) -> Option<usize> {
        let tcp = self.tcp.as_ref()?;
        let (connections, next) = tcp.sessions.range(from);
        for (id, key) in connections {
            let Some(tuple) = tcp.endpoint.get(id).map(Connection::tuple) else { continue };
            list.push(FlowEnds {
                key,
                protocol: protocol::TCP,
                local: SocketAddr::new(tuple.local, tuple.local_port),
                remote: SocketAddr::new(tuple.remote, tuple.remote_port),
            });
        }
        next
    }

    /// A stream stays until its application has changed over to this worker.
    fn may_leave(&self, flow: FlowKey) -> bool {
        let (Some(tcp), port) = (&self.tcp, self.port(self.worker)) else { return true };
        let streams = tcp.sessions.of_flow(flow).into_iter();
        let mut streams = streams.filter_map(|id| tcp.sessions.stream(id));
        streams.all(|stream| port.as_ref().is_some_and(|port| port.may_move(stream)))
    }

    fn export_flow(&mut self, flow: FlowKey) -> Option<State> {
        let port = self.port(self.worker);
        let tcp = self.tcp.as_mut()?;
        let moved = tcp.sessions.of_flow(flow).into_iter();
        let all: MovedFlow = moved.filter_map(|id| tcp.send_off(id, port.as_deref())).collect();
        (!all.is_empty()).then(|| Box::new(all) as State)
    }

    fn import_flow(&mut self, _: FlowKey, state: State) -> Result<(), State> {
        let moved = state.downcast::<MovedFlow>()?;
        self.arrived.extend(*moved);
        Ok(())
    }
}
