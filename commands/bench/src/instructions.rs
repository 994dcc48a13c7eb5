//! `weever bench instructions`: work whose instructions callgrind counts.
//!
//! Times drift with the machine, instruction counts hardly do: CI compares changes by them. Each
//! scenario is prepared and warmed up, and then does a fixed amount of work inside [`counted`];
//! callgrind counts the instructions there and no others. `cargo xtask instructions` runs every
//! scenario and compares it with the figures in the tree.

use std::hint::black_box;

use weever_engine::{Published, Team};
use weever_graph::Graph;
use weever_models::Service;
use weever_net::random::Random;
use weever_packet::Burst;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{Options, Search};

use crate::app::{Datagrams, Exchange};
use crate::in_memory::{Contender, LARGE};
use crate::search::{flows, xdp};
use crate::tcp::{Conversation, Smoltcp, Weever};
use crate::{BenchError, forward, live, overload};

/// Packets in a scenario about packets; as many go through before, uncounted.
const PACKETS: usize = 64 * 256;
/// Flows that have their queues already, and flows that are added one after the other.
const FLOWS: (u32, u32) = (1000, 100);
/// Changes of twenty blocks.
const CHANGES: usize = 40;

/// Requests to a server with the stack in its thread.
const REQUESTS: usize = 64 * 64;
const REQUEST: &str = "request";
/// A worker's turn with a change, without the control thread's work for it.
const TURN: &str = "turn";
/// Rounds of the server in which a request has to be answered.
const ROUNDS: usize = 1000;

/// MiB over a TCP connection, and transactions on one.
const MEBIBYTES: usize = 8;
const TRANSACTIONS: usize = 4000;

/// Does the work once, and says how many packets, flows or changes it was.
type Work = Box<dyn FnMut() -> Result<usize, BenchError>>;

struct Scenario {
    name: &'static str,
    /// The unit of work, by whose number the instructions are divided.
    unit: &'static str,
    prepare: fn() -> Result<Work, BenchError>,
}

const SCENARIOS: [Scenario; 24] = [
    Scenario { name: "receive-1", unit: "packet", prepare: || packets(Service::Discard, 1) },
    Scenario { name: "receive-64", unit: "packet", prepare: || packets(Service::Discard, 64) },
    Scenario {
        name: "simplified-1",
        unit: "packet",
        prepare: || through(Contender::simplified(1)?, 1),
    },
    Scenario {
        name: "simplified-64",
        unit: "packet",
        prepare: || through(Contender::simplified(64)?, 64),
    },
    Scenario { name: "split-64", unit: "packet", prepare: || through(Contender::split(64)?, 64) },
    Scenario {
        name: "unsummed-64",
        unit: "packet",
        prepare: || through(Contender::unsummed(64)?, 64),
    },
    // Full frames, whose checksums the stack checks, or a link vouches for.
    Scenario { name: "large-64", unit: "packet", prepare: || large(false) },
    Scenario { name: "vouched-64", unit: "packet", prepare: || large(true) },
    // And answers of that size, which the stack sums, or leaves to a link that does.
    Scenario {
        name: "library-large-64",
        unit: REQUEST,
        prepare: || requests(Datagrams::of(LARGE, false)?, 64),
    },
    Scenario {
        name: "library-left-64",
        unit: REQUEST,
        prepare: || requests(Datagrams::of(LARGE, true)?, 64),
    },
    Scenario { name: "echo-1", unit: "packet", prepare: || packets(Service::Echo, 1) },
    Scenario { name: "echo-64", unit: "packet", prepare: || packets(Service::Echo, 64) },
    Scenario { name: "forward-1", unit: "packet", prepare: || forwarding(1) },
    Scenario { name: "forward-64", unit: "packet", prepare: || forwarding(64) },
    Scenario { name: "library-udp-1", unit: REQUEST, prepare: || requests(Datagrams::new()?, 1) },
    Scenario { name: "library-udp-64", unit: REQUEST, prepare: || requests(Datagrams::new()?, 64) },
    Scenario {
        name: "library-tcp-1",
        unit: REQUEST,
        prepare: || requests(Conversation::new()?, 1),
    },
    Scenario {
        name: "tcp-bulk",
        unit: "MiB",
        prepare: || bulk(Weever::connected(1), Weever::bulk),
    },
    Scenario {
        name: "smoltcp-bulk",
        unit: "MiB",
        prepare: || bulk(Smoltcp::connected(), Smoltcp::bulk),
    },
    Scenario { name: "tcp-transaction", unit: "transaction", prepare: tcp_transactions },
    Scenario { name: "smoltcp-transaction", unit: "transaction", prepare: smoltcp_transactions },
    Scenario { name: "flow-added", unit: "flow", prepare: flows_added },
    Scenario { name: "change-20-blocks", unit: "change", prepare: changes },
    Scenario { name: "change-10k-worker", unit: TURN, prepare: turns_of_changes },
];

/// Runs a scenario and says how much work it was: a number and its unit. Without a name, lists them.
pub(crate) fn run(name: Option<&str>) -> Result<String, BenchError> {
    let Some(name) = name else {
        return Ok(SCENARIOS.iter().map(|scenario| format!("{}\n", scenario.name)).collect());
    };
    let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.name == name) else {
        let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        let message = format!("no scenario `{name}`; there are: {}", names.join(", "));
        return Err(BenchError::of("instructions")(message));
    };
    let mut work = (scenario.prepare)()?;
    // Of requests, only the server's part is counted, and of changes in a large graph the worker's.
    let in_parts = [REQUEST, TURN].contains(&scenario.unit);
    let units = if in_parts { work()? } else { counted(&mut *work)? };
    Ok(format!("{units} {}\n", scenario.unit))
}

/// The span that callgrind counts: it begins where this function is entered and ends where it is
/// left.
#[inline(never)]
fn counted(work: &mut dyn FnMut() -> Result<usize, BenchError>) -> Result<usize, BenchError> {
    // The call must not become a jump: the function would be left before the work has begun.
    black_box(work())
}

/// Requests to a server with the stack in its thread, so many at a time. Only the server's rounds count, from the arrival
/// of requests to the last answer: asking and taking answers are another host's work.
fn requests(mut exchange: impl Exchange + 'static, batch: usize) -> Result<Work, BenchError> {
    Ok(Box::new(move || {
        for _ in 0..REQUESTS / batch {
            exchange.ask(batch)?;
            let (mut answers, mut rounds) = (0, 0);
            while answers < batch {
                counted(&mut || exchange.serve().map(|()| batch))?;
                answers += exchange.answered()?;
                rounds += 1;
                if rounds > ROUNDS {
                    let message = format!("{answers} of {batch} requests were answered");
                    return Err(BenchError::of("instructions")(message));
                }
            }
        }
        Ok(REQUESTS)
    }))
}

/// Packets to a socket of the host's graph, and back if the service answers.
fn packets(service: Service, batch: usize) -> Result<Work, BenchError> {
    through(Contender::serving(String::new(), service, batch)?, batch)
}

/// Datagrams of full frames to a socket of the host's graph.
fn large(verified: bool) -> Result<Work, BenchError> {
    through(Contender::large(verified, 64)?, 64)
}

/// Packets through a graph in batches.
fn through(mut contender: Contender, batch: usize) -> Result<Work, BenchError> {
    let mut burst = Burst::new();
    warmed(Box::new(move || {
        let mut packets = 0;
        for now in 0..PACKETS / batch {
            let turn = contender.turn(&mut burst, now as u64);
            packets += turn.map_err(BenchError::of("memory link"))?;
        }
        Ok(packets)
    }))
}

/// Packets from one link of a router to the other.
fn forwarding(batch: usize) -> Result<Work, BenchError> {
    let mut router = forward::Memory::new()?;
    warmed(Box::new(move || {
        let mut packets = 0;
        for now in 0..PACKETS / batch {
            let turn = router.turn(batch, now as u64);
            packets += turn.map_err(BenchError::of("memory link"))?;
        }
        Ok(packets)
    }))
}

/// MiB over a connection in memory.
fn bulk<P: 'static>(mut pair: P, carry: fn(&mut P, u64)) -> Result<Work, BenchError> {
    warmed(Box::new(move || {
        carry(&mut pair, (MEBIBYTES as u64) << 20);
        Ok(MEBIBYTES)
    }))
}

/// Requests and responses of 64 bytes on one connection in memory.
fn tcp_transactions() -> Result<Work, BenchError> {
    let (mut pair, mut random) = (Weever::connected(1), Random::new(5));
    warmed(Box::new(move || {
        pair.transactions(TRANSACTIONS, &mut random);
        Ok(TRANSACTIONS)
    }))
}

fn smoltcp_transactions() -> Result<Work, BenchError> {
    let mut pair = Smoltcp::connected();
    warmed(Box::new(move || {
        pair.transactions(TRANSACTIONS);
        Ok(TRANSACTIONS)
    }))
}

fn warmed(mut work: Work) -> Result<Work, BenchError> {
    work()?;
    Ok(work)
}

/// Flows that get a queue of a program with 64 queues, each on its own.
fn flows_added() -> Result<Work, BenchError> {
    let policy = Box::new(Balance::new(Measure::Flows));
    let mut search = Search::new(xdp()?, policy, Options::default());
    let (present, added) = FLOWS;
    search.run(flows(0, present));
    let mut more = flows(present, present + added);
    Ok(Box::new(move || {
        let added = more.drain(..).map(|flow| search.add(flow));
        Ok(added.count())
    }))
}

/// Changes from the graph to the one with twenty blocks more and back, adopted by the one worker.
fn changes() -> Result<Work, BenchError> {
    let [plain, longer] = live::graphs()?;
    let queue = forward::queue(Vec::new())?;
    let Team { mut workers, publisher } = live::team(plain.clone(), queue)?;
    let mut wanted: Vec<Graph> = Vec::new();
    for _ in 0..CHANGES / 2 {
        wanted.extend([longer.clone(), plain.clone()]);
    }
    Ok(Box::new(move || {
        let mut changes = 0;
        for (graph, now) in wanted.drain(..).zip(0..) {
            // No thread runs the worker, so the publisher does not wait for it.
            let published = publisher.replace(graph).map_err(BenchError::of("change"))?;
            workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
            let Published { epoch, .. } = published;
            if publisher.adopted().iter().any(|(_, adopted)| *adopted != epoch) {
                return Err(BenchError::of("change")("the worker did not adopt it"));
            }
            changes += 1;
        }
        Ok(changes)
    }))
}

/// Changes of twenty blocks in a graph of ten thousand, of which only the worker's turns count.
fn turns_of_changes() -> Result<Work, BenchError> {
    Ok(Box::new(|| {
        overload::turns_of_changes(|turn| {
            let mut work = || {
                turn();
                Ok(1)
            };
            counted(&mut work).map(drop)
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_does_the_work_that_it_says() {
        let list = run(None).unwrap();
        assert_eq!(list.lines().count(), SCENARIOS.len());
        for name in list.lines() {
            let done = run(Some(name)).unwrap();
            let expected = match name {
                "flow-added" => format!("{} flow\n", FLOWS.1),
                "change-20-blocks" => format!("{CHANGES} change\n"),
                "tcp-bulk" | "smoltcp-bulk" => format!("{MEBIBYTES} MiB\n"),
                "tcp-transaction" | "smoltcp-transaction" => {
                    format!("{TRANSACTIONS} transaction\n")
                }
                "change-10k-worker" => "4 turn\n".to_owned(),
                library if library.starts_with("library-") => format!("{REQUESTS} request\n"),
                _ => format!("{PACKETS} packet\n"),
            };
            assert_eq!(done, expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_scenario_is_named_with_those_there_are() {
        let error = run(Some("recieve-1")).unwrap_err().to_string();
        assert!(error.contains("recieve-1") && error.contains("receive-1"), "{error}");
    }
}
