//! Flows of the kernel's TCP over a path: how long each takes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::counts::Counts;
use super::path::Path;
use crate::BenchError;
use crate::crossing::SINK;

const PORT: u16 = 5001;
/// Octets that are written or read at once.
const CHUNK: usize = 64 << 10;
/// After so long without an octet a flow has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What clients send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Clients that send at once, each one flow after the other.
    pub(super) parallel: usize,
    /// Flows of each client.
    pub(super) each: usize,
    /// Octets of a flow.
    pub(super) octets: u64,
}

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    /// From before the connection is opened until the server has closed it, of each flow, in milliseconds.
    pub(super) times: Vec<f64>,
    /// Of all flows.
    pub(super) seconds: f64,
    /// What the kernels counted meanwhile.
    pub(super) counts: Counts,
}

impl Carried {
    /// Gbit/s of payload.
    pub(super) fn goodput(&self, load: Load) -> f64 {
        (load.octets * self.times.len() as u64 * 8) as f64 / self.seconds / 1e9
    }
}

/// Carries a load from client to server. Blocks until the last flow has ended.
pub(super) fn carry(path: &Path, load: Load) -> Result<Carried, BenchError> {
    let listener = path.server.run(|| TcpListener::bind(("0.0.0.0", PORT)));
    let listener = listener.map_err(BenchError::of("server"))?;
    // Holds for `accept` too: a client that has failed does not come.
    setsockopt(&listener, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE.as_secs() as i64))
        .map_err(BenchError::of("server"))?;
    let before = Counts::of(path)?;
    let barrier = Barrier::new(load.parallel);
    let (times, seconds) = std::thread::scope(|scope| {
        for _ in 0..load.parallel {
            scope.spawn(|| serve(&listener, load));
        }
        // Threads are in the namespace of the one that starts them.
        path.client.run(|| clients(load, &barrier))
    })?;
    Ok(Carried { times, seconds, counts: Counts::of(path)?.since(before) })
}

/// Takes its part of the flows, and ends when it has or a client is gone.
fn serve(listener: &TcpListener, load: Load) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    for _ in 0..load.each {
        let (mut flow, _) = listener.accept()?;
        flow.set_read_timeout(Some(PATIENCE))?;
        while flow.read(&mut chunk)? > 0 {}
    }
    Ok(())
}

fn clients(load: Load, barrier: &Barrier) -> Result<(Vec<f64>, f64), BenchError> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let client = || {
            scope.spawn(|| {
                let chunk = vec![0x2a; CHUNK];
                barrier.wait();
                let started = Instant::now();
                let times: std::io::Result<Vec<f64>> =
                    (0..load.each).map(|_| flow(load.octets, &chunk)).collect();
                times.map(|times| (times, started, Instant::now()))
            })
        };
        let clients: Vec<_> = (0..load.parallel).map(|_| client()).collect();
        clients.into_iter().map(|client| client.join().expect("it does not panic")).collect()
    });
    let mut all = Vec::new();
    let (mut first, mut last) = (None, None);
    for result in results {
        let (times, started, ended) = result.map_err(BenchError::of("client"))?;
        all.extend(times);
        first = first.min(Some(started)).or(Some(started));
        last = last.max(Some(ended));
    }
    let seconds = last.zip(first).map_or(0.0, |(last, first)| (last - first).as_secs_f64());
    Ok((all, seconds))
}

/// The time of one flow, in milliseconds.
fn flow(octets: u64, chunk: &[u8]) -> std::io::Result<f64> {
    let started = Instant::now();
    let mut flow = TcpStream::connect_timeout(&SocketAddrV4::new(SINK, PORT).into(), PATIENCE)?;
    flow.set_write_timeout(Some(PATIENCE))?;
    flow.set_read_timeout(Some(PATIENCE))?;
    let mut left = octets;
    while left > 0 {
        let now = left.min(chunk.len() as u64);
        flow.write_all(&chunk[..now as usize])?;
        left -= now;
    }
    flow.shutdown(Shutdown::Write)?;
    match flow.read(&mut [0]) {
        Ok(0) => Ok(started.elapsed().as_secs_f64() * 1e3),
        Ok(_) => Err(ErrorKind::InvalidData.into()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::Serving;
    use super::*;

    #[test]
    fn flows_arrive_whole_with_threads_that_share_and_with_a_queue_each() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        for serving in [Serving::Shared(2), Serving::ScaleOut(2)] {
            let path = Path::new(serving).unwrap();
            let load = Load { parallel: 4, each: 3, octets: 100_000 };
            let carried = carry(&path, load).unwrap();
            assert_eq!(carried.times.len(), 12);
            assert!(carried.goodput(load) > 0.0 && carried.times.iter().all(|ms| *ms > 0.0));
            path.finish().unwrap();
        }
    }
}
