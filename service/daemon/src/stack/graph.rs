//! From a configuration to a graph that can be executed.

use weever_blocks_api::{Env, Registry};
use weever_engine::Schedule;
use weever_graph::{Verified, verify};
use weever_models::{HostConfig, Service, host};

use super::StartError;
use crate::config::Services;

/// The host graph with the sockets of `services`, checked.
pub(super) fn verified(services: &Services, registry: &Registry) -> Result<Verified, StartError> {
    let mut graph = host(&sockets(services))?;
    registry.annotate(&mut graph)?;
    verify(graph).map_err(StartError::Graph)
}

/// The graph with its blocks.
pub(super) fn compile(
    graph: &Verified,
    registry: &Registry,
    env: &Env,
) -> Result<Schedule, StartError> {
    Ok(Schedule::compile(graph, registry, env)?)
}

fn sockets(services: &Services) -> HostConfig {
    let wanted = [(Service::Echo, services.echo), (Service::Discard, services.discard)];
    wanted.into_iter().fold(HostConfig::default(), |config, (service, port)| match port {
        Some(port) => config.and(service, port),
        None => config,
    })
}

#[cfg(test)]
mod tests {
    use weever_blocks_std::registry;
    use weever_graph::NodeKind;

    use super::*;

    #[test]
    fn every_service_has_a_socket() {
        let services = Services { echo: Some(7), discard: Some(9) };
        let graph = verified(&services, &registry()).unwrap();
        let entries = graph.iter().filter_map(|(_, node)| match &node.kind {
            NodeKind::Table(table) => Some(table.entries.len()),
            _ => None,
        });
        assert_eq!(entries.sum::<usize>(), 2);
        assert!(verified(&Services::default(), &registry()).is_ok());
    }
}
