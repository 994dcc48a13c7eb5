//! Starting, step by step.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use weever_blocks_api::Env;
use weever_blocks_std::capture::Taps;
use weever_blocks_std::dhcp::Dhcp;
use weever_blocks_std::host::{Host, Neighbours, Neighbours6};
use weever_blocks_std::registry;
use weever_engine::{Team, monotonic};
use weever_link::Link;
use weever_link_sys::mirror::Mirror;
use weever_models::counters::HOST_SOURCE;
use weever_packet::Pool;

use super::capture::Captures;
use super::crew::{Crew, Roster, meters};
use super::devices::{Device, Grip};
use super::keeper::Keeper;
use super::kernel::{Follower, Kernel};
use super::ports::TakenPorts;
use super::program::{Program, ProgramError};
use super::shared::Shared;
use super::steward::{Intent, Routine, Steward, Stewards};
use super::{Stack, StartError, Stopper, aids, devices, host, kernel, secret};
use crate::config::{Config, LinkKind};
use crate::control::{ControlServer, ControlSocket};
use crate::metrics::MetricsServer;
use crate::preflight;

/// What can be found out without touching anything comes first, and the devices come last.
pub(super) fn on_devices(mut config: Config) -> Result<Stack, StartError> {
    preflight::check(&config)?;
    let cores = preflight::allowed_cores().map_err(failed("read the affinity of the process"))?;
    if config.cores.is_empty() {
        // The first core is where interrupts and everybody else's work tend to be.
        config.cores.extend(cores.last());
    }
    let intent = Intent::of(&config)?;
    let socket = match &config.control {
        Some(path) => ControlSocket::bind(path)?,
        None => ControlSocket::bind_default(control_name(&config))?,
    };
    preflight::probe(&config)?;
    config.state.get_or_insert_with(secret::usual_directory);
    let pool = Pool::new(config.pool)?;
    let devices = devices::open(&config, intent.as_ref(), &pool)?;
    let infos: Vec<_> = devices.iter().map(|device| device.link.info().clone()).collect();
    let kernel = kernel::look(&config, &infos).map_err(failed("read the kernel's network"))?;
    assemble(devices, kernel, pool, config, Some(socket))
}

/// What the control socket is called after.
fn control_name(config: &Config) -> &str {
    let first = &config.interfaces[0];
    if first.link == LinkKind::Pcap { &first.name } else { &first.dev }
}

pub(super) fn on_links(
    links: Vec<Box<dyn Link>>,
    pool: Pool,
    config: Config,
) -> Result<Stack, StartError> {
    if config.policy.is_some() {
        let problem = "policy: only devices that were opened by name take filters";
        return Err(StartError::Setting(problem.into()));
    }
    let wanted = devices::names(&config).len();
    if links.len() != wanted {
        let have = links.len();
        let problem = format!("{have} links for {wanted} devices: give one for each");
        return Err(StartError::Setting(problem));
    }
    let socket = config.control.as_deref().map(ControlSocket::bind).transpose()?;
    assemble(links.into_iter().map(Device::from).collect(), None, pool, config, socket)
}

fn assemble(
    devices: Vec<Device>,
    mut kernel: Option<(Mirror, Kernel)>,
    pool: Pool,
    config: Config,
    socket: Option<ControlSocket>,
) -> Result<Stack, StartError> {
    let (links, grips, stewards) = apart(devices);
    let by_port = grips.iter().filter(|(_, grip)| grip.by_port);
    let by_port = by_port.map(|(_, grip)| Arc::clone(&grip.steering)).collect();
    let (mut links, recording) = aids::wrap(links, &config.aids)?;
    let infos: Vec<_> = links.iter().map(|link| link.info().clone()).collect();
    let mut program = Program::new(config.services);
    let graph = program.graph().map_err(defect)?;
    let env = host::environment(&config, &infos, kernel.as_mut().map(|(_, k)| k), monotonic())?;
    let network = env.get::<Host>().expect("the environment has the host");
    let neighbours = env.get::<Neighbours>().expect("the environment has its neighbours");
    let neighbours6 = env.get::<Neighbours6>().expect("the environment has these neighbours");
    let taps = env.get_or_default::<Taps>();
    let clients = env.get_or_default::<Dhcp>();
    let queues = links.iter_mut().map(|link| link.take_queues()).collect();
    let (members, queues) = Roster::new(&config, &pool, queues, HOST_SOURCE).split();
    let Team { mut workers, publisher } =
        Team::build(graph, registry(), Arc::clone(&env), members)?;
    let meters = meters(&mut workers, queues, &config);
    let program = Arc::new(Mutex::new(program));
    let names = infos.iter().map(|info| info.name.clone()).collect();
    let captures = Captures::new(Arc::clone(&program), Arc::clone(&publisher), taps, names);
    let shared = Arc::new(Shared {
        stewards: Arc::new(Stewards::new(stewards)),
        links: infos,
        network,
        neighbours,
        neighbours6,
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
    let metrics = metrics(&shared)?;
    let control = socket.map(|socket| ControlServer::serve(socket, Arc::clone(&shared) as _));
    let control = control.transpose().map_err(failed("start the control thread"))?;
    let crew = Crew::start(workers, &shared.meters, shared.config.mode, &shared.stopper)?;
    let Attendants { keeper, follower, routine } = Attendants::start(&shared, grips, kernel, &env)?;
    announce(&shared);
    Ok(Stack {
        crew: Some(crew),
        keeper,
        routine,
        follower,
        recording,
        links,
        control,
        metrics,
        clients,
        shared,
    })
}

/// The threads that keep devices and stack in step with each other, as far as they are needed.
struct Attendants {
    keeper: Option<Keeper>,
    follower: Option<Follower>,
    routine: Option<Routine>,
}

impl Attendants {
    fn start(
        shared: &Shared,
        grips: Grips,
        kernel: Option<(Mirror, Kernel)>,
        env: &Env,
    ) -> Result<Attendants, StartError> {
        let clients = env.get_or_default::<Dhcp>();
        let watch = |grips| Keeper::start(Arc::clone(&shared.network), clients, grips);
        let keeper = Some(grips).filter(|grips| !grips.is_empty()).map(watch);
        let keeper = keeper.transpose().map_err(failed("start the keeper of addresses"))?;
        let follower = kernel.map(|kernel| Follower::start(kernel, env)).transpose();
        let follower = follower.map_err(failed("start to follow the kernel"))?;
        let attend = || Routine::start(Arc::clone(&shared.stewards), Arc::clone(&shared.program));
        let has_stewards = !shared.stewards.lock().is_empty();
        let routine = has_stewards.then(attend).transpose();
        let routine = routine.map_err(failed("start to follow flows"))?;
        Ok(Attendants { keeper, follower, routine })
    }
}

/// What was taken from the devices of these numbers.
type Grips = Vec<(u16, Grip)>;

/// The links, what was taken from the devices of which numbers, and who looks after them.
fn apart(devices: Vec<Device>) -> (Vec<Box<dyn Link>>, Grips, Vec<Steward>) {
    let (mut links, mut grips, mut stewards) = (Vec::new(), Vec::new(), Vec::new());
    for (number, Device { link, grip, steward }) in (0u16..).zip(devices) {
        links.push(link);
        stewards.extend(steward);
        grips.extend(grip.map(|grip| (number, grip)));
    }
    (links, grips, stewards)
}

fn metrics(shared: &Arc<Shared>) -> Result<Option<MetricsServer>, StartError> {
    let Some(address) = shared.config.metrics else { return Ok(None) };
    let served = MetricsServer::serve(address, Arc::clone(shared) as _);
    served.map(Some).map_err(|source| StartError::Metrics { address, source })
}

fn announce(shared: &Shared) {
    let workers = shared.meters.len();
    for link in &shared.links {
        let (device, mode, queues) = (&link.name, &link.mode, link.queues);
        tracing::info!(device, mode, queues, workers, "stack started");
    }
}

fn defect(error: ProgramError) -> StartError {
    match error {
        ProgramError::Start(error) => error,
        other => StartError::Setting(format!("the host graph cannot run: {other}")),
    }
}

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::Io { what, source }
}
