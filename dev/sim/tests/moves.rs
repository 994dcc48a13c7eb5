//! Flows with state that move between the workers of a host, while cables lose, copy, delay and reorder
//! frames and workers lose their cores.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weever_engine::Moved;
use weever_link::fault::Faults;
use weever_sim::{Datagram, HostId, MILLIS, SECOND, Sim, Topology};

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

/// Each flow sends a few datagrams in turn, and one of them moves every time.
fn run(seed: u64, workers: u16) -> Outcome {
    let (mut sim, a, b) = network(seed, workers);
    // Addresses are resolved, and every flow has an owner.
    for number in 0..20u32 {
        for flow in 0..FLOWS {
            sim.send(a, peer(flow).port(), ([10, 0, 0, 2], PORT).into(), &number.to_be_bytes())
                .unwrap();
        }
        sim.run_for(10 * MILLIS);
    }
    let (mut at, mut number) = ([0; FLOWS as usize], 20u32);
    for nth in 0..MOVES {
        let flow = nth % usize::from(FLOWS);
        at[flow] = (at[flow] + 1 + (nth as u16 / 7) % (workers - 1)) % workers;
        for _ in 0..4 {
            for flow in 0..FLOWS {
                let to = ([10, 0, 0, 2], PORT).into();
                sim.send(a, peer(flow).port(), to, &number.to_be_bytes()).unwrap();
            }
            number += 1;
        }
        sim.move_flow(b, peer(flow as u16), PORT, at[flow]).unwrap();
        sim.run_for(MILLIS / 5);
    }
    sim.run_for(SECOND);
    let mut arrived = ByFlow::new();
    for (port, payload) in sim.arrived(b) {
        arrived.entry(port).or_default().push(payload);
    }
    let (kept, moved) = (sim.received(b), sim.moved(b));
    assert_eq!(sim.drops(b), [], "nothing is lost at the host");
    sim.finish();
    Outcome { arrived, kept, moved }
}

#[test]
fn a_thousand_moves_lose_and_reorder_nothing_and_no_worker_answers_without_the_state() {
    let Outcome { arrived, kept, moved } = run(11, 3);
    assert_eq!((moved.moved, moved.open, moved.refused), (MOVES - moved.gone, 0, 0));
    assert!(moved.gone < MOVES / 20, "nearly all of them were needed: {moved:?}");
    let mut came = ByFlow::new();
    let mut workers = [0; 3];
    for Datagram { from, payload, serial, worker, .. } in kept {
        let of_flow = came.entry(from.port()).or_default();
        assert_eq!(serial, of_flow.len() as u64, "{from}: worker {worker} has its state");
        of_flow.push(payload);
        workers[usize::from(worker)] += 1;
    }
    let all: usize = came.values().map(Vec::len).sum();
    assert!(all > 20_000 && workers.iter().all(|kept| *kept > all / 6), "{workers:?}");
    assert_eq!(came.keys().collect::<Vec<_>>(), arrived.keys().collect::<Vec<_>>());
    for (port, datagrams) in &arrived {
        let sorted = datagrams.is_sorted();
        assert!(!sorted, "the cable has reordered some of port {port}");
        assert_eq!(came[port], *datagrams, "port {port}: as they arrived at the device");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(5, 2), run(5, 2));
    assert_ne!(run(5, 2), run(6, 2));
}
