//! Goodput to the kernel and from it, over the cable, packets of 1,500 octets.
//!
//! The other host is the kernel's TCP in all cases. With offloads off neither cuts segments, joins them or leaves
//! sums to a device, as weever does neither on AF_XDP.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weever_app_sockets::{Error, Event};
use weever_testbed::pin_to;

use super::server::{inside, kernel_listener};
use crate::app::busy_ns;
use crate::contender::{Contender, Gate, rate};
use crate::rig::{HOST, PORT, Rig};
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

/// Octets that are written or read at once.
const CHUNK: usize = 64 << 10;
/// How long a blocked thread sleeps before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// What a kernel leaves to a device, or does late for it.
const OFFLOADS: [&str; 4] =
    ["tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro"];

/// Which way the octets go, as the contender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// The contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    Weever,
    Kernel,
    KernelWithOffloads,
}

impl Stack {
    const ALL: [Stack; 3] = [Stack::Weever, Stack::Kernel, Stack::KernelWithOffloads];

    fn name(self) -> &'static str {
        match self {
            Stack::Weever => "weever",
            Stack::Kernel => "kernel",
            Stack::KernelWithOffloads => "kernel with offloads",
        }
    }
}

/// The goodput of one contender in one direction, in Gbit/s, and its core's time for each KiB.
#[derive(Default)]
struct Reached {
    goodput: Samples,
    cpu_ns: Samples,
}

/// Adds the key `bulk_vs_kernel`: the worse of the two directions.
pub(super) fn measure(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    report.setup("bulk: one connection with the kernel's TCP, 1,500-octet packets, offloads off at both ends");
    let mut ratios: [Samples; 2] = Default::default();
    for (way, ratio) in [Way::Out, Way::In].into_iter().zip(&mut ratios) {
        let mut reached: [Reached; 3] = Default::default();
        for _ in plan.rounds() {
            for (stack, reached) in Stack::ALL.into_iter().zip(&mut reached) {
                one(rig, stack, way, plan.each, reached)?;
            }
        }
        let what = if way == Way::Out { "bulk to the kernel" } else { "bulk from the kernel" };
        for (stack, reached) in Stack::ALL.into_iter().zip(&reached) {
            let name = format!("{what}, {}", stack.name());
            report.row(&name, "Gbit/s", &reached.goodput);
            report.row(&format!("{name}: its core, each KiB"), "ns", &reached.cpu_ns);
        }
        let [weever, kernel, offloads] = &reached;
        *ratio = weever.goodput.ratio(&kernel.goodput);
        report.row(&format!("{what}, weever : kernel"), "", ratio);
        let all = weever.goodput.ratio(&offloads.goodput);
        report.row(&format!("{what}, weever : kernel with offloads"), "", &all);
    }
    let [out, into] = ratios;
    let worse = out.0.iter().zip(&into.0).map(|(out, into)| out.min(*into)).collect();
    report.ratio("bulk_vs_kernel", "", &Samples(worse));
    Ok(())
}

fn one(
    rig: &Rig,
    stack: Stack,
    way: Way,
    each: Duration,
    reached: &mut Reached,
) -> Result<(), BenchError> {
    for end in [(&rig.fixture.left, "left0"), (&rig.fixture.right, "right0")] {
        for offload in OFFLOADS {
            end.0.set_feature(end.1, offload, stack == Stack::KernelWithOffloads)?;
        }
    }
    let contender = Contender::start(rig, move |gate: &Gate| match stack {
        Stack::Weever => weever(gate, way),
        Stack::Kernel | Stack::KernelWithOffloads => kernel(gate, way),
    })?;
    let peer = Peer::start(rig, way)?;
    let before = (busy_ns(rig.contender_core)?, peer.octets());
    let millions = rate(each, || Ok(peer.octets()))?;
    let busy = busy_ns(rig.contender_core)? - before.0;
    let octets = peer.octets() - before.1;
    peer.finish()?;
    contender.finish()?;
    if octets == 0 {
        return Err(BenchError::of(stack.name())("it carried no octets"));
    }
    reached.goodput.push(millions * 8.0 / 1e3);
    reached.cpu_ns.push(busy as f64 / (octets as f64 / 1024.0));
    Ok(())
}

/// The other host's end: a thread on the generator's core that counts the octets that it has read, or
/// that its socket took.
struct Peer {
    octets: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(), BenchError>>,
}

impl Peer {
    fn start(rig: &Rig, way: Way) -> Result<Peer, BenchError> {
        let (octets, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, seen, core) = (octets.clone(), stop.clone(), rig.generator_core);
        let thread = rig.fixture.left.spawn("peer", move || {
            pin_to(core).map_err(BenchError::of("peer"))?;
            let socket = TcpStream::connect((HOST, PORT)).map_err(BenchError::of("peer"))?;
            let add = |octets| {
                let _before = count.fetch_add(octets, Ordering::Relaxed);
            };
            // The contender sends what the peer reads.
            let way = if way == Way::Out { Way::In } else { Way::Out };
            carry(socket, way, || !seen.load(Ordering::Relaxed), add)
                .map_err(BenchError::of("peer"))
        });
        Ok(Peer { octets, stop, thread: thread.map_err(BenchError::of("peer"))? })
    }

    fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    fn finish(self) -> Result<(), BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(BenchError::of("peer")("it panicked")))
    }
}

/// Writes or reads on a socket of the kernel's as long as it is to run.
fn carry(
    mut socket: TcpStream,
    way: Way,
    running: impl Fn() -> bool,
    add: impl Fn(u64),
) -> std::io::Result<()> {
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(LOOK))?;
    let mut chunk = vec![0x2a; CHUNK];
    while running() {
        let done = match way {
            Way::Out => socket.write(&chunk),
            Way::In => socket.read(&mut chunk),
        };
        match done {
            Ok(0) => return Ok(()),
            Ok(octets) => add(octets as u64),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The kernel: one connection. Its end is not its failure, as the peer may end first.
fn kernel(gate: &Gate, way: Way) -> Result<(), BenchError> {
    let listener = kernel_listener()?;
    gate.open();
    while gate.running() {
        match listener.accept() {
            Ok((socket, _)) => {
                let carried = socket.set_nonblocking(false);
                drop(carried.and_then(|()| carry(socket, way, || gate.running(), |_| {})));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(())
}

/// weever: one connection.
fn weever(gate: &Gate, way: Way) -> Result<(), BenchError> {
    let failed = BenchError::of("weever");
    let inside = inside()?;
    let chunk = vec![0x2a; CHUNK];
    gate.open();
    while gate.running() {
        inside.queue.wait(Some(LOOK)).map_err(&failed)?;
        while let Some(event) = inside.queue.next().map_err(&failed)? {
            let stream = match event {
                Event::Accepted(_, stream) | Event::Writable(stream) if way == Way::Out => stream,
                Event::Finished(stream) => {
                    inside.queue.close_stream(stream).map_err(&failed)?;
                    continue;
                }
                // What comes is read by being dropped.
                _ => continue,
            };
            loop {
                match inside.queue.write(stream, &chunk) {
                    Ok(octets) if octets == chunk.len() => {}
                    Ok(_) | Err(Error::WouldBlock | Error::NoSocket) => break,
                    Err(error) => return Err(failed(error)),
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_go_both_ways_over_every_stack() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("tcp").unwrap();
        let mut report = Report::new("tcp");
        measure(&rig, Plan { rounds: 1, each: Duration::from_millis(50) }, &mut report).unwrap();
        assert!(report.ratios["bulk_vs_kernel"] > 0.0, "{report}");
    }
}
