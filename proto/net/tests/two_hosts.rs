//! Two stations on a virtual clock that resolve each other by ARP: retries, failure, ageing, loss.

mod sim;

use proptest::prelude::*;
use sim::{A, B, B_IP, Fault, Link, Pair};
use weever_net::SECOND;
use weever_net::arp::{Discovery, State};
use weever_wire::ethernet::ethertype;

/// A pair whose announcements are over.
fn pair(seed: u64, fault: Fault) -> Pair {
    let mut pair = Pair::new(seed, Fault::default());
    pair.run_until(10 * SECOND);
    pair.link.fault = fault;
    pair
}

fn payloads(pair: &Pair, at: usize) -> Vec<Vec<u8>> {
    pair.hosts[at].data.iter().map(|(_, payload)| payload.clone()).collect()
}

#[test]
fn both_announce_themselves_twice_and_then_fall_silent() {
    let mut pair = Pair::new(1, Fault::default());
    pair.run_until(1000 * SECOND);
    for host in [A, B] {
        assert_eq!(pair.count(host, ethertype::ARP, 0), 2);
        assert_eq!(pair.hosts[host].arp.poll_at(), None);
        assert_eq!(pair.hosts[host].arp.neighbours().iter().count(), 0);
    }
}

#[test]
fn one_question_serves_both_directions_and_nothing_that_waited_is_lost() {
    let mut pair = pair(1, Fault::default());
    let start = pair.now;
    for byte in 0..10 {
        pair.send(&[byte]);
    }
    pair.run_until(start + 3 * Link::DELAY);
    let wanted: Vec<Vec<u8>> = (0..10).map(|byte| vec![byte]).collect();
    assert_eq!(payloads(&pair, B), wanted, "in order, after three crossings of the link");
    pair.ask(B, b"back");
    pair.run_until(start + SECOND);
    assert_eq!(pair.hosts[B].answers.last().unwrap().1, b"back");
    assert_eq!(
        (pair.count(A, ethertype::ARP, start), pair.count(B, ethertype::ARP, start)),
        (1, 1)
    );
}

#[test]
fn more_than_may_wait_is_dropped_and_counted() {
    let mut pair = pair(1, Fault::default());
    for byte in 0..20 {
        pair.send(&[byte]);
    }
    pair.run_until(pair.now + SECOND);
    assert_eq!((payloads(&pair, B).len(), pair.hosts[A].dropped), (16, 4));
}

#[test]
fn an_absent_host_fails_after_three_questions_and_is_asked_again_later() {
    let mut pair = pair(1, Fault::default());
    pair.link.up = false;
    let start = pair.now;
    pair.send(b"lost");
    pair.run_until(start + 60 * SECOND);
    assert_eq!(pair.count(A, ethertype::ARP, start), 3);
    assert_eq!(pair.hosts[A].unresolved, [(start + 3 * SECOND, B_IP)]);
    assert_eq!((pair.hosts[A].dropped, pair.hosts[A].arp.neighbours().iter().count()), (1, 0));
    pair.link.up = true;
    pair.send(b"found");
    pair.run_until(pair.now + SECOND);
    assert_eq!(payloads(&pair, B), [b"found"]);
}

#[test]
fn steady_traffic_never_waits_for_an_ageing_neighbour() {
    let mut pair = pair(1, Fault::default());
    pair.send(&[]);
    pair.run_until(pair.now + SECOND);
    let start = pair.now;
    for _ in 0..600 {
        pair.send(&[]);
        let (sent, before) = (pair.now, payloads(&pair, B).len());
        pair.run_until(sent + Link::DELAY);
        assert_eq!(payloads(&pair, B).len(), before + 1, "at {sent}");
        pair.run_until(sent + SECOND);
    }
    let asked: Vec<_> = pair
        .trace
        .iter()
        .filter(|(at, by, frame)| {
            *at >= start && *by == A && frame[12..14] == ethertype::ARP.to_be_bytes()
        })
        .collect();
    assert!((15..=20).contains(&asked.len()), "one question per 30 s in 600 s: {}", asked.len());
    let to_b = pair.hosts[B].mac.0;
    assert!(asked.iter().all(|(_, _, frame)| frame[..6] == to_b), "and none to all stations");
}

#[test]
fn an_idle_neighbour_is_forgotten_without_a_packet() {
    let mut pair = pair(1, Fault::default());
    pair.send(&[]);
    pair.run_until(pair.now + SECOND);
    let start = pair.now;
    pair.run_until(start + 100 * SECOND);
    let states: Vec<State> = pair.hosts[A].arp.neighbours().iter().map(|n| n.state).collect();
    assert_eq!(states, [State::Stale]);
    pair.run_until(start + 400 * SECOND);
    assert_eq!(pair.hosts[A].arp.neighbours().iter().count(), 0);
    assert!(pair.trace.iter().all(|(at, _, _)| *at < start));
}

/// B's card is replaced under steady traffic: after how many lost datagrams it is heard again.
fn lost_to_a_new_card(announced: bool) -> usize {
    let mut pair = pair(1, Fault::default());
    pair.send(&[]);
    pair.run_until(pair.now + SECOND);
    let now = pair.now;
    pair.hosts[B].replace_card(9, now);
    if announced {
        pair.run_until(now + 1);
    } else {
        pair.link.up = false;
        pair.run_until(now + 4 * SECOND);
        pair.link.up = true;
    }
    let before = payloads(&pair, B).len();
    for _ in 0..60 {
        pair.send(&[]);
        pair.run_until(pair.now + SECOND);
    }
    60 - (payloads(&pair, B).len() - before)
}

#[test]
fn a_new_card_is_found_at_once_if_announced_and_by_probing_if_not() {
    assert!(lost_to_a_new_card(true) <= 1);
    let lost = lost_to_a_new_card(false);
    // 30 s of trust and three questions to the old card.
    assert!((20..=35).contains(&lost), "{lost}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let fault = Fault { loss: 200, duplicate: 100, jitter: 20 };
    let run = |seed| {
        let mut pair = pair(seed, fault);
        for byte in 0..50 {
            pair.ask(A, &[byte]);
            pair.run_until(pair.now + SECOND / 10);
        }
        (pair.trace, pair.hosts.map(|host| host.answers))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

proptest! {
    /// On a bad link, a datagram that waits is delivered or its neighbour is reported as absent,
    /// within the time that all tries take; delivered data equal the sent ones.
    #[test]
    fn a_bad_link_delivers_or_reports(
        seed: u64, loss in 0u64..900, duplicate in 0u64..300, jitter in 0u64..500,
    ) {
        let mut pair = pair(seed, Fault { loss, duplicate, jitter });
        let start = pair.now;
        pair.ask(A, b"are you there?");
        // Three tries each: A for B, B for A.
        pair.run_until(start + 8 * SECOND);
        let answers = &pair.hosts[A].answers;
        prop_assert!(answers.iter().all(|(_, payload)| payload == b"are you there?"));
        let resolved = |host: usize| pair.hosts[host].arp.neighbours().iter().any(|n| n.mac.is_some());
        let gave_up = !pair.hosts[A].unresolved.is_empty();
        prop_assert!(resolved(A) || gave_up);
        let (asked, answered) = (pair.count(A, ethertype::ARP, start), pair.count(B, ethertype::ARP, start));
        prop_assert!(asked <= 3 + 2 * answered, "three questions, and an answer to each copy of B's");
        if loss == 0 {
            prop_assert!(!pair.hosts[A].answers.is_empty());
        }
    }

    /// No frame, however damaged on its way, brings a host down.
    #[test]
    fn damaged_frames_are_survived(
        seed: u64, patches in prop::collection::vec((0usize..60, any::<u8>()), 1..8),
        len in 0usize..61,
    ) {
        let mut pair = pair(seed, Fault::default());
        pair.ask(A, b"template");
        pair.send(b"template");
        pair.run_until(pair.now + SECOND);
        let frames: Vec<Vec<u8>> = pair.trace.iter().map(|(_, _, f)| f.clone()).collect();
        for mut frame in frames {
            for (at, byte) in &patches {
                frame[*at] = *byte;
            }
            frame.truncate(len);
            let now = pair.now;
            pair.hosts[B].receive(&frame, now);
        }
        // Long enough for B to forget the invented stations.
        pair.run_until(pair.now + 500 * SECOND);
        pair.ask(A, b"alive");
        pair.run_until(pair.now + SECOND);
        let last = pair.hosts[A].answers.last().map(|(_, payload)| payload.clone());
        prop_assert_eq!(last, Some(b"alive".to_vec()));
    }
}
