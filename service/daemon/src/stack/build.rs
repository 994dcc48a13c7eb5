//! From links and a configuration to workers that have a graph and no threads yet.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use weever_block::Env;
use weever_blocks_std::capture::Taps;
use weever_blocks_std::host::{Neighbours, Neighbours6, Network};
use weever_blocks_std::registry;
use weever_engine::{Team, Worker, monotonic};
use weever_link::Link;
use weever_link_sys::af_xdp::Steering;
use weever_models::counters::HOST_SOURCE;
use weever_packet::Pool;

use super::capture::Captures;
use super::crew::{Roster, meters};
use super::kernel::Kernel;
use super::paces::Paces;
use super::ports::TakenPorts;
use super::program::{Program, ProgramError};
use super::shared::Shared;
use super::steward::{Steward, Stewards};
use super::tailor::Tailor;
use super::{StartError, Stopper, host};
use crate::config::Config;

/// What a stack is made of, beside its links.
pub(super) struct Parts {
    /// With the numbers of their links.
    pub(super) stewards: Vec<(u16, Steward)>,
    /// What takes services' ports from devices that are shared by port.
    pub(super) by_port: Vec<Arc<Steering>>,
    pub(super) pool: Pool,
    pub(super) config: Config,
}

/// A stack that does not run yet.
pub(super) struct Built {
    pub(super) shared: Arc<Shared>,
    pub(super) workers: Vec<Worker>,
    pub(super) env: Arc<Env>,
}

impl Parts {
    /// Puts everything together.
    ///
    /// # Errors
    /// A configuration that is no host, or a graph that cannot run.
    pub(super) fn join(
        self,
        links: &mut [Box<dyn Link>],
        kernel: Option<&mut Kernel>,
    ) -> Result<Built, StartError> {
        let Parts { mut stewards, by_port, pool, config } = self;
        let infos: Vec<_> = links.iter().map(|link| link.info().clone()).collect();
        let in_parts = stewards.iter().any(|(_, steward)| steward.simplifies());
        let mut program = Program::new(config.services).in_parts(in_parts);
        let graph = program.graph().map_err(defect)?;
        let env = host::environment(&config, &infos, kernel, monotonic())?;
        let queues = links.iter_mut().map(|link| link.take_queues()).collect();
        let (members, queues) = Roster::new(&config, &pool, queues, HOST_SOURCE).split();
        let Team { mut workers, publisher } =
            Team::build(graph, registry(), Arc::clone(&env), members)?;
        let meters = meters(&mut workers, queues, &config);
        let tailor = Arc::new(Tailor::new(Arc::clone(&publisher), infos.len()));
        let paces = Arc::new(Paces::new(&meters, config.mode, infos.len()));
        for (link, steward) in &mut stewards {
            steward.lead(*link, Arc::clone(&tailor), Arc::clone(&paces));
        }
        let program = Arc::new(Mutex::new(program));
        let names = infos.iter().map(|info| info.name.clone()).collect();
        let taps = env.get_or_default::<Taps>();
        let captures = Captures::new(Arc::clone(&program), Arc::clone(&publisher), taps, names);
        let stewards = stewards.into_iter().map(|(_, steward)| steward).collect();
        let has_host = "the environment has the host and its neighbours";
        let shared = Arc::new(Shared {
            stewards: Arc::new(Stewards::new(stewards)),
            links: infos,
            network: env.get::<Network>().expect(has_host),
            neighbours: env.get::<Neighbours>().expect(has_host),
            neighbours6: env.get::<Neighbours6>().expect(has_host),
            publisher,
            program,
            serves: Mutex::new(config.services),
            captures,
            ports: TakenPorts::new(by_port, &config.services),
            meters,
            stopper: Stopper::default(),
            started: Instant::now(),
            config,
            pool,
        });
        Ok(Built { shared, workers, env })
    }
}

fn defect(error: ProgramError) -> StartError {
    match error {
        ProgramError::Start(error) => error,
        other => StartError::Setting(format!("the host graph cannot run: {other}")),
    }
}
