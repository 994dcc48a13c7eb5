use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;
use weever_wire::WireError;
use weever_wire::ipv4::{Ipv4View, protocol};

const FLOW: Flow = Flow {
    local: Endpoint { addr: Ipv4Addr::new(10, 0, 0, 1), port: 7 },
    remote: Endpoint { addr: Ipv4Addr::new(10, 0, 0, 2), port: 40_000 },
};

fn packet(flow: Flow, payload: &[u8]) -> Vec<u8> {
    let mut buf = [&[0; HEADERS_LEN], payload].concat();
    emit_headers(&mut buf, flow).unwrap();
    buf
}

/// The ends of a datagram, and the verdict on its checksum.
fn received(packet: &[u8], partial: Partial) -> (Flow, Checksum) {
    let ip = Ipv4View::new(packet).unwrap();
    let udp = UdpView::new(ip.payload()).unwrap();
    let (ip, header) = (ip.header(), udp.header());
    let pseudo = Pseudo::v4(&ip.addresses(), protocol::UDP, header.length());
    let local = Endpoint { addr: ip.dst(), port: header.dst_port() };
    let remote = Endpoint { addr: ip.src(), port: header.src_port() };
    (Flow { local, remote }, judge(udp.datagram(), header.checksum(), pseudo, partial))
}

/// Writes the partial checksum that a kernel leaves for a device to complete.
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
        prop_assert_eq!(received(&packet, Partial::Refused), (wanted, Checksum::Valid));
        prop_assert!(Ipv4View::new(&packet).unwrap().checksum_ok());
    }

    #[test]
    fn a_partial_checksum_is_taken_where_it_may_be_and_completed(
        payload in vec(any::<u8>(), 0..200),
    ) {
        let whole = packet(FLOW, &payload);
        let mut partial = whole.clone();
        make_partial(&mut partial);
        prop_assert_eq!(received(&partial, Partial::Accepted).1, Checksum::Partial);
        if partial != whole {
            prop_assert_eq!(received(&partial, Partial::Refused).1, Checksum::Wrong);
        }
        prop_assert!(complete_partial(&mut partial[20..]));
        prop_assert_eq!(partial, whole);
    }

    #[test]
    fn damage_is_seen(payload in vec(any::<u8>(), 1..100), bit: prop::sample::Index) {
        let mut packet = packet(FLOW, &payload);
        let bit = bit.index(payload.len() * 8);
        packet[HEADERS_LEN + bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(received(&packet, Partial::Refused).1, Checksum::Wrong);
    }

    #[test]
    fn only_a_whole_datagram_is_completed(bytes in vec(any::<u8>(), 0..40), length in 0u8..45) {
        let mut bytes = bytes;
        if bytes.len() > 6 {
            bytes[4..6].copy_from_slice(&[0, length]);
        }
        let is_whole = UdpView::new(&bytes).is_ok();
        prop_assert_eq!(complete_partial(&mut bytes), is_whole);
    }
}

#[test]
fn a_checksum_may_be_absent() {
    let mut packet = packet(FLOW, b"data");
    packet[26..28].fill(0);
    packet[30] ^= 1;
    assert_eq!(received(&packet, Partial::Refused).1, Checksum::Absent);
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
