//! weever as a contender: the worker of a host, without the service around it.

use std::net::Ipv4Addr;

use weever_engine::{Entry, Worker};
use weever_graph::Graph;
use weever_host::{Host, HostBuilder, InterfaceConfig, Prefix};
use weever_link::{LinkInfo, LinkQueue};
use weever_packet::Pool;
use weever_wire::MacAddr;

use crate::BenchError;

const WEEVER: &str = "weever";

/// A link of a host: its address there, and the one neighbour it has.
pub(crate) struct Leg {
    pub(crate) link: LinkInfo,
    /// Without any, the caller puts packets into the engine and takes out sent ones.
    pub(crate) queues: Vec<Box<dyn LinkQueue>>,
    pub(crate) address: Ipv4Addr,
    pub(crate) neighbour: (Ipv4Addr, [u8; 6]),
}

/// A host with one worker that executes `graph`; packets start at its node `source`. With several
/// legs it forwards between them; leg *i* is link *i*.
pub(crate) fn host(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<Host, BenchError> {
    let mut builder = HostBuilder::new(pool);
    builder.network().settings.forwarding = legs.len() > 1;
    for Leg { link, queues, address, neighbour: (neighbour, mac) } in legs {
        let prefix = Prefix::new(address.into(), 24).expect("IPv4 prefixes have up to 32 bits");
        let name = link.name.clone();
        let link = builder.queues_of(link, queues);
        let interface = InterfaceConfig::new(name, link).address(prefix);
        builder.interface(interface).map_err(BenchError::of(WEEVER))?;
        builder.neighbour(neighbour.into(), MacAddr(mac));
    }
    builder.graph(graph, source);
    builder.build(0).map_err(BenchError::of(WEEVER))
}

/// The worker of such a host, and where packets enter it.
pub(crate) fn worker(
    graph: Graph,
    source: &str,
    legs: Vec<Leg>,
    pool: Pool,
) -> Result<(Box<Worker>, Entry), BenchError> {
    let mut host = host(graph, source, legs, pool)?;
    let mut worker = host.take_workers().remove(0);
    let missing = || BenchError::of(WEEVER)(format!("the graph has no {source}"));
    let entry = worker.engine().entry(source).ok_or_else(missing)?;
    Ok((Box::new(worker), entry))
}
