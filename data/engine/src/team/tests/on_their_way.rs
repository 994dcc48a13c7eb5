//! Orders for flows of which others are still on their way.

use super::moving::{A_TURN, Turns};
use super::sequence::key;
use super::*;
use crate::FlowMoves;

/// Flow 1 is on its way from worker 0 to worker 1, which has flow 2; both are ordered to worker 2. Nothing has been
/// redirected.
fn mixed() -> (Turns, [FlowMoves; 2]) {
    let mut t = Turns::new(4096, 3);
    t.send(0, 1, 0, 10);
    t.send(1, 2, 0, 10);
    t.until_asleep();
    let publisher = t.bench.team.publisher.clone();
    let first = publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    t.until_asleep();
    let both = [(key(1), 2), (key(2), 2)];
    let second = publisher.begin_moves("Seq", &both).expect("it has flows");
    (t, [first, second])
}

/// Both flows have arrived, in order.
fn expect_both(mut t: Turns, [first, second]: [FlowMoves; 2]) {
    (1..=2).for_each(|flow| t.send(2, flow, 10, 10));
    t.until_asleep();
    assert_eq!((first.progress().moved, second.progress().moved), (1, 2));
    assert_eq!((t.owner(1), t.owner(2), t.counts()), (Some(2), Some(2), [40, 0, 0, 0]));
    t.end();
}

/// Whoever gives an order redirects packets when all flows have begun to leave: those that rest, and those that arrive
/// meanwhile.
#[test]
fn flows_that_arrive_begin_to_leave_before_packets_are_redirected() {
    let (mut t, [first, second]) = mixed();
    t.until_asleep();
    assert!(!second.wait_begun(Duration::ZERO), "one flow is on its way");
    first.redirected();
    t.until_asleep();
    assert_eq!(first.progress().moved, 1);
    assert!(second.wait_begun(Duration::ZERO), "it has come");
    assert_eq!(second.progress().open, 2, "nothing is sent before packets are redirected");
    second.redirected();
    t.until_asleep();
    expect_both(t, [first, second]);
}

/// Its caller does not wait: the flow that rests does not wait for the other.
#[test]
fn flows_that_have_begun_to_leave_wait_for_no_others_once_packets_are_redirected() {
    let (mut t, [first, second]) = mixed();
    t.until_asleep();
    second.redirected();
    t.until_asleep();
    assert_eq!((second.progress().moved, second.progress().open), (1, 1));
    first.redirected();
    t.until_asleep();
    expect_both(t, [first, second]);
}

/// The flow comes while many others of its order leave, the last of them in turns in which nothing arrives.
#[test]
fn a_flow_that_comes_during_a_round_leaves_without_a_packet_that_wakes_the_worker() {
    let mut t = Turns::new(4096, 3);
    let flows = 2..2 + 3 * A_TURN as u64;
    t.send(0, 1, 0, 1);
    t.send_one_of_each(|_| 1, flows.clone(), 0);
    t.until_asleep();
    let publisher = t.bench.team.publisher.clone();
    let first = publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    t.until_asleep();
    let all: Vec<_> = (1..flows.end).map(|flow| (key(flow), 2)).collect();
    let second = publisher.begin_moves("Seq", &all).expect("it has flows");
    // Flow 1 is still on its way when the others begin to leave.
    second.redirected();
    (0..4).for_each(|_| t.turn());
    first.redirected();
    t.until_asleep();
    assert_eq!((second.progress().moved, second.progress().open), (all.len(), 0), "nobody sleeps");
    t.end();
}

/// A plan names all connections that a filter takes, also those that it moves nowhere.
#[test]
fn flows_that_are_there_need_no_order_unless_others_are_open() {
    let mut t = Turns::new(4096, 2);
    t.send(0, 1, 0, 10);
    t.send(0, 2, 0, 10);
    t.until_asleep();
    let publisher = t.bench.team.publisher.clone();
    let stay = publisher.begin_moves("Seq", &[(key(1), 0), (key(2), 0)]).expect("it has flows");
    assert!(stay.wait_begun(Duration::ZERO), "no worker has to look");
    assert_eq!((stay.progress().gone, stay.progress().open), (2, 0));
    let away = publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    let back = publisher.begin_moves("Seq", &[(key(1), 0)]).expect("it has flows");
    assert_eq!(back.progress().open, 1, "the first one has not begun");
    [&away, &back].into_iter().for_each(FlowMoves::redirected);
    t.until_asleep();
    assert_eq!((away.progress().moved, back.progress().open, t.owner(1)), (1, 0, Some(0)));
    let again = publisher.begin_moves("Seq", &[(key(1), 0)]).expect("it has flows");
    assert_eq!(again.progress().open, 0, "both orders are carried out");
    t.end();
}

/// Many orders for flows that are on their way come at once.
#[test]
fn looks_at_flows_that_cannot_leave_yet_are_bounded_in_each_turn() {
    const FLOWS: u64 = 2000;
    let mut t = Turns::new(4096, 3);
    t.send_one_of_each(|_| 0, 0..FLOWS, 0);
    t.turn();
    let publisher = t.bench.team.publisher.clone();
    let all = |to| (0..FLOWS).map(|flow| (key(flow), to)).collect::<Vec<_>>();
    let first = publisher.begin_moves("Seq", &all(1)).expect("it has flows");
    t.until_asleep();
    let orders: Vec<_> = all(2)
        .chunks(200)
        .map(|flows| publisher.begin_moves("Seq", flows).expect("it has flows"))
        .collect();
    let mut turns = 0;
    while {
        t.turn();
        t.bench.team.workers[1].engine().is_moving_flows()
    } {
        turns += 1;
    }
    assert!(turns >= FLOWS as usize / A_TURN, "{turns} turns for a look at each");
    first.redirected();
    t.until_asleep();
    assert!(orders.iter().all(|order| order.wait_begun(Duration::ZERO)));
    orders.iter().for_each(FlowMoves::redirected);
    t.until_asleep();
    let moved: usize = orders.iter().map(|order| order.progress().moved).sum();
    assert_eq!(moved as u64, FLOWS);
    t.end();
}
