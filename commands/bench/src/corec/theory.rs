//! Latency in closed form, or nearly so.
//!
//! - M/M/N: Erlang's C formula gives the share of customers that wait; those wait exponentially long.
//! - M/D/N: the number of customers, looked at once per service time, is a Markov chain (Crommelin 1932).
//!   Its stationary distribution leads to the waiting time's by Franx's formula ("A simple solution for
//!   the M/D/c waiting time distribution", Operations Research Letters 29, 2001), which adds only positive
//!   terms.
//!
//! Times are in units of the mean service time. N queues of one server each behave as one such queue.

use super::simulation::{Latency, Queues, Service};

const QUANTILE: f64 = 0.99;

/// Mean and 99th percentile of waiting and service together, for a load below 1.
pub(super) fn latency(service: Service, queues: Queues, servers: u32, load: f64) -> Latency {
    let servers = match queues {
        Queues::Shared => servers,
        Queues::PerServer => 1,
    };
    match service {
        Service::Exponential => exponential(servers, load),
        Service::Deterministic => Deterministic::new(servers, load).latency(),
    }
}

/// Erlang's C formula: the share of customers that wait.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let blocked = (1..=servers).map(f64::from).fold(1.0, |b, n| offered * b / (n + offered * b));
    blocked / (1.0 - load * (1.0 - blocked))
}

fn exponential(servers: u32, load: f64) -> Latency {
    let waits = erlang_c(servers, load);
    // Those that wait do so exponentially, at the rate at which the servers gain on the arrivals.
    let gain = f64::from(servers) * (1.0 - load);
    let longer_than = |t: f64| {
        let after_waiting = if (gain - 1.0).abs() < 1e-9 {
            (1.0 + t) * (-t).exp()
        } else {
            (gain * (-t).exp() - (-gain * t).exp()) / (gain - 1.0)
        };
        (1.0 - waits) * (-t).exp() + waits * after_waiting
    };
    Latency { mean: 1.0 + waits / gain, p99: quantile(|t| 1.0 - longer_than(t)) }
}

/// The queue with Poisson arrivals, constant service and several servers.
struct Deterministic {
    servers: usize,
    /// Arrivals per service time.
    arrivals: f64,
    /// The probability of at most so many customers, waiting and served.
    at_most: Vec<f64>,
    waiting: f64,
}

impl Deterministic {
    fn new(servers: u32, load: f64) -> Deterministic {
        let (servers, arrivals) = (servers as usize, load * f64::from(servers));
        let states = stationary(servers, arrivals, load);
        let queue = |(n, p): (usize, &f64)| n.saturating_sub(servers) as f64 * p;
        let waiting = states.iter().enumerate().map(queue).sum();
        let mut sum = 0.0;
        let at_most = states.iter().map(|p| {
            sum += p;
            sum
        });
        Deterministic { servers, arrivals, at_most: at_most.collect(), waiting }
    }

    fn latency(&self) -> Latency {
        // Little's law: the mean wait is the mean queue over the rate of arrivals.
        let mean = 1.0 + self.waiting / self.arrivals;
        Latency { mean, p99: 1.0 + quantile(|t| self.waits_at_most(t)) }
    }

    /// Franx's formula: the probability to wait at most `time`.
    fn waits_at_most(&self, time: f64) -> f64 {
        let periods = time.floor() + 1.0;
        let rest = self.arrivals * (periods - time);
        let terms = periods as usize * self.servers;
        let queue_at_most = |n: usize| self.at_most.get(n + self.servers).copied().unwrap_or(1.0);
        let mut poisson = (-rest).exp();
        let mut sum = 0.0;
        for j in 0..terms {
            sum += queue_at_most(terms - j - 1) * poisson;
            poisson *= rest / (j + 1) as f64;
        }
        sum
    }
}

/// The probability of each number of customers, from an empty system on until it stays as it is.
fn stationary(servers: usize, arrivals: f64, load: f64) -> Vec<f64> {
    // Beyond the servers, probabilities fall at least as fast as this many per factor e^-40.
    let length = servers + 50 + (25.0 / (1.0 - load)) as usize;
    let arriving = poisson(arrivals);
    let mut states = vec![0.0; length];
    states[0] = 1.0;
    loop {
        let mut next = vec![0.0; length];
        for (n, p) in states.iter().enumerate() {
            // All requests in service leave within one service time, and none of those that begin
            // then does.
            let left = n.saturating_sub(servers);
            for (came, q) in arriving.iter().enumerate() {
                next[(left + came).min(length - 1)] += p * q;
            }
        }
        let moved: f64 = states.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        states = next;
        if moved < 1e-13 {
            return states;
        }
    }
}

/// The probability of each number of arrivals in one service time, up to where the rest is nothing.
fn poisson(mean: f64) -> Vec<f64> {
    let mut p = (-mean).exp();
    let mut all = vec![p];
    while all.len() < 20 || p > 1e-18 {
        p *= mean / all.len() as f64;
        all.push(p);
    }
    all
}

/// Where a distribution function reaches [`QUANTILE`].
fn quantile(distribution: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while distribution(high) < QUANTILE {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if distribution(middle) < QUANTILE { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} and {b}");
    }

    #[test]
    fn erlang_c_has_its_known_values() {
        close(erlang_c(1, 0.7), 0.7);
        // Two servers with one Erlang.
        close(erlang_c(2, 0.5), 1.0 / 3.0);
    }

    #[test]
    fn one_exponential_server_is_exponential() {
        let Latency { mean, p99 } = exponential(1, 0.8);
        close(mean, 5.0);
        close(p99, 5.0 * 100.0_f64.ln());
    }

    #[test]
    fn one_deterministic_server_follows_pollaczek_and_khinchine() {
        for load in [0.1, 0.5, 0.9] {
            let queue = Deterministic::new(1, load);
            close(queue.latency().mean, 1.0 + load / (2.0 * (1.0 - load)));
            close(queue.waits_at_most(0.0), 1.0 - load);
        }
    }

    #[test]
    fn more_servers_wait_less_at_the_same_load() {
        for service in [Service::Exponential, Service::Deterministic] {
            let at = |servers| latency(service, Queues::Shared, servers, 0.8);
            assert!(at(8).p99 < at(4).p99 && at(4).p99 < at(1).p99, "{service:?}");
            assert!(at(8).mean < at(4).mean && at(4).mean < at(1).mean, "{service:?}");
        }
    }
}
