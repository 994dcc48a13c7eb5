use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use weever_blocks_std::host::{Network, Secret, provide};
use weever_blocks_std::igmp::Groups;
use weever_blocks_std::testing::{HostBox, env, frames::*, host::host_state};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, Service, host};
use weever_net::group::{Filter, Mode, Version};
use weever_net::iface::IfaceId;
use weever_wire::MacAddr;
use weever_wire::ethernet::EthernetHeader;
use weever_wire::igmp::{IgmpReport, checksum_ok, kind};
use weever_wire::ipv4::{Ipv4View, protocol};
use weever_wire::listener::record_kind;

const SECOND: u64 = 1_000_000_000;
const LINK: IfaceId = IfaceId(0);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 129, 2, 3);
const ALL: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

struct Listener {
    host: HostBox,
    net: Arc<Network>,
    groups: Arc<Groups>,
}

fn listener() -> Listener {
    let env = env();
    env.provide(Arc::new(Secret::from_seed(3)));
    let net = provide(&env, host_state(), 0);
    let graph = host(&HostConfig::default()).unwrap();
    let mut host = HostBox::in_env(graph, &env, Limits::default());
    host.advance(5 * SECOND);
    host.sent();
    Listener { host, net, groups: env.get_or_default() }
}

impl Listener {
    /// The IGMP messages that go out meanwhile, each with its destination.
    fn pass(&mut self, nanos: u64) -> Vec<(Ipv4Addr, Vec<u8>)> {
        self.host.advance(nanos);
        let mut messages = Vec::new();
        for frame in self.host.sent() {
            let header = EthernetHeader::first(&frame).unwrap();
            let Ok(ip) = Ipv4View::new(&frame[14..]) else { continue };
            let (dst, fixed) = (ip.header().dst(), ip.header());
            assert_eq!((fixed.protocol(), fixed.ttl(), fixed.tos()), (protocol::IGMP, 1, 0xc0));
            assert_eq!(ip.header_bytes()[20..], [148, 4, 0, 0], "router alert");
            assert!(ip.checksum_ok() && checksum_ok(ip.payload()));
            assert_eq!((header.dst(), fixed.src()), (mac_of(dst), HOST));
            messages.push((dst, ip.payload().to_vec()));
        }
        messages
    }

    fn records(&mut self, nanos: u64) -> Vec<(u8, Ipv4Addr)> {
        let messages = self.pass(nanos);
        let records = messages.iter().flat_map(|(dst, message)| {
            assert_eq!(*dst, Ipv4Addr::new(224, 0, 0, 22));
            IgmpReport::parse(message).unwrap().map(|r| r.unwrap()).map(|r| (r.kind, r.group))
        });
        records.collect()
    }

    fn query(&mut self, message: &mut [u8], dst: Ipv4Addr) {
        weever_wire::igmp::fill_checksum(message);
        self.host.receive(&[igmp(PEER, dst, 1, true, message)]);
    }

    /// How many messages ended at a validator.
    fn refused(&self, validator: &str) -> u64 {
        self.host.count(validator, CounterKind::Port, "false")
    }
}

/// A message with this time to live, and with or without a router alert option.
fn igmp(src: Ipv4Addr, dst: Ipv4Addr, ttl: u8, alert: bool, message: &[u8]) -> Vec<u8> {
    let options: &[u8] = if alert { &[148, 4, 0, 0] } else { &[] };
    let mut datagram = ipv4(ipv4_repr(src, dst, protocol::IGMP), &[options, message].concat());
    datagram[0] += (options.len() / 4) as u8;
    (datagram[8], datagram[10], datagram[11]) = (ttl, 0, 0);
    let header = 20 + options.len();
    let check = weever_wire::checksum::finish(weever_wire::checksum::sum(&datagram[..header]));
    datagram[10..12].copy_from_slice(&check.to_be_bytes());
    ethernet(mac_of(dst), PEER_MAC, 0x0800, &datagram)
}

/// Queries that no station of the link sent, or that would have hosts speak version 1 or all
/// members of a group answer: none is believed (RFC 3376 §9.1, §9.2).
#[test]
fn forged_queries_are_not_believed() {
    let mut it = listener();
    it.net.update(|net| net.join(LINK, GROUP)).unwrap();
    it.pass(2 * SECOND);
    let general = [kind::QUERY, 10, 0xec, 0x78, 0, 0, 0, 0, 2, 125, 0, 0];
    let oldest = [kind::QUERY, 0, 0xee, 0xff, 0, 0, 0, 0];
    let far = Ipv4Addr::new(192, 0, 2, 1);
    let [a, b, c, d] = GROUP.octets();
    let mut specific = [kind::QUERY, 0, 0, 0, a, b, c, d];
    weever_wire::igmp::fill_checksum(&mut specific);
    let (origin, query) = ("RxL3IGMPValidOrigin", "RxL3IGMPValidQuery");
    for (forged, validator) in [
        (igmp(far, ALL, 1, true, &general), origin),
        (igmp(PEER, ALL, 64, true, &general), origin),
        (igmp(far, ALL, 1, false, &oldest), origin),
        (igmp(PEER, ALL, 1, false, &general), query),
        (igmp(PEER, GROUP, 1, true, &general), query),
        (igmp(PEER, GROUP, 1, false, &oldest), query),
        (igmp(PEER, GROUP, 1, true, &specific), query),
    ] {
        let before = it.refused(validator);
        it.host.receive(&[forged]);
        assert_eq!(it.refused(validator), before + 1, "{validator}");
        assert_eq!(it.pass(11 * SECOND), []);
    }
    assert_eq!(it.groups.listed(it.host.now())[0].version, Version::Newest);
    it.host.receive(&[igmp(PEER, ALL, 1, false, &oldest)]);
    assert_eq!(it.groups.listed(it.host.now())[0].version, Version::Oldest, "a true one is");
    it.host.finish();
}

fn mac_of(group: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = group.octets();
    MacAddr([1, 0, 0x5e, b & 0x7f, c, d])
}

#[test]
fn what_is_joined_and_left_is_reported() {
    let mut it = listener();
    assert_eq!(it.pass(5 * SECOND), []);
    it.net.update(|net| net.join(LINK, GROUP)).unwrap();
    assert_eq!(it.records(2 * SECOND), [(record_kind::CHANGE_TO_EXCLUDE, GROUP); 2]);
    let only = Filter::new(Mode::Include, &[PEER]);
    it.groups.set(LINK, 1, Ipv4Addr::new(232, 1, 1, 1), only, it.host.now()).unwrap();
    assert_eq!(it.records(2 * SECOND), [(record_kind::ALLOW_NEW, Ipv4Addr::new(232, 1, 1, 1)); 2]);
    it.net.update(|net| net.leave(LINK, GROUP)).unwrap();
    assert_eq!(it.records(2 * SECOND), [(record_kind::CHANGE_TO_INCLUDE, GROUP); 2]);
    let listed = it.groups.listed(it.host.now());
    assert_eq!((listed.len(), listed[0].groups.len(), listed[0].version), (1, 1, Version::Newest));
    it.host.finish();
}

/// Groups that users of the host have joined are heard, from the sources that they want.
#[test]
fn sources_are_heard_that_somebody_wants() {
    let env = env();
    env.provide(Arc::new(Secret::from_seed(3)));
    let net = provide(&env, host_state(), 0);
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let host = HostBox::in_env(graph, &env, Limits::default());
    let mut it = Listener { host, net, groups: env.get_or_default() };
    it.host.advance(SECOND);
    let other = Ipv4Addr::new(10, 0, 0, 66);
    let heard = |it: &mut Listener| {
        [PEER, other].map(|source| {
            let before = it.host.count("RxL3IPv4Destination", CounterKind::Port, "local");
            let (src, dst) = (SocketAddrV4::new(source, 5000), SocketAddrV4::new(GROUP, 7));
            let datagram = udp_datagram(src, dst, b"x");
            it.host.receive(&[ethernet(mac_of(GROUP), PEER_MAC, 0x0800, &datagram)]);
            it.host.count("RxL3IPv4Destination", CounterKind::Port, "local") > before
        })
    };
    assert_eq!(heard(&mut it), [false, false]);
    let want = |it: &mut Listener, filter| {
        it.groups.set(LINK, 1, GROUP, filter, it.host.now()).unwrap();
        it.host.advance(SECOND);
    };
    want(&mut it, Filter::new(Mode::Include, &[PEER]));
    assert_eq!(heard(&mut it), [true, false]);
    let [a, b, c, d] = GROUP.octets();
    it.pass(2 * SECOND);
    let mut query = [kind::QUERY, 10, 0, 0, a, b, c, d, 2, 125, 0, 0];
    weever_wire::igmp::fill_checksum(&mut query);
    it.host.receive(&[igmp(other, GROUP, 1, true, &query)]);
    assert_eq!(it.records(2 * SECOND), [(record_kind::MODE_IS_INCLUDE, GROUP)], "but queriers are");
    want(&mut it, Filter::new(Mode::Exclude, &[PEER]));
    assert_eq!(heard(&mut it), [false, true]);
    it.net.update(|net| net.join(LINK, GROUP)).unwrap();
    it.host.advance(SECOND);
    assert_eq!(heard(&mut it), [true, true], "the operator wants all");
    it.net.update(|net| net.leave(LINK, GROUP)).unwrap();
    it.host.advance(SECOND);
    assert_eq!(heard(&mut it), [false, true], "the user's filter is not forgotten");
    want(&mut it, Filter::none());
    assert_eq!(heard(&mut it), [false, false]);
    it.host.finish();
}

/// The router at the other end may be another one now, without any earlier report.
#[test]
fn what_was_joined_is_reported_again_after_the_link_was_down() {
    let mut it = listener();
    let (mine, only) = (Ipv4Addr::new(232, 1, 1, 1), Filter::new(Mode::Include, &[PEER]));
    it.net.update(|net| net.join(LINK, GROUP)).unwrap();
    it.groups.set(LINK, 1, mine, only, it.host.now()).unwrap();
    it.pass(5 * SECOND);
    // Down for less than any router could notice, and for a while.
    for down in [0, 5 * SECOND] {
        it.net.update(|net| net.set_up(LINK, false)).unwrap();
        if down > 0 {
            assert_eq!(it.pass(down), []);
        }
        it.net.update(|net| net.set_up(LINK, true)).unwrap();
        let mut said = it.records(2 * SECOND);
        said.sort_unstable();
        let mine = (record_kind::CHANGE_TO_INCLUDE, mine);
        let all = [mine, mine, (record_kind::CHANGE_TO_EXCLUDE, GROUP)];
        assert_eq!((&said[..3], said.len()), (&all[..], 4), "each twice");
        let listed = it.groups.listed(it.host.now());
        assert_eq!(listed[0].groups.len(), 2, "the user's is not forgotten");
    }
    it.host.finish();
}

#[test]
fn queriers_of_all_ages_are_answered() {
    let mut it = listener();
    it.net.update(|net| net.join(LINK, GROUP)).unwrap();
    it.pass(2 * SECOND);
    it.query(&mut [kind::QUERY, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0], ALL);
    assert_eq!(it.records(2 * SECOND), [(record_kind::MODE_IS_EXCLUDE, GROUP)]);
    let [a, b, c, d] = GROUP.octets();
    it.query(&mut [kind::QUERY, 10, 0, 0, a, b, c, d, 2, 125, 0, 0], GROUP);
    assert_eq!(it.records(2 * SECOND), [(record_kind::MODE_IS_EXCLUDE, GROUP)]);
    it.query(&mut [kind::QUERY, 10, 0, 0, 0, 0, 0, 0], ALL);
    let said = it.pass(2 * SECOND);
    assert!(
        matches!(&said[..], [(dst, m)] if *dst == GROUP && m[0] == kind::V2_REPORT),
        "{said:?}"
    );
    it.net.update(|net| net.leave(LINK, GROUP)).unwrap();
    let said = it.pass(2 * SECOND);
    assert!(matches!(&said[..], [(_, m)] if m[0] == kind::V2_LEAVE), "{said:?}");
    it.host.finish();
}

/// A forged report would keep a host from sending its own to an older querier.
#[test]
fn forged_reports_are_not_believed() {
    let mut it = listener();
    it.net.update(|net| net.join(LINK, GROUP)).unwrap();
    it.pass(2 * SECOND);
    let [a, b, c, d] = GROUP.octets();
    let report = |kind| {
        let mut report = [kind, 0, 0, 0, a, b, c, d];
        weever_wire::igmp::fill_checksum(&mut report);
        report
    };
    let far = Ipv4Addr::new(192, 0, 2, 1);
    let (second, first) = (report(kind::V2_REPORT), report(kind::V1_REPORT));
    let taken = |it: &Listener| it.host.count("RxL3IGMPReceive", CounterKind::Port, "out");
    for (forged, validator) in [
        (igmp(far, GROUP, 1, true, &second), "RxL3IGMPValidOrigin"),
        (igmp(PEER, GROUP, 1, false, &second), "RxL3IGMPValidReport"),
        (igmp(far, GROUP, 1, false, &first), "RxL3IGMPValidOrigin"),
    ] {
        let before = it.refused(validator);
        it.host.receive(&[forged]);
        assert_eq!((it.refused(validator), taken(&it)), (before + 1, 0), "{validator}");
    }
    it.host.receive(&[igmp(PEER, GROUP, 1, true, &second), igmp(PEER, GROUP, 1, false, &first)]);
    assert_eq!(taken(&it), 2, "true ones are");
    it.host.finish();
}

#[test]
fn broken_messages_are_drops() {
    let mut it = listener();
    let mut broken = [kind::QUERY, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 9];
    it.query(&mut broken, ALL);
    it.query(&mut [0x99, 10, 0, 0, 0, 0, 0, 0], ALL);
    let datagram = ipv4(ipv4_repr(PEER, ALL, protocol::IGMP), &[kind::QUERY, 10, 9, 9, 0, 0, 0, 0]);
    it.host.receive(&[ethernet(mac_of(ALL), PEER_MAC, 0x0800, &datagram)]);
    let drops: Vec<_> = it.host.drops().into_iter().filter(|d| d.0.contains("IGMP")).collect();
    assert_eq!(drops.iter().map(|d| d.2).collect::<Vec<_>>(), [1, 1, 1], "{drops:?}");
    it.host.finish();
}
