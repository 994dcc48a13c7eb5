//! Flows with state that move between the workers of a host, while cables lose, copy, delay and reorder
//! frames and workers lose their cores.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use weever_engine::{Fit, Moved};
use weever_link::fault::Faults;
use weever_sim::{Datagram, HostId, MILLIS, SECOND, Sim, Topology, idle_part};

const FLOWS: u16 = 6;
const MOVES: usize = 1000;
const PORT: u16 = 5000;

/// The peer's end of a flow.
fn peer(flow: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 4000 + flow))
}

/// Datagrams of a flow in order, by the peer's port.
type ByFlow = BTreeMap<u16, Vec<Vec<u8>>>;

/// All that happened at the host.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    arrived: ByFlow,
    kept: Vec<Datagram>,
    moved: Moved,
}

fn network(seed: u64, workers: u16) -> (Sim, HostId, HostId) {
    let mut net = Topology::new(seed);
    let (a, b) = (net.host("a"), net.host("b"));
    let cable = net.cable(a, "10.0.0.1/24", b, "10.0.0.2/24");
    net.faults(
        cable,
        Faults {
            loss: 0.02,
            duplicate: 0.05,
            reorder: 0.1,
            reorder_depth: 5,
            delay: MILLIS / 4,
            jitter: MILLIS / 4,
            ..Faults::default()
        },
    );
    net.workers(b, workers);
    net.listen(b, PORT);
    (net.start().unwrap(), a, b)
}

/// A datagram of each flow to the host.
fn send(sim: &mut Sim, from: HostId, number: &mut u32) {
    for flow in 0..FLOWS {
        let to = ([10, 0, 0, 2], PORT).into();
        sim.send(from, peer(flow).port(), to, &number.to_be_bytes()).unwrap();
    }
    *number += 1;
}

/// The number of a datagram.
fn numbered(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets))
}

/// A network in which addresses are resolved, and every flow has an owner; and the number of the next datagram.
fn started(seed: u64, workers: u16) -> (Sim, HostId, HostId, u32) {
    let ((mut sim, a, b), mut number) = (network(seed, workers), 0);
    for _ in 0..20 {
        send(&mut sim, a, &mut number);
        sim.run_for(10 * MILLIS);
    }
    (sim, a, b, number)
}

/// All that has happened since the last call.
fn so_far(sim: &mut Sim, host: HostId) -> Outcome {
    let mut arrived = ByFlow::new();
    for (port, payload) in sim.arrived(host) {
        arrived.entry(port).or_default().push(payload);
    }
    Outcome { arrived, kept: sim.received(host), moved: sim.moved(host) }
}

impl Outcome {
    /// Adds what has happened afterwards.
    fn extend(&mut self, later: Outcome) {
        for (port, datagrams) in later.arrived {
            self.arrived.entry(port).or_default().extend(datagrams);
        }
        self.kept.extend(later.kept);
        self.moved = later.moved;
    }
}

/// Waits until all has arrived, and ends the network.
fn end(mut sim: Sim, host: HostId) -> Outcome {
    sim.run_for(SECOND);
    let outcome = so_far(&mut sim, host);
    // The cable copies ARP replies, too, and nobody waits for the second one.
    let (mut drops, is_arp) = (sim.drops(host), |node: &str| node.starts_with("RxL3ARP"));
    drops.retain(|(node, ..)| !is_arp(node));
    assert_eq!(drops, [], "nothing is lost at the host");
    sim.finish();
    outcome
}

/// Each flow sends a few datagrams in turn, and one of them moves every time.
fn run(seed: u64, workers: u16) -> Outcome {
    let (mut sim, a, b, mut number) = started(seed, workers);
    let mut at = [0; FLOWS as usize];
    for nth in 0..MOVES {
        let flow = nth % usize::from(FLOWS);
        at[flow] = (at[flow] + 1 + (nth as u16 / 7) % (workers - 1)) % workers;
        (0..4).for_each(|_| send(&mut sim, a, &mut number));
        sim.move_flow(b, peer(flow as u16), PORT, at[flow]).unwrap();
        sim.run_for(MILLIS / 5);
    }
    end(sim, b)
}

/// Asserts that every datagram that has arrived at the device came to the worker with its flow's state, in the same
/// order; returns how many each worker has kept.
fn expect_order(Outcome { arrived, kept, .. }: Outcome, workers: usize) -> Vec<usize> {
    let (mut came, mut by_worker) = (ByFlow::new(), vec![0; workers]);
    for Datagram { from, payload, serial, worker, .. } in kept {
        let of_flow = came.entry(from.port()).or_default();
        assert_eq!(serial, of_flow.len() as u64, "{from}: worker {worker} has its state");
        of_flow.push(payload);
        by_worker[usize::from(worker)] += 1;
    }
    assert_eq!(came.len(), usize::from(FLOWS));
    assert_eq!(came.keys().collect::<Vec<_>>(), arrived.keys().collect::<Vec<_>>());
    assert!(arrived.values().any(|flow| !flow.is_sorted()), "the cable has reordered some");
    for (port, datagrams) in &arrived {
        let differs = (0..).zip(came[port].iter().zip(datagrams)).find(|(_, (a, b))| a != b);
        assert_eq!(differs, None, "port {port}: not as they arrived at the device");
        assert_eq!(came[port].len(), datagrams.len(), "port {port}");
    }
    by_worker
}

#[test]
fn a_thousand_moves_lose_and_reorder_nothing_and_no_worker_answers_without_the_state() {
    let outcome = run(11, 3);
    let moved = outcome.moved;
    assert_eq!((moved.moved, moved.open, moved.refused), (MOVES - moved.gone, 0, 0));
    assert!(moved.gone < MOVES / 20, "nearly all of them were needed: {moved:?}");
    let workers = expect_order(outcome, 3);
    let all: usize = workers.iter().sum();
    assert!(all > 20_000 && workers.iter().all(|kept| *kept > all / 6), "{workers:?}");
}

/// Filters of ranges of ports come and go, and in between those of single ports: the workers list which flows each
/// takes.
#[test]
fn sets_of_flows_move_with_their_filters() {
    let (mut sim, a, b, mut number) = started(3, 3);
    let first = peer(0).port();
    for nth in 0..300u16 {
        (0..2).for_each(|_| send(&mut sim, a, &mut number));
        match nth % 4 {
            0 => sim.move_flows(b, first..=first + 2, nth / 4 % 3),
            1 => sim.move_flows(b, first + 2..=first + FLOWS, (nth / 4 + 1) % 3),
            2 => sim.move_flow(b, peer(nth / 4 % FLOWS), PORT, (nth / 4 + 2) % 3),
            _ => sim.move_flows(b, 0..=u16::MAX, (nth / 4 + 1) % 3),
        }
        .unwrap();
        sim.run_for(MILLIS);
    }
    assert!(sim.move_flows(b, 0..=u16::MAX, 3).is_err(), "there is no such worker");
    let outcome = end(sim, b);
    let Moved { moved, open, refused, stays, .. } = outcome.moved;
    assert!(moved > 500 && (open, refused, stays) == (0, 0, 0), "{:?}", outcome.moved);
    let workers = expect_order(outcome, 3);
    assert!(workers.iter().all(|kept| *kept > 500), "{workers:?}");
}

/// Sets of flows are to move before the states of earlier ones have come: each order has flows on their way, and
/// others that rest. A set counts as moved only once its packets have been redirected, which waits for all its flows.
#[test]
fn sets_that_overlap_move_while_states_of_others_are_on_their_way() {
    let (mut sim, a, b, mut number) = started(13, 3);
    let first = peer(0).port();
    for nth in 0..300u16 {
        send(&mut sim, a, &mut number);
        let from = first + nth % (FLOWS - 2);
        sim.move_flows(b, from..=from + 2, nth % 3).unwrap();
        sim.run_for(MILLIS / 20);
    }
    let outcome = end(sim, b);
    let Moved { moved, open, refused, stays, .. } = outcome.moved;
    assert!(moved > 500 && (open, refused, stays) == (0, 0, 0), "{:?}", outcome.moved);
    expect_order(outcome, 3);
}

/// All queues of a worker fail. What is in them is lost with the device; the flows go on at another worker.
#[test]
fn flows_of_a_worker_that_is_cut_off_go_on_at_another() {
    let (mut sim, a, b, mut number) = started(7, 3);
    for flow in 0..FLOWS {
        sim.move_flow(b, peer(flow), PORT, flow % 3).unwrap();
    }
    for _ in 0..200 {
        send(&mut sim, a, &mut number);
        sim.run_for(MILLIS / 5);
    }
    let mut all = so_far(&mut sim, b);
    assert!(all.kept.iter().any(|datagram| datagram.worker == 2), "it has flows");
    sim.cut_off(b, 2);
    for _ in 0..200 {
        send(&mut sim, a, &mut number);
        sim.run_for(MILLIS / 5);
    }
    let rest = end(sim, b);
    let last: Vec<u16> = rest.kept.iter().rev().take(500).map(|datagram| datagram.worker).collect();
    assert!(!last.contains(&2) && last.contains(&1), "{last:?}");
    all.extend(rest);
    expect_order(all, 3);
}

/// The most datagrams of a flow that are under way while the graph changes: the ring to another worker drops those
/// that find it full.
const WINDOW: u32 = 8;

/// A worker loses the node of the flows and gets it back, while datagrams arrive at it and flows move between the
/// others.
#[test]
fn flows_go_on_while_a_worker_runs_other_parts_of_the_graph() {
    let (mut sim, a, b, mut number) = started(9, 3);
    for flow in 0..FLOWS {
        sim.move_flow(b, peer(flow), PORT, flow % 3).unwrap();
    }
    for _ in 0..20 {
        send(&mut sim, a, &mut number);
        sim.run_for(MILLIS / 5);
    }
    let (mut all, mut last) = (so_far(&mut sim, b), number);
    let sizes: Vec<usize> = (0..4)
        .map(|nth| {
            let part: Arc<Fit> = Arc::new(|whole, worker| (worker == 1).then(|| idle_part(whole)));
            let fit = (nth % 2 == 0).then_some(part);
            let mut to = (0..6u16).cycle().skip(nth);
            sim.fit(b, fit, |sim| {
                let outcome = so_far(sim, b);
                let of_the_worker = outcome.kept.iter().filter(|d| d.from == peer(1));
                last = of_the_worker.fold(last, |last, d| last.max(numbered(&d.payload)));
                all.extend(outcome);
                if number < last + WINDOW {
                    send(sim, a, &mut number);
                }
                // Flows 0, 2, 3 and 5 are those of the others.
                let next = to.next().unwrap_or_default();
                let flow = [0, 2, 3, 5][usize::from(next % 4)];
                sim.move_flow(b, peer(flow), PORT, [0, 2][usize::from(next / 3)]).unwrap();
                sim.run_for(MILLIS / 5);
            })
            .unwrap();
            for _ in 0..40 {
                send(&mut sim, a, &mut number);
                sim.run_for(MILLIS / 5);
            }
            sim.publisher(b).sizes()[1]
        })
        .collect();
    assert!(sizes[0] < sizes[1] && sizes[2] < sizes[3], "{sizes:?}");
    all.extend(end(sim, b));
    let Moved { moved, open, refused, stays, .. } = all.moved;
    assert!(moved > 4 && (open, refused, stays) == (0, 0, 0), "{:?}", all.moved);
    expect_order(all, 3);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(5, 2), run(5, 2));
    assert_ne!(run(5, 2), run(6, 2));
}
