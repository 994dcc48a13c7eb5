//! The contenders: weever as the worker of a host, AF_XDP with nothing around it, and the kernel's
//! interfaces.

use std::net::{Ipv4Addr, UdpSocket};

use weever_ebpf::sys::XdpLink;
use weever_ebpf::xdp;
use weever_engine::{CounterKind, Entry, Mode, Worker};
use weever_graph::Graph;
use weever_host::{Host, HostBuilder, InterfaceConfig, Prefix};
use weever_link::{Link, LinkInfo, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, Bare};
use weever_link_sys::mmsg::ReceiveBatch;
use weever_link_sys::netdev::Interface;
use weever_link_sys::packet::{Protocol, RingShape, TpacketRing};
use weever_models::counters::{HOST_SOURCE, host_with_counters};
use weever_models::{HostConfig, Service};
use weever_packet::{Pool, PoolConfig};
use weever_testbed::Fixture;
use weever_wire::MacAddr;

use crate::BenchError;
use crate::contender::Gate;
use crate::rig::{GENERATOR_MAC, HOST, PORT};

const WEEVER: &str = "weever";

/// A link of a host: its address there, and the one neighbour it has.
pub(crate) struct Leg {
    pub(crate) link: LinkInfo,
    /// Without any, the caller puts packets into the engine and takes out sent ones.
    pub(crate) queues: Vec<Box<dyn LinkQueue>>,
    pub(crate) address: Ipv4Addr,
    pub(crate) neighbour: (Ipv4Addr, [u8; 6]),
}

/// A host with one worker that executes `graph`; packets start at its node `source`. With several
/// legs it forwards between them; leg *i* is link *i*.
pub(crate) fn host(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<Host, BenchError> {
    let mut builder = HostBuilder::new(pool);
    builder.network().settings.forwarding = legs.len() > 1;
    for Leg { link, queues, address, neighbour: (neighbour, mac) } in legs {
        let prefix = Prefix::new(address.into(), 24).expect("IPv4 prefixes have up to 32 bits");
        let name = link.name.clone();
        let link = builder.queues_of(link, queues);
        let interface = InterfaceConfig::new(name, link).address(prefix);
        builder.interface(interface).map_err(BenchError::of(WEEVER))?;
        builder.neighbour(neighbour.into(), MacAddr(mac));
    }
    builder.graph(graph, source);
    builder.build(0).map_err(BenchError::of(WEEVER))
}

/// The worker of such a host, and where packets enter it.
pub(crate) fn worker(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<(Box<Worker>, Entry), BenchError> {
    let mut host = host(graph, source, legs, pool)?;
    let mut worker = host.take_workers().remove(0);
    let missing = || BenchError::of(WEEVER)(format!("the graph has no {source}"));
    let entry = worker.engine().entry(source).ok_or_else(missing)?;
    Ok((Box::new(worker), entry))
}

/// The contender's interface.
const DEVICE: &str = "right0";

fn device(contender: &'static str) -> Result<AfXdpConfig, BenchError> {
    let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(contender))?;
    Ok(AfXdpConfig::new(DEVICE, pool))
}

/// weever: the host's graph with `counters` extra blocks at its front, serving `service`.
pub(crate) fn weever(gate: &Gate, service: Service, counters: usize) -> Result<(), BenchError> {
    weever_in(gate, service, counters, Mode::Busy)
}

/// The same, waiting for packets in another way.
pub(crate) fn weever_in(
    gate: &Gate,
    service: Service,
    counters: usize,
    mode: Mode,
) -> Result<(), BenchError> {
    let failed = "weever";
    let config = device(failed)?;
    let mut link = AfXdp::open(&config).map_err(BenchError::of(failed))?;
    let graph = host_with_counters(&HostConfig::serving(service, PORT), counters);
    let graph = graph.map_err(BenchError::of(failed))?;
    let leg = Leg {
        link: link.info().clone(),
        queues: link.take_queues(),
        address: HOST,
        neighbour: (Fixture::LEFT, GENERATOR_MAC),
    };
    let (mut worker, _) = worker(graph, HOST_SOURCE, vec![leg], config.pool)?;
    let counters = worker.engine().counters();
    let port = service.port();
    gate.open_with(move || counters.get("RxL4UDPSockets", CounterKind::Port, port).unwrap_or(0));
    let mut lost = None;
    worker.run(&gate.stop, mode, |event| lost = Some(event.error));
    lost.map_or(Ok(()), |error| Err(BenchError::of(failed)(error)))
}

/// AF_XDP, receive and drop.
pub(crate) fn bare_drop(gate: &Gate) -> Result<(), BenchError> {
    let mut bare = bare()?;
    gate.open();
    while gate.running() {
        gate.add(bare.receive_and_drop());
    }
    Ok(())
}

/// AF_XDP, echo: addresses and ports exchanged in place, checksums stay right.
pub(crate) fn bare_echo(gate: &Gate) -> Result<(), BenchError> {
    let mut bare = bare()?;
    gate.open();
    while gate.running() {
        gate.add(bare.echo(turn_round));
    }
    Ok(())
}

fn bare() -> Result<Bare, BenchError> {
    let failed = "bare AF_XDP";
    Bare::open(&device(failed)?).map_err(BenchError::of(failed))
}

/// Makes a UDP datagram its own answer.
fn turn_round(frame: &mut [u8]) {
    let Some(headers) = frame.first_chunk_mut::<42>() else { return };
    let swap = |headers: &mut [u8; 42], at: usize, len: usize| {
        let (first, second) = headers[at..at + 2 * len].split_at_mut(len);
        first.swap_with_slice(second);
    };
    swap(headers, 0, 6);
    swap(headers, 26, 4);
    swap(headers, 34, 2);
}

/// A packet socket with a mapped ring, receive and drop.
pub(crate) fn tpacket(gate: &Gate) -> Result<(), BenchError> {
    let failed = "TPACKET_V3";
    let _pass = pass(failed)?;
    let ring = TpacketRing::open(DEVICE, Protocol::All, RingShape::default());
    let mut ring = ring.map_err(BenchError::of(failed))?;
    gate.open();
    while gate.running() {
        gate.add(ring.next_block(|_| {}));
    }
    Ok(())
}

/// The kernel's UDP, receive and drop.
pub(crate) fn recvmmsg(gate: &Gate) -> Result<(), BenchError> {
    kernel_udp(gate, "kernel recvmmsg", |_, _| Ok(()))
}

/// The kernel's UDP, echo.
pub(crate) fn mmsg_echo(gate: &Gate) -> Result<(), BenchError> {
    kernel_udp(gate, "kernel echo", |batch, socket| batch.send_back(socket).map(drop))
}

fn kernel_udp(
    gate: &Gate,
    name: &'static str,
    answer: impl Fn(&mut ReceiveBatch, &UdpSocket) -> std::io::Result<()>,
) -> Result<(), BenchError> {
    let _pass = pass(name)?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).map_err(BenchError::of(name))?;
    socket.set_nonblocking(true).map_err(BenchError::of(name))?;
    let mut batch = ReceiveBatch::new();
    gate.open();
    while gate.running() {
        // Polled, as weever is: neither sleeps.
        let received = match batch.receive(&socket) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(BenchError::of(name)(e)),
        };
        // A send buffer that is full is the load's doing; packets lost then are not counted.
        if let Err(e) = answer(&mut batch, &socket)
            && e.raw_os_error() != Some(ENOBUFS)
            && e.kind() != std::io::ErrorKind::WouldBlock
        {
            return Err(BenchError::of(name)(e));
        }
        gate.add(received);
    }
    Ok(())
}

/// `ENOBUFS` on Linux.
const ENOBUFS: i32 = 105;

/// A veth end takes redirected frames only with a program attached.
fn pass(contender: &'static str) -> Result<XdpLink, BenchError> {
    let index = Interface::find(DEVICE).map_err(BenchError::of(contender))?.index;
    Ok(XdpLink::attach(&xdp::pass()?, index)?)
}
