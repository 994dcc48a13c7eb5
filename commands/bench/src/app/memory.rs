//! The memory of an idle socket.

use std::fs;

use super::opening::{Quiet, binds};
use crate::BenchError;

const SOCKETS: usize = 100_000;

/// Bytes for each idle socket, stack and library together: both are in this process.
pub(super) fn bytes_per_socket() -> Result<f64, BenchError> {
    let stack = Quiet::start()?;
    let queue = stack.queue()?;
    let binds = binds(SOCKETS);
    // The first sockets make the parts that all share.
    let failed = BenchError::of("memory");
    queue.open_many(&binds[..1000]).1.map_err(|e| failed(e.to_string()))?;
    let before = resident()?;
    queue.open_many(&binds[1000..]).1.map_err(|e| failed(e.to_string()))?;
    Ok((resident()?.saturating_sub(before)) as f64 / (SOCKETS - 1000) as f64)
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64, BenchError> {
    let failed = BenchError::of("/proc/self/smaps_rollup");
    let text =
        fs::read_to_string("/proc/self/smaps_rollup").map_err(|error| failed(error.to_string()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| failed("no Rss in it".into()))
}
