//! Steering received frames to AF_XDP sockets, or leaving them to the kernel.

use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};

use super::addresses::AddressTable;
use super::gate::{Gate, Rule};
use super::ports::PortTable;
use super::steer_parse::{
    Exits, ICMPV6, IPV4_DESTINATION, IPV4_HEADER, IPV6_HEADER, IPV6_NEXT, find_destination6, find6,
    network, parse_ethernet, require, require_owned, require_port,
};
use super::{CTX_RX_QUEUE, Share};
use crate::asm::Reg::{R0, R1, R2, R3, R6, R7, R9, R10};
use crate::asm::{AluOp, AsmError, Assembler, Cond, Helper, Label, Program, Width};
use crate::sys::{AttachMode, BpfError, Map, MapKind, XdpAction, XdpLink, XdpProgram};

/// A loaded steering program and its maps. A frame for which there is no socket on the queue it
/// was received on is left to the kernel, or with [`Share::Ports`] dropped while there is a
/// [lease](super::PortTable::extend_lease).
///
/// Order of use: [`load`](Self::load), then in any order [`attach`](Self::attach),
/// [`set_socket`](Self::set_socket) per queue and [`add_address`](Gate::add_address); sockets and
/// addresses may change at any time, and count from the next frame on.
#[derive(Debug)]
pub struct Steer {
    program: XdpProgram,
    sockets: Map,
    gate: Gate,
}

impl Steer {
    /// Makes the maps and loads the program for a device of up to `queues` receive queues.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN.
    pub fn load(share: Share, queues: u32) -> Result<Steer, BpfError> {
        Steer::behind(Gate::new(share)?, queues)
    }

    /// The same for frames that `gate` lets in.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn behind(gate: Gate, queues: u32) -> Result<Steer, BpfError> {
        let sockets = Map::create(MapKind::XskMap, "weever_xsks", 4, 4, queues.max(1))?;
        let code = emit(&sockets, &gate)?;
        let program = XdpProgram::load("weever_steer", &code)?;
        Ok(Steer { program, sockets, gate })
    }

    /// Attaches the program to an interface, in the driver if it can, else in the stack. It stays
    /// until the link is dropped or the process ends.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&self, ifindex: u32) -> Result<XdpLink, BpfError> {
        XdpLink::attach(&self.program, ifindex)
    }

    /// Attaches in the given mode only.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach_in(&self, ifindex: u32, mode: AttachMode) -> Result<XdpLink, BpfError> {
        XdpLink::attach_in(&self.program, ifindex, mode)
    }

    /// The loaded program.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }

    /// Sends the frames that arrive on a queue to an AF_XDP socket. The socket has its rings
    /// already, and is bound to this very queue: frames for one bound elsewhere are dropped
    /// silently.
    ///
    /// # Errors
    /// The kernel's word: E2BIG if `queue` is beyond the count given to [`load`](Self::load),
    /// EOPNOTSUPP if the descriptor is no AF_XDP socket with rings.
    pub fn set_socket(&self, queue: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let fd = socket.as_fd().as_raw_fd();
        self.sockets.update(&queue.to_ne_bytes(), &fd.to_ne_bytes())
    }

    /// Leaves the frames that arrive on a queue to the kernel again. A socket that is closed is
    /// removed by itself.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn clear_socket(&self, queue: u32) -> Result<bool, BpfError> {
        self.sockets.remove(&queue.to_ne_bytes())
    }

    /// Which frames are ours.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Deref for Steer {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

/// Type, code, checksum, reserved, target (RFC 4861 §4.3).
const SOLICITATION: i16 = 24;
const SOLICITATION_TARGET: i16 = 8;
const NEIGHBOUR_SOLICITATION: i32 = 135;
const NEIGHBOUR_ADVERTISEMENT: i32 = 136;
const ARP_BODY: i16 = 28;
const ARP_TARGET: i16 = 24;

/// Stack slots.
const KEY: i16 = -4;

/// Offsets in the counters' value.
const REDIRECTED: i16 = 0;
const PASSED: i16 = 8;
const CLOSED: i16 = 16;

pub(super) fn emit(sockets: &Map, gate: &Gate) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    let exits = enter(&mut asm, gate);
    redirect(&mut asm, sockets, gate, exits);
    leave(&mut asm, gate, exits);
    asm.assemble()
}

/// Falls through if the frame is ours, and leaves the context in R6 and the counters in R9. Other
/// frames go to the exits, if there are any, which [`leave`] binds.
pub(super) fn enter(asm: &mut Assembler, gate: &Gate) -> Option<Exits> {
    find_counters(asm, &gate.counters);
    // The verifier does not accept unreachable code.
    let exits = match gate.rule() {
        Rule::Any => return None,
        Rule::Addresses(_) | Rule::Ports(..) => {
            Exits { pass: asm.label("pass"), closed: asm.label("closed") }
        }
    };
    match gate.rule() {
        Rule::Any => {}
        Rule::Addresses(addresses) => require_address(asm, addresses, exits.pass),
        Rule::Ports(addresses, ports) => require_port(asm, addresses, ports, exits),
    }
    Some(exits)
}

fn find_counters(asm: &mut Assembler, counters: &Map) {
    asm.note("find this CPU's counters");
    asm.mov(R6, R1);
    asm.store(Width::W, R10, KEY, 0);
    asm.load_map(R1, counters).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).mov(R9, R0);
}

/// Goes to `pass` unless the frame is for one of our addresses, or resolves one of them.
fn require_address(asm: &mut Assembler, addresses: &AddressTable, pass: Label) {
    let (ipv4, arp, ipv6) = (asm.label("ipv4"), asm.label("arp"), asm.label("ipv6"));
    let (loaded, ours) = (asm.label("loaded"), asm.label("ours"));
    parse_ethernet(asm, pass);
    asm.note("tell IPv4, ARP and IPv6 apart");
    asm.jump_if(Cond::Eq, R1, network(0x0800), ipv4);
    asm.jump_if(Cond::Eq, R1, network(0x0806), arp);
    asm.jump_if(Cond::Eq, R1, network(0x86dd), ipv6);
    asm.jump(pass);

    asm.bind(ipv6);
    find_destination6(asm, addresses, pass);
    asm.jump_if(Cond::Ne, R0, 0, ours);
    solicited_target(asm, pass);
    find6(asm, addresses, IPV6_HEADER + SOLICITATION_TARGET);
    asm.jump_if(Cond::Eq, R0, 0, pass).jump(ours);

    asm.bind(ipv4).note("IPv4: the destination");
    require(asm, IPV4_HEADER, pass);
    asm.load(Width::W, R3, R7, IPV4_DESTINATION).jump(loaded);

    asm.bind(arp).note("ARP for IPv4 over Ethernet: the target");
    require(asm, ARP_BODY, pass);
    // Hardware type 1, protocol type 0x0800, lengths 6 and 4 (RFC 826).
    for (offset, expected) in [(0, 1), (2, 0x0800), (4, 0x0604)] {
        asm.load(Width::H, R1, R7, offset).jump_if(Cond::Ne, R1, network(expected), pass);
    }
    asm.load(Width::W, R3, R7, ARP_TARGET).bind(loaded);
    require_owned(asm, addresses, pass);
    asm.bind(ours);
}

/// Goes to `pass` unless the IPv6 packet at R7 solicits a neighbour, or says that it is one. A
/// solicitation goes to a multicast address that the kernel's addresses may share (RFC 4291
/// §2.7.1), and the answer to a question whether an address is free goes to all nodes (RFC 4861
/// §7.2.4), so only the target shows which host it concerns.
fn solicited_target(asm: &mut Assembler, pass: Label) {
    let concerns = asm.label("concerns");
    asm.note("IPv6: the target of a neighbour's solicitation or advertisement");
    asm.load(Width::B, R1, R7, IPV6_NEXT).jump_if(Cond::Ne, R1, ICMPV6, pass);
    require(asm, IPV6_HEADER + SOLICITATION, pass);
    asm.load(Width::B, R1, R7, IPV6_HEADER);
    asm.jump_if(Cond::Eq, R1, NEIGHBOUR_SOLICITATION, concerns);
    asm.jump_if(Cond::Ne, R1, NEIGHBOUR_ADVERTISEMENT, pass);
    asm.bind(concerns);
}

/// The answer of the kernel's helper if there is no socket.
pub(super) fn without_socket(gate: &Gate) -> i32 {
    match gate.rule() {
        Rule::Any | Rule::Addresses(_) => XdpAction::Pass as i32,
        Rule::Ports(..) => XdpAction::Drop as i32,
    }
}

/// To the queue's socket.
fn redirect(asm: &mut Assembler, sockets: &Map, gate: &Gate, exits: Option<Exits>) {
    asm.note("to the socket of the queue");
    asm.load(Width::W, R2, R6, CTX_RX_QUEUE);
    asm.load_map(R1, sockets).mov(R3, without_socket(gate)).call(Helper::REDIRECT_MAP);
    account(asm, gate, exits);
}

/// Counts the frame by its verdict in R0, and ends.
pub(super) fn account(asm: &mut Assembler, gate: &Gate, exits: Option<Exits>) {
    let (passed, done) = (asm.label("no socket"), asm.label("done"));
    if let (Rule::Ports(..), Some(exits)) = (gate.rule(), exits) {
        asm.jump_if(Cond::Eq, R0, XdpAction::Drop as i32, exits.closed);
    }
    asm.jump_if(Cond::Eq, R9, 0, done);
    asm.jump_if(Cond::Ne, R0, XdpAction::Redirect as i32, passed);
    count(asm, REDIRECTED);
    asm.bind(done).exit();
    asm.bind(passed);
    count(asm, PASSED);
    asm.exit();
}

/// Binds the exits.
pub(super) fn leave(asm: &mut Assembler, gate: &Gate, exits: Option<Exits>) {
    let Some(Exits { pass, closed }) = exits else { return };
    if let Rule::Ports(_, ports) = gate.rule() {
        close(asm, ports, Exits { pass, closed });
    }
    let done = asm.label("passed");
    asm.note("leave it to the kernel");
    asm.bind(pass).mov(R0, XdpAction::Pass as i32).jump_if(Cond::Eq, R9, 0, done);
    count(asm, PASSED);
    asm.bind(done).exit();
}

/// Drops the frame, which is for a port of ours, unless the lease has ended.
fn close(asm: &mut Assembler, ports: &PortTable, Exits { pass, closed }: Exits) {
    let done = asm.label("dropped");
    asm.bind(closed).note("has the lease ended?");
    asm.load_map_value(R7, &ports.lease, 0).load(Width::DW, R7, R7, 0);
    asm.call(Helper::KTIME_GET_NS).jump_if(Cond::Ge, R0, R7, pass);
    asm.note("nobody serves the port now").mov(R0, XdpAction::Drop as i32);
    asm.jump_if(Cond::Eq, R9, 0, done);
    count(asm, CLOSED);
    asm.bind(done).exit();
}

/// R9 leads to this CPU's own value, and nothing else runs on it meanwhile: no atomics needed.
fn count(asm: &mut Assembler, offset: i16) {
    asm.load(Width::DW, R1, R9, offset).alu(AluOp::Add, R1, 1);
    asm.store(Width::DW, R9, offset, R1);
}
