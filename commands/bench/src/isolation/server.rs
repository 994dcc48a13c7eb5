//! The server: two workers that take a while for each request and echo it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weever_engine::monotonic;
use weever_link::{LinkError, LinkQueue};
use weever_packet::{Buffer, Burst, Pool, PoolCache};
use weever_testbed::pin_to;

use crate::BenchError;

/// The service time of a request, in nanoseconds.
pub(super) const SERVICE: u64 = 20_000;

/// A server of one request at a time; the others wait in its sockets' rings.
struct Worker {
    queues: Vec<Box<dyn LinkQueue>>,
    /// Which queue is asked next.
    turn: usize,
    /// The request in service, the queue it came by, and when it is done.
    serving: Option<(Buffer, usize, u64)>,
    cache: PoolCache,
}

impl Worker {
    fn step(&mut self, now: u64) -> Result<(), LinkError> {
        let mut free = now;
        if let Some((_, _, done)) = &self.serving {
            if now < *done {
                return Ok(());
            }
            free = *done;
        }
        if let Some((mut request, queue, _)) = self.serving.take() {
            turn_around(request.data_mut());
            let mut packets = VecDeque::from([request]);
            self.queues[queue].tx(&mut self.cache, &mut packets)?;
            packets.into_iter().for_each(|packet| self.cache.free(packet));
            self.queues[queue].flush(&mut self.cache)?;
        }
        // A poll that comes a moment late does not slow the service.
        let begins = if now - free < SERVICE / 4 { free } else { now };
        for _ in 0..self.queues.len() {
            self.turn = (self.turn + 1) % self.queues.len();
            let mut burst = Burst::new();
            if self.queues[self.turn].rx(&mut self.cache, &mut burst, 1)? == 1 {
                let request = burst.take(0);
                self.serving = request.map(|request| (request, self.turn, begins + SERVICE));
                break;
            }
        }
        Ok(())
    }
}

/// Sender and receiver change places: MAC addresses, IPv4 addresses, ports.
fn turn_around(frame: &mut [u8]) {
    for (at, size) in [(0, 6), (26, 4), (34, 2)] {
        if let Some(ends) = frame.get_mut(at..at + 2 * size) {
            let (from, to) = ends.split_at_mut(size);
            from.swap_with_slice(to);
        }
    }
}

/// The workers' thread. Dropping it ends it.
pub(super) struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), LinkError>>>,
}

impl Server {
    /// Queue *i* is worker *i* modulo their number.
    pub(super) fn start(
        queues: Vec<Box<dyn LinkQueue>>,
        workers: usize,
        pool: &Pool,
        core: usize,
    ) -> Result<Server, BenchError> {
        let worker = || Worker { queues: Vec::new(), turn: 0, serving: None, cache: pool.cache() };
        let mut all: Vec<Worker> = (0..workers).map(|_| worker()).collect();
        for (number, queue) in queues.into_iter().enumerate() {
            all[number % workers].queues.push(queue);
        }
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let work = move || {
            let _anywhere = pin_to(core);
            while !stopped.load(Ordering::Relaxed) {
                for worker in &mut all {
                    worker.step(monotonic())?;
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("server".into()).spawn(work);
        Ok(Server { stop, thread: Some(thread.map_err(BenchError::of("server"))?) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("weever bench: server: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_back_to_who_asked() {
        let mut frame: Vec<u8> = (0..42).collect();
        turn_around(&mut frame);
        assert_eq!(frame[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(frame[26..38], [30, 31, 32, 33, 26, 27, 28, 29, 36, 37, 34, 35]);
        turn_around(&mut []);
    }
}
