use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use weever_blocks_std::host::{Network, provide};
use weever_blocks_std::testing::{HostBox, env, frames::*, host::host_state};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, Service, host};
use weever_net::addr::Locals;
use weever_net::iface::{IfaceId, Interface};
use weever_net::route::{Route, Way};
use weever_net::state::{NetConfig, ReversePath, StateError};
use weever_packet::Flags;
use weever_wire::MacAddr;
use weever_wire::checksum;
use weever_wire::icmpv4::{IcmpRepr, IcmpView};
use weever_wire::ipv4::{Ipv4View, protocol};
use weever_wire::udp::UdpView;

const SECOND: u64 = 1_000_000_000;
const VLAN: u16 = 5;
const RIGHT: IfaceId = IfaceId(1);
const RIGHT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const RIGHT_IP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The host behind the router, in a VLAN of link 1.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const FAR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);

fn config() -> NetConfig {
    let mut config = host_state();
    config.settings.forwarding = true;
    let v4 = Locals::new(&["10.1.0.1/24".parse().unwrap()]);
    let right = Interface::new(RIGHT, "right", 1, RIGHT_MAC).in_vlan(VLAN).with_v4(v4);
    config.add_interface(right.with_mtu(1000)).unwrap();
    config
}

struct Router {
    host: HostBox,
    state: Arc<Network>,
}

impl Router {
    /// A router that knows both of its neighbours, unless `known` is false.
    fn new(config: NetConfig, known: bool) -> Router {
        let env = env();
        let state = provide(&env, config, 0);
        let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
        let limits = Limits { links: 2, ..Limits::default() };
        let mut host = HostBox::in_env(graph, &env, limits);
        host.advance(5 * SECOND);
        host.receive(&[arp_request(HOST)]);
        if known {
            let asked = arp(1, (FAR_MAC, FAR), (MacAddr::ZERO, RIGHT_IP));
            host.receive_by(1, &[tagged(&asked, VLAN, 0)]);
        }
        host.sent_by(0);
        host.sent_by(1);
        Router { host, state }
    }

    /// The frames that leave to the right, without tags.
    fn right(&mut self) -> Vec<Vec<u8>> {
        let untagged = |frame: Vec<u8>| {
            assert_eq!(frame[12..16], [0x81, 0, 0, VLAN as u8], "in the VLAN");
            [&frame[..12], &frame[16..]].concat()
        };
        self.host.sent_by(1).into_iter().map(untagged).collect()
    }

    /// The only message that leaves to the left: an error, with its source and the datagram it
    /// quotes.
    fn error(&mut self) -> (IcmpKind, Ipv4Addr, Vec<u8>) {
        let sent = self.host.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!((&sent[0][..6], &sent[0][6..12]), (&PEER_MAC.0[..], &HOST_MAC.0[..]));
        let ip = Ipv4View::new(&sent[0][14..]).unwrap();
        assert!(ip.checksum_ok() && ip.header().dst() == PEER);
        let icmp = IcmpView::new(ip.payload()).unwrap();
        assert!(icmp.checksum_ok());
        let header = icmp.header();
        let kind = (header.kind(), header.code(), header.mtu());
        (kind, ip.header().src(), icmp.data().to_vec())
    }

    fn drops(&self, node: &str, reason: &str) -> u64 {
        self.host.count(node, CounterKind::Drop, reason)
    }
}

/// Type, code and MTU.
type IcmpKind = (u8, u8, u16);

/// A datagram from the peer on the left to the host on the right.
fn through(payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(FAR, 9));
    udp_datagram(src, dst, payload)
}

/// The frame in which it arrives on the right.
fn arrived(datagram: &[u8]) -> Vec<u8> {
    let ttl = datagram[8] - 1;
    ethernet(FAR_MAC, RIGHT_MAC, 0x0800, &patched(datagram, 8, ttl))
}

#[test]
fn what_is_for_the_other_side_goes_there_in_order() {
    let mut router = Router::new(config(), true);
    let datagrams: Vec<Vec<u8>> = (0..100u8).map(|i| through(&[i; 30])).collect();
    let padded = |d: &Vec<u8>| [&from_peer(d)[..], &[0xee; 6]].concat();
    router.host.receive(&datagrams.iter().map(padded).collect::<Vec<_>>());
    assert_eq!(router.right(), datagrams.iter().map(|d| arrived(d)).collect::<Vec<_>>());
    assert_eq!(router.host.drops(), []);
    // And back, out of the VLAN.
    let (src, dst) = (SocketAddrV4::new(FAR, 9), SocketAddrV4::new(PEER, 5000));
    let back = udp_datagram(src, dst, b"back");
    let frame = ethernet(RIGHT_MAC, FAR_MAC, 0x0800, &back);
    router.host.receive_by(1, &[tagged(&frame, VLAN, 3)]);
    let left = ethernet(PEER_MAC, HOST_MAC, 0x0800, &patched(&back, 8, back[8] - 1));
    assert_eq!(router.host.sent(), [left]);
    router.host.finish();
}

#[test]
fn a_host_does_not_forward() {
    let mut config = config();
    config.settings.forwarding = false;
    let mut router = Router::new(config, true);
    router.host.receive(&[from_peer(&through(b"x"))]);
    let reason = "IPv4 destination is not ours, and forwarding is off";
    assert_eq!(router.drops("RxL3IPv4Destination", reason), 1);
    // Either address of ours is ours by either link.
    let (src, dst) = (SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(RIGHT_IP, 7));
    router.host.receive(&[from_peer(&udp_datagram(src, dst, b"x"))]);
    assert_eq!(router.host.sent().len(), 1);
    router.host.finish();
}

#[test]
fn forwarding_is_switched_on_while_it_runs() {
    let mut config = config();
    config.settings.forwarding = false;
    let mut router = Router::new(config, true);
    let frame = from_peer(&through(b"x"));
    for (forwarding, wanted) in [(true, 1), (false, 0), (true, 1)] {
        let switched: Result<(), StateError> = router.state.update(|net| {
            net.settings.forwarding = forwarding;
            Ok(())
        });
        switched.unwrap();
        router.host.receive(&[&frame]);
        assert_eq!(router.right().len(), wanted);
    }
    router.host.finish();
}

#[test]
fn senders_are_told_what_went_wrong() {
    let mut config = config();
    for (to, way) in
        [("10.2.0.0/16", Way::<Ipv4Addr>::Unreachable), ("10.3.0.0/16", Way::Prohibited)]
    {
        config.add_route(Route::new(to.parse().unwrap(), way)).unwrap();
    }
    let mut router = Router::new(config, true);
    let to = |dst: Ipv4Addr, change: fn(&mut Vec<u8>)| {
        let (src, dst) = (SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(dst, 9));
        let mut datagram = udp_datagram(src, dst, &[0x5a; 1000]);
        change(&mut datagram);
        datagram
    };
    let small = |d: &mut Vec<u8>| *d = patched(&patched(d, 3, 40), 2, 0);
    let spent: fn(&mut Vec<u8>) = |d| *d = patched(&patched(&patched(d, 3, 40), 2, 0), 8, 1);
    for (what, datagram, wanted) in [
        ("spent", to(FAR, spent), (11, 0, 0)),
        ("too long", to(FAR, |_| ()), (3, 4, 1000)),
        ("no route", to(Ipv4Addr::new(8, 8, 8, 8), small), (3, 0, 0)),
        ("unreachable", to(Ipv4Addr::new(10, 2, 0, 1), small), (3, 1, 0)),
        ("prohibited", to(Ipv4Addr::new(10, 3, 0, 1), small), (3, 13, 0)),
    ] {
        router.host.receive(&[from_peer(&datagram)]);
        let (kind, from, quote) = router.error();
        assert_eq!((kind, from), (wanted, HOST), "{what}");
        assert!(datagram.starts_with(&quote) && quote.len() >= 28, "{what}: as it came");
    }
    assert_eq!(router.right(), Vec::<Vec<u8>>::new());
    router.host.finish();
}

#[test]
fn what_may_be_cut_is_cut() {
    let mut router = Router::new(config(), true);
    let datagram = patched(&through(&[0x5a; 1400]), 6, 0);
    router.host.receive(&[from_peer(&datagram)]);
    let fragments = router.right();
    assert_eq!(fragments.len(), 2);
    let mut carried = Vec::new();
    for frame in &fragments {
        let ip = Ipv4View::new(&frame[14..]).unwrap();
        assert!(ip.checksum_ok() && frame.len() <= 1014);
        assert_eq!((ip.header().ttl(), ip.header().ident()), (datagram[8] - 1, 7));
        carried.extend_from_slice(ip.payload());
    }
    assert_eq!(carried, datagram[20..]);
    router.host.finish();
}

#[test]
fn what_waits_for_a_silent_neighbour_is_reported() {
    let mut router = Router::new(config(), false);
    router.host.receive(&vec![from_peer(&through(b"x")); 3]);
    assert_eq!(router.right().len(), 1, "a question");
    router.host.advance(4 * SECOND);
    router.right();
    let sent = router.host.sent();
    let errors = sent.iter().filter(|frame| frame[12..14] == [8, 0]);
    let unreachable = |frame: &&Vec<u8>| frame[34..36] == [3, 1];
    assert_eq!(errors.filter(unreachable).count(), 3);
    router.host.finish();
}

#[test]
fn what_a_router_drops() {
    let mut config = config();
    config.settings.reverse_path = ReversePath::Strict;
    config
        .add_route(Route::new("10.4.0.0/16".parse().unwrap(), Way::<Ipv4Addr>::Blackhole))
        .unwrap();
    let mut router = Router::new(config, true);
    let to = |src: Ipv4Addr, dst: Ipv4Addr| {
        udp_datagram(SocketAddrV4::new(src, 5000), SocketAddrV4::new(dst, 9), b"x")
    };
    let mut recorded = ipv4(
        ipv4_repr(PEER, FAR, protocol::UDP),
        &[&[7, 7, 4, 0, 0, 0, 0, 0], &[0; 20][..]].concat(),
    );
    recorded[0] = 0x47;
    recorded[10..12].fill(0);
    let check = checksum::finish(checksum::sum(&recorded[..28]));
    recorded[10..12].copy_from_slice(&check.to_be_bytes());
    let to_all = |d: &[u8]| ethernet(MacAddr::BROADCAST, PEER_MAC, 0x0800, d);
    for (node, reason, frame) in [
        (
            "RxL3IPv4Destination",
            "IPv4 datagram for one host in a link broadcast",
            to_all(&through(b"x")),
        ),
        (
            "RxL3IPv4Destination",
            "IPv4 destination address is not a host's",
            from_peer(&to(PEER, Ipv4Addr::LOCALHOST)),
        ),
        ("RxL3IPv4Forward", "IPv4 options that are not forwarded", from_peer(&recorded)),
        (
            "RxL3IPv4Forward",
            "an interface or a route does not let the datagram through",
            from_peer(&to(PEER, Ipv4Addr::new(10, 4, 0, 1))),
        ),
        (
            "RxL3IPv4Forward",
            "an interface or a route does not let the datagram through",
            from_peer(&to(PEER, Ipv4Addr::new(10, 1, 0, 255))),
        ),
        (
            "RxL3IPv4ValidSource",
            "IPv4 source address fails the reverse path check",
            from_peer(&to(FAR, PEER)),
        ),
        ("RxL3IPv4ValidSource", "IPv4 source address is impossible", from_peer(&to(RIGHT_IP, FAR))),
    ] {
        let before = router.drops(node, reason);
        router.host.receive(&[&frame]);
        assert_eq!(router.drops(node, reason), before + 1, "{reason}");
        assert_eq!((router.host.sent().len(), router.right().len()), (0, 0), "{reason}");
    }
    router.host.finish();
}

#[test]
fn partial_checksums_are_completed_on_the_way() {
    let mut router = Router::new(config(), true);
    let mut datagram = through(b"partial payload");
    let pseudo = checksum::pseudo_v4(PEER, FAR, protocol::UDP, datagram.len() as u16 - 20);
    datagram[26..28].copy_from_slice(&pseudo.to_be_bytes());
    router.host.set_flags(Flags::MAY_BE_PARTIAL);
    router.host.receive(&[from_peer(&datagram)]);
    let sent = router.right();
    let ip = Ipv4View::new(&sent[0][14..]).unwrap();
    let udp = UdpView::new(ip.payload()).unwrap();
    assert!(udp.checksum_ok(udp.pseudo_sum(PEER, FAR)));
    router.host.finish();
}

/// UDP and TCP, whose checksum says so, and pieces, of which the link would not see the whole.
#[test]
fn partial_checksums_are_left_to_a_link_that_completes_them() {
    let mut network = config();
    let left_to_it = network.remove_interface(RIGHT).unwrap();
    network.add_interface(Interface { tx_checksum: true, ..left_to_it }).unwrap();
    let mut router = Router::new(network, true);
    router.host.set_flags(Flags::MAY_BE_PARTIAL);
    let mut udp = through(b"partial payload");
    let pseudo = checksum::pseudo_v4(PEER, FAR, protocol::UDP, udp.len() as u16 - 20);
    udp[26..28].copy_from_slice(&pseudo.to_be_bytes());
    router.host.receive(&[from_peer(&udp)]);
    assert_eq!(router.right()[0][34..], udp[20..], "as it came");
    let whole = through(b"whole payload");
    router.host.receive(&[from_peer(&whole)]);
    assert_eq!(router.right()[0][34..], whole[20..], "there is nothing to complete");

    let mut long = patched(&through(&[7; 1200]), 6, 0);
    let right = long[26..28].to_vec();
    let pseudo = checksum::pseudo_v4(PEER, FAR, protocol::UDP, long.len() as u16 - 20);
    long[26..28].copy_from_slice(&pseudo.to_be_bytes());
    router.host.receive(&[from_peer(&long)]);
    let pieces = router.right();
    assert_eq!((pieces.len(), &pieces[0][40..42]), (2, &right[..]), "completed before it is cut");
    router.host.finish();
}

/// Two routers whose default routes lead to each other: the time to live ends it.
#[test]
fn a_loop_ends() {
    let mut config = config();
    config.add_route(Route::via("0.0.0.0/0".parse().unwrap(), PEER)).unwrap();
    let mut router = Router::new(config, true);
    let dst = Ipv4Addr::new(8, 8, 8, 8);
    let mut datagram = udp_datagram(SocketAddrV4::new(FAR, 5000), SocketAddrV4::new(dst, 9), b"x");
    let mut rounds = 0;
    loop {
        // The peer sends it straight back.
        router.host.receive(&[from_peer(&datagram)]);
        let Some(frame) = router.host.sent().pop() else { break };
        datagram = patched(&frame[14..], 8, frame[22].saturating_sub(1));
        rounds += 1;
    }
    assert_eq!(rounds, 32, "half of 64 at each of the two");
    router.host.finish();
}

#[test]
fn addresses_routes_and_mtus_change_while_it_runs() {
    let mut router = Router::new(config(), true);
    let moved: Result<(), StateError> = router.state.update(|net| {
        net.add_address(RIGHT, "10.9.0.1/16".parse().unwrap())?;
        net.set_mtu(RIGHT, 100)?;
        net.add_route(Route::via("172.16.0.0/12".parse().unwrap(), FAR))
    });
    moved.unwrap();
    router.host.advance(20_000_000);
    let announced = arp(
        1,
        (RIGHT_MAC, Ipv4Addr::new(10, 9, 0, 1)),
        (MacAddr::ZERO, Ipv4Addr::new(10, 9, 0, 1)),
    );
    assert_eq!(router.right(), [announced]);
    let to = SocketAddrV4::new(Ipv4Addr::new(172, 16, 9, 9), 9);
    let datagram = udp_datagram(SocketAddrV4::new(PEER, 5000), to, b"x");
    router.host.receive(&[from_peer(&datagram), from_peer(&through(&[0; 200]))]);
    assert_eq!(router.right(), [arrived(&datagram)], "by the new route");
    assert_eq!(router.error().0, (3, 4, 100), "by the new MTU");
    router.state.update(|net| net.set_up(RIGHT, false)).unwrap();
    router.host.receive(&[from_peer(&through(b"x"))]);
    assert_eq!(router.error().0, (3, 0, 0));
    router
        .host
        .receive_by(1, &[tagged(&arp(1, (FAR_MAC, FAR), (MacAddr::ZERO, RIGHT_IP)), VLAN, 0)]);
    assert_eq!(router.drops("RxL2EtherValidVlan", "VLAN of no interface"), 1);
    router.host.finish();
}

#[test]
fn protocols_that_nobody_speaks_are_reported() {
    let mut router = Router::new(config(), true);
    let sctp = ipv4(ipv4_repr(PEER, HOST, protocol::SCTP), &[0; 12]);
    router.host.receive(&[from_peer(&sctp)]);
    assert_eq!(router.error().0, (3, 2, 0));
    let mut malformed =
        ipv4(ipv4_repr(PEER, HOST, protocol::UDP), &[&[148, 9, 0, 0], &[0; 20][..]].concat());
    malformed[0] = 0x46;
    malformed[10..12].fill(0);
    let check = checksum::finish(checksum::sum(&malformed[..24]));
    malformed[10..12].copy_from_slice(&check.to_be_bytes());
    router.host.receive(&[from_peer(&malformed)]);
    let sent = router.host.sent();
    let ip = Ipv4View::new(&sent[0][14..]).unwrap();
    let problem = IcmpRepr::parse(IcmpView::new(ip.payload()).unwrap());
    assert_eq!(problem, Ok(IcmpRepr::ParameterProblem { code: 0, pointer: 20, quote: &malformed }));
    router.host.finish();
}

#[test]
fn groups_are_heard_where_they_are_joined() {
    let mut router = Router::new(config(), true);
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let mac = MacAddr([1, 0, 0x5e, 1, 2, 3]);
    let datagram = udp_datagram(SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(group, 7), b"x");
    let frame = ethernet(mac, PEER_MAC, 0x0800, &datagram);
    router.host.receive(&[&frame]);
    let unjoined = "multicast group that was not joined";
    assert_eq!(router.drops("RxL2EtherValidMulticast", unjoined), 1);
    router.state.update(|net| net.join(IfaceId(0), group)).unwrap();
    router.host.receive(&[&frame]);
    // It reaches its socket, which does not answer a packet to many.
    assert_eq!(router.drops("RxL4UDPEcho", "UDP echo refused: its answer could loop"), 1);
    // A group that is mapped to the same stations is not joined with it.
    let other = Ipv4Addr::new(239, 129, 2, 3);
    let alike = udp_datagram(SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(other, 7), b"x");
    router.host.receive(&[ethernet(mac, PEER_MAC, 0x0800, &alike)]);
    let reason = "IPv4 multicast group that was not joined";
    assert_eq!(router.drops("RxL3IPv4Destination", reason), 1);
    router.host.finish();
}

/// The neighbour's answer and later packets come in one burst: those that waited go first.
#[test]
fn who_waited_is_not_overtaken() {
    let mut router = Router::new(config(), false);
    let numbered = |range: std::ops::Range<u8>| -> Vec<Vec<u8>> {
        range.map(|i| from_peer(&through(&[i]))).collect()
    };
    router.host.receive(&numbered(0..10));
    router.right();
    // An address that is announced is as good as an answer.
    let answer = tagged(&arp(2, (FAR_MAC, FAR), (RIGHT_MAC, RIGHT_IP)), VLAN, 0);
    router.host.receive_by(1, &[&answer]);
    router.host.receive(&numbered(10..20));
    let order: Vec<u8> = router.right().iter().map(|frame| frame[42]).collect();
    assert_eq!(order, (0..20).collect::<Vec<u8>>());
    router.host.finish();
}

/// Another worker hears the neighbour first: packets that come here before the waiting ones are
/// woken join them.
#[test]
fn nor_after_another_worker_has_heard_the_neighbour() {
    let env = env();
    provide(&env, config(), 0);
    let limits = Limits { links: 2, ..Limits::default() };
    let graph = || host(&HostConfig::default()).unwrap();
    let [mut first, mut second] = [(); 2].map(|()| HostBox::in_env(graph(), &env, limits));
    for worker in [&mut first, &mut second] {
        worker.advance(5 * SECOND);
        worker.sent_by(0);
        worker.sent_by(1);
    }
    let numbered = |range: std::ops::Range<u8>| -> Vec<Vec<u8>> {
        range.map(|i| from_peer(&through(&[i]))).collect()
    };
    first.receive(&numbered(0..5));
    assert_eq!(first.sent_by(1).len(), 1, "a question");
    let answer = tagged(&arp(2, (FAR_MAC, FAR), (RIGHT_MAC, RIGHT_IP)), VLAN, 0);
    second.receive_by(1, &[&answer]);
    first.receive(&numbered(5..10));
    let order: Vec<u8> = first.sent_by(1).iter().map(|frame| frame[46]).collect();
    assert_eq!(order, (0..10).collect::<Vec<u8>>());
    first.finish();
    second.finish();
}

/// An address that is added while the host runs is asked for before it is used (RFC 5227 §2.1).
#[test]
fn new_addresses_are_probed_and_given_up_if_taken() {
    let mut router = Router::new(config(), true);
    let [free, taken] = [77, 78].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let added: Result<(), StateError> = router.state.update(|net| {
        net.add_tentative(IfaceId(0), "10.0.0.77/24".parse().unwrap())?;
        net.add_tentative(IfaceId(0), "10.0.0.78/24".parse().unwrap())
    });
    added.unwrap();
    router.host.advance(SECOND);
    let probe = |ip| arp(1, (HOST_MAC, Ipv4Addr::UNSPECIFIED), (MacAddr::ZERO, ip));
    assert_eq!(router.host.sent(), [probe(free), probe(taken)]);
    router.host.receive(&[arp_request(free)]);
    assert_eq!(router.host.sent(), Vec::<Vec<u8>>::new(), "it is not ours yet");
    router.host.receive(&[arp(2, (PEER_MAC, taken), (HOST_MAC, Ipv4Addr::UNSPECIFIED))]);
    router.host.advance(7 * SECOND);
    let state = router.state.state();
    let left = state.interface(IfaceId(0)).unwrap();
    assert!(left.v4.is_ours(free) && !left.v4.is_ours(taken) && left.duplicate.is_ours(taken));
    assert!(left.tentative.is_empty());
    let sent = router.host.sent();
    let announced = |ip| arp(1, (HOST_MAC, ip), (MacAddr::ZERO, ip));
    assert_eq!(sent.iter().filter(|frame| **frame == probe(taken)).count(), 0);
    assert_eq!(sent.iter().filter(|frame| **frame == announced(free)).count(), 2);
    router.host.receive(&[arp_request(free)]);
    assert_eq!(router.host.sent(), [arp(2, (HOST_MAC, free), (PEER_MAC, PEER))]);
    router.host.finish();
}

/// A sender that reaches a neighbour of its own through us gets a redirect once in a while, and the
/// datagram goes its way (RFC 1812 §5.2.7.2).
#[test]
fn a_sender_is_told_of_a_better_first_hop() {
    let mut config = config();
    let other = Ipv4Addr::new(10, 0, 0, 9);
    config.add_route(Route::via("10.9.0.0/16".parse().unwrap(), other)).unwrap();
    config.add_route(Route::via("10.8.0.0/16".parse().unwrap(), PEER)).unwrap();
    let mut it = Router::new(config, true);
    let asked = arp(1, (FAR_MAC, other), (MacAddr::ZERO, HOST));
    it.host.receive(&[asked]);
    it.host.sent();
    let to = |dst: [u8; 4]| {
        let (src, dst) = (SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(dst.into(), 9));
        udp_datagram(src, dst, b"the long way")
    };
    // In this order, as the table of recent redirects may keep the two pairs in one place.
    for dst in [[10, 0, 0, 9], [10, 9, 0, 1]] {
        let datagram = to(dst);
        it.host.receive(&[from_peer(&datagram)]);
        let sent = it.host.sent();
        let [passed, told] = &sent[..] else { panic!("{} frames", sent.len()) };
        let on = patched(&datagram, 8, datagram[8] - 1);
        assert_eq!(*passed, ethernet(FAR_MAC, HOST_MAC, 0x0800, &on));
        let ip = Ipv4View::new(&told[14..]).unwrap();
        assert_eq!((ip.header().src(), ip.header().dst()), (HOST, PEER));
        let icmp = IcmpView::new(ip.payload()).unwrap();
        assert!(icmp.checksum_ok());
        assert_eq!((icmp.header().kind(), icmp.header().code()), (5, 1), "for a host");
        assert_eq!(ip.payload()[4..8], other.octets());
        assert_eq!(icmp.data(), datagram, "as it came");
    }
    // No redirect where it is of no use: the sender is elsewhere, or is the next hop itself, or the
    // way leads elsewhere, or the time to live is spent.
    let mut quiet = |datagram: &[u8], frames: usize| {
        it.host.receive(&[from_peer(datagram)]);
        assert_eq!(it.host.sent().len(), frames, "{datagram:x?}");
    };
    quiet(&patched(&patched(&to([10, 9, 0, 1]), 12, 172), 13, 16), 1);
    quiet(&to([10, 8, 0, 1]), 1);
    quiet(&through(b"x"), 0);
    it.right();
    it.host.receive(&[from_peer(&patched(&to([10, 9, 0, 1]), 8, 1))]);
    assert_eq!(it.error().0, (11, 0, 0), "its time is over");
    // A sender that goes on all the same gets one a second, and a flood gets them within limits;
    // all datagrams go their way.
    let told = |it: &mut Router, datagrams: &[Vec<u8>]| {
        let mut sent = Vec::new();
        for some in datagrams.chunks(50) {
            it.host.receive(&some.iter().map(|datagram| from_peer(datagram)).collect::<Vec<_>>());
            sent.extend(it.host.sent());
        }
        let told = sent.iter().filter(|frame| frame[..6] == PEER_MAC.0).count();
        assert_eq!(sent.len() - told, datagrams.len());
        told as u64
    };
    let same = vec![to([10, 9, 0, 1]); 1000];
    assert_eq!(told(&mut it, &same), 0, "it has just been told");
    it.host.advance(SECOND);
    it.host.sent();
    assert_eq!(told(&mut it, &same), 1);
    let many: Vec<_> = (0..1000u16).map(|n| to([10, 9, 1 + (n >> 8) as u8, n as u8])).collect();
    let flood = told(&mut it, &many);
    assert!((1..=50).contains(&flood), "{flood} told");
    let count = it.host.count("RxL3IPv4Forward", CounterKind::Own, "redirects");
    assert_eq!(count, 2 + 1 + flood);
    it.state
        .update(|net| {
            net.settings.redirects = false;
            Ok::<(), ()>(())
        })
        .unwrap();
    it.host.advance(5 * SECOND);
    it.host.sent();
    it.host.receive(&[from_peer(&to([10, 9, 0, 1]))]);
    assert_eq!(it.host.sent().len(), 1, "an operator does not want it");
    it.host.finish();
}
