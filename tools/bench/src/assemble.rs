//! weever as a contender: an engine over a graph, without the service around it.

use std::net::Ipv4Addr;

use weever_blocks_api::Env;
use weever_blocks_std::host::{self, Neighbours};
use weever_engine::{Engine, Limits, Schedule};
use weever_graph::{Graph, verify};
use weever_link::LinkInfo;
use weever_net::iface::IfaceId;
use weever_net::state::NetConfig;
use weever_packet::PoolCache;
use weever_wire::MacAddr;

use crate::BenchError;

const WEEVER: &str = "weever";

/// A host's identity, with the one neighbour it talks to.
pub(crate) struct Identity {
    pub(crate) address: Ipv4Addr,
    pub(crate) neighbour: Ipv4Addr,
    pub(crate) neighbour_mac: [u8; 6],
}

/// An engine that executes `graph` for a host of this identity on `link`.
pub(crate) fn engine(
    mut graph: Graph,
    link: &LinkInfo,
    identity: &Identity,
    pool: PoolCache,
) -> Result<Engine, BenchError> {
    let registry = weever_blocks_std::registry();
    registry.annotate(&mut graph).map_err(BenchError::of(WEEVER))?;
    let findings = |errors: Vec<_>| match errors.first() {
        Some(first) => BenchError::of(WEEVER)(first),
        None => BenchError::of(WEEVER)("the graph was refused"),
    };
    let graph = verify(graph).map_err(findings)?;
    let env = environment(link, identity)?;
    let schedule = Schedule::compile(&graph, &registry, &env).map_err(BenchError::of(WEEVER))?;
    Ok(Engine::new(schedule, pool, Limits::default()))
}

fn environment(link: &LinkInfo, identity: &Identity) -> Result<Env, BenchError> {
    let cidr = format!("{}/24", identity.address).parse().map_err(BenchError::of(WEEVER))?;
    let env = Env::new();
    host::provide(&env, NetConfig::single(MacAddr(link.mac), &[cidr]), 0);
    if let Some(neighbours) = env.get::<Neighbours>() {
        let mac = MacAddr(identity.neighbour_mac);
        let iface = IfaceId(0);
        let entered = neighbours.insert_static(iface, identity.neighbour, mac, 0);
        entered.map_err(BenchError::of(WEEVER))?;
    }
    Ok(env)
}
