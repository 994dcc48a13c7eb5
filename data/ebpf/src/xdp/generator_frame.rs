//! The generator's frames: its settings, the template frame, and the parts of the frame's checksums
//! that do not vary.

use std::net::Ipv4Addr;

use crate::sys::BpfError;

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
