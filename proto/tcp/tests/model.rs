//! Goodput on a path with random loss, compared with the predictions of the RFCs' models.
//!
//! `cargo test -p weever-tcp --test model -- --nocapture` prints the tables of `docs/tcp.md`.

mod sim;

use sim::{Faults, Job, MILLIS, SECOND, World};
use weever_tcp::TcpConfig;
use weever_tcp::congestion::Algorithm;

const MSS: f64 = 1448.0;
/// Seconds that are measured, after those in which a flow settles.
const SPAN: u64 = 60;

/// Segments a second that one flow delivers, and the share of octets that were sent again in percent.
fn measure(congestion: Algorithm, loss: u64, rtt: u64, seed: u64) -> (f64, f64) {
    let path = Faults { loss, delay: rtt * MILLIS / 2, ..Faults::NONE };
    let back = Faults { delay: rtt * MILLIS / 2, ..Faults::NONE };
    let config = TcpConfig { congestion, receive_capacity: 4 << 20, ..TcpConfig::default() };
    let mut world = World::with(seed, [path, back], [config.clone(), config], false);
    let size = 1 << 40;
    let job = |send, expect| Job { region: 4 << 20, ..Job::new(send, expect) };
    world.open(job(size, 0), job(0, size));
    let settled = world.now + 20 * SECOND;
    world.run(settled, |_| false);
    let read = |world: &World| world.hosts[1].streams[0].read;
    let (before, sent) = (read(&world), world.nets[0].payload);
    let until = world.now + SPAN * SECOND;
    world.run(until, |_| false);
    let delivered = (read(&world) - before) as f64;
    let again = (world.nets[0].payload - sent) as f64 - delivered;
    (delivered / MSS / SPAN as f64, again.max(0.0) * 100.0 / delivered)
}

/// RFC 3448 §3.1 without timeouts, one acknowledgement for two segments (b = 1 as with byte
/// counting): the window is sqrt(3 / 2p) segments on average (Mathis et al. 1997).
fn reno(loss: f64, rtt: f64) -> f64 {
    (1.5 / loss).sqrt() / rtt
}

/// RFC 9438 §5.1 (5): AVG_W_cubic = (C (3 + beta) / (4 (1 - beta)))^(1/4) * RTT^0.75 / p^0.75, with C 0.4
/// and beta 0.7; not less than Reno's (§4.3).
fn cubic(loss: f64, rtt: f64) -> f64 {
    let window = (0.4f64 * 3.7 / 1.2).powf(0.25) * (rtt / loss).powf(0.75);
    (window / rtt).max(reno(loss, rtt))
}

fn table(name: &str, algorithm: Algorithm, predict: impl Fn(f64, f64) -> f64) {
    println!("\n{name}: segments a second measured / predicted (octets sent again)\n");
    println!("| loss | 20 ms | 100 ms |\n|---|---|---|");
    for loss in [2u64, 10, 30] {
        let mut line = format!("| {} % |", loss as f64 / 10.0);
        for rtt in [20u64, 100] {
            let runs = [1, 2].map(|seed| measure(algorithm, loss, rtt, seed));
            let got = runs.iter().map(|run| run.0).sum::<f64>() / 2.0;
            let again = runs.iter().map(|run| run.1).sum::<f64>() / 2.0;
            let want = predict(loss as f64 / 1000.0, rtt as f64 / 1000.0);
            line += &format!(" {got:.0} / {want:.0} ({again:.1} %) |");
            // The models leave out slow start after timeouts, delayed acknowledgements and the granularity of
            // timers; within a factor of two they have to be right.
            assert!(
                (0.5..2.0).contains(&(got / want)),
                "{name} at {loss} in a thousand, {rtt} ms: {got:.0} and not {want:.0}"
            );
            // Lost segments are sent again, and few others.
            assert!(again < loss as f64 / 10.0 * 1.6 + 0.2, "{name}: {again} % at {loss}");
        }
        println!("{line}");
    }
}

#[test]
fn reno_reaches_what_its_equation_says() {
    table("Reno", Algorithm::Reno, reno);
}

#[test]
fn cubic_reaches_what_its_equation_says() {
    table("CUBIC", Algorithm::Cubic, cubic);
}
