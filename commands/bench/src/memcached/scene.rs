//! A server under one of the policies, or on the kernel's stack, and clients that come and go.

use std::time::Duration;

use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Pool, PoolConfig};
use weever_testbed::pin_to;

use super::population::{BALANCE, FIRST, IN_FLIGHT, ISOLATE, NEW_BEST_EFFORT, NEW_HIGH, port};
use crate::BenchError;
use crate::app::{self, DEVICE, builder_on, requests, run_program, serving};
use crate::client::Client;
use crate::clients::{Clients, ClosedLoop, Served};
use crate::contender::{Contender, Gate};
use crate::programs::{plainly, quietly, under_run};
use crate::rig::{PORT, Receiver, Rig};
use crate::steward;

const MEMCACHED: &str = "memcached";
/// Workers of the stack, and threads of memcached.
const WORKERS: u16 = 2;
/// A part of the wait until flows are found, filters are set, and the first value is stored:
/// [`SETTLED`] of them.
const WARM_UP: Duration = Duration::from_millis(100);
const SETTLED: usize = 10;
/// The most waits of this length for the first answer.
const MOST_WAITS: usize = 100;
/// Slices of time in which newcomers are measured.
pub(super) const SLICES: usize = 20;

/// The stack, and its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    Kernel,
    Balance,
    Isolate,
}

impl Under {
    pub(super) const ALL: [Under; 3] = [Under::Kernel, Under::Balance, Under::Isolate];

    pub(super) fn name(self) -> &'static str {
        match self {
            Under::Kernel => "kernel",
            Under::Balance => "balance",
            Under::Isolate => "isolate",
        }
    }

    fn policy(self) -> Option<&'static str> {
        match self {
            Under::Kernel => None,
            Under::Balance => Some(BALANCE),
            Under::Isolate => Some(ISOLATE),
        }
    }

    /// Runs memcached until the gate closes.
    fn serve(self, core: usize, gate: &Gate) -> Result<(), BenchError> {
        let (port, threads) = (PORT.to_string(), WORKERS.to_string());
        let words = [MEMCACHED, "-u", "root", "-t", &threads, "-p", "0", "-U", &port];
        let command: Vec<String> = words.map(str::to_owned).into();
        let Some(policy) = self.policy() else {
            return run_program(MEMCACHED, quietly(plainly(&command)), gate, &|| true);
        };
        let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(MEMCACHED))?;
        let sockets =
            AfXdpConfig { sockets_per_queue: WORKERS, ..AfXdpConfig::new(DEVICE, pool.clone()) };
        let device = AfXdp::open(&sockets).map_err(BenchError::of(MEMCACHED))?;
        let (_steward, _) = steward::start(device.steering(), policy, WORKERS.into(), core)?;
        let mut builder = builder_on(device, pool, MEMCACHED)?;
        // Their threads inherit the core of this one, the contender's.
        builder.workers(WORKERS.into());
        serving(builder, |apps, alive| {
            run_program(MEMCACHED, quietly(under_run(apps, &command)?), gate, alive)
        })
    }
}

/// The service that each client got in a phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    pub(super) clients: Vec<Served>,
    /// The same by slices of time.
    pub(super) slices: Vec<Vec<Served>>,
    pub(super) each: Duration,
}

impl Phase {
    fn play(clients: &mut Clients, each: Duration) -> Result<Phase, BenchError> {
        let slice = each / SLICES as u32;
        let mut slices = Vec::new();
        for _ in 0..SLICES {
            slices.push(clients.run(slice)?);
        }
        let mut sums = vec![Served::default(); slices[0].len()];
        for served in slices.iter().flat_map(|slice| slice.iter().enumerate()) {
            sums[served.0].add(served.1);
        }
        Ok(Phase { clients: sums, slices, each: slice * SLICES as u32 })
    }

    /// Answers to all clients per second.
    pub(super) fn rate(&self) -> f64 {
        let answers: u64 = self.clients.iter().map(|client| client.answers).sum();
        answers as f64 / self.each.as_secs_f64()
    }
}

/// A run in three phases: the first clients alone; then with one more best-effort client; then with one more
/// high-priority client instead.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    pub(super) alone: Phase,
    pub(super) best_effort: Phase,
    pub(super) high: Phase,
}

/// Plays all phases for a server under a policy with values of this length.
pub(super) fn play(
    rig: &Rig,
    under: Under,
    len: usize,
    each: Duration,
) -> Result<Played, BenchError> {
    rig.receive_returns(Receiver::Generator)?;
    let received = (under == Under::Kernel).then_some(rig.contender_core);
    rig.fixture.right.process_received_on(DEVICE, received)?;
    let host_mac = rig.contender_end()?.mac;
    let (core, server_core) = (rig.generator_core, rig.contender_core);
    let contender = Contender::start(rig, move |gate: &Gate| under.serve(server_core, gate))?;
    let played = rig.fixture.left.run(move || {
        pin_to(core).map_err(BenchError::of("clients"))?;
        let load =
            ClosedLoop { clients: FIRST + 2, in_flight: IN_FLIGHT, requests: requests(len), port };
        let mut clients = Clients::new(Client::open(host_mac)?, &load)?;
        [NEW_BEST_EFFORT, NEW_HIGH].into_iter().for_each(|client| clients.admit(client, false));
        // Requests sent before the server listens are lost, and repeated much later.
        for _ in 0..MOST_WAITS {
            if clients.run(WARM_UP)?.iter().map(|client| client.answers).sum::<u64>() > 0 {
                break;
            }
        }
        for _ in 0..SETTLED {
            clients.run(WARM_UP)?;
        }
        let alone = Phase::play(&mut clients, each)?;
        clients.admit(NEW_BEST_EFFORT, true);
        let best_effort = Phase::play(&mut clients, each)?;
        clients.admit(NEW_BEST_EFFORT, false);
        clients.run(WARM_UP)?;
        clients.admit(NEW_HIGH, true);
        let high = Phase::play(&mut clients, each)?;
        Ok::<_, BenchError>(Played { alone, best_effort, high })
    })?;
    contender.finish()?;
    played.check(under)?;
    Ok(played)
}

impl Played {
    /// Answers are checked, since a server that does other work may seem quicker.
    fn check(&self, under: Under) -> Result<(), BenchError> {
        let all = [&self.alone, &self.best_effort, &self.high];
        let clients = || all.into_iter().flat_map(|phase| &phase.clients);
        let answers: u64 = clients().map(|client| client.answers).sum();
        let wrong: u64 = clients().map(|client| client.wrong).sum();
        // A request for which the kernel has no room is lost, and its flow waits: a client may get no answer for a
        // while.
        if answers == 0 || wrong > answers / 100 {
            let problem = format!("{wrong} of {answers} answers are wrong under {}", under.name());
            return Err(BenchError::of(MEMCACHED)(problem));
        }
        Ok(())
    }
}

/// Whether memcached is installed.
pub(super) fn is_there() -> bool {
    app::has_memcached()
}
