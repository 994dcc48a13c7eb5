//! A stranger floods one worker with packets of flows that another one owns: it opens connections, which worker 0
//! has, and sends ICMP errors that quote them from addresses whose packets arrive at worker 1. Worker 0 takes fewer of
//! them than the ring between the two would have to carry. There are so many connections that few of them follow the
//! errors to worker 1.

use std::net::Ipv4Addr;

use weever_wire::checksum::Pseudo;
use weever_wire::ethernet::EthernetRepr;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::{Ipv4Repr, protocol};
use weever_wire::tcp::{TcpRepr, fill_checksum, flag};
use weever_wire::{MacAddr, WireError};

use super::flood::{At, CLIENT, HOST, MAC, PORT, answered, harmless};
use crate::rig::GENERATOR_MAC;
use crate::{BenchError, Report, Samples};

/// The first of the stranger's ports.
const FROM: u16 = 10_000;
/// The stranger's connections, half open: so many fit the listener's backlog.
const CONNECTIONS: u16 = 240;
/// Segments of the connections that arrive at worker 0 in a turn.
const SEGMENTS: usize = 256;
/// The first eight octets of the TCP header are quoted (RFC 792).
const QUOTED: usize = 20 + 8;

pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    let ((alone, _), (beside, handed_over)) = (answers(harmless()?)?, answers(errors(MAC)?)?);
    if handed_over == 0 {
        return Err(BenchError::of("errors")("none was handed over to the connection's worker"));
    }
    report.setup(format!(
        "dedicated_under_errors: half of what arrives at worker 1 are ICMP errors that quote {CONNECTIONS} \
         connections of worker 0's; on the benchmark's clock",
    ));
    report.row(
        "connections at worker 0: worker 1 beside harmless packets",
        "packets",
        &Samples(vec![alone]),
    );
    report.row(
        "connections at worker 0: worker 1 beside ICMP errors",
        "packets",
        &Samples(vec![beside]),
    );
    report.ratio("dedicated_under_errors", "", &Samples(vec![beside / alone]));
    Ok(())
}

/// The answers of worker 1, and the packets that it has handed over.
fn answers(others: Vec<Vec<u8>>) -> Result<(f64, u64), BenchError> {
    answered(At { frames: syns(MAC)?, arrive: SEGMENTS }, &others)
}

/// Open the stranger's connections, which are half open from then on.
pub(super) fn syns(mac: [u8; 6]) -> Result<Vec<Vec<u8>>, BenchError> {
    let all = (0..CONNECTIONS).map(|connection| syn(mac, FROM + connection));
    all.collect::<Result<_, _>>().map_err(BenchError::of("frame"))
}

fn syn(mac: [u8; 6], src_port: u16) -> Result<Vec<u8>, WireError> {
    let (seq, ack, window, checksum, urgent) = (1, 0, 1024, 0, 0);
    let (dst_port, flags) = (PORT, flag::SYN);
    let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window, checksum, urgent };
    let mut segment = [0; 20];
    repr.emit(&mut segment)?;
    let mut ends = [0; 8];
    ends[..4].copy_from_slice(&CLIENT.octets());
    ends[4..].copy_from_slice(&HOST.octets());
    fill_checksum(&mut segment, Pseudo::v4(&ends, protocol::TCP, 20));
    packet(mac, CLIENT, protocol::TCP, &segment)
}

/// Errors of as many routers about a segment of each.
pub(super) fn errors(mac: [u8; 6]) -> Result<Vec<Vec<u8>>, BenchError> {
    let all = (0..CONNECTIONS).map(|connection| error(mac, connection));
    all.collect::<Result<_, _>>().map_err(BenchError::of("frame"))
}

fn error(mac: [u8; 6], connection: u16) -> Result<Vec<u8>, WireError> {
    let mut quote = [0; QUOTED];
    let quoted = Ipv4Repr { src: HOST, dst: CLIENT, payload_len: 20, ..header(protocol::TCP) };
    quoted.emit(&mut quote)?;
    quote[20..22].copy_from_slice(&PORT.to_be_bytes());
    quote[22..24].copy_from_slice(&(FROM + connection).to_be_bytes());
    let host_unreachable = IcmpRepr::Unreachable { code: 1, mtu: 0, quote: &quote };
    let mut message = vec![0; host_unreachable.buffer_len()];
    host_unreachable.emit(&mut message)?;
    let router = Ipv4Addr::from(u32::from(CLIENT) + 1 + u32::from(connection));
    packet(mac, router, protocol::ICMP, &message)
}

fn header(protocol: u8) -> Ipv4Repr {
    let (tos, ident, flags_frag, ttl, payload_len) = (0, 7, 0, 64, 0);
    Ipv4Repr { tos, ident, flags_frag, ttl, protocol, src: CLIENT, dst: HOST, payload_len }
}

fn packet(mac: [u8; 6], src: Ipv4Addr, protocol: u8, payload: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut frame = vec![0; 14 + 20];
    let (dst, ethertype) = (MacAddr(mac), 0x0800);
    EthernetRepr { dst, src: MacAddr(GENERATOR_MAC), ethertype }.emit(&mut frame)?;
    Ipv4Repr { src, payload_len: payload.len() as u16, ..header(protocol) }
        .emit(&mut frame[14..])?;
    frame.extend_from_slice(payload);
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_answers_its_own_while_errors_about_anothers_connection_find_no_room() {
        let (alone, _) = answers(harmless().unwrap()).unwrap();
        let (beside, handed_over) = answers(errors(MAC).unwrap()).unwrap();
        assert!(handed_over > 1000, "the flood goes to worker 0: {handed_over}");
        assert!(beside >= alone * 0.9, "{beside} of {alone}");
    }
}
