//! The price of one call: `recv` of 64 octets on a socket that has them, under `weever run` and on the kernel.
//!
//! The measured program is this one, started anew. It asks a peer for a number of datagrams, waits until they must be
//! there, and takes the time of receiving them all. What the stack does for them is not in that time; what the library
//! in the program does is.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weever_testbed::{Fixture, pin_to};

use super::on::{On, own, plainly, under_run, with_stack};
use crate::app::beside;
use crate::contender::{Contender, Gate};
use crate::rig::{PORT, Rig};
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

const OCTETS: usize = 64;
/// Datagrams of one request: as many as a socket of the kernel's holds by default, and some less.
const DATAGRAMS: usize = 128;
/// How long datagrams may take until they are in the socket: some four times as long as they do. Those of a socket that a program
/// is woken for are no older.
const ARRIVAL: Duration = Duration::from_millis(1);
/// Requests for datagrams in a round; on a busy machine some are not answered in time, and asked again.
const REQUESTS: usize = 20;
const MOST_REQUESTS: usize = 200;
/// How long a peer waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Adds the key `shim_ns`: the time on weever as a part of that on the kernel.
pub(super) fn measure(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let peer = Peer::start(rig)?;
    let mut times: [Samples; 2] = Default::default();
    for _ in plan.rounds() {
        for (on, times) in On::BOTH.into_iter().zip(&mut times) {
            times.push(one(rig, on)?);
        }
    }
    peer.finish()?;
    for (on, times) in On::BOTH.into_iter().zip(&times) {
        report.row(&format!("recv of {OCTETS} octets, {}", on.name()), "ns", times);
    }
    let [kernel, weever] = &times;
    report.ratio("shim_ns", "", &weever.ratio(kernel));
    Ok(())
}

/// Nanoseconds of a call.
fn one(rig: &Rig, on: On) -> Result<f64, BenchError> {
    let (tell, told) = mpsc::channel();
    let contender = Contender::start(rig, move |gate: &Gate| {
        gate.open();
        let peer = SocketAddr::from((Fixture::LEFT, PORT)).to_string();
        let command = [own()?.display().to_string(), "bench".into(), "shim-client".into(), peer];
        let run = |command| {
            // The measuring thread waits for it.
            let _heard = tell.send(nanoseconds(command)?);
            Ok(())
        };
        match on {
            On::Kernel => run(plainly(&command)),
            On::Weever => beside(|apps, _| run(under_run(apps, &command)?)),
            On::Inside => run(with_stack(&command)?),
        }
    })?;
    let time = told.recv_timeout(Duration::from_secs(30));
    contender.finish()?;
    time.map_err(BenchError::of("shim"))
}

/// What the program prints.
fn nanoseconds(mut command: Command) -> Result<f64, BenchError> {
    let failed = BenchError::of("shim");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(&failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let wrong = |_| BenchError::of("shim")(format!("it says {text:?}, {}", output.status));
    text.trim().parse().map_err(wrong)
}

/// The measured program: prints the nanoseconds of one call, the median of its requests.
pub(crate) fn client(peer: SocketAddr) -> Result<String, BenchError> {
    let failed = BenchError::of("shim client");
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(&failed)?;
    socket.connect(peer).map_err(&failed)?;
    socket.set_nonblocking(true).map_err(&failed)?;
    let (mut times, mut octets) = (Samples::default(), [0; OCTETS]);
    for _ in 0..MOST_REQUESTS {
        socket.send(b"?").map_err(&failed)?;
        std::thread::sleep(ARRIVAL);
        let started = Instant::now();
        let got = (0..DATAGRAMS).take_while(|_| socket.recv(&mut octets).is_ok()).count();
        let took = started.elapsed();
        if got == DATAGRAMS {
            times.push(took.as_nanos() as f64 / DATAGRAMS as f64);
        }
        if times.0.len() == REQUESTS {
            break;
        }
        // Those that came late belong to no request.
        while socket.recv(&mut octets).is_ok() {}
    }
    if times.0.is_empty() {
        let message = format!("none of {MOST_REQUESTS} requests was answered in time");
        return Err(BenchError::of("shim client")(message));
    }
    Ok(format!("{}\n", times.summary().median))
}

/// Answers each request with datagrams, from the generator's core.
struct Peer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(), BenchError>>,
}

impl Peer {
    fn start(rig: &Rig) -> Result<Peer, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, core, failed) = (stop.clone(), rig.generator_core, BenchError::of("peer"));
        let socket = rig.fixture.left.run(|| UdpSocket::bind((Fixture::LEFT, PORT)));
        let socket = socket.map_err(&failed)?;
        socket.set_read_timeout(Some(LOOK)).map_err(&failed)?;
        let thread = std::thread::spawn(move || {
            let failed = BenchError::of("peer");
            pin_to(core).map_err(&failed)?;
            while !seen.load(Ordering::Relaxed) {
                if let Ok((_, from)) = socket.recv_from(&mut [0; OCTETS]) {
                    for _ in 0..DATAGRAMS {
                        // A client that ended meanwhile has its own error.
                        let _refused = socket.send_to(&[0x2a; OCTETS], from);
                    }
                }
            }
            Ok(())
        });
        Ok(Peer { stop, thread })
    }

    fn finish(self) -> Result<(), BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(BenchError::of("peer")("it panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_takes_the_time_of_its_peers_datagrams() {
        weever_testbed::require_net_admin!();
        let rig = crate::tcp::rig("programs").unwrap();
        let cores = weever_testbed::allowed_cores().unwrap();
        let peer = Peer::start(&rig).unwrap();
        let told = rig.fixture.right.run(|| client((Fixture::LEFT, PORT).into())).unwrap();
        peer.finish().unwrap();
        assert!(told.trim().parse::<f64>().unwrap() > 0.0);
        assert_eq!(weever_testbed::allowed_cores().unwrap(), cores, "what follows needs them all");
    }
}
