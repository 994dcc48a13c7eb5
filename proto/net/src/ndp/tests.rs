use super::*;
use crate::addr::Cidr6;
use crate::ipv6::addr::{ALL_NODES, multicast_mac, solicited_node};
use crate::ipv6::{AddrOrigin, AddrState};
use crate::random::Random;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;
use weever_wire::ndp::{NdpOption, NdpOptions, Preference, PrefixInfo, RouterAdvert};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const LATENCY: u64 = 2 * MILLIS;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn cidr(text: &str) -> Cidr6 {
    text.parse().unwrap()
}

fn bytes(message: NdpRepr<'_>) -> Vec<u8> {
    let mut out = std::vec![0; message.buffer_len()];
    message.emit(&mut out, &[0; 32]).unwrap();
    out
}

/// A message that did not cross a router.
fn tell(
    node: &mut Node,
    src: &str,
    dst: Ipv6Addr,
    message: NdpRepr<'_>,
    now: u64,
) -> Result<Outcome, Reject> {
    let message = &bytes(message)[..];
    node.handle(&Received { src: ip(src), dst, message }, now)
}

fn quiet() -> NdpConfig {
    NdpConfig { accept_ra: false, ..NdpConfig::default() }
}

/// Stations on one link, and a clock.
struct Net {
    now: u64,
    nodes: Vec<Node>,
    flying: Vec<(u64, usize, Transmit)>,
    sent: Vec<(u64, usize, Transmit)>,
    unresolved: Vec<(usize, Ipv6Addr)>,
    up: bool,
}

impl Net {
    fn new(nodes: Vec<Node>) -> Net {
        let (flying, sent, unresolved) = (Vec::new(), Vec::new(), Vec::new());
        Net { now: 0, nodes, flying, sent, unresolved, up: true }
    }

    fn pair(config: NdpConfig) -> Net {
        Net::new(
            [(A, 1), (B, 2)].map(|(mac, seed)| Node::new(mac, config, Random::new(seed), 0)).into(),
        )
    }

    fn send(&mut self, from: usize, transmit: Transmit) {
        self.sent.push((self.now, from, transmit));
        if self.up {
            self.flying.push((self.now + LATENCY, from, transmit));
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let arrival = self.flying.iter().map(|f| f.0).min();
            let timers = self.nodes.iter().filter_map(|node| node.poll_at());
            let next = timers.chain(arrival).min().map(|at| at.max(self.now));
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next;
            self.deliver();
            for n in 0..self.nodes.len() {
                let mut actions = Vec::new();
                self.nodes[n].poll(self.now, |action| actions.push(action));
                assert!(self.nodes[n].poll_at().is_none_or(|at| at > self.now));
                for action in actions {
                    match action {
                        Action::Send(transmit) => self.send(n, transmit),
                        Action::Unresolved(ip) => self.unresolved.push((n, ip)),
                        Action::Free(ip) => panic!("{ip}: locals tell of it"),
                    }
                }
            }
        }
        self.now = end;
    }

    fn deliver(&mut self) {
        let due: Vec<_> = self.flying.extract_if(.., |f| f.0 <= self.now).collect();
        for (_, from, transmit) in due {
            for n in (0..self.nodes.len()).filter(|n| *n != from) {
                let mac = transmit.mac.expect("a request carries its sender's link address");
                if mac != self.nodes[n].mac() && !mac.is_multicast() {
                    continue;
                }
                let message = bytes(transmit.message);
                let Transmit { src, dst, .. } = transmit;
                let received = Received { src, dst, message: &message };
                if let Ok(Outcome { reply: Some(reply), .. }) =
                    self.nodes[n].handle(&received, self.now)
                {
                    self.send(n, reply);
                }
            }
        }
    }

    fn lookup(&mut self, n: usize, whom: Ipv6Addr) -> Lookup {
        let found = self.nodes[n].lookup(whom, self.now);
        if let Lookup::MissSendRequest(transmit) = found {
            self.send(n, transmit);
        }
        found
    }

    fn state(&self, n: usize, whom: Ipv6Addr) -> Option<State> {
        self.nodes[n].neighbours().iter().find(|entry| entry.ip == whom).map(|entry| entry.state)
    }

    fn since(&self, at: u64, from: usize) -> Vec<Transmit> {
        self.sent.iter().filter(|s| s.0 >= at && s.1 == from).map(|s| s.2).collect()
    }
}

const A_LL: &str = "fe80::ff:fe00:a";
const B_LL: &str = "fe80::ff:fe00:b";

#[test]
fn an_address_is_asked_for_once_and_then_used() {
    let mut net = Net::pair(quiet());
    assert_eq!(net.nodes[0].locals().get(ip(A_LL)).unwrap().state, AddrState::Tentative);
    net.run_until(3 * SECOND);
    let (probes, announcements): (Vec<_>, Vec<_>) =
        net.since(0, 0).into_iter().partition(|sent| sent.src.is_unspecified());
    assert_eq!((probes.len(), announcements.len()), (1, 2));
    // RFC 4861 §7.2.6: to all nodes, overriding their entry of the address.
    let (dst, target, target_link) = (ALL_NODES, ip(A_LL), Some(A));
    let message = NdpRepr::NeighbourAdvert {
        target,
        router: false,
        solicited: false,
        overrides: true,
        target_link,
    };
    let wanted = Transmit { mac: Some(multicast_mac(dst)), src: target, dst, message };
    assert_eq!(announcements, [wanted; 2]);
    assert!(probes[0].src.is_unspecified());
    assert_eq!(probes[0].dst, solicited_node(ip(A_LL)));
    assert_eq!(probes[0].mac, Some(multicast_mac(probes[0].dst)));
    assert!(net.nodes[0].is_ours(ip(A_LL)) && net.nodes[1].is_ours(ip(B_LL)));
    assert_eq!(net.nodes[0].poll_at(), None, "then there is silence");
}

#[test]
fn a_neighbour_is_found_and_its_absence_noticed() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    let b = ip(B_LL);
    assert!(matches!(net.lookup(0, b), Lookup::MissSendRequest(_)));
    assert_eq!(net.lookup(0, b), Lookup::Incomplete);
    net.run_until(net.now + 10 * MILLIS);
    assert_eq!(net.lookup(0, b), Lookup::Hit(B));
    assert_eq!(net.state(0, b), Some(State::Reachable));
    assert_eq!(net.state(1, ip(A_LL)), Some(State::Stale), "the asker is known too");
    let nobody = ip("fe80::dead");
    let start = net.now;
    net.lookup(0, nobody);
    net.run_until(start + 4 * SECOND);
    assert_eq!(net.since(start, 0).len(), 3);
    assert_eq!(net.unresolved, [(0, nobody)]);
    assert_eq!(net.lookup(0, nobody), Lookup::Failed);
    net.run_until(start + 8 * SECOND);
    assert!(matches!(net.lookup(0, nobody), Lookup::MissSendRequest(_)));
}

#[test]
fn a_neighbour_in_use_is_probed_when_it_went_stale() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    let b = ip(B_LL);
    net.lookup(0, b);
    net.run_until(60 * SECOND);
    assert_eq!(net.state(0, b), Some(State::Stale));
    let start = net.now;
    assert_eq!(net.lookup(0, b), Lookup::Hit(B));
    assert_eq!(net.state(0, b), Some(State::Delay));
    net.run_until(start + 6 * SECOND);
    assert_eq!(net.state(0, b), Some(State::Reachable));
    let asked = net.since(start, 0);
    assert_eq!((asked.len(), asked[0].mac, asked[0].dst), (1, Some(B), b), "by unicast");
    // A transport that makes progress makes probes needless.
    net.run_until(start + 60 * SECOND);
    let start = net.now;
    net.lookup(0, b);
    net.nodes[0].confirm(b, net.now);
    net.run_until(start + 10 * SECOND);
    assert_eq!(net.since(start, 0), []);
}

#[test]
fn a_neighbour_that_went_away_is_given_up_in_the_end() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    let b = ip(B_LL);
    net.lookup(0, b);
    net.run_until(60 * SECOND);
    net.up = false;
    let start = net.now;
    net.lookup(0, b);
    net.run_until(start + 20 * SECOND);
    let groups = net.since(start, 0).iter().filter(|t| t.dst.is_multicast()).count();
    assert_eq!((net.since(start, 0).len(), groups), (6, 3));
    assert_eq!(net.unresolved, [(0, b)]);
}

#[test]
fn whoever_comes_second_gets_no_address() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    let shared = cidr("2001:db8::1/64");
    assert!(net.nodes[0].add_address(shared, net.now));
    net.run_until(6 * SECOND);
    assert!(net.nodes[1].add_address(shared, net.now));
    let before = net.nodes[1].config_generation();
    net.run_until(9 * SECOND);
    assert!(net.nodes[0].is_ours(shared.addr()));
    let second = net.nodes[1].locals().get(shared.addr()).unwrap();
    assert_eq!(second.state, AddrState::Duplicate);
    assert!(net.nodes[1].config_generation() > before);
}

#[test]
fn who_asks_together_gives_up_together() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    let shared = cidr("2001:db8::1/64");
    net.nodes[0].add_address(shared, net.now);
    net.nodes[1].add_address(shared, net.now);
    net.run_until(6 * SECOND);
    for node in &net.nodes {
        assert_eq!(node.locals().get(shared.addr()).unwrap().state, AddrState::Duplicate);
    }
}

#[test]
fn a_stable_identifier_that_is_taken_is_changed() {
    let config = NdpConfig { identifier: Identifier::Stable([1, 2]), ..quiet() };
    let mut net = Net::new([1, 2].map(|seed| Node::new(A, config, Random::new(seed), 0)).into());
    net.run_until(10 * SECOND);
    let used: Vec<_> = net.nodes.iter().filter_map(|node| node.locals().link_local()).collect();
    assert_eq!(used.len(), 2);
    assert_ne!(used[0], used[1]);
    assert!(used.iter().all(|ip| crate::ipv6::addr::is_link_local(*ip)));
}

fn advert(lifetime: u16) -> RouterAdvert {
    RouterAdvert { hop_limit: 50, lifetime, ..RouterAdvert::default() }
}

fn prefix(text: &str, valid: u32, preferred: u32) -> PrefixInfo {
    let cidr = cidr(text);
    PrefixInfo {
        prefix: cidr.addr(),
        prefix_len: cidr.prefix_len(),
        on_link: true,
        autonomous: true,
        valid,
        preferred,
    }
}

fn advertise(
    node: &mut Node,
    from: &str,
    advert: RouterAdvert,
    options: &[NdpOption<'_>],
    now: u64,
) -> Result<Outcome, Reject> {
    let mut area = Vec::new();
    for option in options {
        let mut bytes = std::vec![0; option.buffer_len()];
        option.emit(&mut bytes).unwrap();
        area.extend(bytes);
    }
    let options = NdpOptions::new(&area).unwrap();
    tell(node, from, ALL_NODES, NdpRepr::RouterAdvert { advert, options }, now)
}

const ROUTER: &str = "fe80::1";
const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn settled() -> Node {
    let mut node =
        Node::new(A, NdpConfig { dad_transmits: 0, ..NdpConfig::default() }, Random::new(1), 0);
    node.poll(2 * SECOND, |_| ());
    node
}

#[test]
fn routers_are_asked_for_less_and_less_often_until_one_answers() {
    let mut net = Net::new([Node::new(A, NdpConfig::default(), Random::new(1), 0)].into());
    net.run_until(1000 * SECOND);
    let asked: Vec<u64> = net
        .sent
        .iter()
        .filter(|s| matches!(s.2.message, NdpRepr::RouterSolicit { .. }))
        .map(|s| s.0)
        .collect();
    assert!((7..=9).contains(&asked.len()), "{asked:?}");
    let gaps: Vec<u64> = asked.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.windows(2).all(|w| w[1] > w[0] * 3 / 2), "{gaps:?}");
    advertise(&mut net.nodes[0], ROUTER, advert(1800), &[], net.now).unwrap();
    let before = net.sent.len();
    net.run_until(2500 * SECOND);
    assert_eq!(net.sent.len(), before);
}

#[test]
fn an_advertisement_makes_a_router_a_prefix_and_an_address() {
    let mut node = settled();
    let said = [
        NdpOption::SourceLink(ROUTER_MAC),
        NdpOption::Mtu(1400),
        NdpOption::Prefix(prefix("2001:db8:1::/64", 100, 50)),
        NdpOption::Other(25, &[25, 1, 0, 0, 0, 0, 0, 0]),
    ];
    let now = 10 * SECOND;
    let before = node.config_generation();
    let outcome = advertise(&mut node, ROUTER, advert(90), &said, now).unwrap();
    assert_eq!(outcome.learned.unwrap().mac, ROUTER_MAC);
    assert!(node.config_generation() > before);
    assert_eq!(node.default_router(), Some(ip(ROUTER)));
    assert_eq!(node.on_link().collect::<Vec<_>>(), [cidr("2001:db8:1::/64")]);
    assert!(outcome.low_hop_limit, "fifty hops are too few to be believed");
    assert_eq!(node.params(), Params { hop_limit: 64, mtu: 1400 });
    let farther = RouterAdvert { hop_limit: 70, ..advert(90) };
    assert!(!advertise(&mut node, ROUTER, farther, &[], now).unwrap().low_hop_limit);
    assert_eq!(node.params().hop_limit, 70);
    let made = ip("2001:db8:1::ff:fe00:a");
    let own = node.locals().get(made).unwrap();
    assert_eq!((own.state, own.origin), (AddrState::Preferred, AddrOrigin::Autoconf));
    for (at, state, router, on_link) in [
        (61, Some(AddrState::Deprecated), true, 1),
        (101, Some(AddrState::Deprecated), false, 1),
        (111, None, false, 0),
    ] {
        node.poll(at * SECOND, |_| ());
        assert_eq!(node.locals().get(made).map(|own| own.state), state, "after {at} s");
        assert_eq!(node.default_router().is_some(), router, "after {at} s");
        assert_eq!(node.on_link().count(), on_link, "after {at} s");
    }
}

#[test]
fn a_routers_mtu_holds_below_the_links() {
    let mut node = settled();
    let mtu = |node: &Node| node.params().mtu;
    node.set_mtu(9000);
    assert_eq!(mtu(&node), 9000);
    advertise(&mut node, ROUTER, advert(90), &[NdpOption::Mtu(1400)], SECOND).unwrap();
    for (link, expected) in [(9000, 1400), (1500, 1400), (1300, 1300)] {
        node.set_mtu(link);
        assert_eq!(mtu(&node), expected, "on a link of {link}");
    }
}

#[test]
fn that_a_prefix_has_gone_is_news_by_itself() {
    let mut node = settled();
    let only_on_link = PrefixInfo { autonomous: false, ..prefix("2001:db8:1::/64", 100, 50) };
    let said = [NdpOption::Prefix(only_on_link)];
    advertise(&mut node, ROUTER, advert(9000), &said, 10 * SECOND).unwrap();
    let before = node.config_generation();
    node.poll(109 * SECOND, |_| ());
    assert_eq!((node.on_link().count(), node.config_generation()), (1, before));
    node.poll(110 * SECOND, |_| ());
    assert_eq!(node.on_link().count(), 0);
    assert!(node.config_generation() > before, "readers have to hear of it");
}

#[test]
fn the_two_hour_rule() {
    let mut node = settled();
    let made = ip("2001:db8:1::ff:fe00:a");
    let offer = |node: &mut Node, valid: u32, now: u64| {
        let said = [NdpOption::Prefix(prefix("2001:db8:1::/64", valid, valid.min(10)))];
        advertise(node, ROUTER, advert(0), &said, now).unwrap();
    };
    let holds = |node: &Node, until: u64| {
        let mut later = node.clone();
        later.poll(until - SECOND, |_| ());
        let before = later.locals().get(made).is_some();
        later.poll(until + SECOND, |_| ());
        before && later.locals().get(made).is_none()
    };
    offer(&mut node, 20_000, 10 * SECOND);
    assert!(holds(&node, 20_010 * SECOND));
    offer(&mut node, 60, 20 * SECOND);
    assert!(holds(&node, 7_220 * SECOND), "not below two hours");
    offer(&mut node, 60, 1_000 * SECOND);
    assert!(holds(&node, 7_220 * SECOND), "and then ignored");
    offer(&mut node, 7_000, 1_000 * SECOND);
    assert!(holds(&node, 8_000 * SECOND), "longer than the time left");
}

#[test]
fn the_router_that_wants_it_most_and_is_there() {
    let mut node = settled();
    let high = RouterAdvert { preference: Preference::High, ..advert(100) };
    let link = |last| [NdpOption::SourceLink(MacAddr([2, 0, 0, 0, 0, last]))];
    advertise(&mut node, "fe80::1", advert(100), &link(1), 0).unwrap();
    advertise(&mut node, "fe80::2", high, &link(2), 0).unwrap();
    assert_eq!(node.default_router(), Some(ip("fe80::2")));
    // The second one goes away: the first takes over.
    node.touch(ip("fe80::2"), SECOND);
    for second in 2..20 {
        node.poll(second * SECOND, |_| ());
    }
    assert_eq!(node.default_router(), Some(ip("fe80::1")));
    // The first one says that it is no router any more.
    let target = ip("fe80::1");
    let plain = NdpRepr::NeighbourAdvert {
        target,
        router: false,
        solicited: false,
        overrides: true,
        target_link: None,
    };
    tell(&mut node, "fe80::1", ALL_NODES, plain, 20 * SECOND).unwrap();
    assert_eq!(node.default_router(), Some(ip("fe80::2")), "better than none");
    advertise(&mut node, "fe80::2", advert(0), &[], 30 * SECOND).unwrap();
    assert_eq!(node.default_router(), None);
}

#[test]
fn a_flood_of_advertisements_is_bounded() {
    let mut node = settled();
    let mut rejects = Vec::new();
    for n in 0..200u16 {
        let said: Vec<_> = (0..4)
            .map(|m| NdpOption::Prefix(prefix(&std::format!("2001:db8:{n:x}:{m}::/64"), 100, 100)))
            .collect();
        let from = std::format!("fe80::{n:x}");
        let now = 10 * SECOND + u64::from(n) * 200 * MILLIS;
        rejects.extend(advertise(&mut node, &from, advert(1000), &said, now).err());
    }
    assert!(node.locals().iter().count() <= MAX_ADDRESSES);
    assert!(node.on_link().count() <= MAX_PREFIXES);
    assert!(rejects.iter().all(|why| *why == Reject::Full) && rejects.len() > 100);
    let burst: Vec<_> = (0..50)
        .filter_map(|_| advertise(&mut node, "fe80::1", advert(1), &[], 100 * SECOND).err())
        .collect();
    assert!(burst.contains(&Reject::Limited));
}

#[test]
fn what_no_neighbour_would_say_is_refused() {
    let mut node = settled();
    let ll = ip(A_LL);
    let solicit =
        |target, link| NdpRepr::NeighbourSolicit { target, source_link: link, nonce: None };
    let group = solicited_node(ll);
    let message = bytes(solicit(ll, Some(B)));
    let short = Received { src: ip(B_LL), dst: group, message: &message[..20] };
    assert_eq!(node.handle(&short, 0), Err(Reject::Malformed));
    let mut ask = |src: &str, dst, message| tell(&mut node, src, dst, message, 0).err();
    assert_eq!(ask("::", ll, solicit(ll, None)), Some(Reject::Addresses), "a probe to one station");
    assert_eq!(ask("::", group, solicit(ll, Some(B))), Some(Reject::Addresses));
    assert_eq!(ask(B_LL, group, solicit(ip("ff02::1"), Some(B))), Some(Reject::Addresses));
    assert_eq!(ask(B_LL, group, solicit(ll, Some(MacAddr::BROADCAST))), Some(Reject::Addresses));
    assert_eq!(ask(B_LL, group, solicit(ip("fe80::77"), Some(B))), Some(Reject::NotOurs));
    assert_eq!(ask(A_LL, group, solicit(ll, Some(B))), Some(Reject::Conflict));
    let tell_all = |target, solicited| NdpRepr::NeighbourAdvert {
        target,
        router: false,
        solicited,
        overrides: true,
        target_link: Some(B),
    };
    assert_eq!(ask(B_LL, ALL_NODES, tell_all(ip(B_LL), true)), Some(Reject::Addresses));
    assert_eq!(ask(B_LL, ALL_NODES, tell_all(ip(B_LL), false)), Some(Reject::NotOurs), "unasked");
    assert_eq!(ask(B_LL, ALL_NODES, tell_all(ll, false)), Some(Reject::Conflict));
    let rs = NdpRepr::RouterSolicit { source_link: Some(B) };
    assert_eq!(ask(B_LL, ALL_NODES, rs), Some(Reject::NotAccepted));
    let ra = NdpRepr::RouterAdvert { advert: advert(9), options: NdpOptions::default() };
    assert_eq!(ask("2001:db8::1", ALL_NODES, ra), Some(Reject::Addresses), "not from the link");
    assert!(node.is_ours(ll), "an address in use is kept");
    assert_eq!(node.neighbours().iter().count(), 0);
}

#[test]
fn a_redirect_comes_from_the_router_of_the_destination() {
    let mut node = settled();
    let redirect = |target: &str| NdpRepr::Redirect {
        target: ip(target),
        destination: ip("2600::1"),
        target_link: Some(B),
    };
    let mut ask = |src: &str, message| tell(&mut node, src, ip(A_LL), message, SECOND);
    assert_eq!(ask(ROUTER, redirect("fe80::2")), Err(Reject::NotOurs));
    assert_eq!(ask("2001:db8::1", redirect("fe80::2")), Err(Reject::Addresses));
    assert_eq!(ask(ROUTER, redirect("2001:db8::2")), Err(Reject::Addresses));
    advertise(&mut node, ROUTER, advert(100), &[], SECOND).unwrap();
    let taken = tell(&mut node, ROUTER, ip(A_LL), redirect("fe80::2"), SECOND).unwrap();
    assert_eq!(taken.redirect, Some((ip("2600::1"), ip("fe80::2"))));
    assert_eq!((taken.learned, node.neighbours().mac(ip("fe80::2"))), (None, None), "not followed");
}

/// A station on the link says in a router's name that it is none, from another link address and without the
/// override flag: RFC 4861 §7.2.5 has that ignored, and the router stays.
#[test]
fn an_advertisement_that_is_ignored_removes_no_router() {
    let mut node = settled();
    let link = [NdpOption::SourceLink(ROUTER_MAC)];
    advertise(&mut node, ROUTER, advert(1800), &link, SECOND).unwrap();
    let claim = |target_link, overrides| NdpRepr::NeighbourAdvert {
        target: ip(ROUTER),
        router: false,
        solicited: false,
        overrides,
        target_link,
    };
    tell(&mut node, ROUTER, ALL_NODES, claim(Some(B), false), SECOND).unwrap();
    assert_eq!(node.default_router(), Some(ip(ROUTER)));
    assert_eq!(node.neighbours().mac(ip(ROUTER)), Some(ROUTER_MAC));
    tell(&mut node, ROUTER, ALL_NODES, claim(Some(ROUTER_MAC), false), SECOND).unwrap();
    assert_eq!(node.default_router(), None, "from the router's own link address it holds");
}

/// One station floods us with solicitations: others are still answered.
#[test]
fn a_flood_of_solicitations_from_one_station_leaves_others_answered() {
    let mut node = settled();
    let mut solicit = |src: Ipv6Addr| {
        let (target, source_link, nonce) = (ip(A_LL), Some(B), None);
        let message = bytes(NdpRepr::NeighbourSolicit { target, source_link, nonce });
        let dst = solicited_node(target);
        node.handle(&Received { src, dst, message: &message }, 5 * SECOND)
    };
    let answered = (0..10_000).filter(|_| solicit(ip("fe80::66")).is_ok()).count();
    assert_eq!(answered, 10);
    let others = (1..=50u16)
        .filter(|n| solicit(Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(*n) << 8)).is_ok());
    assert!(others.count() >= 48);
}

/// Strangers invent sources without number; a neighbour that we have sent to has its own limit.
#[test]
fn a_flood_of_solicitations_from_strangers_leaves_a_known_neighbour_answered() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    net.lookup(0, ip(B_LL));
    net.run_until(4 * SECOND);
    let ask = |node: &mut Node, src: Ipv6Addr| {
        let (target, source_link, nonce) = (ip(A_LL), Some(B), None);
        let message = bytes(NdpRepr::NeighbourSolicit { target, source_link, nonce });
        let dst = solicited_node(target);
        node.handle(&Received { src, dst, message: &message }, 5 * SECOND).is_ok()
    };
    let node = &mut net.nodes[0];
    node.touch(ip(B_LL), 4 * SECOND);
    let strangers = (0..20_000u128).map(|n| Ipv6Addr::from_bits(0xfe80 << 112 | 1 << 40 | n));
    let answered = strangers.filter(|src| ask(node, *src)).count();
    assert!(answered < 256 * 10 + 1, "{answered}");
    assert!(!ask(node, Ipv6Addr::from_bits(0xfe80 << 112 | 1 << 41)));
    assert!(ask(node, ip(B_LL)), "the neighbour in use is answered");
}

#[test]
fn an_advertisement_without_the_override_flag_changes_no_address() {
    let mut net = Net::pair(quiet());
    net.run_until(3 * SECOND);
    let b = ip(B_LL);
    net.lookup(0, b);
    net.run_until(4 * SECOND);
    let liar = MacAddr([2, 0, 0, 0, 0, 0x66]);
    let said = |overrides| NdpRepr::NeighbourAdvert {
        target: b,
        router: false,
        solicited: false,
        overrides,
        target_link: Some(liar),
    };
    tell(&mut net.nodes[0], B_LL, ALL_NODES, said(false), net.now).unwrap();
    assert_eq!((net.state(0, b), net.lookup(0, b)), (Some(State::Stale), Lookup::Hit(B)));
    let outcome = tell(&mut net.nodes[0], B_LL, ALL_NODES, said(true), net.now).unwrap();
    assert_eq!(outcome.learned.unwrap().replaces, Some(B));
    // It is believed until the next probe, which brings the truth back.
    net.lookup(0, b);
    net.run_until(net.now + 20 * SECOND);
    assert_eq!(net.lookup(0, b), Lookup::Hit(B));
}

#[test]
fn a_flood_of_solicitations_evicts_its_own_inventions() {
    let config = NdpConfig { capacity: 8, ..quiet() };
    let mut net = Net::pair(config);
    net.run_until(3 * SECOND);
    net.lookup(0, ip(B_LL));
    net.run_until(4 * SECOND);
    net.lookup(0, ip(B_LL));
    let solicit = NdpRepr::NeighbourSolicit { target: ip(A_LL), source_link: Some(B), nonce: None };
    for n in 0..100 {
        let src = std::format!("fe80::1:{n:x}");
        let now = net.now;
        tell(&mut net.nodes[0], &src, solicited_node(ip(A_LL)), solicit, now).unwrap();
    }
    assert_eq!(net.nodes[0].neighbours().iter().count(), 8);
    assert_eq!(net.lookup(0, ip(B_LL)), Lookup::Hit(B));
    let mut open = 0;
    while matches!(
        net.nodes[0].lookup(ip(&std::format!("fe80::2:{open:x}")), net.now),
        Lookup::MissSendRequest(_)
    ) {
        open += 1;
    }
    assert_eq!(open, 4, "half of the table");
}

proptest! {
    /// Any messages at any times: bounds hold, nothing panics, and the timer is never stuck.
    #[test]
    fn anything_may_come(
        steps in vec((133u8..138, vec(any::<u8>(), 7..80), any::<u8>(), 0u64..5_000), 0..60),
    ) {
        let mut node = Node::new(A, NdpConfig { capacity: 4, ..NdpConfig::default() }, Random::new(7), 0);
        let mut now = 0;
        for (kind, mut message, how, wait) in steps {
            now += wait * MILLIS;
            message.splice(0..0, [kind]);
            message[1] = 0;
            if how & 1 == 0 && message.len() >= 24 {
                message[8..24].copy_from_slice(&ip(A_LL).octets());
            }
            let src = if how & 2 == 0 { ip(ROUTER) } else { ip("::") };
            let dst = if how & 4 == 0 { solicited_node(ip(A_LL)) } else { ALL_NODES };
            let _ = node.handle(&Received { src, dst, message: &message }, now);
            node.poll(now, |_| ());
            prop_assert!(node.poll_at().is_none_or(|at| at > now));
            prop_assert!(node.neighbours().iter().count() <= 4);
            prop_assert!(node.locals().iter().count() <= MAX_ADDRESSES);
        }
    }
}
