use super::*;
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn udp_frame(vlan: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    match vlan {
        None => builder.ipv4(src, dst, 64).udp(1000, 53).write(&mut frame, payload).unwrap(),
        Some(vid) => {
            let builder = builder.single_vlan(vid.try_into().unwrap());
            builder.ipv4(src, dst, 64).udp(1000, 53).write(&mut frame, payload).unwrap();
        }
    }
    frame
}

#[test]
fn a_tagged_udp_frame_yields_everything() {
    let frame = udp_frame(Some(77), b"hello");
    let got = summarize(&frame);
    let wanted = Parsed {
        frame_len: frame.len(),
        l2: Some(0),
        l3: Some(18),
        l4: Some(38),
        eth_src: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        eth_dst: Some(MacAddr([2, 0, 0, 0, 0, 2])),
        ethertype: Some(ethertype::IPV4),
        vlan: Some(77),
        ip_version: Some(4),
        ip4_src: Some(Ipv4Addr::new(10, 0, 0, 1)),
        ip4_dst: Some(Ipv4Addr::new(10, 0, 0, 2)),
        ip4_proto: Some(17),
        ip4_ttl: Some(64),
        ip4_frag: Some(0),
        l4_src: Some(1000),
        l4_dst: Some(53),
        outer_type: Some(ethertype::VLAN),
        tag_type: Some(ethertype::IPV4),
        ip4_header_len: Some(20),
        ip4_tos: Some(0),
        ip4_total_len: Some(33),
        ip4_alert: Some(false),
        upper: Some(17),
        payload_len: Some(13),
        udp_len: Some(13),
        ..Parsed::default()
    };
    assert_eq!(got, wanted);
}

/// Behind a hop-by-hop header with a router alert, and of a version that the ethertype contradicts.
#[test]
fn extension_headers_are_walked() {
    let mut frame = [0xfe; 70];
    frame[12..14].copy_from_slice(&ethertype::IPV6.to_be_bytes());
    frame[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 16, 0, 1]);
    frame[54..62].copy_from_slice(&[58, 0, 5, 2, 0, 0, 1, 0]);
    frame[62..].copy_from_slice(&[130, 7, 0, 0, 0, 0, 0, 0]);
    let got = summarize(&frame);
    assert_eq!((got.ip6_total_len, got.ip6_hops, got.ip6_alert), (Some(56), Some(1), Some(true)));
    assert_eq!((got.upper, got.payload_len), (Some(58), Some(8)));
    assert_eq!((got.icmp6_type, got.icmp6_code, got.udp_len), (Some(130), Some(7), None));
    frame[14] = 0x40;
    let other = summarize(&frame);
    assert_eq!((other.ip6_hops, other.ip6_src), (Some(1), None));
    assert_eq!(summarize(&frame[..60]).upper, None);
}

#[test]
fn fragments_have_no_transport_header_except_the_first() {
    let mut frame = udp_frame(None, b"hello");
    frame[20..22].copy_from_slice(&0x2000u16.to_be_bytes());
    let first = summarize(&frame);
    assert_eq!((first.ip4_frag, first.l4_dst), (Some(0x2000), Some(53)));
    frame[20..22].copy_from_slice(&0xe001u16.to_be_bytes());
    let later = summarize(&frame);
    assert_eq!((later.ip4_frag, later.l4, later.l4_dst), (Some(0x2001), None, None));
}

#[test]
fn padding_behind_the_datagram_is_not_read() {
    let mut frame = udp_frame(None, b"");
    frame.resize(60, 0xff);
    frame[16..18].copy_from_slice(&22u16.to_be_bytes());
    let got = summarize(&frame);
    assert_eq!((got.l4, got.l4_src, got.l4_dst), (Some(34), Some(1000), None));
}

#[test]
fn arp_and_icmp() {
    let mut frame = [0u8; 42];
    frame[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes());
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    frame[38..42].copy_from_slice(&[10, 0, 0, 9]);
    let got = summarize(&frame);
    assert_eq!((got.arp_op, got.arp_tpa), (Some(2), Some(Ipv4Addr::new(10, 0, 0, 9))));
    frame[18] = 8;
    assert_eq!(summarize(&frame).arp_op, None);

    let mut echo = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10; 4], [11; 4], 64);
    builder.icmpv4_echo_request(1, 2).write(&mut echo, &[]).unwrap();
    let got = summarize(&echo);
    assert_eq!((got.icmp_type, got.icmp_code, got.l4_src), (Some(8), Some(0), None));
}

#[test]
fn ipv6_fields_and_ports() {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([3; 16], [7; 16], 64);
    builder.tcp(1000, 80, 5, 6).syn().write(&mut frame, b"data").unwrap();
    let got = summarize(&frame);
    assert_eq!((got.ip_version, got.ip6_next), (Some(6), Some(6)));
    assert_eq!(got.ip6_src.map(|ip| ip.octets()), Some([3; 16]));
    assert_eq!(got.ip6_dst.map(|ip| ip.octets()), Some([7; 16]));
    assert_eq!(
        (got.l3, got.l4, got.l4_src, got.l4_dst),
        (Some(14), Some(54), Some(1000), Some(80))
    );
    assert_eq!((got.tcp_flags, got.ip4_dst), (Some(tcp::flag::SYN), None));
    // A payload that ends within the ports, then a version that contradicts the type.
    frame[18..20].copy_from_slice(&[0, 3]);
    let got = summarize(&frame);
    assert_eq!((got.l4_src, got.l4_dst, got.tcp_flags), (Some(1000), None, None));
    frame[14] = 0x45;
    let got = summarize(&frame);
    assert_eq!((got.ip_version, got.ip6_src, got.l4), (Some(4), None, None));
}

#[test]
fn a_lying_ipv4_header_leads_nowhere() {
    let good = udp_frame(None, b"");
    let patched = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        summarize(&frame)
    };
    assert_eq!(summarize(&good).l4, Some(34));
    assert_eq!(patched(14, 0x44).l4, None, "header shorter than it can be");
    assert_eq!(patched(14, 0x4f).l4, None, "header beyond the frame");
    assert_eq!(patched(17, 19).l4, None, "total length within the header");
    assert_eq!(patched(17, 255).l4_dst, Some(53), "a total length beyond the frame ends with it");
    let version = patched(14, 0x55);
    assert_eq!((version.ip_version, version.ip4_dst), (Some(5), None));
}

#[test]
fn two_tags_are_walked_over_and_a_third_is_reported() {
    let mut frame = udp_frame(Some(5), b"");
    for (outer, inner) in [(6u8, 5u8), (7, 6)] {
        frame.splice(12..12, [0x88, 0xa8, 0, outer]);
        let got = summarize(&frame);
        assert_eq!(got.vlan, Some(outer.into()));
        assert_eq!(got.inner_vlan, Some(inner.into()));
        let wanted = if outer == 6 { ethertype::IPV4 } else { ethertype::VLAN };
        assert_eq!((got.ethertype, got.ip4_dst.is_some()), (Some(wanted), outer == 6));
    }
}

/// Frames that are mostly well formed, then cut and damaged.
fn damaged_frame() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop::option::of(0u16..4096);
    let patch = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (tag, vec(any::<u8>(), 0..30), any::<prop::sample::Index>(), patch).prop_map(
        |(tag, payload, cut, patches)| {
            let mut frame = udp_frame(tag, &payload);
            for (at, byte) in patches {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            frame.truncate(cut.index(frame.len() * 2).min(frame.len()));
            frame
        },
    )
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(frame in vec(any::<u8>(), 0..120)) {
        prop_assert_eq!(summarize(&frame).frame_len, frame.len());
    }

    #[test]
    fn offsets_stay_inside_and_in_order(frame in damaged_frame()) {
        let got = summarize(&frame);
        let ends = [got.l2, got.l3, got.l4].map(|o| o.unwrap_or(0));
        prop_assert!(ends.iter().all(|&end| end <= frame.len()));
        prop_assert!(got.l4.is_none() || got.l3.is_some_and(|l3| l3 < ends[2]));
    }

    /// For every frame that the oracle accepts as a whole, our fields equal its fields.
    #[test]
    fn agrees_with_etherparse(frame in damaged_frame()) {
        let Ok(sliced) = SlicedPacket::from_ethernet(&frame) else { return Ok(()) };
        let got = summarize(&frame);
        // The oracle walks over a prestandard tag, which is none to the kernel nor to us.
        let prestandard = |at: usize| frame.get(at..at + 2) == Some(&[0x91, 0]);
        prop_assume!(!prestandard(12) && !prestandard(16));
        if let Some(etherparse::NetSlice::Ipv4(ip)) = &sliced.net {
            prop_assert_eq!(got.ip4_src, Some(ip.header().source_addr()));
            prop_assert_eq!(got.ip4_dst, Some(ip.header().destination_addr()));
            prop_assert_eq!(got.ip4_proto, Some(ip.header().protocol().0));
        }
        if let Some(TransportSlice::Udp(udp)) = &sliced.transport {
            prop_assert_eq!(got.l4_src, Some(udp.source_port()));
            prop_assert_eq!(got.l4_dst, Some(udp.destination_port()));
        }
    }

    /// A prefix of a frame never yields a field that the frame does not.
    #[test]
    fn cutting_only_removes(frame in damaged_frame(), cut: prop::sample::Index) {
        let whole = summarize(&frame);
        let part = summarize(&frame[..cut.index(frame.len() + 1)]);
        prop_assert!(part.ethertype.is_none() || part.ethertype == whole.ethertype);
        prop_assert!(part.ip4_dst.is_none() || part.ip4_dst == whole.ip4_dst);
        prop_assert!(part.l4.is_none() || part.l4 == whole.l4);
        prop_assert!(part.l4_dst.is_none() || part.l4_dst == whole.l4_dst);
    }
}

/// All that [`Fields`] reads, field by field.
fn read_one_by_one(frame: &[u8]) -> Parsed {
    let of = || Fields::of(frame);
    Parsed {
        frame_len: of().frame_len(),
        l2: of().eth_dst().map(|_| 0),
        l3: of().l3(),
        l4: of().l4(),
        eth_dst: of().eth_dst(),
        eth_src: of().eth_src(),
        ethertype: of().ethertype(),
        vlan: of().vlan(),
        arp_op: of().arp_op(),
        arp_tpa: of().arp_tpa(),
        ip_version: of().ip_version(),
        ip4_src: of().ip4_src(),
        ip4_dst: of().ip4_dst(),
        ip4_proto: of().ip4_proto(),
        ip4_ttl: of().ip4_ttl(),
        ip4_frag: of().ip4_frag(),
        ip6_src: of().ip6_src(),
        ip6_dst: of().ip6_dst(),
        ip6_next: of().ip6_next(),
        icmp_type: of().icmp_type(),
        icmp_code: of().icmp_code(),
        l4_src: of().l4_src(),
        l4_dst: of().l4_dst(),
        tcp_flags: of().tcp_flags(),
        outer_type: of().outer_type(),
        tag_type: of().tag_type(),
        inner_vlan: of().inner_vlan(),
        arp_sha: of().arp_sha(),
        arp_spa: of().arp_spa(),
        ip4_header_len: of().ip4_header_len(),
        ip4_tos: of().ip4_tos(),
        ip4_total_len: of().ip4_total_len(),
        ip4_alert: of().ip4_alert(),
        ip6_total_len: of().ip6_total_len(),
        ip6_hops: of().ip6_hops(),
        ip6_alert: of().ip6_alert(),
        upper: of().upper(),
        payload_len: of().payload_len(),
        igmp_type: of().igmp_type(),
        igmp_code: of().igmp_code(),
        igmp_group: of().igmp_group(),
        icmp6_type: of().icmp6_type(),
        icmp6_code: of().icmp6_code(),
        udp_len: of().udp_len(),
    }
}

/// Frames of every protocol that the walk knows, cut and damaged.
fn frame_of_any_protocol() -> impl Strategy<Value = Vec<u8>> {
    let begin = |kind: u16, body: &[u8]| {
        let mut frame = vec![2; 12];
        frame.extend(kind.to_be_bytes());
        frame.extend(body);
        frame
    };
    let six = |next: u8, body: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, next, 64];
        packet.extend([3; 32]);
        packet.extend(body);
        begin(ethertype::IPV6, &packet)
    };
    let alert =
        |next: u8| [&[next, 0, 5, 2, 0, 0, 1, 0], &[130u8, 7, 0, 8, 0, 0, 0, 0][..]].concat();
    let four = |protocol: u8| {
        let mut frame = udp_frame(None, b"four and more bytes");
        frame[23] = protocol;
        frame
    };
    let with_alert = |mut frame: Vec<u8>| {
        frame.splice(34..34, [1, 148, 3, 0]);
        (frame[14], frame[17]) = (0x46, frame[17] + 4);
        frame
    };
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 2], &[7u8; 20][..]].concat();
    let known = vec![
        udp_frame(Some(7), b"tagged"),
        four(protocol::ICMP),
        four(protocol::TCP),
        four(protocol::SCTP),
        four(protocol::IGMP),
        with_alert(four(protocol::IGMP)),
        begin(ethertype::ARP, &arp),
        six(protocol::UDP, &[0, 9, 0, 7, 0, 12, 1, 1, 5, 5, 5, 5]),
        six(protocol::TCP, &[9; 24]),
        six(ipv6::next_header::ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0]),
        six(0, &alert(ipv6::next_header::ICMPV6)),
        six(0, &alert(protocol::UDP)),
    ];
    let patch = vec((0usize..70, any::<u8>()), 0..3);
    let tags = vec(prop::sample::select(vec![[0x81, 0, 0, 5], [0x88, 0xa8, 0, 6]]), 0..4);
    (prop::sample::select(known), tags, patch, 0usize..120).prop_map(
        |(mut frame, tags, patches, len)| {
            for tag in tags {
                frame.splice(12..12, tag);
            }
            for (at, byte) in patches {
                if let Some(old) = frame.get_mut(at) {
                    *old = byte;
                }
            }
            // Half of them are whole.
            frame.truncate(if len < 60 { frame.len() } else { len - 60 });
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn fields_read_one_by_one_are_those_of_the_walk(frame in frame_of_any_protocol()) {
        prop_assert_eq!(read_one_by_one(&frame), summarize(&frame));
    }
}
