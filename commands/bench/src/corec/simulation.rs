//! The compared systems, simulated: queues with several servers on a virtual clock.

use fastrand::Rng;
use hdrhistogram::Histogram;

/// How long a server is busy with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Exponentially distributed around one.
    Exponential,
    /// Always one.
    Deterministic,
}

/// Where packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queues {
    /// In one queue, from which every server takes the first (COREC).
    Shared,
    /// In one queue per server, each packet in a random one (RSS, scale-out).
    PerServer,
}

/// Latency of a packet: waiting and service together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) p99: f64,
}

impl Latency {
    /// The larger of the two relative differences to `truth`.
    pub(super) fn error(self, truth: Latency) -> f64 {
        let of = |value: f64, truth: f64| (value / truth - 1.0).abs();
        of(self.mean, truth.mean).max(of(self.p99, truth.p99))
    }
}

impl Service {
    /// The word in names of rows and files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Service::Exponential => "exponential",
            Service::Deterministic => "deterministic",
        }
    }
}

/// Latencies are recorded in this part of a service time.
const RESOLUTION: f64 = 1e-5;
/// Longer times count as this long.
const LONGEST: u64 = 1 << 40;
/// Customers that find the system emptier than it is later on.
const WARM_UP: u64 = 10_000;

/// Lets `customers` come, at `load` per server and service time, and measures their latency. The same
/// seed gives the same result.
pub(super) fn simulate(
    service: Service,
    queues: Queues,
    servers: u32,
    load: f64,
    customers: u64,
    seed: u64,
) -> Latency {
    let mut rng = Rng::with_seed(seed);
    let mut latencies =
        Histogram::<u64>::new_with_bounds(1, LONGEST, 4).expect("bounds in order, few digits");
    // When each server will have done all that is its own so far. First come, first served: nothing
    // else of the queue has to be kept.
    let mut free_at = vec![0.0_f64; servers as usize];
    let (mut now, mut sum) = (0.0_f64, 0.0_f64);
    for customer in 0..customers + WARM_UP {
        now += exponential(&mut rng) / (load * f64::from(servers));
        let server = match queues {
            Queues::Shared => earliest(&free_at),
            Queues::PerServer => rng.usize(0..free_at.len()),
        };
        let busy = match service {
            Service::Exponential => exponential(&mut rng),
            Service::Deterministic => 1.0,
        };
        let done = free_at[server].max(now) + busy;
        free_at[server] = done;
        if customer >= WARM_UP {
            sum += done - now;
            latencies.saturating_record(((done - now) / RESOLUTION) as u64);
        }
    }
    let p99 = latencies.value_at_quantile(0.99) as f64 * RESOLUTION;
    Latency { mean: sum / customers.max(1) as f64, p99 }
}

/// The server that is free first: the one that the customer at the head of a shared queue gets.
fn earliest(free_at: &[f64]) -> usize {
    let mut first = 0;
    for (server, at) in free_at.iter().enumerate() {
        if *at < free_at[first] {
            first = server;
        }
    }
    first
}

/// Exponentially distributed around one.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_system_serves_at_once() {
        let latency = simulate(Service::Deterministic, Queues::Shared, 8, 0.001, 10_000, 1);
        assert!(
            (latency.mean - 1.0).abs() < 1e-3 && (latency.p99 - 1.0).abs() < 1e-3,
            "{latency:?}"
        );
    }

    #[test]
    fn a_shared_queue_is_never_slower_than_queues_of_their_own() {
        for seed in 0..4 {
            let run = |queues| simulate(Service::Exponential, queues, 4, 0.8, 200_000, seed);
            let (shared, separate) = (run(Queues::Shared), run(Queues::PerServer));
            assert!(
                shared.mean < separate.mean && shared.p99 < separate.p99,
                "{shared:?} {separate:?}"
            );
        }
    }
}
