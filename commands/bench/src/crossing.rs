//! Three hosts in a row: a source, a router, and a sink that counts.

use std::net::Ipv4Addr;

use weever_ebpf::sys::XdpLink;
use weever_ebpf::xdp::{self, GeneratorSettings, Order, Span};
use weever_engine::Mode;
use weever_link::Link;
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_link_sys::netdev::Interface;
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{Pool, PoolConfig};
use weever_testbed::{Namespace, Veth, allowed_cores, privileged};

use crate::BenchError;
use crate::contender::{Contender, Gate};
use crate::peers::{self, Leg};
use crate::rig::GENERATOR_MAC;
use crate::traffic::{Traffic, payload_len};

pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 1);
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 254);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 254);
pub(crate) const SINK: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 1);
/// Not the sink's own, so that its kernel throws the packets away as soon as it has counted them.
pub(crate) const SINK_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x98];
const PREFIX: u8 = 24;
const FLOWS: u32 = 16;

/// The forwarder, on the router's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarder {
    /// The host graph over AF_XDP.
    Weever,
    /// `ip_forward`.
    Kernel,
}

/// weever and its peer.
pub(crate) const FORWARDERS: [(&str, Forwarder); 2] =
    [("weever", Forwarder::Weever), ("kernel", Forwarder::Kernel)];

/// Source, router and sink.
pub(crate) struct Crossing {
    source: Namespace,
    router: Namespace,
    /// Kept for its end of the cable.
    _sink: Namespace,
    near: Veth,
    far: Veth,
    source_core: usize,
    router_core: usize,
}

impl Crossing {
    pub(crate) fn new(bench: &'static str) -> Result<Crossing, BenchError> {
        if !privileged() {
            return Err(BenchError::Rights(bench));
        }
        let cores = allowed_cores().map_err(BenchError::of("cores"))?;
        let [source_core, router_core, ..] = cores[..] else {
            return Err(BenchError::Cores { bench, cores: cores.len() });
        };
        let (source, router, sink) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        let near = Veth::create(&source, "source0", &router, "near0", 1)?;
        let far = Veth::create(&router, "far0", &sink, "sink0", 1)?;
        near.right.add_address(NEAR, PREFIX)?;
        far.left.add_address(FAR, PREFIX)?;
        far.left.add_neighbour(SINK, SINK_MAC)?;
        // Forwarded packets are received on the other hosts' core, as in a real network.
        sink.process_received_on("sink0", Some(source_core))?;
        Ok(Crossing { source, router, _sink: sink, near, far, source_core, router_core })
    }

    pub(crate) fn describe(&self) -> String {
        let Crossing { source_core, router_core, .. } = self;
        format!(
            "three namespaces in a row, two veths of one queue; source, its softirqs and the sink \
             on core {source_core}, the router on {router_core}"
        )
    }

    /// Starts a forwarder on the router's core.
    pub(crate) fn start(&self, forwarder: Forwarder) -> Result<Contender, BenchError> {
        let is_kernel = forwarder == Forwarder::Kernel;
        self.router.sysctl("net/ipv4/ip_forward", if is_kernel { "1" } else { "0" })?;
        self.router.process_received_on("near0", is_kernel.then_some(self.router_core))?;
        Contender::start_in(
            &self.router,
            self.router_core,
            match forwarder {
                Forwarder::Weever => weever,
                Forwarder::Kernel => kernel,
            },
        )
    }

    /// Load through the router in frames of this length, check sequence included.
    pub(crate) fn traffic(&self, frame: usize) -> Result<Traffic, BenchError> {
        let settings = GeneratorSettings {
            out_ifindex: self.near.left.info()?.index,
            source_mac: GENERATOR_MAC,
            destination_mac: self.near.right.info()?.mac,
            sources: Span::one(SOURCE),
            destination: SINK,
            source_ports: Span { first: 10_000, count: FLOWS },
            destination_ports: Span::one(9),
            payload: vec![0x2a; payload_len(frame)],
            udp_checksum: true,
            order: Order::RoundRobin,
        };
        Traffic::start_with(&self.source, self.source_core, &settings)
    }

    /// Packets that the sink has received so far.
    pub(crate) fn arrived(&self) -> Result<u64, BenchError> {
        Ok(self.far.right.info()?.counters.rx_packets)
    }
}

/// The host graph over AF_XDP, forwarding. It also takes packets for the kernel's addresses; none
/// are sent there.
fn weever(gate: &Gate) -> Result<(), BenchError> {
    let failed = "weever";
    let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(failed))?;
    let open = |dev: &str| AfXdp::open(&AfXdpConfig::new(dev, pool.clone()));
    let mut near = open("near0").map_err(BenchError::of(failed))?;
    let mut far = open("far0").map_err(BenchError::of(failed))?;
    let graph = host(&HostConfig::default()).map_err(BenchError::of(failed))?;
    let legs =
        [leg(&mut near, NEAR, (SOURCE, GENERATOR_MAC)), leg(&mut far, FAR, (SINK, SINK_MAC))];
    let (mut worker, _) = peers::worker(graph, HOST_SOURCE, legs.into(), pool)?;
    gate.open();
    let mut lost = None;
    worker.run(&gate.stop, Mode::Busy, |event| lost = Some(event.error));
    lost.map_or(Ok(()), |error| Err(BenchError::of(failed)(error)))
}

fn leg(device: &mut AfXdp, address: Ipv4Addr, neighbour: (Ipv4Addr, [u8; 6])) -> Leg {
    Leg { link: device.info().clone(), queues: device.take_queues(), address, neighbour }
}

/// The kernel forwards by itself, in softirqs: there is nothing to do but wait.
fn kernel(gate: &Gate) -> Result<(), BenchError> {
    let _pass = attach_pass("near0")?;
    gate.open();
    while gate.running() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

/// A veth end takes redirected frames only with a program attached.
fn attach_pass(dev: &str) -> Result<XdpLink, BenchError> {
    let index = Interface::find(dev).map_err(BenchError::of("kernel"))?.index;
    Ok(XdpLink::attach(&xdp::pass()?, index)?)
}
