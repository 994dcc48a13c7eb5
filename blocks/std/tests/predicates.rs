//! Holds the blocks of the host's graph to the predicates on their ports: any packet leaves by the
//! port whose predicate holds of it, as checked by a walk over the frame that shares no code with
//! the blocks.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use atomic_refcell::AtomicRefCell;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use weever_blocks_std::host::{Neighbours, provide};
use weever_blocks_std::socket::Applications;
use weever_blocks_std::testing::{
    HostBox, env, field_of, frames::*, frames6::*, host::host_state6,
};
use weever_engine::{CounterKind, Limits};
use weever_graph::{Graph, Node, NodeKind, OpenTest, Predicate};
use weever_models::{HostConfig, Service, host};
use weever_net::demux::{Binding, Sharing, SocketRef, SocketTable};
use weever_wire::MacAddr;
use weever_wire::fields::{Parsed, summarize};
use weever_wire::icmpv4::IcmpRepr;

mod predicates {
    pub(crate) mod atoms;
    pub(crate) mod generate;
}

use predicates::atoms::{Facts, OPEN, holds_of, is_in, repair};
use predicates::generate::{frames, igmp_messages, syn, tcp};

/// Nodes that choose between ports by more than the packet and the host's addresses.
const EXCEPTIONS: [(&str, &str); 24] = [
    ("RxL3IPv6Reassemble", "its ports tell how a fragment lies to those before"),
    ("RxL3ICMPPathMtu", "its ports tell whether the path's MTU was lowered"),
    ("RxL3IGMPReceive", "its ports depend on the memberships"),
    ("RxL4UDPDhcp", "its ports tell whether a client waits for the message"),
    ("RxL3IPv4Reassemble", "its ports tell how a fragment lies to those before"),
    ("RxL3ARPInitResponse", "its ports depend on the neighbour cache"),
    ("RxL3ARPProcessPendingResponse", "its ports depend on the neighbour cache"),
    ("RxL3ICMPNeedsResponse", "whether a reply may go now depends on those before"),
    ("RxL3ICMPReport", "whether an error may go now depends on those before"),
    ("RxL3IPv4UnknownProtocol", "whether an error may go now depends on those before"),
    ("RxL3IPv4FragmentForwarded", "its ports tell how a datagram was cut"),
    ("RxL3IPv4Forward", "the routes choose, and tests of their own hold it to them"),
    ("RxL4UDPClosedPortAction6", "whether an error may go now depends on those before"),
    ("RxL3IPv6Forward", "its ports depend on the routes and the limit of errors"),
    ("RxL3IPv6BadExtensions", "whether an error may go now depends on those before"),
    ("RxL3IPv6BadFragment", "whether an error may go now depends on those before"),
    ("RxL3MLDReceive", "its ports depend on the joined groups"),
    ("RxL3IPv6UnknownHeader", "whether an error may go now depends on those before"),
    ("RxL3ICMP6NeedsResponse", "whether a reply may go now depends on those before"),
    ("RxL3ICMP6Error", "it is about the packet that the error quotes"),
    ("RxL3NDPHandle", "its ports depend on neighbour discovery"),
    ("RxL4UDPEcho", "whether an answer may go now depends on those before"),
    ("RxL4TCPEndpoint", "the fate of a segment depends on those before"),
    ("RxL4UDPClosedPortAction", "whether an error may go now depends on those before"),
];

fn graph() -> Graph {
    let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
    host(&config.with_applications(true)).unwrap()
}

fn states(port: &weever_graph::Port) -> bool {
    port.predicate != Predicate::True
}

/// The F-nodes of the receive side.
fn receivers(graph: &Graph) -> impl Iterator<Item = &Node> {
    let nodes = graph.iter().map(|(_, node)| node);
    nodes.filter(|n| n.name.starts_with("Rx") && matches!(n.kind, NodeKind::Function))
}

/// The nodes that state a predicate for each of their ports.
fn stated(graph: &Graph) -> Vec<&Node> {
    receivers(graph).filter(|node| node.ports.iter().any(states)).collect()
}

/// Every block that chooses between ports states by which condition.
#[test]
fn every_validator_and_classifier_states_its_predicates() {
    let graph = graph();
    for node in receivers(&graph).filter(|node| node.ports.len() > 1) {
        let excepted = EXCEPTIONS.iter().any(|(name, _)| *name == node.name);
        for port in &node.ports {
            assert_eq!(states(port), !excepted, "{}.{}", node.name, port.name);
        }
    }
    for (name, reason) in EXCEPTIONS {
        assert!(graph.find(name).is_some(), "{name} is gone: {reason}");
    }
}

struct Checked {
    host: HostBox,
    neighbours: Arc<Neighbours>,
    nodes: Vec<Watched>,
    /// All counts before the next frame. Readings keep their places as long as the graph stays.
    counts: Vec<u64>,
}

/// A node that states predicates, and the places of its counts among the host's readings.
struct Watched {
    name: String,
    packets: usize,
    ports: Vec<WatchedPort>,
}

struct WatchedPort {
    name: String,
    predicate: Predicate,
    packets: usize,
}

/// One socket, on port [`OPEN`](predicates::atoms::OPEN). Datagrams to it leave by the only link.
fn applications() -> Applications {
    let mut table = SocketTable::new([1, 2, 3, 4], 1);
    let binding = Binding { local_port: Some(OPEN), ..Binding::default() };
    table
        .insert(&binding, SocketRef { id: 1, worker: 0 }, Sharing::Exclusive)
        .expect("there is room for one");
    let (tables, ephemeral) = (vec![Arc::new(AtomicRefCell::new(table))], Default::default());
    Applications { link: 0, tables, ephemeral, streams: Vec::new() }
}

thread_local! {
    static CHECKED: RefCell<Checked> = RefCell::new(Checked::new());
}

impl Checked {
    fn new() -> Checked {
        let env = env();
        provide(&env, host_state6(), 0);
        env.provide(Arc::new(applications()));
        let host = HostBox::in_env(graph(), &env, Limits::default());
        let neighbours = env.get::<Neighbours>().expect("the host provides it");
        let nodes = watched(&host, &graph());
        let counts = values(&host);
        Checked { host, neighbours, nodes, counts }
    }

    /// Runs one frame and compares each node that it reached; returns the ports it took.
    fn check(&mut self, frame: &[u8]) -> Result<Vec<(String, String)>, TestCaseError> {
        let known: Vec<Ipv4Addr> = self.neighbours.entries().iter().map(|(_, n)| n.ip).collect();
        let facts = Facts { frame, known: &known };
        let parsed = summarize(frame);
        self.host.receive(&[frame]);
        self.host.sent();
        let after = values(&self.host);
        assert_eq!(after.len(), self.counts.len(), "the counters of the graph stay");
        let rose = |place: usize| after[place] > self.counts[place];
        let mut taken = Vec::new();
        for node in self.nodes.iter().filter(|node| rose(node.packets)) {
            for port in &node.ports {
                let took = rose(port.packets);
                let holds = holds(&port.predicate, &parsed, &facts);
                prop_assert_eq!(took, holds, "{}.{} of {:02x?}", node.name, port.name, frame);
                taken.extend(took.then(|| (node.name.clone(), port.name.clone())));
            }
        }
        self.counts = after;
        Ok(taken)
    }
}

fn watched(host: &HostBox, graph: &Graph) -> Vec<Watched> {
    let readings = host.readings().into_iter().enumerate();
    let places: HashMap<(String, CounterKind, String), usize> =
        readings.map(|(at, r)| ((r.node.to_string(), r.kind, r.label.to_string()), at)).collect();
    let place = |node: &Node, kind, label: &str| places[&(node.name.clone(), kind, label.into())];
    let watch = |node: &Node| Watched {
        name: node.name.clone(),
        packets: place(node, CounterKind::Packets, ""),
        ports: (node.ports.iter())
            .map(|port| WatchedPort {
                name: port.name.clone(),
                predicate: port.predicate.clone(),
                packets: place(node, CounterKind::Port, &port.name),
            })
            .collect(),
    };
    stated(graph).into_iter().map(watch).collect()
}

fn values(host: &HostBox) -> Vec<u64> {
    host.readings().into_iter().map(|reading| reading.value).collect()
}

fn holds(predicate: &Predicate, parsed: &Parsed, facts: &Facts<'_>) -> bool {
    let open = |test: OpenTest<'_>| match test {
        OpenTest::Label { label, value } => holds_of(label, value, facts),
        OpenTest::Member { field, set, .. } => is_in(field, set, facts),
    };
    predicate.eval(&|field| field_of(parsed, field), &open)
}

fn check(frame: &[u8]) -> Result<Vec<(String, String)>, TestCaseError> {
    CHECKED.with_borrow_mut(|checked| checked.check(frame))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn packets_leave_by_the_port_whose_predicate_holds(frame in frames()) {
        check(&frame)?;
    }

    #[test]
    fn so_do_random_bytes(frame in vec(any::<u8>(), 0..100)) {
        check(&frame)?;
    }
}

/// The frames that the properties rest on do reach every node that states something, and leave it
/// by each of its ports.
#[test]
fn every_stated_port_is_taken() {
    let (mut checked, mut runner) = (Checked::new(), TestRunner::deterministic());
    let ports = |n: &Watched| n.ports.iter().map(|p| (n.name.clone(), p.name.clone())).collect();
    let all = checked.nodes.iter().flat_map(|n| -> Vec<_> { ports(n) });
    let mut wanted: BTreeSet<(String, String)> = all.collect();
    // Every time to live is taken where no minimum is set.
    assert!(wanted.remove(&("RxL3IPv4ValidTTL".into(), "false".into())));
    // The test host neither forwards nor looks where sources lead.
    assert!(wanted.remove(&("RxL3IPv4Destination".into(), "forward".into())));
    assert!(wanted.remove(&("RxL3IPv6Destination".into(), "forward".into())));
    assert!(wanted.remove(&("RxL3IPv4ValidSource".into(), "path".into())));
    let mut take = |frame: &[u8]| {
        let taken = checked.check(frame).unwrap_or_else(|e| panic!("{e}"));
        wanted.retain(|port| !taken.contains(port));
        wanted.len()
    };
    take(&arp_request(HOST));
    // Frames that random generation brings seldom.
    take(&udp(7, 7, b"a loop"));
    take(&udp(5000, OPEN, b"for an application"));
    take(&icmp(HOST, IcmpRepr::EchoRequest { ident: 1, seq: 2, data: b"data" }));
    take(&from_peer6(&ipv6(PEER6, HOST6, 58, 64, &[128, 0, 0])));
    take(&from_peer6(&ipv6(PEER6, HOST6, 44, 64, &[17, 0, 0, 1, 0, 0, 0, 1])));
    take(&from_peer6(&udp6((PEER6, 5000), (HOST6, 11), 64, b"closed")));
    for (hops, code) in [(255, 0), (255, 1), (64, 0)] {
        let mut solicit =
            from_peer6(&ipv6(PEER6, HOST6, 58, hops, &[[135, code].as_slice(), &[0; 22]].concat()));
        repair(&mut solicit);
        take(&solicit);
    }
    // Queries with a router alert, from the link and from beyond it.
    let query = [&[58, 0, 5, 2, 0, 0, 1, 0, 130][..], &[0; 27]].concat();
    let nodes = "ff02::1".parse().expect("the group of all nodes");
    for (src, hops) in [("fe80::2", 1), ("2001:db8::2", 1), ("fe80::2", 2)] {
        let src = src.parse().expect("an address");
        let to_all = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
        let mut frame = ethernet(to_all, PEER_MAC, 0x86dd, &ipv6(src, nodes, 0, hops, &query));
        repair(&mut frame);
        take(&frame);
    }
    // A report of MLD that hosts ignore, and a query cut short.
    let cut = [&[58, 0, 5, 2, 0, 0, 1, 0, 130][..], &[0; 11]].concat();
    let done = [&[58, 0, 5, 2, 0, 0, 1, 0, 132][..], &[0; 23]].concat();
    for message in [cut, done] {
        let src = "fe80::2".parse().expect("an address");
        let to_all = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
        let mut frame = ethernet(to_all, PEER_MAC, 0x86dd, &ipv6(src, nodes, 0, 1, &message));
        repair(&mut frame);
        take(&frame);
    }
    for frame in igmp_messages() {
        take(&frame);
    }
    take(&icmp(HOST, IcmpRepr::EchoReply { ident: 1, seq: 2, data: b"data" }));
    take(&tcp(PEER, HOST, &syn(9), true));
    take(&tcp(PEER, HOST, &syn(9), false));
    take(&tcp(PEER, HOST, &syn(9)[..19], false));
    take(&from_peer6(&ipv6(PEER6, HOST6, 6, 64, &syn(9))));
    let any = frames();
    for _ in 0..20_000 {
        let frame = any.new_tree(&mut runner).expect("nothing is filtered").current();
        if take(&frame) == 0 {
            return;
        }
    }
    panic!("never taken: {wanted:?}");
}
