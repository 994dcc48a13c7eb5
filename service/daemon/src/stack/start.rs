//! Starting, step by step.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use weever_app_server::{AppListener, AppServer, AppSocket};
use weever_engine::monotonic;
use weever_link::Link;
use weever_link_sys::mirror::Mirror;
use weever_models::counters::HOST_SOURCE;
use weever_packet::Pool;

use super::device::{kernel, links, middleware};
use super::run::{host, secret};
use super::steward::{PolicySetup, Routine, Steward, plan_limits};
use super::{Stack, StartError};
use crate::config::{Config, LinkKind, Share};
use crate::control::{ControlServer, ControlSocket};
use crate::metrics::{MetricsServer, exposition};
use crate::stack::device::applications::{ApplicationPorts, SharedDevice, addresses_of};
use crate::stack::device::ephemeral::ReservedRange;
use crate::stack::device::kernel::{Follower, Kernel};
use crate::stack::device::links::{AddressFilter, Device};
use crate::stack::device::ports::TakenPorts;
use crate::stack::graph::program::{Program, ProgramError};
use crate::stack::run::shared::Shared;
use crate::stack::run::watch::NetworkWatcher;
use crate::{preflight, privileges};

impl Stack {
    /// Opens the configuration's devices, in the network namespace of the calling thread, and
    /// starts a stack on them. Blocks for about half a second for each address.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn start(config: Config) -> Result<Stack, StartError> {
        on_devices(Config { drop_privileges: false, ..config })
    }

    /// Likewise, and gives up privileges that a running stack does not need, if the configuration says so: for a
    /// process that does nothing else. The calling thread must be its only one.
    ///
    /// # Errors
    /// See [`StartError`].
    pub(crate) fn start_alone(config: Config) -> Result<Stack, StartError> {
        on_devices(config)
    }

    /// Starts a stack on links that are open already, whose buffers come from `pool`: one for each
    /// device of the configuration, in their order. The addresses are taken without asking. There
    /// is a control socket only if the configuration names one, and workers are bound to cores only
    /// if it names those; without, there is one.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_on(
        links: Vec<Box<dyn Link>>,
        pool: Pool,
        config: Config,
    ) -> Result<Stack, StartError> {
        on_links(links, pool, Config { drop_privileges: false, ..config })
    }
}

/// Checks that touch nothing come first, and the devices come last.
fn on_devices(mut config: Config) -> Result<Stack, StartError> {
    preflight::check(&config)?;
    let cores = preflight::allowed_cores().map_err(failed("read the affinity of the process"))?;
    if config.cores.is_empty() {
        // The first core tends to have interrupts and other processes' work.
        config.cores.extend(cores.last());
    }
    let policy = PolicySetup::of(&config)?;
    let socket = match &config.control {
        Some(path) => ControlSocket::bind(path)?,
        None => ControlSocket::bind_default(control_name(&config))?,
    };
    let applications = host::lasting_application_socket(&config)?;
    let mut sockets = Sockets { control: Some(socket), applications, range: None };
    preflight::probe(&config)?;
    if config.applications_share_ports() {
        // Before the device takes them.
        let shared = config.interfaces.iter().filter(|there| there.share == Share::Ports);
        let devices: Vec<String> = shared.map(|there| there.dev.clone()).collect();
        let addresses: Vec<IpAddr> = addresses_of(&devices).iter().map(SocketAddr::ip).collect();
        sockets.range = Some(ReservedRange::new(config.ephemeral_ports(), &addresses)?);
    }
    config.state.get_or_insert_with(secret::usual_directory);
    let pool = host::pool(&config, policy.as_ref().is_some_and(PolicySetup::trusts))?;
    let devices = links::open(&config, policy.as_ref(), &pool)?;
    let infos: Vec<_> = devices.iter().map(|device| device.link.info().clone()).collect();
    let kernel = kernel::look(&config, &infos).map_err(failed("read the kernel's network"))?;
    let mut stack = assemble(devices, kernel, pool, config, sockets)?;
    stack.owns_pool = true;
    if stack.config().drop_privileges {
        privileges::restrict_system_calls()?;
    }
    Ok(stack)
}

/// The name of the control socket.
fn control_name(config: &Config) -> &str {
    let first = &config.interfaces[0];
    if first.link == LinkKind::Pcap { &first.name } else { &first.dev }
}

fn on_links(links: Vec<Box<dyn Link>>, pool: Pool, config: Config) -> Result<Stack, StartError> {
    if config.policy.is_some() {
        let problem = "policy: only devices that were opened by name take filters";
        return Err(StartError::Setting(problem.into()));
    }
    let wanted = links::names(&config).len();
    if links.len() != wanted {
        let have = links.len();
        let problem = format!("{have} links for {wanted} devices: give one for each");
        return Err(StartError::Setting(problem));
    }
    let control = config.control.as_deref().map(ControlSocket::bind).transpose()?;
    let applications = host::application_socket(&config)?;
    let sockets = Sockets { control, applications, range: None };
    assemble(links.into_iter().map(Device::from).collect(), None, pool, config, sockets)
}

/// Unix sockets that are bound while the stack has all privileges, and served once it runs; and the ports that the kernel
/// leaves alone.
#[derive(Default)]
pub(super) struct Sockets {
    control: Option<ControlSocket>,
    applications: Option<AppSocket>,
    range: Option<ReservedRange>,
}

pub(super) fn assemble(
    devices: Vec<Device>,
    mut kernel: Option<(Mirror, Kernel)>,
    pool: Pool,
    config: Config,
    mut sockets: Sockets,
) -> Result<Stack, StartError> {
    let receivers: Vec<_> = devices.iter().map(|device| device.threads.clone()).collect();
    let (links, filters, stewards) = apart(devices);
    let (links, recording) = middleware::wrap(links, &config.aids)?;
    // Sockets come and go at every worker, so every worker needs the whole graph.
    let in_parts =
        config.apps.is_none() && stewards.iter().any(|(_, steward)| steward.policy().simplify);
    let program = Program::new(config.services).with_applications(config.apps.is_some());
    let mut program = program.in_parts(in_parts);
    let graph = program.graph().map_err(defect)?;
    let mut builder =
        host::builder(&config, links, pool, kernel.as_mut().map(|(_, kernel)| kernel))?;
    builder.graph(graph, HOST_SOURCE);
    let trusted = stewards.first().map(|(_, steward)| steward.policy().trusted.clone());
    let trusted = trusted.unwrap_or_default();
    let server = config.apps.as_ref();
    let server = server.map(|_| host::application_server(&mut builder, &config, &trusted));
    let mut server = server.transpose()?;
    let host = builder.build(monotonic())?;
    let by_port = filters.iter().filter(|(_, filter)| filter.by_port);
    let by_port: Vec<_> = by_port.map(|(_, filter)| Arc::clone(&filter.steering)).collect();
    sockets.range.iter_mut().for_each(|range| range.keep(&by_port));
    let application_ports = share_ports(&config, server.as_mut(), &filters)?;
    let ports = TakenPorts::new(by_port, &config.services);
    let mut shared = Shared::new(config, host.handle().clone(), program, stewards, ports);
    (shared.receivers, shared.application_ports) = (receivers, application_ports);
    let shared = Arc::new(shared);
    let metrics = shared.config.metrics.map(listen_for_metrics).transpose()?;
    if shared.config.drop_privileges {
        // From here on there are threads, which have the privileges of this one.
        privileges::drop_capabilities(shared.application_ports.is_some())?;
    }
    let metrics = metrics.map(|listener| serve_metrics(listener, &shared)).transpose()?;
    let control =
        sockets.control.map(|socket| ControlServer::serve(socket, Arc::clone(&shared) as _));
    let control = control.transpose().map_err(failed("start the control thread"))?;
    let running = host.start()?;
    let applications = sockets.applications.zip(server);
    let applications = applications
        .map(|(socket, server)| serve_applications(socket, server, &shared))
        .transpose()?;
    let DeviceThreads { watcher, follower, routine } =
        DeviceThreads::start(&shared, filters, kernel)?;
    announce(&shared);
    let (running, watcher) = (Some(running), Some(watcher));
    Ok(Stack {
        running,
        watcher,
        routine,
        follower,
        recording,
        control,
        metrics,
        applications,
        shared,
        _range: sockets.range,
        owns_pool: false,
    })
}

fn defect(error: ProgramError) -> StartError {
    StartError::Setting(format!("the host graph cannot run: {error}"))
}

/// The threads that keep devices and stack in step with each other, as far as they are needed.
struct DeviceThreads {
    watcher: NetworkWatcher,
    follower: Option<Follower>,
    routine: Option<Routine>,
}

impl DeviceThreads {
    fn start(
        shared: &Shared,
        filters: AddressFilters,
        kernel: Option<(Mirror, Kernel)>,
    ) -> Result<DeviceThreads, StartError> {
        let ports = shared.application_ports.clone();
        let watcher = NetworkWatcher::start(shared.host.clone(), filters, ports);
        let watcher = watcher.map_err(failed("start to watch the network"))?;
        let follow = |kernel| Follower::start(kernel, &shared.host.env, Arc::clone(&shared.names));
        let follower = kernel.map(follow).transpose();
        let follower = follower.map_err(failed("start to follow the kernel"))?;
        let sharing = shared.sharing()?;
        let has_stewards = !sharing.is_empty();
        let (stewards, program) = (Arc::clone(&shared.stewards), Arc::clone(&shared.program));
        let server = shared.applications.get().cloned();
        let attend = || Routine::start(stewards, program, sharing, server);
        let routine = has_stewards.then(attend).transpose();
        let routine = routine.map_err(failed("start to follow flows"))?;
        Ok(DeviceThreads { watcher, follower, routine })
    }
}

/// Address filters on the devices of these numbers.
type AddressFilters = Vec<(u16, AddressFilter)>;

/// Stewards of the devices of these numbers.
type LinkStewards = Vec<(u16, Steward)>;

/// Splits devices into links, address filters and stewards, the latter with the numbers of their links.
fn apart(devices: Vec<Device>) -> (Vec<Box<dyn Link>>, AddressFilters, LinkStewards) {
    let (mut links, mut filters, mut stewards) = (Vec::new(), Vec::new(), Vec::new());
    for (number, Device { link, filter, steward, .. }) in (0u16..).zip(devices) {
        links.push(link);
        stewards.extend(steward.map(|steward| (number, steward)));
        filters.extend(filter.map(|filter| (number, filter)));
    }
    (links, filters, stewards)
}

/// Has applications take ports from the devices whose addresses are the kernel's.
fn share_ports(
    config: &Config,
    server: Option<&mut AppServer>,
    filters: &AddressFilters,
) -> Result<Option<ApplicationPorts>, StartError> {
    let Some(server) = server.filter(|_| config.applications_share_ports()) else {
        return Ok(None);
    };
    let by_port = filters.iter().map(|(_, filter)| filter).filter(|filter| filter.by_port);
    let shared = |filter: &AddressFilter| SharedDevice {
        device: filter.device,
        steering: Arc::clone(&filter.steering),
    };
    let keep = Duration::from_secs(config.apps_keep.into());
    let ports = ApplicationPorts::new(by_port.map(shared).collect(), keep);
    let shared = server.share_ports(Box::new(ports.clone()), config.ephemeral_ports());
    shared.map_err(|error| StartError::Setting(error.to_string()))?;
    Ok(Some(ports))
}

fn serve_applications(
    socket: AppSocket,
    mut server: AppServer,
    shared: &Shared,
) -> Result<AppListener, StartError> {
    if let Some(steward) = shared.stewards.lock().first() {
        server.set_plan_limits(plan_limits(steward.policy()));
    }
    let listener = socket.serve(server)?;
    // No other code sets it.
    let _ = shared.applications.set(listener.shared_server());
    Ok(listener)
}

fn listen_for_metrics(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|source| StartError::Metrics { address, source })
}

fn serve_metrics(listener: TcpListener, shared: &Arc<Shared>) -> Result<MetricsServer, StartError> {
    let shared = Arc::clone(shared);
    let page = Arc::new(move || exposition(&shared.counters(), &shared.status()));
    MetricsServer::serve(listener, page).map_err(failed("start the thread of metrics"))
}

fn announce(shared: &Shared) {
    for link in shared.host.links.iter() {
        let (device, mode, queues) = (&link.name, &link.mode, link.queues);
        tracing::info!(device, mode, queues, "device opened");
    }
    let (workers, huge_pages) = (shared.host.workers.len(), shared.host.pool.region().is_huge());
    tracing::info!(workers, huge_pages, "stack started");
}

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::Io { what, source }
}
