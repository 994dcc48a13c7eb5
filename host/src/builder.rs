//! Assembles a host from its parts.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use weever_app_server::{AppLink, AppServer, Trusted};
use weever_block::{Env, Registry};
use weever_blocks_std::dhcp::Dhcp;
use weever_blocks_std::host::{Fragments, Neighbours, Neighbours6, Network, Secret, provide};
use weever_blocks_std::registry;
use weever_blocks_std::socket::Applications;
use weever_engine::{Member, MemberQueue, Mode, Team, monotonic};
use weever_graph::Graph;
use weever_link::{Link, LinkInfo, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service, Socket};
use weever_net::demux::PortRange;
use weever_net::dhcp4::{CLIENT_PORT, Probing};
use weever_net::iface::IfaceId;
use weever_net::ipv6::V6Settings;
use weever_net::state::NetConfig;
use weever_packet::{Nanos, Pool};
use weever_wire::MacAddr;

use crate::applications::{LaterNetwork, Surroundings};
use crate::budget::{Division, LargeFrames, LinkNeed, divide};
use crate::handle::WorkerHandle;
use crate::{Host, HostError, HostHandle, InterfaceConfig, Route, RunningHost, Stopper};

/// Assembles a [`Host`]. Add links first, then the interfaces on them, then routes, whose routers
/// are in the interfaces' networks. Every method either succeeds or changes nothing.
pub struct HostBuilder {
    pool: Pool,
    network: NetConfig,
    env: Env,
    registry: Registry,
    infos: Vec<LinkInfo>,
    links: Vec<Box<dyn Link>>,
    /// By link.
    queues: Vec<Vec<Box<dyn LinkQueue>>>,
    /// The number of the applications' link, and the network that its server will be told.
    applications: Option<(u16, LaterNetwork)>,
    /// Frames of applications' long datagrams.
    long: Option<usize>,
    /// Frames of the pool that applications work in.
    lent: usize,
    /// The ports that applications get where they ask for none.
    ephemeral: PortRange,
    neighbours: Vec<(IpAddr, MacAddr)>,
    dhcp: Vec<IfaceId>,
    identifiers: Option<[u64; 2]>,
    sockets: HostConfig,
    /// The engine's graph, with the node at which received packets start.
    graph: Option<(Graph, String)>,
    workers: Vec<Option<usize>>,
    mode: Mode,
}

impl HostBuilder {
    /// A host without links whose packets are in frames of `pool`: one worker, which is bound to no
    /// core and sleeps when there is nothing to do for a while.
    pub fn new(pool: Pool) -> HostBuilder {
        HostBuilder {
            pool,
            network: NetConfig::new(),
            env: Env::new(),
            registry: registry(),
            infos: Vec::new(),
            links: Vec::new(),
            queues: Vec::new(),
            applications: None,
            long: None,
            lent: 0,
            ephemeral: PortRange::default(),
            neighbours: Vec::new(),
            dhcp: Vec::new(),
            identifiers: None,
            sockets: HostConfig::default(),
            graph: None,
            workers: vec![None],
            mode: Mode::default(),
        }
    }

    /// Adds a link, whose queues go to the workers in turn. Returns its number: 0 for the first.
    pub fn link(&mut self, mut link: Box<dyn Link>) -> u16 {
        let (info, queues) = (link.info().clone(), link.take_queues());
        self.links.push(link);
        self.queues_of(info, queues)
    }

    /// Adds queues that stand for a link, as [`link`](Self::link) does. With no queue at all, the
    /// caller puts packets into the [worker](Host::worker)'s engine and takes out sent ones.
    pub fn queues_of(&mut self, link: LinkInfo, queues: Vec<Box<dyn LinkQueue>>) -> u16 {
        self.infos.push(link);
        self.queues.push(queues);
        (self.infos.len() - 1) as u16
    }

    /// Says which ports applications' sockets and connections get where they ask for none. To be called before
    /// [`applications`](Self::applications).
    pub fn ephemeral_ports(&mut self, ports: PortRange) {
        self.ephemeral = ports;
    }

    /// Adds the link of applications, for the workers as they were set before: sockets of the
    /// returned server send and receive by this host. `large` is the pool of datagrams longer than
    /// a frame, `max_sockets` the most that can be open.
    ///
    /// # Errors
    /// [`HostError::Applications`].
    pub fn applications(
        &mut self,
        large: Option<Pool>,
        max_sockets: usize,
    ) -> Result<AppServer, HostError> {
        let secret = self.env.get_or_default::<Secret>();
        let ([a, b], [c, d]) = (secret.key("application ports"), secret.key("application sockets"));
        let network = LaterNetwork::default();
        self.long = large.as_ref().map(Pool::frames);
        let (workers, surroundings) =
            (self.workers.len() as u16, Box::new(Surroundings::of(Arc::clone(&network))));
        let (mut link, mut server) =
            AppLink::new(workers, large, surroundings, [a, b, c, d], max_sockets)?;
        let (tables, streams) = (link.tables().to_vec(), link.stream_ports().to_vec());
        let number = self.queues_of(link.info().clone(), link.take_queues());
        server.set_ephemeral(self.ephemeral);
        let ephemeral = self.ephemeral;
        self.env.provide(Arc::new(Applications { link: number, tables, ephemeral, streams }));
        self.applications = Some((number, network));
        Ok(server)
    }

    /// Has trusted applications work in the frames of packets, `frames` of them for each of these workers, which are
    /// not divided among other holders. Those applications can write to every packet. False, and nothing changed, when
    /// the pool's memory [cannot be shared](Pool::shareable), or there is no such worker.
    pub fn lend_frames(
        &mut self,
        server: &mut AppServer,
        workers: Range<usize>,
        frames: usize,
        trusted: &Trusted,
    ) -> bool {
        if workers.end > self.workers.len() || self.pool.region().memfd().is_none() {
            return false;
        }
        for worker in workers {
            self.lent += frames;
            server.lend_frames(worker, &self.pool, frames, trusted.clone());
        }
        true
    }

    /// The frames of the host's packets.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Adds an interface. Returns its number: 0 for the first.
    ///
    /// # Errors
    /// [`HostError::NoLink`]; [`HostError::Network`] if it is in the way of another, or cannot have
    /// one of its addresses.
    pub fn interface(&mut self, config: InterfaceConfig) -> Result<IfaceId, HostError> {
        let info = self.infos.get(usize::from(config.link));
        let no_link = || HostError::NoLink { interface: config.name.clone(), link: config.link };
        let id = self.network.free_id();
        self.network.add_interface(config.on(id, info.ok_or_else(no_link)?))?;
        self.dhcp.extend(config.dhcp.then_some(id));
        Ok(id)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// [`HostError::Route`], [`HostError::RouteFamily`].
    pub fn route(&mut self, route: &Route) -> Result<(), HostError> {
        route.add_to(&mut self.network)
    }

    /// Fixes a neighbour's link address. Whether an interface leads there shows when the host is
    /// built.
    pub fn neighbour(&mut self, address: IpAddr, mac: MacAddr) {
        self.neighbours.push((address, mac));
    }

    /// Has a service answer on a UDP port of every address.
    pub fn serve(&mut self, service: Service, port: u16) {
        self.sockets.sockets.push(Socket { addr: None, port, service });
    }

    /// The network so far, for settings that have no method here.
    pub fn network(&mut self) -> &mut NetConfig {
        &mut self.network
    }

    /// The blocks' shared state, for blocks of your own.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Runs this graph instead of the one that ships; received packets start at its node `source`.
    /// Its sockets are those that it has: [`serve`](Self::serve) has no effect.
    pub fn graph(&mut self, graph: Graph, source: impl Into<String>) {
        self.graph = Some((graph, source.into()));
    }

    /// Makes the graph's blocks of these types instead of those that ship.
    pub fn registry(&mut self, registry: Registry) {
        self.registry = registry;
    }

    /// Runs this number of workers, at least one, bound to no core.
    pub fn workers(&mut self, count: usize) {
        self.workers = vec![None; count.max(1)];
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// Runs a worker on each of these cores; without any, one worker that is bound to none.
    pub fn cores(&mut self, cores: &[usize]) {
        self.workers = cores.iter().copied().map(Some).collect();
        if cores.is_empty() {
            self.workers(1);
        }
    }

    /// How the workers' threads wait for packets.
    pub fn mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Derives the numbers that strangers must not be able to predict (identifications, transaction
    /// numbers, hashes, random delays) from `seed` instead of the system's randomness. For
    /// simulations only.
    pub fn secret(&mut self, seed: u64) {
        self.env.provide(Arc::new(Secret::from_seed(seed)));
    }

    /// Makes stable IPv6 interface identifiers of this secret (RFC 7217) instead of the links'
    /// addresses, on all interfaces.
    pub fn stable_identifiers(&mut self, secret: Option<[u64; 2]>) {
        self.identifiers = secret;
    }

    /// Assembles the host. `now` is the time, in nanoseconds of the clock that the host will run by;
    /// before [`Host::start`], [`monotonic`].
    ///
    /// # Errors
    /// A neighbour that no interface leads to, sockets that clash, a graph that cannot run; see
    /// [`HostError`].
    pub fn build(mut self, now: Nanos) -> Result<Host, HostError> {
        self.set_stable_identifiers();
        let graph = self.graph.take().map(Ok);
        let (graph, source) = graph.unwrap_or_else(|| {
            shipped(self.sockets.clone().with_applications(self.applications.is_some()))
        })?;
        let network = provide(&self.env, std::mem::take(&mut self.network), now);
        if let Some((_, later)) = &self.applications {
            // No other code sets it.
            let _ = later.set(Arc::clone(&network));
        }
        let provided = "the environment was given them a line above";
        let neighbours = self.env.get::<Neighbours>().expect(provided);
        let neighbours6 = self.env.get::<Neighbours6>().expect(provided);
        for (address, mac) in self.neighbours {
            fix_neighbour(&network, &neighbours, &neighbours6, (address, mac), now)?;
        }
        let clients = self.env.get_or_default::<Dhcp>();
        self.dhcp.into_iter().for_each(|iface| clients.start(iface, Probing::RFC5227));
        let env = Arc::new(self.env);
        let applications = self.applications.map(|(link, _)| link);
        let needs: Vec<LinkNeed> = self
            .infos
            .iter()
            .zip(&self.queues)
            .map(|(info, queues)| needs(&info.name, queues, &self.pool))
            .collect();
        let large = large_frames(&env.get_or_default::<Fragments>(), self.long);
        let division = divide(self.pool.frames() - self.lent, self.workers.len(), &needs, large)
            .map_err(HostError::Frames)?;
        let (members, served) =
            assign(self.queues, self.workers.len(), &self.pool, &division, |link| {
                if applications == Some(link) { APPLICATIONS } else { &source }
            });
        let Team { mut workers, publisher } =
            Team::build(graph, self.registry, Arc::clone(&env), members)?;
        let mut handles = Vec::new();
        for (number, (worker, queues)) in workers.iter_mut().zip(served).enumerate() {
            worker.pace().set(self.mode);
            let core = self.workers[number];
            handles.push(WorkerHandle::new(worker_name(number), core, queues, worker));
        }
        let handle = HostHandle {
            network,
            neighbours,
            neighbours6,
            publisher,
            env,
            links: self.infos.into(),
            workers: handles.into(),
            pool: self.pool,
            budget: Arc::new(division.budget),
            stopper: Stopper::default(),
        };
        Ok(Host { workers, links: self.links, handle })
    }

    /// Assembles the host and starts its workers' threads.
    ///
    /// # Errors
    /// Those of [`build`](Self::build) and [`Host::start`].
    pub fn start(self) -> Result<RunningHost, HostError> {
        self.build(monotonic())?.start()
    }

    /// Interfaces that do not speak IPv6 yet may do so later, so all of them get the secret.
    fn set_stable_identifiers(&mut self) {
        let all: Vec<_> =
            self.network.interfaces().iter().map(|iface| (iface.id, iface.v6_settings)).collect();
        for (id, settings) in all {
            let settings = V6Settings { secret: self.identifiers, ..settings };
            self.network.set_v6(id, settings).expect("it is one of the interfaces");
        }
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostBuilder({} links, {:?})", self.infos.len(), self.network)
    }
}

/// These sockets with that of the DHCP client, unless another service has its port.
#[must_use]
pub fn with_dhcp_socket(sockets: HostConfig) -> HostConfig {
    let is_taken = sockets.sockets.iter().any(|socket| socket.port == CLIENT_PORT);
    if is_taken { sockets } else { sockets.with_dhcp() }
}

fn shipped(sockets: HostConfig) -> Result<(Graph, String), HostError> {
    let graph = weever_models::host(&with_dhcp_socket(sockets))?;
    Ok((graph, HOST_SOURCE.into()))
}

/// The node at which applications' datagrams start.
const APPLICATIONS: &str = "TxL4UDPApplications";

fn worker_name(number: usize) -> String {
    format!("worker-{number}")
}

/// The queues that a worker serves: the link's number and the queue's.
type Served = Vec<(u16, u16)>;

/// Gives queue *i* of every link to worker *i* modulo their number, and every worker its share of
/// the frames. Packets of a link start at the node `source`.
fn assign<'s>(
    links: Vec<Vec<Box<dyn LinkQueue>>>,
    workers: usize,
    pool: &Pool,
    division: &Division,
    source: impl Fn(u16) -> &'s str,
) -> (Vec<Member>, Vec<Served>) {
    let member = |number| Member {
        name: worker_name(number),
        pool: pool.cache_of(division.stock),
        limits: division.limits,
        queues: Vec::new(),
    };
    let mut members: Vec<Member> = (0..workers).map(member).collect();
    let mut served = vec![Served::new(); workers];
    for (link, queues) in (0..).zip(links) {
        for (number, mut queue) in (0u16..).zip(queues) {
            if is_of(&*queue, pool) {
                queue.limit_frames(division.queues[usize::from(link)]);
            }
            let worker = usize::from(number) % workers;
            served[worker].push((link, number));
            members[worker].queues.push(MemberQueue { link, source: source(link).into(), queue });
        }
    }
    (members, served)
}

/// Whether a queue's frames are of that pool; those of a queue without one of its own are the worker's.
fn is_of(queue: &dyn LinkQueue, pool: &Pool) -> bool {
    queue.pool().is_none_or(|own| pool.stock().draws_from(own))
}

/// The frames that the queues of a link need of the pool; all of them are alike.
fn needs(name: &str, queues: &[Box<dyn LinkQueue>], pool: &Pool) -> LinkNeed {
    let of_pool = || queues.iter().filter(|queue| is_of(&***queue, pool));
    let need = of_pool().map(|queue| queue.frame_need()).next().unwrap_or_default();
    LinkNeed { name: name.to_owned(), queues: of_pool().count(), need }
}

/// The pools of large frames.
fn large_frames(
    fragments: &Fragments,
    long: Option<usize>,
) -> impl Iterator<Item = LargeFrames> + use<> {
    let datagrams = fragments.most();
    let pieces = fragments.memory().map(Pool::frames);
    let pieces = pieces.map(|frames| LargeFrames::Pieces { frames, datagrams });
    pieces.into_iter().chain(long.map(|frames| LargeFrames::Applications { frames }))
}

/// A link-local neighbour is assumed at the first interface that speaks IPv6.
fn fix_neighbour(
    network: &Network,
    v4: &Neighbours,
    v6: &Neighbours6,
    (address, mac): (IpAddr, MacAddr),
    now: Nanos,
) -> Result<(), HostError> {
    let off_link = || HostError::NeighbourOffLink { address };
    let state = network.state();
    let entered = match address {
        IpAddr::V4(ip) => {
            let hop = state.route4(ip).ok_or_else(off_link)?;
            v4.insert_static(hop.iface, ip, mac, now)
        }
        IpAddr::V6(ip) => {
            let interfaces = state.config().interfaces();
            let first = interfaces.iter().find(|i| i.v6_settings.enabled).map(|i| i.id);
            let hop = first.and_then(|first| state.hop6(first, ip)).ok_or_else(off_link)?;
            v6.insert_static(hop.iface, ip, mac, now)
        }
    };
    let why = |error: weever_net::neighbour::TableFull| error.to_string();
    entered.map(drop).map_err(|e| HostError::NeighbourTable { address, why: why(e) })
}
