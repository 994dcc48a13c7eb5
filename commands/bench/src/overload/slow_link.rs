//! A pair of links while a third takes 1 % of its packets, in memory.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weever_link::LinkInfo;
use weever_link::replay::ReplayConfig;
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{Pool, PoolConfig};
use weever_wire::MacAddr;

use super::paced::{ALL, Paced, TURN};
use crate::peers::{self, Leg};
use crate::rig::GENERATOR_MAC;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples};

/// Packets that arrive on each source in a turn: less than the worker can receive.
const ARRIVE: usize = 32;
const TURNS: u64 = if cfg!(debug_assertions) { 3_000 } else { 20_000 };

/// A leg with the network 10.9.`number`.0/24.
fn leg(
    number: u8,
    frames: Vec<Vec<u8>>,
    rates: (usize, usize),
    sent: &Arc<AtomicU64>,
) -> Result<Leg, BenchError> {
    let info = ReplayConfig::new(Vec::new()).info;
    Ok(Leg {
        link: LinkInfo { name: format!("leg{number}"), mac: mac(number), ..info },
        queues: vec![Paced::queue(frames, rates, sent, |_| true)?],
        address: address(number),
        neighbour: (neighbour(number), GENERATOR_MAC),
    })
}

/// The router's address on a link.
pub(super) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, number, 254)
}

/// The other host there.
pub(super) fn neighbour(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, number, 1)
}

/// A frame from the neighbour on one link to that on another, through the router.
pub(super) fn frame(from: u8, router: [u8; 6], to: u8) -> Result<Vec<u8>, BenchError> {
    let ends = (MacAddr(GENERATOR_MAC), neighbour(from), MacAddr(router), neighbour(to));
    udp_frame(ends, 9, 60).map_err(BenchError::of("frame"))
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 9, number]
}

/// Packets that leave by link 1, where those of link 0 go, while link 2 sends to link 3, which takes so
/// many hundredths of a packet in a turn; `others`: how many arrive on link 2.
fn forwarded(others: usize, leave: usize) -> Result<f64, BenchError> {
    let config = PoolConfig { frames: 16_384, ..PoolConfig::default() };
    let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
    let graph = host(&HostConfig::default()).map_err(BenchError::of("host graph"))?;
    let (sent, of_others) = (Arc::default(), Arc::default());
    let legs = vec![
        leg(0, vec![frame(0, mac(0), 1)?], (ARRIVE, ALL), &of_others)?,
        leg(1, Vec::new(), (0, ALL), &sent)?,
        leg(2, vec![frame(2, mac(2), 3)?], (others, ALL), &of_others)?,
        leg(3, Vec::new(), (0, leave), &of_others)?,
    ];
    let mut host = peers::host(graph, HOST_SOURCE, legs, pool)?;
    for turn in 1..=TURNS {
        host.step(turn * TURN);
    }
    Ok(sent.load(Relaxed) as f64)
}

/// Adds `slow_link_others`.
pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    // In hundredths of a packet.
    let slow = ARRIVE;
    let (alone, beside) = (forwarded(0, slow)?, forwarded(ARRIVE, slow)?);
    report.setup("slow link: four links in memory on one worker; one takes 1 % of its packets");
    report.row("an unrelated pair alone", "packets", &Samples(vec![alone]));
    report.row("beside the slow link", "packets", &Samples(vec![beside]));
    report.ratio("slow_link_others", "", &Samples(vec![beside / alone]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_link_costs_an_unrelated_pair_nothing() {
        let (alone, beside) = (forwarded(0, ARRIVE).unwrap(), forwarded(ARRIVE, ARRIVE).unwrap());
        assert!(alone >= (TURNS as f64 - 10.0) * ARRIVE as f64, "{alone}");
        assert!(beside >= alone * 0.95, "{beside} of {alone}");
    }
}
