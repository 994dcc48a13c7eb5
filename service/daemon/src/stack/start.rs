//! Starting, step by step.

use std::sync::Arc;
use std::time::Instant;

use weever_blocks_std::registry;
use weever_engine::{Engine, Limits, monotonic};
use weever_link::Link;
use weever_link_sys::af_xdp::{self, AfXdp, AfXdpConfig};
use weever_models::counters::HOST_SOURCE;
use weever_packet::Pool;

use super::shared::Shared;
use super::worker::{self, Worker};
use super::{Stack, StartError, Stopper, graph, host};
use crate::config::{Config, Share};
use crate::control::{ControlServer, ControlSocket};
use crate::preflight;

/// What can be found out without touching anything comes first, and the device comes last.
pub(super) fn on_device(mut config: Config) -> Result<Stack, StartError> {
    preflight::check(&config)?;
    let cores = preflight::allowed_cores().map_err(failed("read the affinity of the process"))?;
    if config.cores.is_empty() {
        // The first core is where interrupts and everybody else's work tend to be.
        config.cores.extend(cores.last());
    }
    let socket = match &config.control {
        Some(path) => ControlSocket::bind(path)?,
        None => ControlSocket::bind_default(&config.interfaces[0].dev)?,
    };
    preflight::probe(&config)?;
    let pool = Pool::new(config.pool)?;
    let link = AfXdp::open(&device(&config, &pool))?;
    assemble(Box::new(link), pool, config, Some(socket))
}

pub(super) fn on_link(
    link: Box<dyn Link>,
    pool: Pool,
    config: Config,
) -> Result<Stack, StartError> {
    let socket = config.control.as_deref().map(ControlSocket::bind).transpose()?;
    assemble(link, pool, config, socket)
}

fn device(config: &Config, pool: &Pool) -> AfXdpConfig {
    let interface = &config.interfaces[0];
    let own = interface.addresses.iter().filter_map(|address| address.v4());
    let share = match interface.share {
        Share::Address => af_xdp::Share::Address(own.map(|cidr| cidr.addr().into()).collect()),
        Share::None => af_xdp::Share::None,
    };
    AfXdpConfig { share, ..AfXdpConfig::new(&interface.dev, pool.clone()) }
}

fn assemble(
    mut link: Box<dyn Link>,
    pool: Pool,
    config: Config,
    socket: Option<ControlSocket>,
) -> Result<Stack, StartError> {
    let now = monotonic();
    let registry = registry();
    let graph = graph::verified(&config.services, &registry)?;
    let env = host::environment(&config, link.info(), now)?;
    let schedule = graph::compile(&graph, &registry, &env)?;
    let limits = Limits::within(pool.frames());
    let mut engine = Engine::new(schedule, pool.cache(), limits);
    engine.start();
    let worker = worker::attach(engine, HOST_SOURCE, link.take_queues())?;
    let shared = Arc::new(Shared {
        meter: worker.meter(),
        link: link.info().clone(),
        stopper: Stopper::default(),
        started: Instant::now(),
        config,
        graph,
        pool,
    });
    let control = socket.map(|socket| ControlServer::serve(socket, Arc::clone(&shared) as _));
    let control = control.transpose().map_err(failed("start the control thread"))?;
    let worker = Worker::start(worker, &shared)?;
    Ok(Stack { worker: Some(worker), link: Some(link), control, shared })
}

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::Io { what, source }
}
