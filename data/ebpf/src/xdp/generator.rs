//! Traffic from live frames: the kernel runs a program on a frame over and over, the program
//! writes the headers and sends it out of an interface. The fastest source there is without
//! hardware, so it belongs to benchmarks; it needs one core.

use std::net::Ipv4Addr;

use super::{frame, generator_program};
use crate::asm::Program;
use crate::sys::{BpfError, LiveFrames, LiveOutcome, Map, MapKind, XdpProgram};

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

/// What the generator sends: UDP in IPv4 in Ethernet. The flows are all combinations of the three
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
    /// What the datagrams carry, up to 3,000 bytes; 18 make a 60-byte frame (64 with the check
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

    fn check(&self) -> Result<(), BpfError> {
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
        let code: Program = generator_program::emit(settings, counter.as_ref())?;
        let program = XdpProgram::load("weever_gen", &code)?;
        Ok(Generator { program, frame: frame::template(settings) })
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
