//! Traffic from live frames: the kernel runs a program on a frame over and over, the program
//! writes the headers and sends it out of an interface. The fastest source there is without
//! hardware, so it belongs to benchmarks; it needs one core.

use std::net::Ipv4Addr;

use super::{CTX_DATA, CTX_DATA_END};
use crate::asm::Reg::{R0, R1, R2, R3, R4, R5, R6, R8, R9, R10};
use crate::asm::{AluOp, AsmError, Assembler, Cond, Helper, Program, Reg, Width};
use crate::sys::{BpfError, LiveFrames, LiveOutcome, Map, MapKind, XdpAction, XdpProgram};

/// A loaded traffic generator.
#[derive(Debug)]
pub struct Generator {
    program: XdpProgram,
    frame: Vec<u8>,
}

impl Generator {
    /// Loads the program for these settings.
    ///
    /// # Errors
    /// [`BpfError::Setting`] if they make no sense; [`BpfError::Denied`] without CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn load(settings: &GeneratorSettings) -> Result<Generator, BpfError> {
        settings.check()?;
        let counter = match settings.order {
            Order::RoundRobin => Some(Map::create(MapKind::PerCpuArray, "weever_gen", 4, 8, 1)?),
            Order::Random => None,
        };
        let code: Program = emit(settings, counter.as_ref())?;
        let program = XdpProgram::load("weever_gen", &code)?;
        Ok(Generator { program, frame: template(settings) })
    }

    /// Sends `live.repeat` frames, from the CPU of the calling thread, and returns when they are
    /// sent or a signal came. See [`XdpProgram::run_live`].
    ///
    /// # Errors
    /// The kernel's word.
    pub fn run(&self, live: LiveFrames) -> Result<LiveOutcome, BpfError> {
        self.program.run_live(&self.frame, live)
    }

    /// Size of a frame in bytes, from the Ethernet header to the end of the payload.
    pub fn frame_len(&self) -> usize {
        self.frame.len()
    }

    /// The loaded program, for [`XdpProgram::run`]: a look at a frame without sending it.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }
}

/// The longest payload that fits a page with all the kernel puts there.
const MAX_PAYLOAD: usize = 3000;

/// `count` consecutive values from `first` on; at least one. Powers of two are the cheapest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The first value.
    pub first: T,
    /// How many.
    pub count: u32,
}

impl<T> Span<T> {
    /// A single value.
    pub fn one(value: T) -> Self {
        Span { first: value, count: 1 }
    }
}

/// In which order the flows' frames come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// One after the other: source addresses first, then source ports, then destination ports.
    #[default]
    RoundRobin,
    /// At random.
    Random,
}

/// The generator's frames: UDP in IPv4 in Ethernet. The flows are all combinations of the three
/// spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorSettings {
    /// The interface to send from, in the network namespace of the thread that runs it. For a
    /// veth, the frames arrive at its peer, which needs an XDP program attached.
    pub out_ifindex: u32,
    /// Ethernet source.
    pub source_mac: [u8; 6],
    /// Ethernet destination.
    pub destination_mac: [u8; 6],
    /// IPv4 sources.
    pub sources: Span<Ipv4Addr>,
    /// IPv4 destination.
    pub destination: Ipv4Addr,
    /// UDP source ports.
    pub source_ports: Span<u16>,
    /// UDP destination ports.
    pub destination_ports: Span<u16>,
    /// The payload of the datagrams, up to 3,000 bytes; 18 make a 60-byte frame (64 with the check
    /// sequence that Ethernet hardware adds).
    pub payload: Vec<u8>,
    /// Whether datagrams carry a valid checksum, or none (zero).
    pub udp_checksum: bool,
    /// In which order the flows come.
    pub order: Order,
}

impl GeneratorSettings {
    /// How many flows there are.
    pub fn flows(&self) -> u64 {
        let counts = [self.sources.count, self.source_ports.count, self.destination_ports.count];
        counts.into_iter().map(u64::from).fold(1, u64::saturating_mul)
    }

    pub(super) fn check(&self) -> Result<(), BpfError> {
        check_ports("source", self.source_ports)?;
        check_ports("destination", self.destination_ports)?;
        if self.sources.count == 0 {
            return setting("the span of source addresses is empty: its count must be 1 or more");
        }
        if self.flows() > u64::from(u32::MAX) {
            return setting("more than 2^32 - 1 flows: make the spans smaller");
        }
        if self.payload.len() > MAX_PAYLOAD {
            return setting("the payload is longer than 3,000 bytes, which fit a page");
        }
        Ok(())
    }
}

fn check_ports(which: &str, span: Span<u16>) -> Result<(), BpfError> {
    let end = u64::from(span.first) + u64::from(span.count);
    if span.count == 0 || end > 1 << 16 {
        let (first, count) = (span.first, span.count);
        return setting(&format!(
            "{count} {which} ports from {first} on: must be 1 to 65536 - first"
        ));
    }
    Ok(())
}

fn setting<T>(what: &str) -> Result<T, BpfError> {
    Err(BpfError::Setting { what: format!("generator: {what}") })
}

pub(super) const IP: usize = 14;
pub(super) const UDP: usize = IP + 20;
pub(super) const PAYLOAD: usize = UDP + 8;
const TTL: u8 = 64;
const PROTOCOL_UDP: u8 = 17;

/// The whole frame with its varying fields (source address, ports, checksums) left zero.
pub(super) fn template(settings: &GeneratorSettings) -> Vec<u8> {
    let udp_length = 8 + settings.payload.len() as u16;
    let mut frame = Vec::with_capacity(PAYLOAD + settings.payload.len());
    frame.extend(settings.destination_mac);
    frame.extend(settings.source_mac);
    frame.extend(0x0800u16.to_be_bytes());
    frame.extend([0x45, 0]);
    frame.extend((20 + udp_length).to_be_bytes());
    // Identification 0 and "don't fragment" (RFC 6864 §4.1).
    frame.extend([0, 0, 0x40, 0, TTL, PROTOCOL_UDP, 0, 0]);
    frame.extend([0; 4]);
    frame.extend(settings.destination.octets());
    frame.extend([0; 4]);
    frame.extend(udp_length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(&settings.payload);
    frame
}

/// The sum of the IPv4 header as it stands in the template.
pub(super) fn ip_sum(template: &[u8]) -> u16 {
    ones_complement_sum(&template[IP..UDP])
}

/// The sum of the UDP datagram and its pseudo-header (RFC 768) as they stand in the template.
pub(super) fn udp_sum(template: &[u8]) -> u16 {
    let datagram = &template[UDP..];
    let pseudo = [
        u32::from(ones_complement_sum(&template[IP + 12..UDP])),
        u32::from(PROTOCOL_UDP),
        datagram.len() as u32,
    ];
    fold(pseudo.iter().sum::<u32>() + u32::from(ones_complement_sum(datagram)))
}

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let sum: u32 = pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    fold(sum + rest.first().map_or(0, |last| u32::from(*last) << 8))
}

fn fold(sum: u32) -> u16 {
    let once = (sum >> 16) + (sum & 0xffff);
    ((once >> 16) + (once & 0xffff)) as u16
}

const IP_CHECKSUM: i16 = IP as i16 + 10;
const IP_SOURCE: i16 = IP as i16 + 12;
const SOURCE_PORT: i16 = UDP as i16;
const DESTINATION_PORT: i16 = UDP as i16 + 2;
const UDP_CHECKSUM: i16 = UDP as i16 + 6;
const KEY: i16 = -4;

/// Without a `counter` the flows come at random.
pub(super) fn emit(
    settings: &GeneratorSettings,
    counter: Option<&Map>,
) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    let give_up = asm.label("give up");
    asm.note("choose the flow").mov(R6, R1);
    match counter {
        Some(counter) => {
            next_number(&mut asm, counter);
        }
        None => {
            asm.call(Helper::GET_PRANDOM_U32).mov(R8, R0);
        }
    }
    asm.note("find the frame");
    asm.load(Width::W, R2, R6, CTX_DATA).load(Width::W, R3, R6, CTX_DATA_END);
    asm.mov(R1, R2).alu(AluOp::Add, R1, PAYLOAD as i32).jump_if(Cond::Gt, R1, R3, give_up);
    write_headers(&mut asm, settings);
    asm.note("send it");
    asm.mov(R1, settings.out_ifindex as i32).mov(R2, 0).call(Helper::REDIRECT).exit();
    asm.bind(give_up).note("a frame too short: not ours");
    asm.mov(R0, XdpAction::Aborted as i32).exit();
    asm.assemble()
}

/// R8 = this CPU's running number; 0 if the map fails, which it cannot.
fn next_number(asm: &mut Assembler, counter: &Map) {
    let missing = asm.label("no counter");
    asm.store(Width::W, R10, KEY, 0).mov(R8, 0);
    asm.load_map(R1, counter).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, missing);
    asm.load(Width::DW, R8, R0, 0).mov(R1, R8).alu(AluOp::Add, R1, 1);
    asm.store(Width::DW, R0, 0, R1);
    asm.bind(missing);
}

/// Writes Ethernet, IPv4 and UDP headers of flow R8 at R2; calls nothing.
pub(super) fn write_headers(asm: &mut Assembler, settings: &GeneratorSettings) {
    let template = template(settings);
    asm.note("write the constant part of every frame");
    write_constant(asm, &template[..PAYLOAD]);
    write_source(asm, settings);
    asm.note("IPv4 checksum");
    asm.mov(R1, R4).alu(AluOp::Add, R1, i32::from(ip_sum(&template)));
    write_checksum(asm, IP_CHECKSUM);
    write_port(asm, R5, settings.source_ports, SOURCE_PORT);
    write_port(asm, R9, settings.destination_ports, DESTINATION_PORT);
    if settings.udp_checksum {
        write_udp_checksum(asm, udp_sum(&template));
    }
}

fn write_constant(asm: &mut Assembler, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<4>();
    for (i, word) in words.iter().enumerate() {
        asm.store(Width::W, R2, 4 * i as i16, i32::from_ne_bytes(*word));
    }
    for (i, byte) in rest.iter().enumerate() {
        asm.store(Width::B, R2, (4 * words.len() + i) as i16, i32::from(*byte));
    }
}

/// `dst` = the span's value for the number in R8; R8 = rest of the number.
fn pick(asm: &mut Assembler, dst: Reg, first: u32, count: u32) {
    asm.alu32(AluOp::Mov, dst, first as i32);
    if count == 1 {
        return;
    }
    asm.alu32(AluOp::Mov, R1, R8);
    // Division is the dearest instruction there is; counts are mostly powers of two.
    if count.is_power_of_two() {
        asm.alu32(AluOp::And, R1, (count - 1) as i32);
        asm.alu32(AluOp::Rsh, R8, count.trailing_zeros() as i32);
    } else {
        asm.alu32(AluOp::Mod, R1, count as i32).alu32(AluOp::Div, R8, count as i32);
    }
    asm.alu32(AluOp::Add, dst, R1);
}

/// The source address, and in R4 the sum of its halves, which both checksums need.
fn write_source(asm: &mut Assembler, settings: &GeneratorSettings) {
    asm.note("source address");
    pick(asm, R3, settings.sources.first.into(), settings.sources.count);
    asm.mov(R4, R3).alu(AluOp::Rsh, R4, 16).mov(R1, R3).alu(AluOp::And, R1, 0xffff);
    asm.alu(AluOp::Add, R4, R1);
    asm.big_endian(R3, 32).store(Width::W, R2, IP_SOURCE, R3);
}

fn write_port(asm: &mut Assembler, reg: Reg, ports: Span<u16>, offset: i16) {
    asm.note("port");
    pick(asm, reg, ports.first.into(), ports.count);
    asm.mov(R1, reg).big_endian(R1, 16).store(Width::H, R2, offset, R1);
}

fn write_udp_checksum(asm: &mut Assembler, constant: u16) {
    asm.note("UDP checksum");
    asm.mov(R1, R4).alu(AluOp::Add, R1, R5).alu(AluOp::Add, R1, R9);
    asm.alu(AluOp::Add, R1, i32::from(constant));
    fold_and_complement(asm);
    // A sum that comes out as zero is sent as all ones (RFC 768).
    let nonzero = asm.label("nonzero");
    asm.jump_if(Cond::Ne, R1, 0, nonzero).mov(R1, 0xffff).bind(nonzero);
    asm.big_endian(R1, 16).store(Width::H, R2, UDP_CHECKSUM, R1);
}

fn write_checksum(asm: &mut Assembler, offset: i16) {
    fold_and_complement(asm);
    asm.big_endian(R1, 16).store(Width::H, R2, offset, R1);
}

fn fold_and_complement(asm: &mut Assembler) {
    for _ in 0..2 {
        asm.mov(R0, R1).alu(AluOp::Rsh, R0, 16).alu(AluOp::And, R1, 0xffff);
        asm.alu(AluOp::Add, R1, R0);
    }
    asm.alu(AluOp::Xor, R1, 0xffff);
}
