use super::*;
use crate::addr::{Cidr, Locals};
use crate::neighbour::Demand;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

const US: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const US_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A cache which has made its announcements.
fn quiet(config: ArpConfig) -> Cache {
    let locals = Locals::new(&[Cidr::new(US_IP, 24).unwrap()]);
    let mut cache = Cache::new(US, locals, config, 0);
    cache.poll(0, |_| {});
    cache.poll(2 * SECOND, |_| {});
    cache
}

/// The time after that.
const T: u64 = 10 * SECOND;

fn polled(cache: &mut Cache, now: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    cache.poll(now, |action| actions.push(action));
    actions
}

fn arp(op: u16, sha: MacAddr, spa: Ipv4Addr, tpa: Ipv4Addr) -> ArpRepr {
    ArpRepr { op, sha, spa, tha: MacAddr::ZERO, tpa }
}

fn reply_from_peer(cache: &mut Cache, now: u64) -> Outcome {
    cache.handle(&arp(op::REPLY, PEER, PEER_IP, US_IP), now)
}

fn state(cache: &Cache, ip: Ipv4Addr) -> Option<State> {
    cache.neighbours().iter().find(|neighbour| neighbour.ip == ip).map(|neighbour| neighbour.state)
}

fn request_to(dst: MacAddr) -> Transmit {
    Transmit::request(dst, US, US_IP, PEER_IP)
}

#[test]
fn tentative_addresses_are_probed_before_use() {
    let locals = Locals::new(&[Cidr::new(US_IP, 24).unwrap()]);
    let wanted = Ipv4Addr::new(10, 0, 0, 77);
    let tentative = Locals::new(&[Cidr::new(wanted, 24).unwrap()]);
    let fresh = || {
        let mut cache = Cache::new(US, locals.clone(), ArpConfig::default(), 0);
        cache.set_tentative(&tentative, 0);
        cache
    };
    let mut cache = fresh();
    let (mut probes, mut free) = (std::vec![], std::vec![]);
    for tenth in 0..100u64 {
        let now = tenth * SECOND / 10;
        cache.poll(now, |action| match action {
            Action::Send(sent) if sent.arp.tpa == wanted => probes.push((now, sent.arp.spa)),
            Action::Free(ip) => free.push((now, ip)),
            _ => {}
        });
    }
    let unspecified = Ipv4Addr::UNSPECIFIED;
    let at = |tenths: u64| (tenths * SECOND / 10, unspecified);
    assert_eq!(probes, [at(0), at(15), at(30)]);
    assert_eq!(free, [(5 * SECOND, wanted)]);

    // Its owner answers; or another station asks for it, too.
    let owner = ArpRepr { op: 2, sha: PEER, spa: wanted, tha: US, tpa: unspecified };
    let rival = ArpRepr { op: 1, sha: PEER, spa: unspecified, tha: MacAddr::ZERO, tpa: wanted };
    for packet in [owner, rival] {
        let mut cache = fresh();
        let outcome = cache.handle(&packet, 1);
        assert_eq!(outcome.verdict, Verdict::Duplicate { ip: wanted, mac: PEER });
        assert!(outcome.reply.is_none() && !cache.is_tentative(wanted));
    }
    // Our own probe that comes back is no rival.
    let mut cache = fresh();
    cache.handle(&ArpRepr { sha: US, ..rival }, 1);
    assert!(cache.is_tentative(wanted));
}

#[test]
fn a_question_is_asked_once_and_answered() {
    let mut cache = quiet(ArpConfig::default());
    let asked = Lookup::MissSendRequest(request_to(MacAddr::BROADCAST));
    assert!(cache.neighbours().state(PEER_IP).is_none());
    assert_eq!(cache.lookup(PEER_IP, T), asked);
    assert!(cache.neighbours().state(PEER_IP).is_some(), "asked for");
    assert_eq!(cache.lookup(PEER_IP, T), Lookup::Incomplete);
    let generation = cache.neighbours().generation();
    let learned = reply_from_peer(&mut cache, T + 1).learned;
    let wanted = Learned { ip: PEER_IP, mac: PEER, resolves: true, replaces: None };
    assert_eq!(learned, Some(wanted));
    assert!(cache.neighbours().generation() > generation);
    assert_eq!(cache.lookup(PEER_IP, T + 2), Lookup::Hit(PEER));
    assert!(
        cache.neighbours().state(PEER_IP).is_some() && cache.neighbours().state(US_IP).is_none()
    );
}

#[test]
fn the_frame_is_whole() {
    let mut frame = [0; Transmit::FRAME_LEN];
    request_to(MacAddr::BROADCAST).emit(&mut frame).unwrap();
    assert_eq!(frame[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6]);
    assert_eq!(frame[14..22], [0, 1, 8, 0, 6, 4, 0, 1]);
    assert!(request_to(PEER).emit(&mut frame[..41]).is_err());
}

#[test]
fn an_absent_neighbour_fails_after_all_tries_and_is_left_alone_for_a_while() {
    let mut cache = quiet(ArpConfig::default());
    cache.lookup(PEER_IP, T);
    let again = Action::Send(request_to(MacAddr::BROADCAST));
    assert_eq!(cache.poll_at(), Some(T + SECOND));
    assert_eq!(polled(&mut cache, T + SECOND - 1), []);
    assert_eq!(polled(&mut cache, T + SECOND), [again]);
    assert_eq!(polled(&mut cache, T + 2 * SECOND), [again]);
    assert_eq!(polled(&mut cache, T + 3 * SECOND), [Action::Unresolved(PEER_IP)]);
    assert_eq!(cache.lookup(PEER_IP, T + 3 * SECOND), Lookup::Failed);
    let late = T + 6 * SECOND;
    assert!(matches!(cache.lookup(PEER_IP, late), Lookup::MissSendRequest(_)));
    assert_eq!(cache.neighbours().iter().count(), 1);
}

#[test]
fn a_used_neighbour_is_asked_before_it_expires_and_stays_usable() {
    let mut cache = quiet(ArpConfig::default());
    cache.lookup(PEER_IP, T);
    reply_from_peer(&mut cache, T);
    cache.lookup(PEER_IP, T + SECOND);
    let (due, generation) = (T + 30 * SECOND, cache.neighbours().generation());
    assert_eq!(polled(&mut cache, due), [Action::Send(request_to(PEER))]);
    assert_eq!(cache.neighbours().generation(), generation, "readers need not know");
    assert_eq!(state(&cache, PEER_IP), Some(State::Probe));
    assert_eq!(cache.lookup(PEER_IP, due), Lookup::Hit(PEER));
    reply_from_peer(&mut cache, due + 1);
    assert_eq!(state(&cache, PEER_IP), Some(State::Reachable));
}

#[test]
fn a_neighbour_that_moved_is_found_again_by_broadcast() {
    let mut cache = quiet(ArpConfig::default());
    cache.lookup(PEER_IP, T);
    reply_from_peer(&mut cache, T);
    cache.lookup(PEER_IP, T + SECOND);
    let (due, unicast) = (T + 30 * SECOND, Action::Send(request_to(PEER)));
    for second in 0..3 {
        assert_eq!(polled(&mut cache, due + second * SECOND), [unicast]);
    }
    let generation = cache.neighbours().generation();
    let broadcast = Action::Send(request_to(MacAddr::BROADCAST));
    assert_eq!(polled(&mut cache, due + 3 * SECOND), [broadcast]);
    assert!(cache.neighbours().generation() > generation, "the address is withdrawn from readers");
    assert_eq!(cache.lookup(PEER_IP, due + 3 * SECOND), Lookup::Incomplete);
    let outcome = cache.handle(&arp(op::REPLY, OTHER, PEER_IP, US_IP), due + 4 * SECOND);
    assert_eq!(outcome.learned.map(|l| (l.mac, l.resolves)), Some((OTHER, true)));
}

#[test]
fn an_unused_neighbour_goes_stale_and_away() {
    let mut cache = quiet(ArpConfig::default());
    cache.lookup(PEER_IP, T);
    reply_from_peer(&mut cache, T);
    let stale = T + 30 * SECOND;
    assert_eq!(polled(&mut cache, stale), []);
    assert_eq!(state(&cache, PEER_IP), Some(State::Stale));
    let gone = stale + 300 * SECOND;
    assert_eq!(cache.poll_at(), Some(gone));
    assert_eq!(polled(&mut cache, gone), []);
    assert_eq!((state(&cache, PEER_IP), cache.poll_at()), (None, None));
}

#[test]
fn a_stale_neighbour_that_is_used_again_is_asked_at_once() {
    let mut cache = quiet(ArpConfig::default());
    cache.lookup(PEER_IP, T);
    reply_from_peer(&mut cache, T);
    let later = T + 40 * SECOND;
    polled(&mut cache, later);
    cache.touch(PEER_IP, later);
    assert_eq!(cache.poll_at(), Some(later));
    assert_eq!(polled(&mut cache, later), [Action::Send(request_to(PEER))]);
}

#[test]
fn requests_to_us_are_answered_and_remembered() {
    let mut cache = quiet(ArpConfig::default());
    let outcome = cache.handle(&arp(op::REQUEST, PEER, PEER_IP, US_IP), T);
    let answer = ArpRepr { op: op::REPLY, sha: US, spa: US_IP, tha: PEER, tpa: PEER_IP };
    assert_eq!(outcome.reply, Some(Transmit { dst: PEER, arp: answer }));
    assert_eq!(cache.lookup(PEER_IP, T), Lookup::Hit(PEER));
}

#[test]
fn only_requests_to_us_from_neighbours_make_entries() {
    let mut cache = quiet(ArpConfig::default());
    let far = Ipv4Addr::new(172, 16, 0, 1);
    for packet in [
        arp(op::REQUEST, PEER, PEER_IP, PEER_IP),
        arp(op::REQUEST, PEER, PEER_IP, Ipv4Addr::new(10, 0, 0, 9)),
        arp(op::REPLY, PEER, PEER_IP, US_IP),
        arp(op::REQUEST, PEER, Ipv4Addr::UNSPECIFIED, US_IP),
        arp(op::REQUEST, PEER, far, US_IP),
    ] {
        let outcome = cache.handle(&packet, T);
        assert_eq!((outcome.verdict, outcome.learned), (Verdict::Taken, None), "{packet:?}");
        let asks_us = packet.op == op::REQUEST && packet.tpa == US_IP;
        assert_eq!(outcome.reply.is_some(), asks_us, "probes are answered, RFC 5227 §2.1.1");
    }
    assert_eq!(cache.neighbours().iter().count(), 0);
}

#[test]
fn a_gratuitous_announcement_updates_what_is_known() {
    let mut cache = quiet(ArpConfig::default());
    cache.lookup(PEER_IP, T);
    reply_from_peer(&mut cache, T);
    let generation = cache.neighbours().generation();
    let outcome = cache.handle(&arp(op::REQUEST, OTHER, PEER_IP, PEER_IP), T + 1);
    let wanted = Learned { ip: PEER_IP, mac: OTHER, resolves: false, replaces: Some(PEER) };
    assert_eq!(outcome.learned, Some(wanted));
    assert!(cache.neighbours().generation() > generation);
    let generation = cache.neighbours().generation();
    cache.handle(&arp(op::REQUEST, OTHER, PEER_IP, PEER_IP), T + 2);
    assert_eq!(cache.neighbours().generation(), generation, "nothing new for readers");
}

#[test]
fn static_entries_stay_as_they_are() {
    let mut cache = quiet(ArpConfig { capacity: 2, ..ArpConfig::default() });
    cache.neighbours_mut().insert_static(PEER_IP, PEER, T).unwrap();
    let outcome = cache.handle(&arp(op::REQUEST, OTHER, PEER_IP, US_IP), T);
    assert_eq!((outcome.learned, outcome.reply.is_some()), (None, true));
    assert_eq!(polled(&mut cache, u64::MAX - 1), []);
    assert_eq!(cache.lookup(PEER_IP, T), Lookup::Hit(PEER));
    cache.neighbours_mut().insert_static(US_IP, OTHER, T).unwrap();
    assert_eq!(
        cache.neighbours_mut().insert_static(Ipv4Addr::new(10, 0, 0, 3), OTHER, T),
        Err(TableFull)
    );
    assert_eq!(cache.lookup(Ipv4Addr::new(10, 0, 0, 4), T), Lookup::Full);
    let removed =
        cache.neighbours_mut().remove(PEER_IP).map(|neighbour| (neighbour.mac, neighbour.state));
    assert_eq!(removed, Some((Some(PEER), State::Static)));
    assert_eq!(cache.neighbours_mut().remove(PEER_IP), None);
}

#[test]
fn bad_senders_and_loops() {
    let mut cache = quiet(ArpConfig::default());
    let mut judged = |op, sha, spa| cache.handle(&arp(op, sha, spa, US_IP), T).verdict;
    assert_eq!(judged(3, PEER, PEER_IP), Verdict::UnknownOp);
    assert_eq!(judged(1, US, PEER_IP), Verdict::Loop);
    assert_eq!(judged(1, MacAddr::BROADCAST, PEER_IP), Verdict::BadSender);
    assert_eq!(judged(1, MacAddr::ZERO, PEER_IP), Verdict::BadSender);
    for spa in ["127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.0.255", "0.0.0.1"] {
        assert_eq!(judged(1, PEER, spa.parse().unwrap()), Verdict::BadSender, "{spa}");
    }
    assert_eq!(judged(2, PEER, Ipv4Addr::UNSPECIFIED), Verdict::BadSender);
}

#[test]
fn a_conflict_is_reported_and_the_address_defended_unless_it_goes_on() {
    let mut cache = quiet(ArpConfig::default());
    let thief = arp(op::REQUEST, OTHER, US_IP, US_IP);
    let defence = Some(Transmit::request(MacAddr::BROADCAST, US, US_IP, US_IP));
    for (now, reply) in
        [(T, defence), (T + 9 * SECOND, None), (T + 18 * SECOND, None), (T + 28 * SECOND, defence)]
    {
        let outcome = cache.handle(&thief, now);
        assert_eq!(outcome.verdict, Verdict::Conflict { ip: US_IP, mac: OTHER });
        assert_eq!((outcome.reply, outcome.learned), (reply, None));
    }
}

#[test]
fn addresses_are_announced_twice() {
    let locals = Locals::new(&[Cidr::new(US_IP, 24).unwrap()]);
    let mut cache = Cache::new(US, locals, ArpConfig::default(), T);
    let announcement = Action::Send(Transmit::request(MacAddr::BROADCAST, US, US_IP, US_IP));
    assert_eq!(polled(&mut cache, T), [announcement]);
    assert_eq!(cache.poll_at(), Some(T + 2 * SECOND));
    let both = Locals::new(&[US_IP, PEER_IP].map(|ip| Cidr::new(ip, 24).unwrap()));
    cache.set_locals(both, T + SECOND);
    let second = Action::Send(Transmit::request(MacAddr::BROADCAST, US, PEER_IP, PEER_IP));
    for (now, due, next) in [(1, second, Some(2)), (2, announcement, Some(3)), (3, second, None)] {
        assert_eq!(polled(&mut cache, T + now * SECOND), [due]);
        assert_eq!(cache.poll_at(), next.map(|next| T + next * SECOND));
    }
}

#[test]
fn questions_without_answers_leave_room_for_others() {
    let mut cache = quiet(ArpConfig { capacity: 8, ..ArpConfig::default() });
    for host in 100..104 {
        let asked = cache.lookup(Ipv4Addr::new(10, 0, 0, host), T);
        assert!(matches!(asked, Lookup::MissSendRequest(_)));
    }
    assert_eq!(cache.lookup(PEER_IP, T), Lookup::Full);
    cache.handle(&arp(op::REQUEST, PEER, PEER_IP, US_IP), T);
    assert_eq!(cache.lookup(PEER_IP, T), Lookup::Hit(PEER));
    for second in 1..=3 {
        polled(&mut cache, T + second * SECOND);
    }
    let asked = cache.lookup(Ipv4Addr::new(10, 0, 0, 200), T + 3 * SECOND);
    assert!(matches!(asked, Lookup::MissSendRequest(_)), "room again once the others failed");
}

/// RFC 6583: strangers make us ask for absent neighbours, since we answer them or forward their
/// packets.
#[test]
fn questions_that_strangers_provoke_leave_room_for_our_own() {
    let mut cache = quiet(ArpConfig { capacity: 64, ..ArpConfig::default() });
    let ip = |host| Ipv4Addr::new(10, 0, 0, host);
    let provoked: Vec<_> =
        (100..200).map(|host| cache.lookup_for(ip(host), Demand::Provoked, T)).collect();
    let asked = provoked.iter().filter(|found| matches!(found, Lookup::MissSendRequest(_))).count();
    assert_eq!((asked, provoked[99]), (24, Lookup::Full));
    let own = (200..250).filter(|&host| cache.lookup(ip(host), T) != Lookup::Full).count();
    assert_eq!(own, 8);
}

/// 100,000 requests in a burst once got as many answers.
#[test]
fn requests_from_one_sender_are_answered_so_often_only() {
    let mut cache = quiet(ArpConfig::default());
    let mut ask = |spa| cache.handle(&arp(op::REQUEST, OTHER, spa, US_IP), T);
    let answered = (0..100_000).filter(|_| ask(Ipv4Addr::new(10, 0, 0, 9)).reply.is_some()).count();
    assert_eq!((answered, ask(Ipv4Addr::new(10, 0, 0, 9)).verdict), (10, Verdict::Limited));
    let others = (10..60).filter(|&host| ask(Ipv4Addr::new(10, 0, 0, host)).reply.is_some());
    assert!(others.count() >= 47, "few share its limit");
}

#[test]
fn a_flood_of_invented_neighbours_does_not_evict_the_one_in_use() {
    let mut cache = quiet(ArpConfig { capacity: 8, ..ArpConfig::default() });
    cache.handle(&arp(op::REQUEST, PEER, PEER_IP, US_IP), T);
    cache.lookup(PEER_IP, T);
    for host in 3..=254 {
        let spa = Ipv4Addr::new(10, 0, 0, host);
        assert!(cache.handle(&arp(op::REQUEST, OTHER, spa, US_IP), T + 1).reply.is_some());
    }
    assert_eq!(cache.neighbours().iter().count(), 8);
    assert_eq!(cache.lookup(PEER_IP, T + 2), Lookup::Hit(PEER));
}

#[derive(Clone, Debug)]
enum Event {
    Lookup(u8),
    Packet { op: u16, mac: u8, spa: u8, tpa: u8 },
    Pass(u64),
    Static(u8),
    Remove(u8),
    Touch(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let host = 0u8..16;
    prop_oneof![
        4 => host.clone().prop_map(Event::Lookup),
        4 => (1u16..3, 1u8..5, host.clone(), host.clone())
            .prop_map(|(op, mac, spa, tpa)| Event::Packet { op, mac, spa, tpa }),
        4 => (0u64..40_000).prop_map(|ms| Event::Pass(ms * crate::MILLIS)),
        1 => host.clone().prop_map(Event::Static),
        1 => host.clone().prop_map(Event::Remove),
        1 => host.prop_map(Event::Touch),
    ]
}

fn resolved(cache: &Cache) -> Vec<(Ipv4Addr, MacAddr)> {
    cache.neighbours().resolved().collect()
}

proptest! {
    /// After any sequence of events: the table stays within its bound and sorted, readers that
    /// follow the generation see the same as a lookup, all due work is done, and no neighbour is
    /// asked by broadcast more often than the limit allows.
    #[test]
    fn invariants(events in vec(event(), 1..120)) {
        let config = ArpConfig { capacity: 6, ..ArpConfig::default() };
        let (mut cache, mut now) = (quiet(config), T);
        let mut seen = (cache.neighbours().generation(), resolved(&cache));
        let ip = |host| Ipv4Addr::new(10, 0, 0, host);
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        for event in events {
            match event {
                Event::Lookup(host) => {
                    let known = resolved(&cache).into_iter().find(|(known, _)| *known == ip(host));
                    let hit = match cache.lookup(ip(host), now) {
                        Lookup::Hit(mac) => Some(mac),
                        _ => None,
                    };
                    prop_assert_eq!(hit, known.map(|(_, mac)| mac));
                }
                Event::Packet { op, mac: last, spa, tpa } => {
                    cache.handle(&arp(op, mac(last), ip(spa), ip(tpa)), now);
                }
                Event::Pass(by) => {
                    now += by;
                    let mut asked = Vec::new();
                    cache.poll(now, |action| {
                        if let Action::Send(transmit) = action { asked.push(transmit.arp.tpa) }
                    });
                    let requests = asked.len();
                    asked.dedup();
                    prop_assert_eq!(asked.len(), requests, "one request per neighbour and poll");
                    prop_assert!(cache.poll_at().is_none_or(|at| at > now));
                }
                Event::Static(host) => { let _ = cache.neighbours_mut().insert_static(ip(host), mac(9), now); }
                Event::Remove(host) => { cache.neighbours_mut().remove(ip(host)); }
                Event::Touch(host) => cache.touch(ip(host), now),
            }
            prop_assert!(cache.neighbours().iter().count() <= 6);
            let order: Vec<_> = cache.neighbours().iter().map(|neighbour| neighbour.ip).collect();
            prop_assert!(order.is_sorted());
            let is_incomplete = |n: &Neighbour| n.state == State::Incomplete;
            let asked = cache.neighbours().iter().filter(is_incomplete).count();
            prop_assert_eq!(asked, cache.entries.incomplete);
            let new = (cache.neighbours().generation(), resolved(&cache));
            prop_assert!(new.1 == seen.1 || new.0 > seen.0);
            seen = new;
        }
    }
}
