//! One packet from the worker through a channel to the application and back, in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weever_app_ring::{AppEnd, Delivery, Geometry, PacketInfo, StackEnd};
use weever_testbed::{allowed_cores, pin_to};

use crate::BenchError;

/// Packets that are handed over at once.
const BATCH: usize = 64;
/// Packets on their way at the most.
const IN_FLIGHT: usize = 4 * BATCH;
const PAYLOAD: usize = 64;

/// Nanoseconds for each packet, the two ends on two cores if there are two. Payloads are copied into
/// the channel and out of it, and touched by the application.
pub(super) fn nanoseconds(during: Duration) -> Result<f64, BenchError> {
    let failed = "ring";
    let cores = allowed_cores().map_err(BenchError::of(failed))?;
    let mut stack = StackEnd::create(Geometry::default()).map_err(BenchError::of(failed))?;
    let memory = stack.fd().try_clone_to_owned().map_err(BenchError::of(failed))?;
    let app = AppEnd::map(memory).map_err(BenchError::of(failed))?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, first, last) = (&stop, cores.first().copied(), cores.last().copied());
        let application = scope.spawn(move || {
            drop(last.map(pin_to));
            echo(app, stop)
        });
        // Of its own, so that the caller stays bound to no core.
        let worker = scope.spawn(move || {
            drop(first.map(pin_to));
            let measured = drive(&mut stack, during);
            stop.store(true, Ordering::Relaxed);
            measured
        });
        let panicked = |_| Err(BenchError::of(failed)("it panicked"));
        let measured = worker.join().unwrap_or_else(panicked);
        stop.store(true, Ordering::Relaxed);
        application.join().unwrap_or_else(|_| Err(BenchError::of(failed)("it panicked")))?;
        measured
    })
}

/// The application: counts a byte of each payload and sends it back.
fn echo(mut app: AppEnd, stop: &AtomicBool) -> Result<(), BenchError> {
    let failed = BenchError::of("ring");
    let mut touched = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let mut any = false;
        for _ in 0..BATCH {
            let Some(received) = app.receive().map_err(|e| failed(e.to_string()))? else { break };
            any = true;
            touched += app.payload(&received).iter().map(|byte| u64::from(*byte)).sum::<u64>();
            let (socket, range) = (received.socket, (received.offset, received.len, 0));
            let Some(frame) = received.frame else { continue };
            let info = PacketInfo { remote: app.info(&frame).remote, ..PacketInfo::default() };
            app.submit(frame, socket, &info, range).map_err(|e| failed(e.to_string()))?;
        }
        if any {
            let _nobody_sleeps = app.commit().map_err(|e| failed(e.to_string()))?;
        } else {
            std::hint::spin_loop();
        }
    }
    std::hint::black_box(touched);
    Ok(())
}

/// The worker: delivers, and takes the returned datagrams.
fn drive(stack: &mut StackEnd, during: Duration) -> Result<f64, BenchError> {
    let failed = BenchError::of("ring");
    let info = PacketInfo { remote: ([192, 0, 2, 1], 9).into(), ..PacketInfo::default() };
    let (payload, mut out) = ([0x2a; PAYLOAD], [0; PAYLOAD]);
    let (mut sent, mut back) = (0usize, 0usize);
    let start = Instant::now();
    while start.elapsed() < during {
        while sent - back <= IN_FLIGHT - BATCH {
            let before = sent;
            for _ in 0..BATCH {
                let delivered = stack.deliver(1, &info, &payload);
                match delivered.map_err(|e| failed(e.to_string()))? {
                    Delivery::Delivered => sent += 1,
                    _ => break,
                }
            }
            let _nobody_sleeps = stack.publish();
            if sent == before {
                break;
            }
        }
        for _ in 0..BATCH {
            let next = stack.next_transmit().map_err(|e| failed(e.to_string()))?;
            if next.is_none() {
                break;
            }
            stack.copy_payload(&mut out);
            stack.complete().map_err(|e| failed(e.to_string()))?;
            back += 1;
        }
        let _nobody_sleeps = stack.publish();
    }
    if back == 0 {
        return Err(failed("nothing came back".into()));
    }
    Ok(start.elapsed().as_nanos() as f64 / back as f64)
}
