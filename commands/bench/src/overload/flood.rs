//! A worker that serves its own flows while worker 0 is flooded with fragments that never become whole
//! and with datagrams of strangers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use weever_engine::{Mode, monotonic};
use weever_host::{Host, HostBuilder, InterfaceConfig, Prefix, allowed_cores};
use weever_link::replay::ReplayConfig;
use weever_link::{LinkInfo, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service};
use weever_packet::{Buffer, Pool, PoolConfig};
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::{MacAddr, WireError};

use super::paced::{ALL, Paced, RING, TURN};
use crate::forward::queue;
use crate::rig::GENERATOR_MAC;
use crate::samples::Plan;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples};

pub(super) const MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(super) const PORT: u16 = 7;
/// A port that no socket has.
const CLOSED: u16 = 4242;
/// Frames of the flood: half of them fragments.
const FRAMES: u16 = 1024;
/// The address of another host.
const SOMEBODY: [u8; 6] = [2, 0, 0, 0, 9, 8];
/// Packets of worker 1's own flows that arrive in a turn, with as many others.
pub(super) const ARRIVE: usize = 16;
const TURNS: u64 = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
/// Turns of worker 1 for each turn of worker 0.
const BEHIND: u64 = 64;
/// Time in which caches and tables fill.
const WARM_UP: Duration = Duration::from_millis(50);

pub(super) fn measure(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let (alone, beside) = (beside(harmless()?)?, beside(strangers(MAC)?)?);
    report.setup(
        "dedicated_under_flood_both: half of what arrives at worker 1, and all at worker 0, are fragments and \
         strangers; on the benchmark's clock",
    );
    report.row("worker 1 beside harmless packets", "packets", &Samples(vec![alone]));
    report.row("the same beside fragments and strangers", "packets", &Samples(vec![beside]));
    report.ratio("dedicated_under_flood_both", "", &Samples(vec![beside / alone]));
    with_threads(plan, report)
}

fn with_threads(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let cores: Vec<usize> = allowed_cores().unwrap_or_default().into_iter().take(2).collect();
    let [_, _] = cores[..] else {
        report.setup("dedicated_under_flood: left out, as it needs two cores".to_owned());
        return Ok(());
    };
    report.setup(format!(
        "dedicated_under_flood: echo at worker 1, fragments and strangers at worker 0, on cores {} and {}",
        cores[0], cores[1]
    ));
    let (mut alone, mut flooded, mut ratio) = <(Samples, Samples, Samples)>::default();
    for _ in plan.rounds() {
        let (calm, _) = rates(&cores, Vec::new(), plan.each)?;
        let (beside, flood) = rates(&cores, strangers(MAC)?, plan.each)?;
        if flood == 0.0 {
            return Err(BenchError::of("flood")("worker 0 received nothing"));
        }
        alone.push(calm);
        flooded.push(beside);
        ratio.push(beside / calm);
    }
    report.row("a dedicated worker alone", "Mpps", &alone);
    report.row("the same while worker 0 is flooded", "Mpps", &flooded);
    report.ratio("dedicated_under_flood", "", &ratio);
    Ok(())
}

/// Millions of packets per second that worker 1 sends, and that worker 0 receives.
fn rates(cores: &[usize], flood: Vec<Vec<u8>>, each: Duration) -> Result<(f64, f64), BenchError> {
    let failed = "host";
    let queues = vec![queue(flood)?, queue(vec![own(MAC)?])?];
    let host = team(in_memory(), queues, pool()?, monotonic(), |builder| {
        builder.cores(cores);
        builder.mode(Mode::Busy);
    })?;
    let host = host.start().map_err(BenchError::of(failed))?;
    thread::sleep(WARM_UP);
    let counts = || {
        let workers = &host.handle().workers;
        (workers[1].stats.sent(), workers[0].stats.received())
    };
    let (before, started) = (counts(), Instant::now());
    thread::sleep(each);
    let (after, micros) = (counts(), started.elapsed().as_secs_f64() * 1e6);
    if let Some(failure) = host.stop().failure {
        return Err(BenchError::of(failed)(failure));
    }
    Ok(((after.0 - before.0) as f64 / micros, (after.1 - before.1) as f64 / micros))
}

/// The number of packets of its own flows that worker 1 answers while as many of these arrive at its queue, and more at
/// that of worker 0.
fn beside(others: Vec<Vec<u8>>) -> Result<f64, BenchError> {
    Ok(answered(At { frames: others.clone(), arrive: RING }, &others)?.0)
}

/// Frames that arrive at a queue over and over, so many in each turn.
pub(super) struct At {
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) arrive: usize,
}

/// The number of packets of its own flows that worker 1 answers while as many others arrive at its queue, and of packets
/// that it hands over. Worker 0 falls behind because it has few turns. On the benchmark's clock.
pub(super) fn answered(at_first: At, others: &[Vec<u8>]) -> Result<(f64, u64), BenchError> {
    let mixed = mixed(&own(MAC)?, others);
    let (answers, elsewhere) = (Arc::default(), Arc::default());
    let queues = vec![
        Paced::queue(at_first.frames, (at_first.arrive, ALL), &elsewhere, is_answer)?,
        Paced::queue(mixed, (2 * ARRIVE, ALL), &answers, is_answer)?,
    ];
    let mut host = team(in_memory(), queues, pool()?, 0, |builder| builder.workers(2))?;
    host.worker(0).turn(0);
    for turn in 1..=TURNS {
        host.worker(1).turn(turn * TURN);
        if turn.is_multiple_of(BEHIND) {
            host.worker(0).turn(turn * TURN);
        }
    }
    Ok((answers.load(Relaxed) as f64, host.worker(1).stats().handed_over()))
}

pub(super) fn pool() -> Result<Pool, BenchError> {
    let config = PoolConfig { frames: 16_384, ..PoolConfig::default() };
    Pool::new(config).map_err(BenchError::of("pool"))
}

fn in_memory() -> LinkInfo {
    let info = ReplayConfig::new(Vec::new()).info;
    LinkInfo { name: "flooded0".into(), mac: MAC, queues: 2, ..info }
}

/// A host that echoes datagrams and streams, made at `now`, with the queues of its link dealt out to the workers in turn.
pub(super) fn team(
    link: LinkInfo,
    queues: Vec<Box<dyn LinkQueue>>,
    pool: Pool,
    now: u64,
    workers: impl FnOnce(&mut HostBuilder),
) -> Result<Host, BenchError> {
    let mut builder = HostBuilder::new(pool);
    workers(&mut builder);
    let services = HostConfig { tcp_echo: Some(PORT), ..HostConfig::serving(Service::Echo, PORT) };
    let graph = weever_models::host(&services).map_err(BenchError::of("host"))?;
    builder.graph(graph, HOST_SOURCE);
    let name = link.name.clone();
    let link = builder.queues_of(link, queues);
    let prefix = Prefix::new(HOST.into(), 24).expect("IPv4 prefixes have up to 32 bits");
    let interface = InterfaceConfig::new(name, link).address(prefix);
    builder.interface(interface).map_err(BenchError::of("host"))?;
    builder.neighbour(CLIENT.into(), MacAddr(GENERATOR_MAC));
    builder.build(now).map_err(BenchError::of("host"))
}

/// A datagram of worker 1's own flows.
pub(super) fn own(mac: [u8; 6]) -> Result<Vec<u8>, BenchError> {
    frame(CLIENT, mac, PORT)
}

/// Whether a packet answers one of these.
pub(super) fn is_answer(packet: &Buffer) -> bool {
    packet.data().get(34..36) == Some(&PORT.to_be_bytes())
}

/// Own frames and others take turns.
pub(super) fn mixed(own: &[u8], others: &[Vec<u8>]) -> Vec<Vec<u8>> {
    others.iter().flat_map(|other| [own.to_vec(), other.clone()]).collect()
}

/// As many frames to another host, which end at the worker where they arrive.
pub(super) fn harmless() -> Result<Vec<Vec<u8>>, BenchError> {
    strangers(SOMEBODY)
}

fn frame(from: Ipv4Addr, mac: [u8; 6], port: u16) -> Result<Vec<u8>, BenchError> {
    udp_frame((MacAddr(GENERATOR_MAC), from, MacAddr(mac), HOST), port, 60)
        .map_err(BenchError::of("frame"))
}

/// Fragments whose datagrams lack the rest, and datagrams of many senders to a port without a socket.
pub(super) fn strangers(mac: [u8; 6]) -> Result<Vec<Vec<u8>>, BenchError> {
    let stranger = |n: u16| {
        let from = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 9, 0, 2)) + u32::from(n % 250));
        let mut frame = frame(from, mac, CLOSED)?;
        if n.is_multiple_of(2) {
            fragment(&mut frame, from, n).map_err(BenchError::of("frame"))?;
        }
        Ok(frame)
    };
    (0..FRAMES).map(stranger).collect()
}

/// Makes the frame a middle fragment of a datagram of its own.
fn fragment(frame: &mut [u8], src: Ipv4Addr, ident: u16) -> Result<(), WireError> {
    const MORE: u16 = 1 << 13;
    let payload_len = (frame.len() - 34) as u16 / 8 * 8;
    let header = Ipv4Repr {
        tos: 0,
        ident,
        flags_frag: MORE | 1,
        ttl: 64,
        protocol: 17,
        src,
        dst: HOST,
        payload_len,
    };
    header.emit(&mut frame[14..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_answers_its_own_while_what_it_hands_over_finds_no_room() {
        let alone = beside(harmless().unwrap()).unwrap();
        assert!(alone >= (TURNS as f64 - 10.0) * ARRIVE as f64, "{alone}");
        let beside = beside(strangers(MAC).unwrap()).unwrap();
        assert!(beside >= alone * 0.9, "{beside} of {alone}");
    }

    #[test]
    fn a_flooded_worker_receives_and_the_other_one_answers() {
        let Ok(cores) = allowed_cores() else {
            return println!("skipped: needs to know its cores");
        };
        let [first, second, ..] = cores[..] else { return println!("skipped: needs two cores") };
        let (answers, flood) =
            rates(&[first, second], strangers(MAC).unwrap(), Duration::from_millis(100)).unwrap();
        assert!(answers > 0.0 && flood > 0.0, "{answers} {flood}");
    }
}
