//! What the control socket's threads may ask of a stack.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use weever_blocks_std::host::{Neighbours, Neighbours6, Network};
use weever_engine::{Publisher, Reading, sum};
use weever_link::LinkInfo;
use weever_net::addr::Cidr;
use weever_packet::Pool;
use weever_service_api::{
    ApiError, Assignment, CaptureRequest, Changed, Counters, DropCounter, ErrorKind, Flows,
    GraphFormat, GraphText, PoolCounters, QueueStatus, Queues, ServiceStatus, Status, WorkerStatus,
};
use weever_wire::MacAddr;

use super::capture::Captures;
use super::crew::Meter;
use super::ports::TakenPorts;
use super::program::Program;
use super::steward::Stewards;
use super::{Report, Stopper, network, paces, picture, view};
use crate::config::{Config, Services};
use crate::control::{Capturing, Source};

pub(super) struct Shared {
    /// As the stack was started.
    pub(super) config: Config,
    pub(super) links: Vec<LinkInfo>,
    /// Addresses and routes as they are.
    pub(super) network: Arc<Network>,
    pub(super) neighbours: Arc<Neighbours>,
    pub(super) neighbours6: Arc<Neighbours6>,
    /// The graph as it is.
    pub(super) publisher: Arc<Publisher>,
    pub(super) program: Arc<Mutex<Program>>,
    /// What it serves. Kept apart: who asks what a late worker does is not to wait for that worker,
    /// as the change does that has the program.
    pub(super) serves: Mutex<Services>,
    pub(super) captures: Captures,
    /// What services have taken from devices that are shared by port.
    pub(super) ports: TakenPorts,
    /// What carries out the policy, a device each.
    pub(super) stewards: Arc<Stewards>,
    pub(super) meters: Vec<Meter>,
    pub(super) pool: Pool,
    pub(super) started: Instant,
    pub(super) stopper: Stopper,
}

impl Shared {
    pub(super) fn report(&self) -> Report {
        let failure = self.meters.iter().find_map(|meter| meter.failures().first().cloned());
        Report { counters: self.counters(), failure }
    }

    pub(super) fn picture(&self, format: GraphFormat) -> Result<String, ApiError> {
        if format == GraphFormat::Unicorn {
            return Ok(self.program().text().to_owned());
        }
        picture::draw(&self.publisher.graph(), &sum(&self.readings()), format)
    }

    /// What a worker runs, with what it has counted.
    fn picture_of(&self, worker: u32, format: GraphFormat) -> Result<String, ApiError> {
        let refused = |message: String, remedy: &str| {
            Err(ApiError::new(ErrorKind::BadParameters, message, remedy))
        };
        let graph = self.publisher.executed(worker as usize);
        let Some((graph, meter)) = graph.zip(self.meters.get(worker as usize)) else {
            let last = self.meters.len() - 1;
            return refused(format!("there is no worker {worker}"), &format!("use 0 to {last}"));
        };
        if format == GraphFormat::Unicorn {
            let message = format!("the text is of the graph of all, not of worker {worker}'s part");
            return refused(message, "ask without a worker, or for text, svg or dot");
        }
        picture::draw(&graph, &meter.counters.describe(), format)
    }

    fn readings(&self) -> Vec<Vec<Reading>> {
        self.meters.iter().map(|meter| meter.counters.describe()).collect()
    }

    fn uptime_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Packets whose queue had failed by the time they were to be sent.
    fn undeliverable(&self, meter: &Meter) -> Option<DropCounter> {
        let packets = meter.stats.undeliverable();
        let (node, reason) = (meter.name.clone(), "the link's queue has failed".into());
        (packets > 0).then_some(DropCounter { node, port: None, reason, packets })
    }

    fn services(&self) -> Vec<ServiceStatus> {
        let services = *self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        let ports = [("echo", services.echo), ("discard", services.discard)];
        let running = ports.into_iter().filter_map(|(name, port)| Some((name, port?)));
        let status = |(name, port): (&str, u16)| ServiceStatus {
            name: name.into(),
            protocol: "udp".into(),
            port,
        };
        running.map(status).collect()
    }

    fn worker(&self, meter: &Meter) -> WorkerStatus {
        WorkerStatus {
            name: meter.name.clone(),
            core: meter.core,
            mode: paces::name(meter.pace.mode()),
            queues: meter.queues.iter().map(|(_, queue)| *queue).collect(),
            turns: meter.stats.turns(),
            sleeps: meter.stats.sleeps(),
            received: meter.stats.received(),
            sent: meter.stats.sent(),
            handed_over: meter.stats.handed_over(),
            taken_over: meter.stats.taken_over(),
            state: meter.failures().last().cloned().unwrap_or_else(|| "running".into()),
        }
    }

    fn pool_counters(&self) -> PoolCounters {
        let (frames, available) = (self.pool.frames() as u64, self.pool.available() as u64);
        PoolCounters { frames, available }
    }

    /// A row for each link from which the worker receives.
    fn queues_of(&self, number: u32, meter: &Meter, nodes: &[usize]) -> Vec<QueueStatus> {
        let nodes_of = |worker: usize| nodes.get(worker).map_or(0, |nodes| *nodes as u64);
        let mut rows: Vec<QueueStatus> = Vec::new();
        for counted in self.links_of(meter) {
            let at = rows.iter().position(|row| row.link == counted.link).unwrap_or_else(|| {
                rows.push(QueueStatus {
                    link: counted.link.clone(),
                    queue: number,
                    worker: meter.name.clone(),
                    core: meter.core,
                    turns: meter.stats.turns(),
                    sleeps: meter.stats.sleeps(),
                    nodes: nodes_of(number as usize),
                    nodes_of_all: nodes_of(0),
                    ..QueueStatus::default()
                });
                rows.len() - 1
            });
            let row = &mut rows[at];
            row.sockets.push(counted.queue);
            row.received += counted.rx_packets;
            row.sent += counted.tx_packets;
            row.dropped += counted.rx_dropped;
        }
        rows
    }

    fn links_of<'a>(
        &'a self,
        meter: &'a Meter,
    ) -> impl Iterator<Item = weever_service_api::LinkCounters> + 'a {
        let stats = meter.stats.queues().into_iter();
        stats.zip(&meter.queues).map(|((link, stats), (_, number))| {
            view::queue(&self.links[usize::from(link)].name, *number, &stats)
        })
    }
}

impl Source for Shared {
    fn counters(&self) -> Counters {
        let mut counters = view::nodes(&self.readings());
        counters.uptime_ns = self.uptime_ns();
        for meter in &self.meters {
            counters.links.extend(self.links_of(meter));
            counters.drops.extend(self.undeliverable(meter));
        }
        counters.links.sort_by(|a, b| (&a.link, a.queue).cmp(&(&b.link, b.queue)));
        counters.drops.extend(counters.links.iter().flat_map(view::lost));
        counters.pools.push(self.pool_counters());
        counters
    }

    fn status(&self) -> Status {
        let (interface, link) = (&self.config.interfaces[0], &self.links[0]);
        // As it is now: addresses change, and with some ways of sharing they are the kernel's.
        let state = self.network.state();
        let now = state.config().interface_named(&interface.name);
        let address = now.and_then(|iface| iface.v4.iter().next()).unwrap_or(Cidr::ALL);
        let gateway = network::gateway(state.config());
        Status {
            pid: std::process::id(),
            program: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: self.uptime_ns(),
            link: link.name.clone(),
            mac: MacAddr(link.mac).to_string(),
            mtu: now.map_or(link.mtu, |iface| iface.mtu),
            queues: link.queues,
            mode: link.mode.clone(),
            share: interface.share.to_string(),
            address: address.addr(),
            prefix: address.prefix_len(),
            gateway,
            services: self.services(),
            workers: self.meters.iter().map(|meter| self.worker(meter)).collect(),
            interfaces: network::interfaces(state.config(), &self.links),
            routes: network::routes(state.config()),
            neighbours: network::neighbours(state.config(), &self.neighbours, &self.neighbours6),
            pools: vec![self.pool_counters()],
        }
    }

    fn flows(&self, most: usize) -> Flows {
        let mut flows = Flows { uptime_ns: self.uptime_ns(), ..Flows::default() };
        for steward in self.stewards.lock().iter_mut() {
            steward.add_flows(&mut flows, most);
        }
        flows
    }

    fn queues(&self, filters: usize) -> Queues {
        let (workers, nodes) = ((0u32..).zip(&self.meters), self.publisher.sizes());
        let mut queues: Vec<QueueStatus> =
            workers.flat_map(|(number, meter)| self.queues_of(number, meter, &nodes)).collect();
        queues.sort_by(|a, b| (&a.link, a.queue).cmp(&(&b.link, b.queue)));
        let mut problems = Vec::new();
        for steward in self.stewards.lock().iter_mut() {
            steward.describe(&mut queues, filters);
            problems.extend(steward.problem());
        }
        Queues { uptime_ns: self.uptime_ns(), queues, problems }
    }

    fn graph(&self, format: GraphFormat, worker: Option<u32>) -> Result<GraphText, ApiError> {
        let text = match worker {
            None => self.picture(format)?,
            Some(worker) => self.picture_of(worker, format)?,
        };
        Ok(GraphText { format, text })
    }

    fn apply(&self, name: &str, text: &str) -> Result<Changed, ApiError> {
        self.apply_text(name, text)
    }

    fn set(&self, assignment: &Assignment) -> Result<Changed, ApiError> {
        self.assign(assignment)
    }

    fn capture(&self, wanted: &CaptureRequest) -> Result<Box<dyn Capturing>, ApiError> {
        self.captures.begin(wanted)
    }

    fn stop(&self) {
        self.stopper.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use weever_link::memory::{MemoryConfig, pair};
    use weever_packet::PoolConfig;

    use super::*;
    use crate::stack::Stack;

    #[test]
    fn who_asks_for_the_status_does_not_wait_for_a_change() {
        let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
        config.probe = false;
        config.services.echo = Some(7);
        let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
        let link = MemoryConfig { waitable: true, ..MemoryConfig::default() };
        let (ours, _theirs) = pair(&link).unwrap();
        let stack = Stack::start_on(vec![Box::new(ours)], pool, config).unwrap();
        // As a change that waits for a late worker.
        let change = stack.shared.program();
        let (told, tells) = mpsc::channel();
        std::thread::scope(|scope| {
            let shared = Arc::clone(&stack.shared);
            scope.spawn(move || told.send(shared.status()).unwrap());
            let status = tells.recv_timeout(Duration::from_secs(20));
            drop(change);
            assert_eq!(status.expect("it waited").services[0].port, 7);
        });
        let moved = stack.shared.assign(&"services.echo=8".parse().unwrap());
        assert!(moved.is_ok(), "{moved:?}");
        assert_eq!(stack.status().services[0].port, 8);
    }
}
