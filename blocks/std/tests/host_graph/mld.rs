use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_blocks_std::host::{Network, Secret, provide};
use weever_blocks_std::igmp::Groups6;
use weever_blocks_std::testing::{HostBox, env, frames::PEER_MAC, frames6::*, host::host_state6};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, host};
use weever_net::group::{Filter, Mode};
use weever_net::iface::IfaceId;
use weever_wire::icmpv6::{checksum_ok, fill_checksum, kind};
use weever_wire::ipv6::Ipv6Header;
use weever_wire::listener::record_kind;
use weever_wire::mld::MldReport;
use weever_wire::ndp::NdpRepr;

const SECOND: u64 = 1_000_000_000;
const LINK: IfaceId = IfaceId(0);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

struct Listener {
    host: HostBox,
    net: Arc<Network>,
    groups: Arc<Groups6>,
}

fn listener() -> Listener {
    let env = env();
    env.provide(Arc::new(Secret::from_seed(3)));
    let net = provide(&env, host_state6(), 0);
    let graph = host(&HostConfig::default()).unwrap();
    let host = HostBox::in_env(graph, &env, Limits::default());
    Listener { host, net, groups: env.get_or_default() }
}

impl Listener {
    /// The records of reports that go out meanwhile, in order.
    fn records(&mut self, nanos: u64) -> Vec<(u8, Ipv6Addr)> {
        self.host.advance(nanos);
        let mut records = Vec::new();
        for frame in self.host.sent() {
            // Only packets that begin with a hop-by-hop header.
            if frame[12..14] != [0x86, 0xdd] || frame[20] != 0 {
                continue;
            }
            let header = Ipv6Header::first(&frame[14..]).unwrap();
            assert_eq!((header.hop_limit(), header.src()), (1, HOST_LL));
            assert_eq!(frame[54..62], [58, 0, 5, 2, 0, 0, 1, 0], "router alert");
            assert_eq!(
                (header.dst(), &frame[..6]),
                (ip("ff02::16"), &[0x33, 0x33, 0, 0, 0, 0x16][..])
            );
            let message = &frame[62..];
            assert!(checksum_ok(message, &header.addresses()));
            let report = MldReport::parse(message).unwrap();
            records.extend(report.map(|record| record.unwrap()).map(|r| (r.kind, r.group)));
        }
        records.sort_unstable();
        records
    }

    /// A query (RFC 3810 §5.1) for a group, or all.
    fn query(&mut self, src: Ipv6Addr, group: Ipv6Addr, alert: bool) {
        let dst = if group.is_unspecified() { ip("ff02::1") } else { group };
        let mut message = vec![kind::MLD_QUERY, 0, 0, 0, 0, 100, 0, 0];
        message.extend(group.octets());
        message.extend([2, 125, 0, 0]);
        fill_checksum(&mut message, &pair(src, dst));
        let option: &[u8] =
            if alert { &[58, 0, 5, 2, 0, 0, 1, 0] } else { &[58, 0, 1, 4, 0, 0, 0, 0] };
        let packet = ipv6(src, dst, 0, 1, &[option, &message[..]].concat());
        self.host.receive(&[from_peer6(&packet)]);
    }
}

#[test]
fn addresses_groups_and_what_is_joined_are_reported() {
    let mut it = listener();
    let own = ip("ff02::1:ff00:1");
    assert_eq!(it.records(5 * SECOND), [(record_kind::CHANGE_TO_EXCLUDE, own); 2]);
    let group = ip("ff05::7");
    it.net.update(|net| net.join(LINK, group)).unwrap();
    assert_eq!(it.records(2 * SECOND), [(record_kind::CHANGE_TO_EXCLUDE, group); 2]);
    it.query(PEER_LL, Ipv6Addr::UNSPECIFIED, true);
    let all = [(record_kind::MODE_IS_EXCLUDE, own), (record_kind::MODE_IS_EXCLUDE, group)];
    assert_eq!(it.records(2 * SECOND), all);
    it.query(PEER_LL, group, true);
    assert_eq!(it.records(2 * SECOND), all[1..]);
    it.net.update(|net| net.leave(LINK, group)).unwrap();
    assert_eq!(it.records(2 * SECOND), [(record_kind::CHANGE_TO_INCLUDE, group); 2]);
    it.host.finish();
}

/// Groups that users of the host have joined are heard, from the sources that they want; queries
/// for a group are heard from any source.
#[test]
fn sources_are_heard_that_somebody_wants() {
    let mut it = listener();
    it.records(5 * SECOND);
    let (group, other) = (ip("ff35::7"), ip("fd00::66"));
    let heard = |it: &mut Listener| {
        [PEER6, other].map(|source| {
            let local =
                |it: &Listener| it.host.count("RxL3IPv6Destination", CounterKind::Port, "local");
            let before = local(it);
            let packet = udp6((source, 5000), (group, 7), 64, b"x");
            it.host.receive(&[from_peer6(&packet)]);
            local(it) > before
        })
    };
    assert_eq!(heard(&mut it), [false, false]);
    let groups = Arc::clone(&it.groups);
    let want = |it: &mut Listener, filter| {
        groups.set(LINK, 1, group, filter, it.host.now()).unwrap();
        it.host.advance(SECOND);
    };
    want(&mut it, Filter::new(Mode::Include, &[PEER6]));
    assert_eq!(heard(&mut it), [true, false]);
    it.records(2 * SECOND);
    it.query(PEER_LL, group, true);
    assert_eq!(it.records(2 * SECOND), [(record_kind::MODE_IS_INCLUDE, group)]);
    want(&mut it, Filter::new(Mode::Exclude, &[PEER6]));
    assert_eq!(heard(&mut it), [false, true]);
    it.net.update(|net| net.join(LINK, group)).unwrap();
    it.host.advance(SECOND);
    assert_eq!(heard(&mut it), [true, true], "the operator wants all");
    it.net.update(|net| net.leave(LINK, group)).unwrap();
    it.host.advance(SECOND);
    assert_eq!(heard(&mut it), [false, true], "the user's filter is not forgotten");
    want(&mut it, Filter::none());
    assert_eq!(heard(&mut it), [false, false]);
    // Neighbours ask in the group of an address, so all its sources are heard, with any filters of
    // users.
    let own = ip("ff02::1:ff00:1");
    groups.set(LINK, 1, own, Filter::new(Mode::Include, &[other]), it.host.now()).unwrap();
    it.host.advance(SECOND);
    let before = it.host.count("RxL3NDPHandle", CounterKind::Port, "out");
    let target = HOST6;
    let question = NdpRepr::NeighbourSolicit { target, source_link: Some(PEER_MAC), nonce: None };
    it.host.receive(&[from_peer6(&ndp(PEER_LL, own, question))]);
    assert_eq!(it.host.count("RxL3NDPHandle", CounterKind::Port, "out"), before + 1);
    it.host.finish();
}

/// RFC 3810 §6.2: a query is from a neighbour, and says so.
#[test]
fn who_is_not_on_the_link_is_not_answered() {
    let mut it = listener();
    it.records(5 * SECOND);
    it.query(PEER6, Ipv6Addr::UNSPECIFIED, true);
    it.query(PEER_LL, Ipv6Addr::UNSPECIFIED, false);
    assert_eq!(it.records(5 * SECOND), []);
    assert_eq!(it.host.count("RxL3MLDValidOrigin", CounterKind::Port, "false"), 2);
    it.host.finish();
}
