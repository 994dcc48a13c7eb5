//! The generator's template frame, and the parts of its checksums that do not vary.

use super::generator::GeneratorSettings;

pub(super) const IP: usize = 14;
pub(super) const UDP: usize = IP + 20;
pub(super) const PAYLOAD: usize = UDP + 8;
const TTL: u8 = 64;
const PROTOCOL_UDP: u8 = 17;

/// The whole frame with what varies (source address, ports, checksums) left zero.
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
