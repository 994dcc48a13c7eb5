//! One simulated host: the graph of a real one, its network, and a worker without a thread.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weever_engine::{CounterKind, Fault, Reading};
use weever_host::{Host, HostBuilder, InterfaceConfig, Prefix, Route, Service, with_dhcp_socket};
use weever_link::Link;
use weever_link::fault::{FaultConfig, FaultControl, FaultyLink};
use weever_link::memory::MemoryLink;
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Socket, host};
use weever_packet::{Burst, Endpoints, Flags, HugePages, Nanos, Pool, PoolConfig};
use weever_plan::simplify::HandOver;
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::mapped;

use crate::SimError;
use crate::sockets::{self, Datagram, Inbox, KEEP, LISTEN, SEND, SEND_TYPE};
use crate::sorter::{SortedLink, Sorter};
use crate::workers::Workers;

const FRAMES: u32 = 4096;

/// A host of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) usize);

/// A cable of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(pub(crate) usize);

/// One end of a cable.
pub(crate) struct Port {
    pub(crate) addr: String,
    pub(crate) link: MemoryLink,
    pub(crate) config: FaultConfig,
    pub(crate) cable: usize,
}

/// The description of a host.
pub(crate) struct HostSpec {
    pub(crate) name: String,
    pub(crate) ports: Vec<Port>,
    pub(crate) routes: Vec<(String, IpAddr)>,
    pub(crate) sockets: Vec<(Service, u16)>,
    pub(crate) forwarding: bool,
    pub(crate) workers: u16,
}

impl HostSpec {
    pub(crate) fn new(name: &str) -> HostSpec {
        HostSpec {
            name: name.into(),
            ports: Vec::new(),
            routes: Vec::new(),
            sockets: Vec::new(),
            forwarding: false,
            workers: 1,
        }
    }
}

/// The faults of a port, with the number of its cable.
type Plug = (usize, FaultControl);

/// A host that runs.
pub(crate) struct SimHost {
    pub(crate) name: String,
    pub(crate) stack: Host,
    pub(crate) plugs: Vec<Plug>,
    pub(crate) workers: Workers,
    inbox: Arc<Inbox>,
    burst: Burst,
}

impl SimHost {
    /// A host as it is shipped; `seed` stands for the system's randomness.
    pub(crate) fn start(spec: HostSpec, seed: u64) -> Result<SimHost, SimError> {
        let name = spec.name.clone();
        let failed = |problem: String| SimError::Host { host: name.clone(), problem };
        let config =
            PoolConfig { frames: FRAMES, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).map_err(|e| failed(e.to_string()))?;
        let mut builder = HostBuilder::new(pool);
        let mut graph =
            host(&with_dhcp_socket(sockets_of(&spec))).map_err(|e| failed(e.to_string()))?;
        sockets::fit(&mut graph).ok_or_else(|| failed("its graph has no UDP".into()))?;
        builder.graph(HandOver::default().with_entrance(&graph, "RxQueue"), HOST_SOURCE);
        builder.registry(weever_blocks_std::registry().with(&[&SEND_TYPE, &LISTEN, &KEEP]));
        let inbox = Arc::new(Inbox::default());
        builder.env().provide(Arc::clone(&inbox));
        builder.secret(seed);
        builder.network().settings.forwarding = spec.forwarding;
        builder.workers(spec.workers.into());
        let (plugs, sorters) = attach(&mut builder, spec.ports, spec.workers).map_err(failed)?;
        let workers = Workers::new(spec.workers.into(), sorters, seed);
        for (to, via) in &spec.routes {
            let route = Route::via(parse(to).map_err(failed)?, *via);
            builder.route(&route).map_err(|e| failed(e.to_string()))?;
        }
        let stack = builder.build(0).map_err(|e| failed(e.to_string()))?;
        Ok(SimHost { name, stack, plugs, workers, inbox, burst: Burst::new() })
    }

    /// A turn of its workers; whether there may be more to do at this instant.
    pub(crate) fn step(&mut self, now: Nanos) -> bool {
        self.workers.step(&mut self.stack, now)
    }

    /// Whether its workers have turns while another thread changes their graph.
    pub(crate) fn attend(&mut self, attends: bool) {
        (0..self.workers.count()).for_each(|number| self.stack.worker(number).attend(attends));
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let both = [self.stack.next_deadline(), self.workers.next_deadline()];
        both.into_iter().flatten().min()
    }

    /// Sends a datagram as an application would.
    pub(crate) fn send(
        &mut self,
        port: u16,
        to: SocketAddr,
        payload: &[u8],
        now: Nanos,
    ) -> Result<(), SimError> {
        let no_route = || SimError::NoRoute { host: self.name.clone(), to: to.ip() };
        let local = self.source_for(to.ip()).ok_or_else(no_route)?;
        let ends = Endpoints {
            local: mapped(local),
            remote: mapped(to.ip()),
            local_port: port,
            remote_port: to.port(),
            protocol: protocol::UDP,
            ..Endpoints::default()
        };
        self.inject(ends, payload, now)
    }

    /// Our address to speak from, if there is a way.
    fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        let state = self.stack.handle().network.state();
        match to {
            IpAddr::V4(v4) => state.route4(v4).map(|hop| hop.source.into()),
            IpAddr::V6(v6) => {
                let iface = state.route6(v6)?.iface;
                state.source6(iface, v6).map(IpAddr::V6)
            }
        }
    }

    fn inject(&mut self, ends: Endpoints, payload: &[u8], now: Nanos) -> Result<(), SimError> {
        let engine = self.stack.worker(0).engine();
        let full = || SimError::NoBuffer { host: self.name.clone(), len: payload.len() };
        let mut buffer = engine.pool().alloc().ok_or_else(full)?;
        if !buffer.append(payload) {
            engine.pool().free(buffer);
            return Err(full());
        }
        let meta = buffer.meta_mut();
        (meta.endpoints, meta.flags) = (ends, Flags::ENDPOINTS);
        self.burst.put(0, buffer);
        let entry = engine.entry(SEND).expect("the graph was fitted with it");
        engine.inject(entry, &mut self.burst, 1, now);
        Ok(())
    }

    pub(crate) fn received(&self) -> Vec<Datagram> {
        std::mem::take(&mut *self.inbox.lock())
    }

    pub(crate) fn readings(&self) -> Vec<Reading> {
        self.stack.handle().readings().concat()
    }

    pub(crate) fn drops(&self) -> Vec<(String, String, u64)> {
        let drops = self.readings().into_iter();
        let drops = drops.filter(|r| r.kind == CounterKind::Drop && r.value > 0);
        drops.map(|r| (r.node.to_string(), r.label.to_string(), r.value)).collect()
    }

    pub(crate) fn faults(&self) -> Vec<Fault> {
        let handle = self.stack.handle();
        handle.workers.iter().flat_map(|worker| worker.counters.faults()).collect()
    }

    /// The pool, once nothing of the host is left that could hold a frame.
    pub(crate) fn into_pool(self) -> Pool {
        self.stack.handle().pool.clone()
    }
}

fn sockets_of(spec: &HostSpec) -> HostConfig {
    let socket =
        |(service, port): &(Service, u16)| Socket { addr: None, port: *port, service: *service };
    HostConfig { sockets: spec.sockets.iter().map(socket).collect(), ..HostConfig::default() }
}

/// Gives the host an interface on each port, with faults in between and as many queues as it has workers;
/// returns the faults' controls and the filters.
fn attach(
    builder: &mut HostBuilder,
    ports: Vec<Port>,
    workers: u16,
) -> Result<(Vec<Plug>, Vec<Sorter>), String> {
    let (mut plugs, mut sorters) = (Vec::new(), Vec::new());
    for (number, port) in ports.into_iter().enumerate() {
        let link = FaultyLink::new(Box::new(port.link), port.config);
        plugs.push((port.cable, link.control()));
        let link: Box<dyn Link> = if workers > 1 {
            let sorted = SortedLink::new(Box::new(link), workers).ok_or("a cable has one queue")?;
            sorters.push(sorted.sorter());
            Box::new(sorted)
        } else {
            Box::new(link)
        };
        let link = builder.link(link);
        let addresses = port.addr.split(',').map(parse).collect::<Result<_, _>>()?;
        let name = format!("eth{number}");
        // Routers' advertisements are listened to as soon as there is an IPv6 address.
        let slaac = port.addr.contains(':');
        let config = InterfaceConfig { addresses, slaac, ..InterfaceConfig::new(name, link) };
        builder.interface(config).map_err(|e| e.to_string())?;
    }
    Ok((plugs, sorters))
}

fn parse(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|e| format!("`{text}` is {e}"))
}
