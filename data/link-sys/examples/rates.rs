//! The cost of the link compared with AF_XDP with nothing around it: receive-and-drop and echo over
//! a veth pair, alternating. Run as root: `cargo run --release -p weever-link-sys --example rates`.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weever_ebpf::sys::{LiveFrames, XdpLink};
use weever_ebpf::xdp::{Generator, GeneratorSettings, Order, Span, drop_all};
use weever_link::Link;
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, Bare, RingSizes};
use weever_packet::{Burst, HugePages, Pool, PoolConfig};
use weever_testbed::{Fixture, pin_to};

const RUN: Duration = Duration::from_millis(1000);
const WARM_UP: Duration = Duration::from_millis(100);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A contender's results.
#[derive(Clone, Copy)]
struct Measured {
    /// Millions of packets per second.
    rate: f64,
    /// Nanoseconds per packet of the median call that handled a full burst: the cost of the code,
    /// also where others use the cores.
    cost: f64,
}

/// Calls `step`, which says how many packets it handled.
fn measure_steps(mut step: impl FnMut() -> usize) -> Measured {
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        step();
    }
    let mut costs = Vec::with_capacity(1 << 17);
    let (start, mut packets) = (Instant::now(), 0);
    let mut last = start;
    while last - start < RUN {
        let n = step();
        let now = Instant::now();
        if n == 64 && costs.len() < costs.capacity() {
            costs.push((now - last).as_nanos() as f64 / 64.0);
        }
        (last, packets) = (now, packets + n);
    }
    Measured { rate: packets as f64 / (last - start).as_secs_f64() / 1e6, cost: median(&mut costs) }
}

fn config(rings: RingSizes) -> Result<AfXdpConfig> {
    let huge_pages = HugePages::Try;
    let pool = Pool::new(PoolConfig { huge_pages, frames: 8192, ..PoolConfig::default() })?;
    Ok(AfXdpConfig { rings, ..AfXdpConfig::new("right0", pool) })
}

fn turn(frame: &mut [u8]) {
    let (to, from) = frame.split_at_mut(6);
    to.swap_with_slice(&mut from[..6]);
}

fn bare_drop(config: &AfXdpConfig) -> Result<Measured> {
    let mut bare = Bare::open(config)?;
    Ok(measure_steps(|| bare.receive_and_drop()))
}

fn bare_echo(config: &AfXdpConfig) -> Result<Measured> {
    let mut bare = Bare::open(config)?;
    Ok(measure_steps(|| bare.echo(turn)))
}

fn link_drop(config: &AfXdpConfig) -> Result<Measured> {
    let mut link = AfXdp::open(config)?;
    let (mut queue, mut cache) = (link.take_queues().remove(0), config.pool.cache());
    let mut burst = Burst::new();
    let measured = measure_steps(|| {
        let n = queue.rx(&mut cache, &mut burst, 64).unwrap_or(0);
        (0..n).filter_map(|slot| burst.take(slot)).for_each(|packet| cache.free(packet));
        n
    });
    Ok(measured)
}

fn link_echo(config: &AfXdpConfig) -> Result<Measured> {
    let mut link = AfXdp::open(config)?;
    let (mut queue, mut cache) = (link.take_queues().remove(0), config.pool.cache());
    let mut burst = Burst::new();
    let mut packets = VecDeque::with_capacity(256);
    let measured = measure_steps(|| {
        // As a worker does: no more is received than can be held back.
        let room = 128usize.saturating_sub(packets.len()).min(64);
        let n = queue.rx(&mut cache, &mut burst, room).unwrap_or(0);
        for mut packet in (0..n).filter_map(|slot| burst.take(slot)) {
            turn(packet.data_mut());
            packets.push_back(packet);
        }
        let sent = queue.tx(&mut cache, &mut packets).unwrap_or(0);
        queue.flush(&mut cache).unwrap_or(());
        sent
    });
    Ok(measured)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn compare(
    what: &str,
    config: &AfXdpConfig,
    bare: fn(&AfXdpConfig) -> Result<Measured>,
    link: fn(&AfXdpConfig) -> Result<Measured>,
) -> Result<()> {
    let runs: Result<Vec<_>> = (0..7).map(|_| Ok((bare(config)?, link(config)?))).collect();
    let runs = runs?;
    let middle =
        |of: fn(&(Measured, Measured)) -> f64| median(&mut runs.iter().map(of).collect::<Vec<_>>());
    println!(
        "{what:<18} bare {:.3} link {:.3} Mpps, ratio {:.3}; full bursts: bare {:.1} link {:.1} ns",
        middle(|run| run.0.rate),
        middle(|run| run.1.rate),
        middle(|run| run.1.rate / run.0.rate),
        middle(|run| run.0.cost),
        middle(|run| run.1.cost),
    );
    Ok(())
}

fn measure(rings: RingSizes) -> Result<()> {
    drop(pin_to(1));
    let config = config(rings)?;
    compare(&format!("drop, rings {}", rings.rx), &config, bare_drop, link_drop)?;
    compare(&format!("echo, rings {}", rings.rx), &config, bare_echo, link_echo)
}

/// Ends the load however the measurement ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn main() -> Result<()> {
    let net = Fixture::pair(1)?;
    let (left, right) = (&net.veth.left, &net.veth.right);
    let sink = drop_all()?;
    let _sink = net.left.run(|| XdpLink::attach(&sink, left.index))?;
    let generator = Generator::load(&GeneratorSettings {
        out_ifindex: left.index,
        source_mac: left.mac,
        destination_mac: right.mac,
        sources: Span::one(Fixture::LEFT),
        destination: Fixture::RIGHT,
        source_ports: Span { first: 1000, count: 16 },
        destination_ports: Span::one(7),
        payload: vec![0x2a; 18],
        udp_checksum: true,
        order: Order::RoundRobin,
    })?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            net.left.enter();
            drop(pin_to(0));
            while !stop.load(Ordering::Relaxed) {
                let live = LiveFrames { repeat: 1 << 19, batch: 64 };
                if generator.run(live).is_err() {
                    return;
                }
            }
        });
        let _stop = Stop(&stop);
        net.right.run(|| {
            for size in [512, 1024, 2048] {
                let rings = RingSizes { rx: size, tx: size, fill: size, completion: size };
                measure(rings)?;
            }
            Ok(())
        })
    })
}
