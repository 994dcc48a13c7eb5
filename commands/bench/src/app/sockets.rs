//! Many sockets, on a stack with one worker and no device: the time to open them and their memory.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use weever_app_server::AppListener;
use weever_app_sockets::{AppQueue, Bind, QueueConfig};
use weever_host::{HostBuilder, InterfaceConfig, RunningHost};
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Pool, PoolConfig};

use crate::BenchError;

const FAILED: &str = "opening sockets";

/// A stack that serves applications, and is otherwise left alone.
pub(super) struct Quiet {
    path: PathBuf,
    _listener: AppListener,
    _host: RunningHost,
}

impl Quiet {
    pub(super) fn start() -> Result<Quiet, BenchError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let config = MemoryConfig { waitable: true, ..MemoryConfig::default() };
        let (ours, _theirs) = pair(&config).map_err(BenchError::of(FAILED))?;
        let pool = PoolConfig { frames: 1024, ..PoolConfig::default() };
        let mut builder = HostBuilder::new(Pool::new(pool).map_err(BenchError::of(FAILED))?);
        let link = builder.link(Box::new(ours));
        let address = "10.0.0.1/8".parse().map_err(BenchError::of(FAILED))?;
        let interface = InterfaceConfig::new("eth0", link).address(address);
        builder.interface(interface).map_err(BenchError::of(FAILED))?;
        let server = builder.applications(None, 2_000_000).map_err(BenchError::of(FAILED))?;
        let host = builder.start().map_err(BenchError::of(FAILED))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weever-bench-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = AppListener::start(&path, &weever_app_server::Access::default(), server)
            .map_err(BenchError::of(FAILED))?;
        Ok(Quiet { path, _listener: listener, _host: host })
    }

    pub(super) fn queue(&self) -> Result<AppQueue, BenchError> {
        let config = QueueConfig { path: self.path.clone(), ..QueueConfig::default() };
        AppQueue::connect(&config).map_err(BenchError::of(FAILED))
    }
}

/// So many sockets with one port and a peer each.
pub(super) fn binds(count: usize) -> Vec<Bind> {
    let any = Bind::at((Ipv4Addr::UNSPECIFIED, 7000).into());
    let peer = |number: usize| (Ipv4Addr::from_bits(0x0a01_0000 + (number as u32 >> 10)), number);
    let peers = (0..count).map(peer).map(|(ip, number)| (ip, 1024 + (number % 1024) as u16));
    peers.map(|peer| any.clone().connected_to(peer.into())).collect()
}

/// Milliseconds for opening so many, either all on their way together or one after the other.
pub(super) fn milliseconds(count: usize, pipelined: bool) -> Result<f64, BenchError> {
    let stack = Quiet::start()?;
    let queue = stack.queue()?;
    let binds = binds(count);
    let start = Instant::now();
    if pipelined {
        queue.open_many(&binds).1.map_err(BenchError::of(FAILED))?;
    } else {
        for bind in &binds {
            queue.open(bind).map_err(BenchError::of(FAILED))?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / 1e6)
}

const SOCKETS: usize = 100_000;

/// Bytes for each idle socket, stack and library together: both are in this process.
pub(super) fn bytes_per_socket() -> Result<f64, BenchError> {
    let stack = Quiet::start()?;
    let queue = stack.queue()?;
    let binds = binds(SOCKETS);
    // The first sockets make the parts that all share.
    let failed = BenchError::of("opening sockets");
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
