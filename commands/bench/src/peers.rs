//! The contenders: weever as the worker of a host, AF_XDP with nothing around it, and the kernel's
//! interfaces.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use weever_blocks_std::capture::{Tap, TapConfig, Taps};
use weever_ebpf::asm::{AluOp, Assembler, Cond, Reg, Width};
use weever_ebpf::sys::{XdpAction, XdpLink, XdpProgram};
use weever_ebpf::xdp;
use weever_engine::{CounterKind, Entry, Mode, Worker};
use weever_graph::{Field, Graph, Predicate};
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

/// The number of the capture of these hosts.
pub(crate) const TAP: u32 = 0;

/// A host with one worker that executes `graph`; packets start at its node `source`. With several
/// legs it forwards between them; leg *i* is link *i*.
pub(crate) fn host(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<Host, BenchError> {
    builder(graph, source, legs, pool)?.build(0).map_err(BenchError::of(WEEVER))
}

/// The same before it is built.
fn builder(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<HostBuilder, BenchError> {
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
    // For graphs with a capture in them: one that no packet matches.
    let filter = Predicate::eq(Field::L4Dst, 1);
    let tap = Tap::new(TapConfig { filter, ..TapConfig::default() });
    let number = builder.env().get_or_default::<Taps>().add(Arc::new(tap));
    debug_assert_eq!(number, TAP, "a new host has no captures");
    builder.graph(graph, source);
    Ok(builder)
}

/// The worker of such a host, and where packets enter it.
pub(crate) fn worker(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<(Box<Worker>, Entry), BenchError> {
    worker_of(host(graph, source, legs, pool)?, source)
}

/// The first worker of a host, and where packets enter it.
pub(crate) fn worker_of(mut host: Host, source: &str) -> Result<(Box<Worker>, Entry), BenchError> {
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

/// Frames that the driver turns round (`XDP_TX`): an echo without a stack and without user
/// space. Also the most that a client of the other contenders could get.
pub(crate) fn reflector(gate: &Gate) -> Result<(), BenchError> {
    let failed = "XDP_TX";
    let program = XdpProgram::load("weever_reflect", &reflecting(failed)?)?;
    let index = Interface::find(DEVICE).map_err(BenchError::of(failed))?.index;
    let _link = XdpLink::attach(&program, index)?;
    gate.open();
    while gate.running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Exchanges MAC addresses, IPv4 addresses and ports; leaves other frames to the kernel.
fn reflecting(failed: &'static str) -> Result<weever_ebpf::asm::Program, BenchError> {
    let mut asm = Assembler::new();
    let pass = asm.label("pass");
    asm.note("headers of Ethernet, IPv4 and UDP");
    asm.load(Width::W, Reg::R2, Reg::R1, 0).load(Width::W, Reg::R3, Reg::R1, 4);
    asm.mov(Reg::R4, Reg::R2).alu(AluOp::Add, Reg::R4, 42);
    asm.jump_if(Cond::Gt, Reg::R4, Reg::R3, pass);
    asm.load(Width::H, Reg::R4, Reg::R2, 12);
    asm.jump_if(Cond::Ne, Reg::R4, i32::from(0x0800_u16.to_be()), pass);
    asm.note("turn round");
    let mac = [0, 2, 4].map(|at| (Width::H, at, at + 6));
    for (width, one, other) in mac.into_iter().chain([(Width::W, 26, 30), (Width::H, 34, 36)]) {
        asm.load(width, Reg::R4, Reg::R2, one).load(width, Reg::R5, Reg::R2, other);
        asm.store(width, Reg::R2, one, Reg::R5).store(width, Reg::R2, other, Reg::R4);
    }
    asm.mov(Reg::R0, XdpAction::Tx as i32).exit();
    asm.bind(pass).mov(Reg::R0, XdpAction::Pass as i32).exit();
    asm.assemble().map_err(BenchError::of(failed))
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
    let failed = "kernel recvmmsg";
    kernel_udp(gate, failed, &udp_socket(failed, Wait::Spin)?, |_, _| Ok(()))
}

/// The kernel's UDP, echo.
pub(crate) fn mmsg_echo(gate: &Gate) -> Result<(), BenchError> {
    let failed = "kernel echo";
    kernel_udp(gate, failed, &udp_socket(failed, Wait::Spin)?, send_back)
}

/// The same by a thread that sleeps until there is something.
pub(crate) fn mmsg_echo_asleep(gate: &Gate) -> Result<(), BenchError> {
    let failed = "kernel echo";
    kernel_udp(gate, failed, &udp_socket(failed, Wait::Sleep)?, send_back)
}

/// The same for many clients with many requests each, which overrun the room that a socket has by default.
pub(crate) fn mmsg_echo_for_many(gate: &Gate) -> Result<(), BenchError> {
    let failed = "kernel echo";
    let socket = udp_socket(failed, Wait::Spin)?;
    setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_ROOM).map_err(BenchError::of(failed))?;
    kernel_udp(gate, failed, &socket, send_back)
}

fn send_back(batch: &mut ReceiveBatch, socket: &UdpSocket) -> std::io::Result<()> {
    batch.send_back(socket).map(drop)
}

/// The kernel's answers to echo requests, which it makes as it receives them: no socket, no system call.
pub(crate) fn kernel_icmp(gate: &Gate) -> Result<(), BenchError> {
    let _pass = pass("kernel ICMP")?;
    gate.open();
    while gate.running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// How the kernel's contender waits. Beside a weever that polls it polls as well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Spin,
    Sleep,
}

/// Bytes of received datagrams that may wait at the kernel's socket.
const RECEIVE_ROOM: usize = 4 << 20;

fn udp_socket(contender: &'static str, wait: Wait) -> Result<UdpSocket, BenchError> {
    let failed = BenchError::of(contender);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).map_err(&failed)?;
    socket.set_nonblocking(wait == Wait::Spin).map_err(&failed)?;
    // One that sleeps looks whether it is to end.
    socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(&failed)?;
    Ok(socket)
}

fn kernel_udp(
    gate: &Gate,
    name: &'static str,
    socket: &UdpSocket,
    answer: impl Fn(&mut ReceiveBatch, &UdpSocket) -> std::io::Result<()>,
) -> Result<(), BenchError> {
    let _pass = pass(name)?;
    let mut batch = ReceiveBatch::new();
    gate.open();
    while gate.running() {
        let received = match batch.receive(socket) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(BenchError::of(name)(e)),
        };
        // A send buffer that is full is the load's doing; packets lost then are not counted.
        if let Err(e) = answer(&mut batch, socket)
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
pub(crate) fn pass(contender: &'static str) -> Result<XdpLink, BenchError> {
    let index = Interface::find(DEVICE).map_err(BenchError::of(contender))?.index;
    Ok(XdpLink::attach(&xdp::pass()?, index)?)
}
