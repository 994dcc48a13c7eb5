use std::net::Ipv4Addr;

use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{HostBox, env, frames::*, host::host_state};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, Service, host};
use weever_wire::MacAddr;

const SECOND: u64 = 1_000_000_000;
const LOOKUP: &str = "TxL3ARPLookup_";

/// A host that has announced itself and knows no neighbour.
fn lonely() -> HostBox {
    let mut host = HostBox::new(host(&HostConfig::serving(Service::Echo, 7)).unwrap());
    host.advance(5 * SECOND);
    host.sent();
    host
}

fn request() -> Vec<u8> {
    arp(1, (HOST_MAC, HOST), (MacAddr::ZERO, PEER))
}

fn payloads(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().map(|frame| frame[42]).collect()
}

#[test]
fn packets_wait_for_their_neighbour_and_leave_in_order() {
    let mut host = lonely();
    let asked: Vec<Vec<u8>> = (0..40).map(|i| udp(5000, 7, &[i])).collect();
    host.receive(&asked);
    assert_eq!(host.sent(), [request()], "one question, however many wait");
    assert_eq!(host.total("blocked_now"), 40);
    host.check_fates();
    host.receive(&[arp_reply()]);
    let sent = host.sent();
    assert_eq!(payloads(&sent), (0..40).collect::<Vec<u8>>());
    assert!(sent.iter().all(|frame| frame[..6] == PEER_MAC.0));
    assert_eq!((host.total("blocked_now"), host.drops()), (0, vec![]));
    host.finish();
}

#[test]
fn a_request_from_the_neighbour_is_an_answer_too() {
    let mut host = lonely();
    host.receive(&[udp(5000, 7, b"x")]);
    host.receive(&[arp_request(HOST)]);
    assert_eq!(host.sent().len(), 3, "our question, our answer, and the echo");
    host.finish();
}

#[test]
fn questions_are_repeated_and_then_given_up() {
    let mut host = lonely();
    host.receive(&vec![udp(5000, 7, b"x"); 5]);
    host.advance(4 * SECOND);
    assert_eq!(host.sent(), vec![request(); 3]);
    let reason = "neighbour does not answer ARP";
    assert_eq!(host.count(LOOKUP, CounterKind::Drop, reason), 5);
    host.receive(&[udp(5000, 7, b"x")]);
    assert_eq!(host.count(LOOKUP, CounterKind::Drop, reason), 6, "not asked again at once");
    host.advance(4 * SECOND);
    host.receive(&[udp(5000, 7, b"x")]);
    assert_eq!(host.sent(), [request()], "but after a while");
    host.finish();
}

#[test]
fn a_flood_for_silent_neighbours_is_bounded() {
    let mut host = lonely();
    for from in 2..=250u8 {
        let src = std::net::SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, from), 5000);
        let dst = std::net::SocketAddrV4::new(HOST, 7);
        host.receive(&vec![from_peer(&udp_datagram(src, dst, b"x")); 100]);
    }
    assert!(host.total("blocked_now") <= 1024);
    host.check_fates();
    host.advance(10 * SECOND);
    assert_eq!(host.total("blocked_now"), 0);
    host.sent();
    host.finish();
}

#[test]
fn a_used_neighbour_is_kept_fresh_by_asking_it() {
    let mut host = lonely();
    host.receive(&[arp_request(HOST)]);
    host.sent();
    let mut asked = 0;
    for _ in 0..100 {
        host.receive(&[udp(5000, 7, b"x")]);
        host.advance(SECOND);
        let sent = host.sent();
        let questions = sent.iter().filter(|f| f[12..14] == [8, 6] && f[..6] == PEER_MAC.0);
        if questions.count() > 0 {
            asked += 1;
            host.receive(&[arp_reply()]);
        }
        assert!(sent.iter().any(|f| f[12..14] == [8, 0]), "echoes never pause");
    }
    assert!((2..=5).contains(&asked), "{asked}");
    host.finish();
}

#[test]
fn an_announcement_moves_a_known_neighbour() {
    let mut host = lonely();
    host.receive(&[arp_request(HOST)]);
    let moved = MacAddr([2, 0, 0, 0, 0, 9]);
    host.receive(&[arp(1, (moved, PEER), (MacAddr::ZERO, PEER)), udp(5000, 7, b"x")]);
    host.receive(&[udp(5000, 7, b"x")]);
    assert_eq!(host.sent().last().unwrap()[..6], moved.0);
    host.finish();
}

#[test]
fn our_address_is_defended() {
    let mut host = lonely();
    let thief = MacAddr([2, 0, 0, 0, 0, 9]);
    host.receive(&[arp(1, (thief, HOST), (MacAddr::ZERO, HOST))]);
    host.receive(&[arp(2, (thief, HOST), (HOST_MAC, HOST))]);
    let defence = arp(1, (HOST_MAC, HOST), (MacAddr::ZERO, HOST));
    assert_eq!(host.sent(), [defence], "once in ten seconds");
    let reason = "another station uses our IPv4 address";
    assert_eq!(host.count("RxL3ARPProcessPendingResponse", CounterKind::Drop, reason), 1);
    host.finish();
}

/// Two workers of one host: the answer comes to the one that did not ask.
#[test]
fn an_answer_on_one_worker_wakes_what_waits_on_another() {
    let env = env();
    provide(&env, host_state(), 0);
    let graph = || host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let [mut asking, mut answered] =
        [(); 2].map(|()| HostBox::in_env(graph(), &env, Limits::default()));
    asking.advance(5 * SECOND);
    answered.advance(5 * SECOND);
    asking.sent();
    answered.sent();

    asking.receive(&[udp(5000, 7, b"a"), udp(5000, 7, b"b")]);
    assert_eq!(asking.sent(), [request()]);
    answered.receive(&[arp_reply()]);
    assert_eq!(asking.total("blocked_now"), 2);
    asking.advance(20_000_000);
    assert_eq!(payloads(&asking.sent()), b"ab");
    answered.receive(&[udp(5000, 7, b"c")]);
    assert_eq!(payloads(&answered.sent()), b"c", "a neighbour learned by one is known to both");
    asking.finish();
    answered.finish();
}

/// As above, for a neighbour that does not answer: only one worker's timer finds that out.
#[test]
fn giving_up_is_known_to_every_worker() {
    let env = env();
    provide(&env, host_state(), 0);
    let graph = || host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let [mut first, mut second] =
        [(); 2].map(|()| HostBox::in_env(graph(), &env, Limits::default()));
    first.receive(&[udp(5000, 7, b"a")]);
    second.receive(&[udp(5000, 7, b"b")]);
    first.advance(4 * SECOND);
    second.advance(4 * SECOND);
    for mut worker in [first, second] {
        let reason = "neighbour does not answer ARP";
        assert_eq!(worker.count(LOOKUP, CounterKind::Drop, reason), 1);
        worker.sent();
        worker.finish();
    }
}
