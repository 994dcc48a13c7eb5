//! The state of a running stack that control threads share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use weever_app_server::AppServer;
use weever_blocks_std::capture::Taps;
use weever_engine::{Reading, sum};
use weever_host::{HostHandle, WorkerHandle};
use weever_link_sys::af_xdp::ReceiveThreads;
use weever_net::addr::Cidr;
use weever_plan::policy::SharingMode;
use weever_service_api::{
    ApiError, Counters, DropCounter, GraphFormat, GraphRequest, LinkCounters, ServiceStatus,
    Status, WorkerStatus,
};
use weever_wire::MacAddr;

use crate::config::{Config, Services};
use crate::stack::device::applications::ApplicationPorts;
use crate::stack::device::links::DeviceNames;
use crate::stack::device::ports::TakenPorts;
use crate::stack::graph::capture::Captures;
use crate::stack::graph::parts::GraphParts;
use crate::stack::graph::program::Program;
use crate::stack::report::{counters, frames, network, picture};
use crate::stack::{PolicyError, StackTotals};

use crate::stack::steward::{
    QueueSharing, Steward, Stewards, WaitModes, WorkerReceivers, wait_mode_name,
};

pub(in crate::stack) struct Shared {
    /// The configuration that the stack was started with.
    pub(in crate::stack) config: Config,
    /// The host as it is.
    pub(in crate::stack) host: HostHandle,
    pub(in crate::stack) program: Arc<Mutex<Program>>,
    /// Its services. Kept apart from the program: a change holds the program while it waits for a
    /// late worker, and a status about that worker must not wait.
    pub(in crate::stack) serves: Mutex<Services>,
    pub(in crate::stack) captures: Captures,
    /// The current names of the links' devices.
    pub(in crate::stack) names: Arc<DeviceNames>,
    /// The ports that services have taken from devices that are shared by port.
    pub(in crate::stack) ports: TakenPorts,
    /// The stewards, which carry out the policy, a device each.
    pub(in crate::stack) stewards: Arc<Stewards>,
    /// By link: how many workers receive from each of its queues, if that can be changed.
    pub(in crate::stack) receivers: Vec<Option<Arc<ReceiveThreads>>>,
    /// The ports of applications, if the addresses are the kernel's.
    pub(in crate::stack) application_ports: Option<ApplicationPorts>,
    /// Applications' sockets, once they are served.
    pub(in crate::stack) applications: OnceLock<Arc<Mutex<AppServer>>>,
    pub(in crate::stack) started: Instant,
}

impl Shared {
    /// `stewards` come with the numbers of their links.
    pub(in crate::stack) fn new(
        config: Config,
        host: HostHandle,
        program: Program,
        mut stewards: Vec<(u16, Steward)>,
        ports: TakenPorts,
    ) -> Shared {
        let (publisher, links) = (&host.publisher, host.links.len());
        let graph_parts = Arc::new(GraphParts::new(Arc::clone(publisher), links));
        let wait_modes = Arc::new(WaitModes::new(Arc::clone(&host.workers), config.mode, links));
        for (link, steward) in &mut stewards {
            let graph_parts = steward.policy().simplify.then(|| Arc::clone(&graph_parts));
            let workers = WorkerReceivers::new(*link, &host, graph_parts, Arc::clone(&wait_modes));
            steward.attach_receivers(Box::new(workers));
        }
        let stewards = stewards.into_iter().map(|(_, steward)| steward).collect();
        let program = Arc::new(Mutex::new(program));
        let names = host.links.iter().map(|link| link.name.clone()).collect();
        let taps = host.env.get_or_default::<Taps>();
        let captures = Captures::new(Arc::clone(&program), Arc::clone(publisher), taps, names);
        Shared {
            stewards: Arc::new(Stewards::new(stewards)),
            program,
            serves: Mutex::new(config.services),
            captures,
            names: Arc::new(DeviceNames::new(&config, &host.links)),
            ports,
            receivers: Vec::new(),
            application_ports: None,
            applications: OnceLock::new(),
            started: Instant::now(),
            config,
            host,
        }
    }

    /// How workers share the queues of each steward's device.
    pub(in crate::stack) fn sharing(&self) -> Result<Vec<Option<QueueSharing>>, PolicyError> {
        let of = |steward: &Steward| {
            let link = self.host.links.iter().position(|link| link.name == steward.name());
            let threads = link.and_then(|link| self.receivers.get(link)?.as_ref());
            QueueSharing::of(steward, threads)
        };
        self.stewards.lock().iter().map(of).collect()
    }

    /// Whether the policy decides how many workers receive from a device's queues.
    pub(in crate::stack) fn shares_by_policy(&self, link: usize) -> bool {
        let Some(link) = self.host.links.get(link) else { return false };
        let mode = |s: &Steward| s.policy().document.sharing.map(|sharing| sharing.mode);
        let stewards = self.stewards.lock();
        let mut of_link = stewards.iter().filter(|steward| steward.name() == link.name);
        of_link.any(|steward| mode(steward) == Some(SharingMode::Auto))
    }

    pub(in crate::stack) fn report(&self) -> StackTotals {
        StackTotals { counters: self.counters(), failure: self.host.failure() }
    }

    pub(in crate::stack) fn picture(&self, wanted: &GraphRequest) -> Result<String, ApiError> {
        if wanted.format == GraphFormat::Unicorn {
            return Ok(self.program().text().to_owned());
        }
        picture::draw(&self.host.publisher.graph(), &sum(&self.readings()), wanted)
    }

    fn readings(&self) -> Vec<Vec<Reading>> {
        self.host.readings()
    }

    pub(in crate::stack) fn uptime_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Packets whose queue had failed by the time they were to be sent.
    fn undeliverable(&self, worker: &WorkerHandle) -> Option<DropCounter> {
        let packets = worker.stats.undeliverable();
        let (node, reason) = (worker.name.clone(), "the link's queue has failed".into());
        (packets > 0).then_some(DropCounter { node, port: None, reason, packets })
    }

    fn services(&self) -> Vec<ServiceStatus> {
        let services = *self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |(name, protocol, port): (&str, &str, u16)| ServiceStatus {
            name: name.into(),
            protocol: protocol.into(),
            port,
        };
        services.running().map(status).collect()
    }

    fn worker(&self, worker: &WorkerHandle) -> WorkerStatus {
        WorkerStatus {
            name: worker.name.clone(),
            core: worker.core,
            mode: wait_mode_name(worker.pace.mode()),
            queues: worker.queues.iter().map(|(_, queue)| *queue).collect(),
            turns: worker.stats.turns(),
            sleeps: worker.stats.sleeps(),
            received: worker.stats.received(),
            sent: worker.stats.sent(),
            handed_over: worker.stats.handed_over(),
            taken_over: worker.stats.taken_over(),
            state: worker.failures().last().cloned().unwrap_or_else(|| "running".into()),
        }
    }

    /// The counters of the links' queues that a worker serves.
    pub(in crate::stack) fn links_of<'a>(
        &'a self,
        worker: &'a WorkerHandle,
    ) -> impl Iterator<Item = LinkCounters> + 'a {
        let stats = worker.stats.queues().into_iter();
        stats.zip(&worker.queues).map(|((link, stats), (_, number))| {
            counters::queue(&self.host.links[usize::from(link)].name, *number, &stats)
        })
    }

    /// The counters so far.
    pub(in crate::stack) fn counters(&self) -> Counters {
        let mut counters = counters::nodes(&self.readings());
        counters.uptime_ns = self.uptime_ns();
        for worker in self.host.workers.iter() {
            counters.links.extend(self.links_of(worker));
            counters.drops.extend(self.undeliverable(worker));
        }
        counters.links.sort_by(|a, b| (&a.link, a.queue).cmp(&(&b.link, b.queue)));
        counters.drops.extend(counters.links.iter().flat_map(counters::lost));
        counters.pools.push(frames::workers(&self.host));
        counters
    }

    /// The state of the stack.
    pub(in crate::stack) fn status(&self) -> Status {
        let (interface, link) = (&self.config.interfaces[0], &self.host.links[0]);
        let names = self.names.all();
        // The present state: addresses change, and in some modes of sharing they are the kernel's.
        let state = self.host.network.state();
        let now = state.config().interface_named(&interface.name);
        let address = now.and_then(|iface| iface.v4.iter().next()).unwrap_or(Cidr::ALL);
        let gateway = network::gateway(state.config());
        let server = self.applications.get();
        let applications =
            server.map(|server| server.lock().unwrap_or_else(PoisonError::into_inner));
        Status {
            pid: std::process::id(),
            program: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: self.uptime_ns(),
            link: names[0].clone(),
            mac: MacAddr(link.mac).to_string(),
            mtu: now.map_or(link.mtu, |iface| iface.mtu),
            queues: link.queues,
            mode: link.mode.clone(),
            share: interface.share.to_string(),
            address: address.addr(),
            prefix: address.prefix_len(),
            gateway,
            services: self.services(),
            workers: self.host.workers.iter().map(|worker| self.worker(worker)).collect(),
            interfaces: network::interfaces(state.config(), &names),
            routes: network::routes(state.config()),
            neighbours: network::neighbours(
                state.config(),
                &self.host.neighbours,
                &self.host.neighbours6,
            ),
            pools: frames::pools(&self.host, applications.as_deref()),
            application_frames: applications.as_deref().map(frames::own).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use weever_link::memory::{MemoryConfig, pair};
    use weever_packet::{Pool, PoolConfig};

    use weever_service_api::Assignment;

    use super::*;
    use crate::stack::Stack;

    fn stack() -> (Stack, weever_link::memory::MemoryLink) {
        stack_with(None)
    }

    fn stack_with(apps: Option<std::path::PathBuf>) -> (Stack, weever_link::memory::MemoryLink) {
        let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
        config.probe = false;
        config.services.echo = Some(7);
        config.apps = apps;
        let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
        let link = MemoryConfig { waitable: true, ..MemoryConfig::default() };
        let (ours, theirs) = pair(&link).unwrap();
        (Stack::start_on(vec![Box::new(ours)], pool, config).unwrap(), theirs)
    }

    #[test]
    fn a_port_is_a_services_or_an_applications_also_when_it_changes() {
        let path = std::env::temp_dir().join(format!("weever-ports-{}.sock", std::process::id()));
        let (stack, _theirs) = stack_with(Some(path.clone()));
        let config = weever_app_sockets::QueueConfig { path, ..Default::default() };
        let queue = weever_app_sockets::AppQueue::connect(&config).unwrap();
        let listen = |port| queue.listen_tcp(([0, 0, 0, 0], port).into(), 4, false);
        let set = |text: &str| stack.shared.assign(&[text.parse().unwrap()]);
        let own = listen(8080).unwrap();
        let refused = set("services.tcp-echo=8080").unwrap_err();
        assert!(refused.message.contains("8080"), "{refused:?}");
        assert_eq!(stack.status().services.len(), 1, "it serves what it did");
        set("services.tcp-echo=9090").unwrap();
        assert!(listen(9090).is_err(), "the service has it");
        set("services.tcp-echo=9091").unwrap();
        listen(9090).unwrap();
        queue.close_listener(own).unwrap();
        set("services.tcp-echo=8080").unwrap();
        set("services.tcp-echo=none").unwrap();
        listen(8080).unwrap();
    }

    #[test]
    fn settings_change_together_or_not_at_all() {
        let (stack, _theirs) = stack();
        let set = |texts: &[&str]| {
            let all: Vec<Assignment> = texts.iter().map(|text| text.parse().unwrap()).collect();
            stack.shared.assign(&all)
        };
        let before = (stack.status(), stack.shared.host.publisher.epoch());
        for (refused, culprit) in [
            ("forwarding=maybe", "forwarding"),
            ("services.discard=8", "services.discard"),
            ("node.Nobody.period=1", "Nobody"),
            ("nonsense=1", "nonsense"),
        ] {
            let all = ["services.echo=8", "interface.memory0.addr+=10.0.0.9/24", refused];
            let error = set(&all).unwrap_err();
            assert!(error.message.contains(culprit), "{error:?}");
            let after = (stack.status(), stack.shared.host.publisher.epoch());
            assert_eq!(after.0.services, before.0.services, "{refused}");
            assert_eq!(after.0.interfaces, before.0.interfaces, "{refused}");
            assert_eq!(after.1, before.1, "{refused}");
        }
        let too_small = ["interface.memory0.mtu=1200", "interface.memory0.addr+=2001:db8::1/64"];
        assert!(set(&too_small).unwrap_err().message.contains("mtu"));
        assert_eq!(stack.status().interfaces[0].mtu, 1500);
        let changed = set(&["services.echo=8", "interface.memory0.mtu=1300"]).unwrap();
        let status = stack.status();
        assert!(changed.steps > 0 && changed.epoch == before.1 + 1);
        assert_eq!((status.services[0].port, status.interfaces[0].mtu), (8, 1300));
    }

    #[test]
    fn the_status_tells_all_holders_of_frames() {
        let (stack, _theirs) = stack();
        let status = stack.status();
        assert!(status.pools[0].holder.is_empty() && !status.pools[0].shares.is_empty());
        let pieces = &status.pools[1];
        assert_eq!((pieces.holder.as_str(), status.pools.len()), ("datagrams in pieces", 2));
        assert!(
            pieces.frames > 0 && pieces.available == pieces.frames && !pieces.shares.is_empty()
        );
        assert!(status.application_frames.is_empty(), "none are served");
        let mut builder = weever_host::HostBuilder::new(stack.shared.host.pool.clone());
        let large = Pool::new(PoolConfig::large(256)).unwrap();
        let mut server = builder.applications(Some(large), 10).unwrap();
        let owner = weever_app_server::Identity { name: "demo".into(), pid: 815, uid: 0 };
        server.open_queue(owner, Default::default()).unwrap();
        let pools = frames::pools(&stack.shared.host, Some(&server));
        let told = (pools[2].holder.as_str(), pools[2].frames);
        assert_eq!(told, ("applications' long datagrams", 256));
        let own = frames::own(&server);
        assert_eq!((own[0].holder.as_str(), own[0].each), ("demo (process 815)", 2048));
    }

    #[test]
    fn the_status_does_not_wait_for_a_change() {
        let (stack, _theirs) = stack();
        // Like a change that waits for a late worker.
        let change = stack.shared.program();
        let (told, tells) = mpsc::channel();
        std::thread::scope(|scope| {
            let shared = Arc::clone(&stack.shared);
            scope.spawn(move || told.send(shared.status()).unwrap());
            let status = tells.recv_timeout(Duration::from_secs(20));
            drop(change);
            assert_eq!(status.expect("it waited").services[0].port, 7);
        });
        let moved = stack.shared.assign(&["services.echo=8".parse().unwrap()]);
        assert!(moved.is_ok(), "{moved:?}");
        assert_eq!(stack.status().services[0].port, 8);
    }
}
