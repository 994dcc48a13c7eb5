//! One simulated host: the graph of a real one, its network, and a worker without a thread.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use weever_block::Env;
use weever_blocks_std::host::{Network, provide};
use weever_blocks_std::registry;
use weever_engine::{CounterKind, Limits, Member, MemberQueue, Publisher, Reading, Team, Worker};
use weever_link::fault::{FaultConfig, FaultControl, FaultyLink};
use weever_link::memory::MemoryLink;
use weever_link::{Link, LinkInfo};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service, Socket, host};
use weever_net::iface::{IfaceId, Interface};
use weever_net::route::Route;
use weever_net::state::NetConfig;
use weever_packet::{Burst, Endpoints, Flags, HugePages, Nanos, Pool, PoolConfig};
use weever_wire::MacAddr;
use weever_wire::ipv4::protocol;

use crate::SimError;
use crate::sockets::{self, Datagram, Inbox, KEEP, SEND, SEND_TYPE};

const FRAMES: u32 = 4096;

/// One end of a cable, and what is there.
pub(crate) struct Port {
    pub(crate) addr: String,
    pub(crate) link: MemoryLink,
    pub(crate) config: FaultConfig,
    pub(crate) cable: usize,
}

/// What a host is to be.
pub(crate) struct HostSpec {
    pub(crate) name: String,
    pub(crate) ports: Vec<Port>,
    pub(crate) routes: Vec<(String, IpAddr)>,
    pub(crate) sockets: Vec<(Service, u16)>,
    pub(crate) forwarding: bool,
}

impl HostSpec {
    pub(crate) fn new(name: &str) -> HostSpec {
        HostSpec {
            name: name.into(),
            ports: Vec::new(),
            routes: Vec::new(),
            sockets: Vec::new(),
            forwarding: false,
        }
    }
}

/// A host that runs.
pub(crate) struct SimHost {
    pub(crate) name: String,
    pub(crate) worker: Worker,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) network: Arc<Network>,
    pub(crate) plugs: Vec<(usize, FaultControl)>,
    inbox: Arc<Inbox>,
    pool: Pool,
    burst: Burst,
}

impl SimHost {
    pub(crate) fn start(spec: HostSpec) -> Result<SimHost, SimError> {
        let name = spec.name.clone();
        let failed = |problem: String| SimError::Host { host: name.clone(), problem };
        let config =
            PoolConfig { frames: FRAMES, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).map_err(|e| failed(e.to_string()))?;
        let infos: Vec<LinkInfo> = spec.ports.iter().map(|port| port.link.info().clone()).collect();
        let env = Arc::new(Env::new());
        let network = provide(&env, network(&spec, &infos).map_err(failed)?, 0);
        let inbox = Arc::new(Inbox::default());
        env.provide(Arc::clone(&inbox));
        let mut graph = host(&sockets_of(&spec)).map_err(|e| failed(e.to_string()))?;
        sockets::fit(&mut graph).ok_or_else(|| failed("its graph has no UDP".into()))?;
        let (plugs, queues) = plug_in(spec.ports);
        let limits = Limits { links: infos.len() as u16, ..Limits::within(FRAMES as usize) };
        let member = Member { name: spec.name, pool: pool.cache(), limits, queues };
        let registry = registry().with(&[&SEND_TYPE, &KEEP]);
        let team = Team::build(graph, registry, env, vec![member]);
        let Team { mut workers, publisher } = team.map_err(|e| failed(e.to_string()))?;
        let worker = workers.remove(0);
        let burst = Burst::new();
        Ok(SimHost { name, worker, publisher, network, plugs, inbox, pool, burst })
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
        let mapped = |ip| match ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
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
        let state = self.network.state();
        match to {
            IpAddr::V4(v4) => state.route4(v4).map(|hop| hop.source.into()),
            IpAddr::V6(v6) => {
                let iface = state.route6(v6)?.iface;
                state.source6(iface, v6).map(IpAddr::V6)
            }
        }
    }

    fn inject(&mut self, ends: Endpoints, payload: &[u8], now: Nanos) -> Result<(), SimError> {
        let engine = self.worker.engine();
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

    pub(crate) fn readings(&mut self) -> Vec<Reading> {
        self.worker.engine().counters().describe()
    }

    pub(crate) fn drops(&mut self) -> Vec<(String, String, u64)> {
        let drops = self.readings().into_iter();
        let drops = drops.filter(|r| r.kind == CounterKind::Drop && r.value > 0);
        drops.map(|r| (r.node.to_string(), r.label.to_string(), r.value)).collect()
    }

    /// The pool, once nothing of the host is left that could hold a frame.
    pub(crate) fn into_pool(self) -> Pool {
        self.pool
    }
}

fn sockets_of(spec: &HostSpec) -> HostConfig {
    let socket =
        |(service, port): &(Service, u16)| Socket { addr: None, port: *port, service: *service };
    HostConfig { sockets: spec.sockets.iter().map(socket).collect() }
}

fn network(spec: &HostSpec, infos: &[LinkInfo]) -> Result<NetConfig, String> {
    let mut network = NetConfig::new();
    for (number, (port, info)) in spec.ports.iter().zip(infos).enumerate() {
        let (id, name) = (IfaceId(number as u16), format!("eth{number}"));
        let iface = Interface::new(id, name, number as u16, MacAddr(info.mac));
        network.add_interface(iface.with_mtu(info.mtu)).map_err(|e| e.to_string())?;
        port.addr.split(',').try_for_each(|addr| add_address(&mut network, id, addr))?;
    }
    for (to, via) in &spec.routes {
        match via {
            IpAddr::V4(via) => network.add_route(Route::via(parse(to)?, *via)),
            IpAddr::V6(via) => network.add_route6(Route::via(parse(to)?, *via)),
        }
        .map_err(|e| e.to_string())?;
    }
    network.settings.forwarding = spec.forwarding;
    Ok(network)
}

fn add_address(network: &mut NetConfig, id: IfaceId, addr: &str) -> Result<(), String> {
    let added = match addr.contains(':') {
        true => network.add_address6(id, parse(addr)?),
        false => network.add_address(id, parse(addr)?),
    };
    added.map_err(|e| e.to_string())
}

fn parse<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e| format!("`{text}` is {e}"))
}

/// The ports' queues, each with faults, and what controls these.
fn plug_in(ports: Vec<Port>) -> (Vec<(usize, FaultControl)>, Vec<MemberQueue>) {
    let (mut plugs, mut queues) = (Vec::new(), Vec::new());
    for (number, port) in (0u16..).zip(ports) {
        let mut link = FaultyLink::new(Box::new(port.link), port.config);
        plugs.push((port.cable, link.control()));
        let of_link = link.take_queues().into_iter();
        let source = || HOST_SOURCE.to_owned();
        queues.extend(of_link.map(|queue| MemberQueue { link: number, source: source(), queue }));
    }
    (plugs, queues)
}
