//! The engine beside smoltcp, in memory and on one thread: IPv4 packets in buffers, all checksums written
//! and verified, payload copied out of and into the applications' regions.
//!
//! `cargo run --release -p weever-tcp --example in_memory` prints one line of JSON with the ratios
//! `bulk_vs_smoltcp` and `rr_vs_smoltcp` (more is better) and `rr_growth` (less is better), each the
//! median of rounds in which both sides take turns.
//!
//! With `SIDE-LOAD COUNT` (`weever-bulk 4`, `smoltcp-rr 1000`, `weever-random-100000 1000`) it does that
//! alone: COUNT MiB or transactions, for a profiler that counts instructions.

mod smoltcp_pair;
mod weever;

use std::time::Instant as Clock;

use weever_net::random::Random;

use smoltcp_pair::Smoltcp;
use weever::{TURN, Weever};

const ROUNDS: usize = 11;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let Some(what) = arguments.next() {
        let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
        return alone(&what, count);
    }
    ratios();
}

/// Seconds that it took.
fn timed(work: impl FnOnce()) -> f64 {
    let began = Clock::now();
    work();
    began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// One load of one side, for a profiler. Connecting is small beside it, or is subtracted by counting
/// twice.
fn alone(what: &str, count: usize) {
    let mut random = Random::new(5);
    let octets = (count as u64) << 20;
    match what {
        "weever-bulk" => Weever::connected(1).bulk(octets),
        "smoltcp-bulk" => Smoltcp::connected().bulk(octets),
        "weever-rr" => Weever::connected(1).transactions(count, &mut random),
        "smoltcp-rr" => Smoltcp::connected().transactions(count),
        _ => match what.strip_prefix("weever-random-").and_then(|many| many.parse().ok()) {
            Some(many) => Weever::connected(many).transactions(count, &mut random),
            None => {
                eprintln!(
                    "{what}: the loads are weever-bulk, smoltcp-bulk, weever-rr, smoltcp-rr, weever-random-N"
                );
                std::process::exit(2);
            }
        },
    }
}

fn ratios() {
    let bulk = median({
        let (mut ours, mut theirs) = (Weever::connected(1), Smoltcp::connected());
        let octets = 64 << 20;
        (0..ROUNDS).map(|_| timed(|| theirs.bulk(octets)) / timed(|| ours.bulk(octets))).collect()
    });
    let mut random = Random::new(5);
    let rr = median({
        let (mut ours, mut theirs) = (Weever::connected(1), Smoltcp::connected());
        let count = 100_000;
        let mut round = || {
            let smoltcp = timed(|| theirs.transactions(count));
            smoltcp / timed(|| ours.transactions(count, &mut random))
        };
        (0..ROUNDS).map(|_| round()).collect()
    });
    let growth = median({
        let (mut few, mut many) = (Weever::connected(100), Weever::connected(100_000));
        // Each connection rests equally long between its transactions, so that both send the same segments
        // (a delayed acknowledgement among them) and set the same timers.
        few.turn = 1000 * TURN;
        let count = 200_000;
        let mut round = || {
            let many = timed(|| many.transactions(count, &mut random));
            many / timed(|| few.transactions(count, &mut random))
        };
        (0..ROUNDS).map(|_| round()).collect()
    });
    let line = |(middle, least, most): (f64, f64, f64)| {
        format!("{{\"median\":{middle:.2},\"least\":{least:.2},\"most\":{most:.2}}}")
    };
    println!(
        "{{\"ratios\":{{\"bulk_vs_smoltcp\":{},\"rr_vs_smoltcp\":{},\"rr_growth\":{}}}}}",
        line(bulk),
        line(rr),
        line(growth)
    );
}
