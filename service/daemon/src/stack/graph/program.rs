//! The source of the workers' graph, and its changes.

use weever_engine::{Published, Publisher, TeamError};
use weever_graph::change::Change;
use weever_graph::{ChangeSet, Graph, Predicate, apply};
use weever_host::with_dhcp_socket;
use weever_models::{HOST, HostConfig, ModelError, Service, with_sockets};
use weever_plan::simplify::{HandOver, QueueFacts};
use weever_service_api::{ApiError, ErrorKind};
use weever_unicorn::load;

use crate::config::Services;
use crate::stack::graph::places::Splices;

/// The parts of a graph that come from different people: the text, the services, single parameters,
/// and the nodes spliced in to look at packets. Any of them changes without the others.
#[derive(Clone, Debug)]
pub(in crate::stack) struct Program {
    /// The origin of the text, for messages.
    name: String,
    /// The graph in Unicorn.
    text: String,
    services: Services,
    /// Node, parameter, value.
    params: Vec<(String, String, String)>,
    /// Nodes on edges, grouped by the function that put them there.
    taps: Vec<Splices>,
    /// Whether applications are served.
    applications: bool,
    /// Whether workers may run parts of it: there is an entrance for packets that those are not
    /// made for.
    in_parts: bool,
}

/// The reason why a program is no graph.
#[derive(Debug, thiserror::Error)]
pub(in crate::stack) enum ProgramError {
    #[error("the host graph cannot be configured: {0}")]
    Model(#[from] ModelError),
    #[error("{0}")]
    Text(#[from] weever_unicorn::Errors),
    #[error(transparent)]
    Change(#[from] weever_graph::ChangeError),
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl ProgramError {
    /// Whether the change was made all the same, but a worker has yet to take it.
    pub(in crate::stack) fn is_late(&self) -> bool {
        matches!(self, ProgramError::Team(TeamError::NotAdopted { .. }))
    }
}

impl Program {
    /// The graph that ships, with these services.
    pub(in crate::stack) fn new(services: Services) -> Program {
        Program {
            name: HOST.file.into(),
            text: HOST.source.into(),
            services,
            params: Vec::new(),
            taps: Vec::new(),
            applications: false,
            in_parts: false,
        }
    }

    /// The same for a stack that serves applications, or does not.
    pub(in crate::stack) fn with_applications(self, applications: bool) -> Program {
        Program { applications, ..self }
    }

    /// The same for workers that may run parts of it.
    pub(in crate::stack) fn in_parts(self, in_parts: bool) -> Program {
        Program { in_parts, ..self }
    }

    /// The graph's text, as it was shipped or applied last.
    pub(in crate::stack) fn text(&self) -> &str {
        &self.text
    }

    pub(in crate::stack) fn services(&self) -> Services {
        self.services
    }

    pub(in crate::stack) fn set_services(&mut self, services: Services) {
        self.services = services;
    }

    /// Takes another text. Parameters that were set one by one are discarded.
    pub(in crate::stack) fn set_text(&mut self, name: &str, text: &str) {
        (self.name, self.text) = (name.into(), text.into());
        self.params.clear();
    }

    pub(in crate::stack) fn set_param(&mut self, node: &str, key: &str, value: &str) {
        self.params.retain(|(n, k, _)| (n.as_str(), k.as_str()) != (node, key));
        self.params.push((node.into(), key.into(), value.into()));
    }

    /// Adds the blocks of a capture.
    pub(in crate::stack) fn add_tap(&mut self, splices: Splices) {
        self.taps.push(splices);
    }

    /// Takes out the blocks of the capture of this number.
    pub(in crate::stack) fn remove_tap(&mut self, tap: u32) {
        self.taps.retain(|splices| splices.tap != tap);
    }

    /// The graph, ready to be annotated. Captures at ports that are not there any more are let go.
    pub(in crate::stack) fn graph(&mut self) -> Result<Graph, ProgramError> {
        let mut graph = self.untapped()?;
        self.taps.retain(|splices| match apply(&graph, &splices.changes(&graph)) {
            Ok(with) => {
                graph = with;
                true
            }
            Err(_) => false,
        });
        Ok(graph)
    }

    /// The graph without the nodes of captures.
    pub(in crate::stack) fn untapped(&self) -> Result<Graph, ProgramError> {
        let loaded = load(&self.text, &self.name)?;
        let mut graph = with_sockets(
            loaded.graph,
            &sockets(&self.services).with_applications(self.applications),
        )?;
        if !self.params.is_empty() {
            let set = |(node, key, value): &(String, String, String)| Change::Set {
                node: node.clone(),
                key: key.clone(),
                value: value.clone(),
            };
            graph = apply(&graph, &ChangeSet { changes: self.params.iter().map(set).collect() })?;
        }
        if self.in_parts {
            let pass_on = QueueFacts::of(&[], &Predicate::True).pass_on;
            graph = HandOver::default().with_entrance(&graph, pass_on);
        }
        Ok(graph)
    }

    /// Applies `edit` to the program, publishes its graph and keeps it; keeps the former program if
    /// that fails. Blocks until every worker has switched.
    pub(in crate::stack) fn change<T>(
        &mut self,
        publisher: &Publisher,
        edit: impl FnOnce(&mut Program) -> T,
    ) -> Result<(Published, T), ProgramError> {
        let mut next = self.clone();
        let done = edit(&mut next);
        let mut published = publisher.replace(next.graph()?);
        let are_old = !next.taps.is_empty() && next.taps.len() == self.taps.len();
        if matches!(published, Err(TeamError::Unsound(_))) && are_old {
            // A capture must not keep others from changing the graph.
            next.taps.clear();
            published = publisher.replace(next.graph()?);
        }
        match &published {
            Ok(Published { epoch, steps, .. }) => tracing::info!(epoch, steps, "graph changed"),
            Err(error) => tracing::warn!("graph not changed: {error}"),
        }
        // A late worker has the change before it, and nothing takes it back.
        if !matches!(published, Err(ref error) if !matches!(error, TeamError::NotAdopted { .. })) {
            *self = next;
        }
        Ok((published?, done))
    }
}

fn sockets(services: &Services) -> HostConfig {
    let wanted = [(Service::Echo, services.echo), (Service::Discard, services.discard)];
    let own =
        wanted.into_iter().fold(HostConfig::default(), |config, (service, port)| match port {
            Some(port) => config.and(service, port),
            None => config,
        });
    let own = HostConfig { tcp_echo: services.tcp_echo, tcp_discard: services.tcp_discard, ..own };
    with_dhcp_socket(own)
}

impl From<ProgramError> for ApiError {
    fn from(error: ProgramError) -> ApiError {
        let remedy = match &error {
            ProgramError::Text(_) => "mend the graph's text; `weever graph check FILE` looks at it",
            ProgramError::Team(TeamError::NotAdopted { .. } | TeamError::Behind { .. }) => {
                "see `weever status` for the worker's state"
            }
            _ => "nothing has changed; `weever graph show --running` shows what runs",
        };
        ApiError::new(ErrorKind::Refused, error.to_string(), remedy)
    }
}

#[cfg(test)]
mod tests {
    use weever_graph::NodeKind;

    use super::*;

    fn entries(graph: &Graph) -> usize {
        let entries = graph.iter().filter_map(|(_, node)| match &node.kind {
            NodeKind::Table(table) => Some(table.entries.len()),
            _ => None,
        });
        entries.sum()
    }

    #[test]
    fn every_service_has_a_socket() {
        let services = Services { echo: Some(7), discard: Some(9), ..Services::default() };
        let mut program = Program::new(services);
        let with_services = entries(&program.graph().unwrap());
        program.set_services(Services::default());
        assert_eq!(with_services - entries(&program.graph().unwrap()), 2);
    }

    #[test]
    fn a_text_that_is_no_graph_is_shown_with_its_place() {
        let mut program = Program::new(Services::default());
        program.set_text("mine.unicorn", "graph g { node A { port out[B] } }");
        let error = ApiError::from(program.graph().unwrap_err());
        assert!(error.message.contains("mine.unicorn:1"), "{}", error.message);
        program.set_text("mine.unicorn", "graph g { node A { port out[] } }");
        let error = program.graph().unwrap_err().to_string();
        assert!(error.contains("RxL4UDPSockets"), "{error}");
    }
}
