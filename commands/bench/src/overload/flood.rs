//! A worker that serves its own flows while worker 0 is flooded with fragments that never become whole
//! and with datagrams of strangers.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use weever_engine::{Mode, monotonic};
use weever_host::{HostBuilder, InterfaceConfig, Prefix, allowed_cores};
use weever_link::LinkInfo;
use weever_link::replay::ReplayConfig;
use weever_models::Service;
use weever_packet::{Pool, PoolConfig};
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::{MacAddr, WireError};

use crate::forward::queue;
use crate::rig::GENERATOR_MAC;
use crate::samples::Plan;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples};

const MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 7;
/// A port that no socket has.
const CLOSED: u16 = 4242;
/// Frames of the flood: half of them fragments.
const FRAMES: u16 = 1024;
/// Time in which caches and tables fill.
const WARM_UP: Duration = Duration::from_millis(50);

pub(super) fn measure(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
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
        let (beside, flood) = rates(&cores, strangers()?, plan.each)?;
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
    let config = PoolConfig { frames: 16_384, ..PoolConfig::default() };
    let mut builder = HostBuilder::new(Pool::new(config).map_err(BenchError::of("pool"))?);
    builder.cores(cores);
    builder.mode(Mode::Busy);
    builder.serve(Service::Echo, PORT);
    let info = ReplayConfig::new(Vec::new()).info;
    let link = LinkInfo { name: "flooded0".into(), mac: MAC, queues: 2, ..info };
    // The queues go to the workers in turn.
    let link = builder.queues_of(link, vec![queue(flood)?, queue(vec![frame(CLIENT, PORT)?])?]);
    let prefix = Prefix::new(HOST.into(), 24).expect("IPv4 prefixes have up to 32 bits");
    let interface = InterfaceConfig::new("flooded0", link).address(prefix);
    builder.interface(interface).map_err(BenchError::of(failed))?;
    builder.neighbour(CLIENT.into(), MacAddr(GENERATOR_MAC));
    let host = builder.build(monotonic()).map_err(BenchError::of(failed))?;
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

fn frame(from: Ipv4Addr, port: u16) -> Result<Vec<u8>, BenchError> {
    udp_frame((MacAddr(GENERATOR_MAC), from, MacAddr(MAC), HOST), port, 60)
        .map_err(BenchError::of("frame"))
}

/// Fragments whose datagrams lack the rest, and datagrams of many senders to a port without a socket.
fn strangers() -> Result<Vec<Vec<u8>>, BenchError> {
    let stranger = |n: u16| {
        let from = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 9, 0, 2)) + u32::from(n % 250));
        let mut frame = frame(from, CLOSED)?;
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
    fn a_flooded_worker_receives_and_the_other_one_answers() {
        let Ok(cores) = allowed_cores() else {
            return println!("skipped: needs to know its cores");
        };
        let [first, second, ..] = cores[..] else { return println!("skipped: needs two cores") };
        let (answers, flood) =
            rates(&[first, second], strangers().unwrap(), Duration::from_millis(100)).unwrap();
        assert!(answers > 0.0 && flood > 0.0, "{answers} {flood}");
    }
}
