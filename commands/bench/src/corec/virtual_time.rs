//! Any number of servers on one core: weever's ring and its rule of sharing on a virtual clock.
//!
//! The server whose clock is behind receives next, as a thread would: from the same queue by the same code. Only
//! time is simulated. So this shows what more cores than there are would do, without their contention.

use super::queue::{Packet, Queue, Source, Spread, Taken, queues};
use crate::samples::quantile;

/// Nanoseconds of a poll, of a burst, and of a packet of each third: encrypted, forwarded, dropped.
const POLL: u64 = 50;
const BURST: u64 = 300;
const THIRDS: [u64; 3] = [5000, 200, 100];

/// Latencies of a run, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latencies {
    pub(super) mean: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Latencies {
    pub(super) fn of(latencies: &[f64]) -> Latencies {
        let mean = latencies.iter().sum::<f64>() / latencies.len().max(1) as f64;
        let [p99, p999] = [0.99, 0.999].map(|share| quantile(latencies, share).unwrap_or_default());
        Latencies { mean, p99, p999 }
    }
}

/// The mean time of a packet in bursts of one.
fn busy() -> f64 {
    (BURST + POLL) as f64 + THIRDS.iter().sum::<u64>() as f64 / 3.0
}

/// Lets so many servers empty the queues: server `i` serves queue `i`, or the only one.
fn serve(queues: &[Queue], servers: usize) -> Vec<f64> {
    let mut clocks: Vec<Option<u64>> = vec![Some(0); servers];
    let mut taken: Taken = [Packet::default(); 64];
    let mut latencies = Vec::new();
    loop {
        let behind = (0..servers).filter_map(|server| Some((clocks[server]?, server))).min();
        let Some((now, server)) = behind else { return latencies };
        let mut queue = &queues[server % queues.len()];
        clocks[server] = match queue.receive(now, &mut taken) {
            None => None,
            Some(0) => Some(queue.next_arrival().map_or(now, |next| next.max(now)) + POLL),
            Some(count) => {
                let packets = &taken[..count];
                let each = packets.iter().map(|packet| THIRDS[(packet.number % 3) as usize]);
                let done = now + POLL + BURST + each.sum::<u64>();
                latencies.extend(packets.iter().map(|packet| (done - packet.arrives) as f64));
                Some(done)
            }
        };
    }
}

/// The latencies of so many packets, spread evenly, at a share of what these servers can do: on one queue, and with a
/// queue each.
pub(super) fn both(servers: usize, load: f64, packets: u64) -> [Vec<f64>; 2] {
    let pause = busy() / servers as f64 / load;
    [true, false].map(|shared| {
        let queues = queues((servers, shared), Spread::Even, (packets, pause), 1);
        serve(&queues, servers)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_servers_that_share_are_faster() {
        for servers in [2, 4, 8] {
            let all = both(servers, 0.8, 100_000);
            let [shared, apart] = [&all[0], &all[1]].map(|latencies| Latencies::of(latencies));
            assert!(
                shared.mean < apart.mean && shared.p99 < 0.9 * apart.p99,
                "{servers}: {shared:?} {apart:?}"
            );
            assert_eq!(both(servers, 0.8, 100_000), all, "it repeats");
        }
    }
}
