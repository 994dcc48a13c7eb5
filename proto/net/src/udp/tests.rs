use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;
use weever_wire::WireError;
use weever_wire::ipv4::Ipv4View;

const FLOW: Flow = Flow {
    local: Endpoint { addr: Ipv4Addr::new(10, 0, 0, 1), port: 7 },
    remote: Endpoint { addr: Ipv4Addr::new(10, 0, 0, 2), port: 40_000 },
};

fn packet(flow: Flow, payload: &[u8]) -> Vec<u8> {
    let mut buf = [&[0; HEADERS_LEN], payload].concat();
    emit_headers(&mut buf, flow).unwrap();
    buf
}

fn received(packet: &[u8], partial: Partial) -> Result<(Flow, Checksum), UdpReject> {
    let ip = Ipv4View::new(packet).unwrap();
    let (src, dst) = (ip.header().src(), ip.header().dst());
    let (view, checksum) = receive(ip.payload(), src, dst, partial)?;
    Ok((flow(view.header(), src, dst), checksum))
}

/// What a kernel leaves in the field for a device to complete.
fn make_partial(packet: &mut [u8]) {
    let ip = Ipv4View::new(packet).unwrap();
    let view = UdpView::new(ip.payload()).unwrap();
    let pseudo = view.pseudo_sum(ip.header().src(), ip.header().dst());
    packet[26..28].copy_from_slice(&pseudo.to_be_bytes());
}

proptest! {
    #[test]
    fn what_one_end_sends_the_other_takes(ports: (u16, u16), payload in vec(any::<u8>(), 0..200)) {
        let mut sent = FLOW;
        (sent.local.port, sent.remote.port) = (ports.0, ports.1.max(1));
        let packet = packet(sent, &payload);
        let wanted = Flow { local: sent.remote, remote: sent.local };
        prop_assert_eq!(received(&packet, Partial::Refused), Ok((wanted, Checksum::Valid)));
        prop_assert!(Ipv4View::new(&packet).unwrap().checksum_ok());
    }

    #[test]
    fn a_partial_checksum_is_taken_where_it_may_be_and_completed(
        payload in vec(any::<u8>(), 0..200),
    ) {
        let whole = packet(FLOW, &payload);
        let mut partial = whole.clone();
        make_partial(&mut partial);
        let taken = received(&partial, Partial::Accepted).map(|(_, checksum)| checksum);
        prop_assert_eq!(taken, Ok(Checksum::Partial));
        if partial != whole {
            prop_assert_eq!(received(&partial, Partial::Refused), Err(UdpReject::Checksum));
        }
        prop_assert!(complete_partial(&mut partial[20..]));
        prop_assert_eq!(partial, whole);
    }

    #[test]
    fn damage_is_seen(payload in vec(any::<u8>(), 1..100), bit: prop::sample::Index) {
        let mut packet = packet(FLOW, &payload);
        let bit = bit.index(payload.len() * 8);
        packet[HEADERS_LEN + bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(received(&packet, Partial::Refused), Err(UdpReject::Checksum));
    }

    #[test]
    fn any_bytes_are_taken_or_rejected(bytes in vec(any::<u8>(), 0..40), length in 0u8..45) {
        let mut bytes = bytes;
        if bytes.len() > 6 {
            bytes[4..6].copy_from_slice(&[0, length]);
        }
        let any = Ipv4Addr::UNSPECIFIED;
        let taken = receive(&bytes, any, any, Partial::Accepted).is_ok();
        prop_assert!(!taken || length_ok(&bytes));
        prop_assert_eq!(complete_partial(&mut bytes), length_ok(&bytes));
    }
}

#[test]
fn a_checksum_may_be_absent() {
    let mut packet = packet(FLOW, b"data");
    packet[26..28].fill(0);
    packet[30] ^= 1;
    let taken = received(&packet, Partial::Refused).map(|(_, checksum)| checksum);
    assert_eq!(taken, Ok(Checksum::Absent));
}

#[test]
fn every_reject() {
    let good = packet(FLOW, b"data");
    let patched = |at: usize, bytes: [u8; 2]| {
        let mut packet = good.clone();
        packet[at..at + 2].copy_from_slice(&bytes);
        received(&packet, Partial::Refused).unwrap_err()
    };
    assert_eq!(patched(24, [0, 7]), UdpReject::Length);
    assert_eq!(patched(24, [0, 13]), UdpReject::Length);
    assert_eq!(patched(22, [0, 0]), UdpReject::PortZero);
    assert_eq!(patched(26, [1, 2]), UdpReject::Checksum);
    assert!(!length_ok(&[0; 7]));
}

#[test]
fn impossible_sizes_are_refused() {
    let short = emit_headers(&mut [0; HEADERS_LEN - 1], FLOW);
    assert!(matches!(short, Err(WireError::NoRoom { .. })));
    let long = emit_headers(&mut std::vec![0; 65_536], FLOW);
    assert!(matches!(long, Err(WireError::BadLength { .. })));
    assert_eq!(emit_headers(&mut std::vec![0; 65_535], FLOW), Ok(()));
}

#[test]
fn endpoints_read_like_socket_addresses() {
    assert_eq!(FLOW.remote.to_string(), "10.0.0.2:40000");
    let parsed: SocketAddrV4 = "10.0.0.2:40000".parse().unwrap();
    assert_eq!(Endpoint::from(parsed), FLOW.remote);
}
