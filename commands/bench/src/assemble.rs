//! weever as a contender: an engine over a graph, without the service around it.

use std::net::Ipv4Addr;

use weever_block::Env;
use weever_blocks_std::host::{self, Neighbours};
use weever_engine::{Engine, Limits, Schedule};
use weever_graph::{Graph, verify};
use weever_link::LinkInfo;
use weever_net::addr::Locals;
use weever_net::iface::{IfaceId, Interface};
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

/// One side of a router: its address and MAC address there, and the one neighbour it has.
pub(crate) struct Leg {
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: [u8; 6],
    pub(crate) neighbour: (Ipv4Addr, [u8; 6]),
}

/// An engine that executes `graph` for a host of this identity on `link`.
pub(crate) fn engine(
    graph: Graph,
    link: &LinkInfo,
    identity: &Identity,
    pool: PoolCache,
) -> Result<Engine, BenchError> {
    compile(graph, &environment(link, identity)?, pool, Limits::default())
}

/// An engine that executes `graph` for a router; link *i* is that of leg *i*.
pub(crate) fn forwarding_engine(
    graph: Graph,
    legs: &[Leg],
    pool: PoolCache,
) -> Result<Engine, BenchError> {
    let mut network = NetConfig::new();
    for (number, leg) in (0u16..).zip(legs) {
        let cidr = format!("{}/24", leg.address).parse().map_err(BenchError::of(WEEVER))?;
        let name = format!("leg{number}");
        let iface = Interface::new(IfaceId(number), name, number, MacAddr(leg.mac));
        let added = network.add_interface(iface.with_v4(Locals::new(&[cidr])));
        added.map_err(BenchError::of(WEEVER))?;
    }
    network.settings.forwarding = true;
    let env = Env::new();
    host::provide(&env, network, 0);
    for (number, leg) in (0u16..).zip(legs) {
        enter(&env, IfaceId(number), leg.neighbour.0, leg.neighbour.1)?;
    }
    let limits = Limits { links: legs.len() as u16, ..Limits::default() };
    compile(graph, &env, pool, limits)
}

fn compile(
    mut graph: Graph,
    env: &Env,
    pool: PoolCache,
    limits: Limits,
) -> Result<Engine, BenchError> {
    let registry = weever_blocks_std::registry();
    registry.annotate(&mut graph).map_err(BenchError::of(WEEVER))?;
    let findings = |errors: Vec<_>| match errors.first() {
        Some(first) => BenchError::of(WEEVER)(first),
        None => BenchError::of(WEEVER)("the graph was refused"),
    };
    let graph = verify(graph).map_err(findings)?;
    let schedule = Schedule::compile(&graph, &registry, env).map_err(BenchError::of(WEEVER))?;
    Ok(Engine::new(schedule, pool, limits))
}

fn environment(link: &LinkInfo, identity: &Identity) -> Result<Env, BenchError> {
    let cidr = format!("{}/24", identity.address).parse().map_err(BenchError::of(WEEVER))?;
    let env = Env::new();
    host::provide(&env, NetConfig::single(MacAddr(link.mac), &[cidr]), 0);
    enter(&env, IfaceId(0), identity.neighbour, identity.neighbour_mac)?;
    Ok(env)
}

/// Enters a neighbour for good.
fn enter(env: &Env, iface: IfaceId, ip: Ipv4Addr, mac: [u8; 6]) -> Result<(), BenchError> {
    if let Some(neighbours) = env.get::<Neighbours>() {
        let entered = neighbours.insert_static(iface, ip, MacAddr(mac), 0);
        entered.map_err(BenchError::of(WEEVER))?;
    }
    Ok(())
}
