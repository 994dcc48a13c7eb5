//! Frames to hold predicates to.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;
use weever_blocks_std::testing::frames::*;
use weever_wire::MacAddr;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::Ipv4Repr;

use super::atoms;

fn macs() -> impl Strategy<Value = MacAddr> {
    let (joined, group) = (MacAddr([1, 0, 0x5e, 0, 0, 1]), MacAddr([1, 0, 0x5e, 0, 0, 9]));
    let groups = [MacAddr([0x33, 0x33, 0, 0, 0, 1]), MacAddr([0x33, 0x33, 0xff, 0, 0, 1])];
    prop_oneof![
        1 => prop::sample::select(groups.to_vec()),
        4 => Just(HOST_MAC),
        2 => Just(PEER_MAC),
        2 => Just(MacAddr::BROADCAST),
        1 => Just(group),
        1 => Just(joined),
        1 => any::<[u8; 6]>().prop_map(MacAddr),
    ]
}

fn addresses() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        4 => Just(HOST),
        4 => Just(PEER),
        1 => Just(SUBNET_BROADCAST),
        1 => Just(Ipv4Addr::new(224, 0, 0, 1)),
        1 => Just(Ipv4Addr::new(224, 0, 0, 9)),
        1 => Just(Ipv4Addr::new(10, 0, 0, 0)),
        1 => any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

/// Options behind the fixed header: mostly none.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let some: [&[u8]; 6] = [
        &[1, 1, 1, 0],
        &[148, 4, 0, 0],
        &[1, 131, 3, 4],
        &[137, 3, 4, 0],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[7, 9, 4, 0],
    ];
    let known = prop::sample::select(some.map(<[u8]>::to_vec).to_vec());
    let random = (0usize..3).prop_flat_map(|words| vec(any::<u8>(), words * 4));
    prop_oneof![6 => Just(vec![]), 2 => known, 1 => random]
}

/// ICMP messages that report an error, most of them about datagrams that the host can have sent.
fn icmp_errors() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![4 => Just(3u8), 2 => Just(11), 2 => Just(12), 1 => Just(5)];
    let sources = prop_oneof![4 => Just(HOST), 1 => addresses()];
    let targets = prop_oneof![4 => Just(PEER), 1 => addresses()];
    let lengths = prop_oneof![4 => Just(8usize), 1 => 0usize..12];
    let quoted = (sources, targets, lengths)
        .prop_map(|(src, dst, len)| ipv4(ipv4_repr(src, dst, 17), &vec![0; len]));
    (kinds, prop_oneof![Just(4u8), 0u8..16], quoted).prop_map(|(kind, code, quoted)| {
        let mut message = [&[kind, code, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
        let check = !weever_wire::checksum::sum(&message);
        message[2..4].copy_from_slice(&check.to_be_bytes());
        message
    })
}

/// A SYN without options to `port`, its checksum not filled in.
pub(crate) fn syn(port: u8) -> Vec<u8> {
    let mut segment = vec![0x9c, 0x40, 0, port, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 2];
    segment.extend([0xff, 0xff, 0, 0, 0, 0]);
    segment
}

/// A frame with a TCP segment, whose checksum is made right if that is asked for.
pub(crate) fn tcp(src: Ipv4Addr, dst: Ipv4Addr, segment: &[u8], right: bool) -> Vec<u8> {
    let mut segment = segment.to_vec();
    if right {
        let addresses = [src.octets(), dst.octets()].concat();
        let pseudo = weever_wire::checksum::Pseudo::v4(
            addresses.first_chunk().expect("two addresses"),
            6,
            segment.len() as u16,
        );
        weever_wire::tcp::fill_checksum(&mut segment, pseudo);
    }
    from_peer(&ipv4(ipv4_repr(src, dst, 6), &segment))
}

/// Messages of IGMP that are taken, and one for each reason why others are not.
pub(crate) fn igmp_messages() -> Vec<Vec<u8>> {
    let all = Ipv4Addr::new(224, 0, 0, 1);
    let far = Ipv4Addr::new(192, 0, 2, 1);
    let to_all = MacAddr([1, 0, 0x5e, 0, 0, 1]);
    let message = |src, ttl, alert: bool, message: &[u8]| {
        let options: &[u8] = if alert { &[148, 4, 0, 0] } else { &[] };
        let repr = Ipv4Repr { ttl, ..ipv4_repr(src, all, 2) };
        let mut datagram = ipv4(repr, &[options, message].concat());
        datagram[0] = 0x45 + (options.len() / 4) as u8;
        let mut frame = ethernet(to_all, PEER_MAC, 0x0800, &datagram);
        atoms::repair(&mut frame);
        frame
    };
    let (query, oldest, report) =
        ([0x11, 10, 0, 0, 0, 0, 0, 0], [0x11, 0, 0, 0, 0, 0, 0, 0], [0x16, 0, 0, 0, 239, 1, 2, 3]);
    let mut broken = message(PEER, 1, true, &query);
    broken.last_mut().into_iter().for_each(|byte| *byte ^= 1);
    vec![
        message(PEER, 1, true, &query),
        message(PEER, 1, false, &query),
        message(PEER, 1, false, &oldest),
        message(PEER, 2, true, &query),
        message(far, 1, true, &query),
        message(PEER, 1, true, &report),
        message(PEER, 1, false, &report),
        message(PEER, 1, true, &[0x17, 0, 0, 0, 239, 1, 2, 3]),
        message(PEER, 1, true, &query[..7]),
        broken,
    ]
}

fn datagrams() -> impl Strategy<Value = Vec<u8>> {
    let protocols = prop_oneof![2 => Just(17u8), 2 => Just(1u8), 1 => Just(2u8), 1 => any::<u8>()];
    let fragments = prop_oneof![3 => Just(0x4000u16), 1 => any::<u16>()];
    let payloads = prop_oneof![
        vec(any::<u8>(), 0..40),
        (
            prop_oneof![2 => any::<u16>(), 1 => Just(7), 1 => Just(0)],
            prop_oneof![Just(7), Just(9), Just(11)],
            vec(any::<u8>(), 0..20)
        )
            .prop_map(|(from, to, data)| {
                let socket = std::net::SocketAddrV4::new;
                udp_segment(socket(PEER, from), socket(HOST, to), &data)
            }),
        (any::<bool>(), vec(any::<u8>(), 0..20)).prop_map(|(ask, data)| {
            let (ident, seq, data) = (1, 2, data.as_slice());
            icmp_message(match ask {
                true => IcmpRepr::EchoRequest { ident, seq, data },
                false => IcmpRepr::EchoReply { ident, seq, data },
            })
        }),
    ];
    let carried = prop_oneof![
        4 => (protocols, payloads),
        1 => icmp_errors().prop_map(|message| (1, message)),
    ];
    let lives = prop_oneof![4 => Just(64u8), 1 => 0u8..4];
    (addresses(), addresses(), (fragments, lives), options(), carried).prop_map(
        |(src, dst, (flags_frag, ttl), options, (protocol, payload))| {
            let repr = Ipv4Repr { flags_frag, ttl, ..ipv4_repr(src, dst, protocol) };
            let mut datagram = ipv4(repr, &[&options[..], &payload].concat());
            datagram[0] = 0x45 + (options.len() / 4) as u8;
            datagram
        },
    )
}

fn addresses6() -> impl Strategy<Value = [u8; 16]> {
    let known =
        ["fd00::1", "fe80::1", "fd00::2", "fe80::2", "ff02::1", "::", "::1", "ff02::1:ff00:1"];
    let known = known.map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
    prop_oneof![12 => prop::sample::select(known.to_vec()), 1 => any::<[u8; 16]>()]
}

/// Extension headers that end with the place for the protocol of the payload.
fn chains() -> impl Strategy<Value = (Option<u8>, Vec<u8>)> {
    let some: [(u8, &[u8]); 9] = [
        (0, &[0, 0, 5, 2, 0, 0, 1, 0]),
        (60, &[0, 0, 1, 4, 0, 0, 0, 0]),
        (60, &[0, 0, 0x80, 4, 0, 0, 0, 0]),
        (60, &[0, 0, 1, 9, 0, 0, 0, 0]),
        (43, &[0, 0, 0, 0, 0, 0, 0, 0]),
        (43, &[0, 0, 0, 1, 0, 0, 0, 0]),
        (44, &[0, 0, 0, 0, 0, 0, 0, 1]),
        (44, &[0, 0, 0, 1, 0, 0, 0, 1]),
        (60, &[0, 9, 1, 4, 0, 0, 0, 0]),
    ];
    let known = prop::sample::select(some.map(|(n, h)| (Some(n), h.to_vec())).to_vec());
    prop_oneof![2 => Just((None, vec![])), 1 => known]
}

fn packets6() -> impl Strategy<Value = Vec<u8>> {
    let protocols =
        prop_oneof![4 => Just(17u8), 4 => Just(58u8), 1 => Just(59u8), 1 => any::<u8>()];
    let kinds = prop::sample::select(vec![128u8, 129, 130, 143, 133, 134, 135, 136, 137, 1, 2, 9]);
    let from = prop_oneof![2 => any::<u8>(), 1 => Just(7), 1 => Just(0)];
    let to = prop::sample::select(vec![7u8, 9, 11]);
    let udp = (from, to, vec(any::<u8>(), 0..20)).prop_map(|(from, to, data)| {
        let length = 8 + data.len() as u8;
        [&[0, from, 0, to, 0, length, 1, 1][..], &data].concat()
    });
    let icmp = (kinds, 0u8..8, vec(any::<u8>(), 6..40))
        .prop_map(|(kind, code, data)| [&[kind, code / 7][..], &data].concat());
    let payloads = prop_oneof![3 => udp, 4 => icmp, 1 => vec(any::<u8>(), 0..20)];
    let lives = prop_oneof![4 => Just(64u8), 1 => Just(1), 2 => Just(255)];
    let whole = (addresses6(), addresses6(), protocols, chains(), lives, payloads);
    whole.prop_map(|(src, dst, protocol, (first, mut chain), life, payload)| {
        if let Some(next) = chain.first_mut() {
            *next = protocol;
        }
        let len = (chain.len() + payload.len()) as u16;
        let [a, b] = len.to_be_bytes();
        let fixed = [0x60, 0, 0, 0, a, b, first.unwrap_or(protocol), life];
        let mut packet = [&fixed[..], &src, &dst, &chain, &payload].concat();
        // Right, unless it is damaged later.
        let mut frame = ethernet(HOST_MAC, PEER_MAC, 0x86dd, &packet);
        atoms::repair(&mut frame);
        packet.copy_from_slice(&frame[14..]);
        packet
    })
}

fn arps() -> impl Strategy<Value = Vec<u8>> {
    (
        prop_oneof![2 => Just(1u16), 2 => Just(2), 1 => any::<u16>()],
        macs(),
        addresses(),
        addresses(),
    )
        .prop_map(|(op, sha, spa, tpa)| arp(op, (sha, spa), (HOST_MAC, tpa))[14..].to_vec())
}

/// Frames like those that a host receives, some of them tagged, cut short, damaged, or damaged and
/// given right checksums.
pub(crate) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let typed = prop_oneof![
        6 => datagrams().prop_map(|d| (0x0800u16, d)),
        3 => packets6().prop_map(|p| (0x86dd, p)),
        2 => arps().prop_map(|a| (0x0806, a)),
        1 => (prop_oneof![Just(0x86dd), 0u16..0x800, any::<u16>()], vec(any::<u8>(), 0..60)),
    ];
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let tags = prop_oneof![6 => Just(vec![]), 2 => vec((0u16..2, 0u8..8), 1..3)];
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (macs(), macs(), typed, tags, damage, any::<bool>(), cut).prop_map(
        |(dst, src, (ethertype, payload), tags, damage, repair, cut)| {
            let mut frame = ethernet(dst, src, ethertype, &payload);
            for (vid, pcp) in tags {
                frame = tagged(&frame, vid, pcp);
            }
            for (at, value) in damage {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            if repair {
                atoms::repair(&mut frame);
            }
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        },
    )
}
