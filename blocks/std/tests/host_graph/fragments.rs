use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_blocks_std::host::{Fragments, Secret, provide};
use weever_blocks_std::testing::{HostBox, env, frames::*, host::host_state};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, Service, host};
use weever_net::fragment::{Offer, Piece, Reassembler, split_v4};
use weever_packet::{Pool, PoolConfig};
use weever_wire::icmpv4::{IcmpRepr, IcmpView};
use weever_wire::ipv4::Ipv4View;

use super::answers::IntoSocket;

const SECOND: u64 = 1_000_000_000;

/// A host with an echo on port 7 that knows its peer, and its datagrams in pieces.
fn serving() -> (HostBox, Arc<Fragments>) {
    let env = env();
    env.provide(Arc::new(Secret::from_seed(1)));
    provide(&env, host_state(), 0);
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let mut host = HostBox::in_env(graph, &env, Limits::default());
    host.receive(&[arp_request(HOST)]);
    host.advance(5 * SECOND);
    host.sent();
    (host, env.get::<Fragments>().unwrap())
}

fn whole(src_port: u16, payload: &[u8]) -> Vec<u8> {
    let datagram = udp_datagram((PEER, src_port).into_socket(), (HOST, 7).into_socket(), payload);
    patched(&datagram, 6, 0)
}

/// The frames that bring a datagram over links of this MTU.
fn pieces(datagram: &[u8], mtu: usize, ident: u16) -> Vec<Vec<u8>> {
    let (mut split, mut out) = (split_v4(datagram, mtu, Some(ident)).unwrap(), vec![0; mtu]);
    let mut frames = Vec::new();
    while let Some(len) = split.next(&mut out) {
        frames.push(from_peer(&out[..len]));
    }
    frames
}

/// The datagrams in these frames, put together.
fn joined(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut table = Reassembler::new(weever_net::fragment::ReassemblyConfig::default());
    let mut datagrams = Vec::new();
    for frame in frames {
        assert!(frame.len() <= 1514, "{} bytes on an Ethernet", frame.len());
        let packet = &frame[14..];
        assert!(Ipv4View::new(packet).unwrap().checksum_ok());
        match Piece::v4(packet, 0).unwrap() {
            None => datagrams.push(packet.to_vec()),
            Some(piece) => match table.offer(&piece, 0, || Some(vec![0; 65_535])) {
                Offer::Whole(room, len) => datagrams.push(room[..len].to_vec()),
                other => assert_eq!(other, Offer::Kept),
            },
        }
    }
    assert!(table.is_empty(), "all that was sent belongs to something");
    datagrams
}

/// Drops at reassembly whose reason says this.
fn dropped(host: &HostBox, why: &str) -> u64 {
    let drops = host.drops().into_iter();
    let here =
        drops.filter(|(node, reason, _)| node == "RxL3IPv4Reassemble" && reason.contains(why));
    here.map(|(_, _, count)| count).sum()
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + (i >> 8)) as u8).collect()
}

#[test]
fn long_datagrams_are_echoed_in_fragments() {
    let (mut host, fragments) = serving();
    for (n, len) in [1473, 2952, 9000 - 28, 9000, 20_001, 65_507].into_iter().enumerate() {
        for mtu in [1500, 576] {
            let mut frames = pieces(&whole(5000, &payload(len)), mtu, n as u16);
            frames.reverse();
            host.receive(&frames);
            let sent = host.sent();
            assert_eq!(sent.len(), (len + 8).div_ceil(1480));
            let echoes = joined(&sent);
            let [echo] = &echoes[..] else { panic!("{} datagrams", echoes.len()) };
            assert_eq!(echo.len(), len + 28);
            assert_eq!(echo[28..], payload(len));
            assert_eq!(echo[20..24], [0, 7, 0x13, 0x88], "ports");
        }
    }
    assert_eq!(fragments.v4.held(), (0, 0));
    assert_eq!(fragments.memory().unwrap().available(), 192, "large frames came home");
    host.finish();
}

/// Reassembly was once switched off by 86 packets a second: small datagrams in pieces, whose answers waited in
/// large frames for neighbours that do not answer.
#[test]
fn answers_to_silent_neighbours_hold_no_large_frames() {
    let (mut host, fragments) = serving();
    let large = || fragments.memory().unwrap().available();
    for last in 3..=230u8 {
        let src = Ipv4Addr::new(10, 0, 0, last);
        for (port, len) in [(7, 100), (33434, 3000)] {
            let datagram =
                udp_datagram((src, 5000).into_socket(), (HOST, port).into_socket(), &payload(len));
            let mtu = if port == 7 { 84 } else { 1500 };
            host.receive(&pieces(&patched(&datagram, 6, 0), mtu, last.into()));
        }
    }
    assert!(host.total("blocked_now") > 200, "answers and errors wait");
    assert_eq!(large(), 192, "and none in a large frame");
    host.receive(&pieces(&whole(5000, &payload(9000)), 1500, 1));
    let echoes: Vec<_> = host.sent().into_iter().filter(|f| f[..6] == PEER_MAC.0).collect();
    assert_eq!(joined(&echoes)[0][28..], payload(9000));
    host.advance(10 * SECOND);
    host.finish();
}

/// Routers may fragment a long echo reply: an error about it is not believed, since a sender that
/// forges the request in another's name could forge it as well.
#[test]
fn a_long_echo_reply_may_be_fragmented_and_teaches_no_path_mtu() {
    let (mut host, _) = serving();
    let data = payload(1400);
    host.receive(&[icmp(HOST, IcmpRepr::EchoRequest { ident: 1, seq: 2, data: &data })]);
    let sent = host.sent();
    let reply = &sent[0][14..];
    assert_eq!(reply[6] & 0x40, 0, "fragmentation is not forbidden");
    let quote = &patched(reply, 6, 0x40)[..];
    host.receive(&[icmp(HOST, IcmpRepr::Unreachable { code: 4, mtu: 600, quote })]);
    assert_eq!(host.count("RxL3ICMPPathMtu", CounterKind::Port, "drop"), 1);
    assert_eq!(host.count("RxL3ICMPPathMtu", CounterKind::Port, "out"), 0);
    host.finish();
}

#[test]
fn a_long_ping_is_answered() {
    let (mut host, _) = serving();
    let data = payload(9000);
    let frame = icmp(HOST, IcmpRepr::EchoRequest { ident: 1, seq: 2, data: &data });
    host.receive(&pieces(&patched(&frame[14..], 6, 0), 1500, 9));
    let replies = joined(&host.sent());
    let view = IcmpView::new(&replies[0][20..]).unwrap();
    assert!(view.checksum_ok());
    assert_eq!(IcmpRepr::parse(view), Ok(IcmpRepr::EchoReply { ident: 1, seq: 2, data: &data }));
    host.finish();
}

#[test]
fn identifications_differ_and_whole_datagrams_have_none() {
    let (mut host, _) = serving();
    let mut idents = Vec::new();
    for n in 0..20 {
        host.receive(&pieces(&whole(5000, &payload(2000)), 1500, n));
        let sent = host.sent();
        let ident = |frame: &Vec<u8>| Ipv4View::new(&frame[14..]).unwrap().header().ident();
        assert_eq!(ident(&sent[0]), ident(&sent[1]));
        idents.push(ident(&sent[0]));
    }
    idents.sort_unstable();
    idents.dedup();
    assert_eq!(idents.len(), 20);
    host.receive(&[udp(5000, 7, b"short")]);
    let sent = host.sent();
    let header = &sent[0][14..];
    assert_eq!((&header[4..6], header[6]), (&[0, 0][..], 0x40), "RFC 6864: atomic");
    host.finish();
}

#[test]
fn a_datagram_that_never_ends_is_reported_once_its_time_is_over() {
    let (mut host, fragments) = serving();
    let first = pieces(&whole(5000, &payload(4000)), 1500, 1);
    let later = pieces(&whole(5000, &payload(4000)), 1500, 2);
    host.receive(&[&first[0], &later[1]]);
    host.advance(29 * SECOND);
    assert_eq!((host.sent().len(), fragments.v4.held().0), (0, 2));
    host.receive(&[arp_request(HOST)]);
    host.sent();
    host.advance(2 * SECOND);
    let errors: Vec<_> = host.sent().into_iter().filter(|frame| frame[12..14] == [8, 0]).collect();
    let [error] = &errors[..] else { panic!("{errors:02x?}") };
    let view = IcmpView::new(&error[34..]).unwrap();
    assert!(view.checksum_ok());
    let IcmpRepr::TimeExceeded { code: 1, quote } = IcmpRepr::parse(view).unwrap() else {
        panic!("{error:02x?}")
    };
    assert_eq!(quote, &first[0][14..14 + 548]);
    assert_eq!(host.count("RxL3IPv4Reassemble", CounterKind::Own, "expired"), 2);
    assert_eq!((fragments.v4.held(), fragments.memory().unwrap().available()), ((0, 0), 192));
    host.finish();
}

#[test]
fn overlaps_duplicates_and_impossible_ones_are_counted() {
    let (mut host, _) = serving();
    let frames = pieces(&whole(5000, &payload(4000)), 1500, 1);
    let mut forged = frames[1].clone();
    forged[700] ^= 1;
    host.receive(&[&frames[0], &frames[0], &frames[1], &forged, &frames[2]]);
    assert!(host.sent().is_empty());
    let end = |datagram: &[u8]| patched(datagram, 6, 0x1f);
    host.receive(&[from_peer(&patched(&end(&frames[2][14..]), 7, 0xff))]);
    assert_eq!(["before", "overlap", "cannot be"].map(|why| dropped(&host, why)), [1, 2, 1]);
    host.finish();
}

/// A flood of first fragments from one source, and from as many sources as there are, costs a
/// bounded amount of memory, and others are served meanwhile.
#[test]
fn bombs_are_bounded_and_others_are_served() {
    let (mut host, fragments) = serving();
    for spoofed in [false, true] {
        let mut ident = 0u32;
        for round in 0..50 {
            let honest = pieces(&whole(5000, &payload(3000)), 1500, 9000 + round);
            let mut frames: Vec<Vec<u8>> = Vec::new();
            for _ in 0..40 {
                ident += 1;
                let mut datagram = whole(6666, &payload(3000));
                let from = if spoofed { ident + 700 } else { 66 };
                datagram[14..16].copy_from_slice(&(from as u16).to_be_bytes());
                frames.push(pieces(&patched(&datagram, 12, 10), 1500, ident as u16)[0].clone());
            }
            // Before, amid and behind the flood.
            frames.insert(0, honest[0].clone());
            frames.insert(20, honest[1].clone());
            frames.push(honest[2].clone());
            host.receive(&frames);
            let (count, bytes) = fragments.v4.held();
            assert!(count <= 64 && bytes <= 4 << 20, "{count} {bytes}");
            assert_eq!(joined(&host.sent()).len(), 1, "round {round}");
        }
    }
    assert!(fragments.v4.evicted() > 1000);
    host.advance(40 * SECOND);
    assert_eq!((fragments.v4.held(), fragments.memory().unwrap().available()), ((0, 0), 192));
    host.finish();
}

#[test]
fn without_memory_fragments_are_drops() {
    let env = env();
    env.provide(Arc::new(Fragments::new(weever_net::fragment::ReassemblyConfig::default(), None)));
    provide(&env, host_state(), 0);
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let mut host = HostBox::in_env(graph, &env, Limits::default());
    host.receive(&pieces(&whole(5000, &payload(4000)), 1500, 1));
    assert_eq!(dropped(&host, "no room"), 3);
    host.finish();
    let pool = Pool::new(PoolConfig::large(64)).unwrap();
    assert_eq!(pool.frame_size(), 65_535);
}

/// A router's error about a datagram of ours, with this MTU for the next link.
fn too_big(quoted: &[u8], mtu: u16) -> Vec<u8> {
    let quote = &quoted[14..quoted.len().min(14 + 548)];
    icmp(HOST, IcmpRepr::Unreachable { code: 4, mtu, quote })
}

#[test]
fn a_path_that_takes_less_gets_less() {
    let (mut host, _) = serving();
    host.receive(&[udp(5000, 7, &payload(1400))]);
    let sent = host.sent().remove(0);
    // Not believed: errors about datagrams never sent there, and about ones that could not have
    // been too long.
    let mut stranger = sent.clone();
    stranger[33] = 77;
    let small = udp(5000, 7, b"x");
    host.receive(&[too_big(&stranger, 1000), too_big(&small, 1000)]);
    host.receive(&[udp(5000, 7, &payload(1400))]);
    assert_eq!(host.sent().len(), 1);

    host.receive(&[too_big(&sent, 1000)]);
    host.receive(&[udp(5000, 7, &payload(1400))]);
    let sent = host.sent();
    assert!(sent.len() == 2 && sent.iter().all(|frame| frame.len() <= 1014), "{}", sent.len());
    assert_eq!(joined(&sent)[0][28..], payload(1400));

    // Ten minutes later the link's own MTU is tried again.
    for _ in 0..11 {
        host.advance(60 * SECOND);
        host.receive(&[arp_request(HOST)]);
        host.sent();
    }
    host.receive(&[udp(5000, 7, &payload(1400))]);
    assert_eq!(host.sent().len(), 1);
    host.finish();
}
