//! The servers: on weever beside the program, inside it, and on the kernel.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use weever_app_library::Library;
use weever_app_server::AppListener;
use weever_app_sockets::{AppQueue, QueueConfig};
use weever_engine::Mode;
use weever_examples_apps::{echo, keyvalue};
use weever_host::{HostBuilder, InterfaceConfig, Prefix, Route};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Pool, PoolConfig, PoolError};
use weever_testbed::{Fixture, allowed_cores};
use weever_wire::MacAddr;

use crate::BenchError;
use crate::contender::Gate;
use crate::rig::{GENERATOR_MAC, HOST, PORT, REMOTE};

pub(crate) type Body = fn(&Gate) -> Result<(), BenchError>;

pub(crate) const DEVICE: &str = "right0";
/// How long a program that was started may take until it serves.
const START: Duration = Duration::from_millis(300);
/// How long the processes of a group that was killed may take until they are gone.
const GONE: Duration = Duration::from_secs(2);

/// The service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Datagrams are sent back.
    Echo,
    /// A key-value store.
    KeyValue,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Echo => "echo",
            Kind::KeyValue => "key-value",
        }
    }

    fn serve(self, queue: &AppQueue, running: impl Fn() -> bool) -> Result<(), BenchError> {
        let served = match self {
            Kind::Echo => echo(queue, PORT, running),
            Kind::KeyValue => keyvalue::serve(queue, PORT, running),
        };
        served.map_err(BenchError::of("application"))
    }
}

pub(crate) fn builder(failed: &'static str) -> Result<HostBuilder, BenchError> {
    builder_in(Pool::new(PoolConfig::default()), failed)
}

fn builder_in(
    pool: Result<Pool, PoolError>,
    failed: &'static str,
) -> Result<HostBuilder, BenchError> {
    let pool = pool.map_err(BenchError::of(failed))?;
    let device = AfXdp::open(&AfXdpConfig::new(DEVICE, pool.clone()));
    builder_on(device.map_err(BenchError::of(failed))?, pool, failed)
}

/// The contender's host, on this device.
pub(crate) fn builder_on(
    device: AfXdp,
    pool: Pool,
    failed: &'static str,
) -> Result<HostBuilder, BenchError> {
    let mut builder = HostBuilder::new(pool);
    let link = builder.link(Box::new(device));
    let address = format!("{HOST}/{}", Fixture::PREFIX).parse().map_err(BenchError::of(failed))?;
    let interface = InterfaceConfig::new(DEVICE, link).address(address);
    builder.interface(interface).map_err(BenchError::of(failed))?;
    builder.neighbour(Fixture::LEFT.into(), MacAddr(GENERATOR_MAC));
    Ok(builder)
}

/// The stack in the server's thread, which polls.
pub(crate) fn library(gate: &Gate, kind: Kind) -> Result<(), BenchError> {
    let failed = "library";
    // As a stack that is described by a line of text has it: nothing is copied between device and program.
    let config = PoolConfig { frames: 10_240, ..PoolConfig::default() };
    let builder = builder_in(Pool::shareable(config), failed)?;
    let library = Library::start(builder, Duration::from_millis(10));
    let library = library.map_err(BenchError::of(failed))?;
    let config = QueueConfig { spin: Duration::from_secs(1), ..QueueConfig::default() };
    let queue = library.queue(&config).map_err(BenchError::of(failed))?;
    let opened = std::cell::Cell::new(false);
    kind.serve(&queue, || {
        // It is asked once the socket is open.
        if !opened.replace(true) {
            gate.open();
        }
        gate.running()
    })
}

/// The stack's worker in this process, and the server in another, both on this thread's core.
pub(crate) fn process(gate: &Gate, kind: Kind) -> Result<(), BenchError> {
    beside(|apps, alive| {
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "app-server", kind.name()]).arg(apps);
        run("application", command, gate, alive)
    })
}

/// The stack's worker in this process, on this thread's core, for as long as `user` runs: it is told where the stack
/// serves applications, and asks whether it still does.
pub(crate) fn beside(
    user: impl FnOnce(&Path, &dyn Fn() -> bool) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let failed = "process";
    let mut builder = builder(failed)?;
    let remote = Prefix::new(REMOTE.0.into(), REMOTE.1).expect("IPv4 prefixes have up to 32 bits");
    let route = Route::via(remote, Fixture::LEFT.into());
    builder.route(&route).map_err(BenchError::of(failed))?;
    let core = allowed_cores().map_err(BenchError::of(failed))?;
    builder.cores(&core[..1]);
    serving(builder, user)
}

/// The host, serving applications for as long as `user` runs, as [`beside`] has it.
pub(crate) fn serving(
    mut builder: HostBuilder,
    user: impl FnOnce(&Path, &dyn Fn() -> bool) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let failed = "process";
    // They take turns on the core, so neither polls.
    builder.mode(Mode::Interrupt);
    let large = Pool::new(PoolConfig::large(64)).map_err(BenchError::of(failed))?;
    let server = builder.applications(Some(large), 1000).map_err(BenchError::of(failed))?;
    let host = builder.start().map_err(BenchError::of(failed))?;
    let path = std::env::temp_dir().join(format!("weever-bench-{}.sock", std::process::id()));
    let listener = AppListener::start(&path, &weever_app_server::Access::default(), server)
        .map_err(BenchError::of(failed))?;
    let used = user(&path, &|| host.handle().failure().is_none());
    drop(listener);
    used?;
    host.stop().failure.map_or(Ok(()), |failure| Err(BenchError::of(failed)(failure)))
}

/// A program on this thread's core, as long as the gate says and `alive` holds. It has its own group of processes,
/// which ends with it.
pub(crate) fn run(
    name: &'static str,
    mut command: Command,
    gate: &Gate,
    alive: &dyn Fn() -> bool,
) -> Result<(), BenchError> {
    command.process_group(0).stdin(Stdio::null());
    let mut program = Running(command.spawn().map_err(BenchError::of(name))?);
    std::thread::sleep(START);
    gate.open();
    while gate.running() && alive() {
        if let Some(status) = program.0.try_wait().map_err(BenchError::of(name))? {
            return Err(BenchError::of(name)(format!("it ended by itself: {status}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The program of [`process`]: serves until it is killed.
pub(crate) fn serve(kind: Kind, path: &Path) -> Result<(), BenchError> {
    let config = QueueConfig { path: path.into(), ..QueueConfig::default() };
    let queue = AppQueue::connect(&config).map_err(BenchError::of("application"))?;
    kind.serve(&queue, || true)
}

pub(crate) fn has_memcached() -> bool {
    Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_ok()
}

/// Debian's memcached over the kernel, with one thread, on this thread's core.
pub(super) fn memcached(gate: &Gate) -> Result<(), BenchError> {
    let mut command = Command::new("memcached");
    let port = PORT.to_string();
    command.args(["-u", "root", "-t", "1", "-p", "0", "-U", &port, "-l", &HOST.to_string()]);
    run("memcached", command, gate, &|| true)
}

/// A program that ends with its benchmark.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // All of its group: a server's workers outlive their master, and hold its port until they are gone.
        let group = Pid::from_raw(self.0.id().cast_signed());
        let _gone = killpg(group, Signal::SIGKILL);
        drop(self.0.wait());
        let since = Instant::now();
        while killpg(group, None).is_ok() && since.elapsed() < GONE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Nanoseconds for which a core was not idle so far, by the kernel's books.
pub(crate) fn busy_ns(core: usize) -> Result<u64, BenchError> {
    /// Nanoseconds of a tick of `/proc/stat`, on every architecture that Linux has (`USER_HZ`).
    const TICK: u64 = 10_000_000;
    let file = "/proc/stat";
    let text = fs::read_to_string(file).map_err(BenchError::of(file))?;
    let name = format!("cpu{core}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name));
    let fields =
        line.ok_or_else(|| BenchError::of(file)("the core is not in it"))?.split(' ').skip(1);
    // user, nice, system, idle, iowait, irq, softirq, …
    let ticks = fields.take(7).enumerate().filter(|(i, _)| !matches!(i, 3 | 4));
    Ok(ticks.filter_map(|(_, field)| field.parse::<u64>().ok()).sum::<u64>() * TICK)
}
