//! The places in the running graph where a capture looks.

use weever_blocks_std::capture::CAPTURE;
use weever_graph::change::{EdgeName, Outlet};
use weever_graph::{Attr, ChangeSet, Graph, Node, NodeKind, Port};
use weever_service_api::{ApiError, CapturePlace, Direction, ErrorKind};

/// A port.
pub(super) struct PortPlace {
    pub(super) shown: CapturePlace,
    pub(super) node: String,
    pub(super) port: String,
}

/// The requested places: `rx`, `tx` or `NODE.PORT`.
pub(super) fn find(graph: &Graph, at: &[String]) -> Result<Vec<PortPlace>, ApiError> {
    let both = ["rx".to_owned(), "tx".to_owned()];
    let wanted = if at.is_empty() { &both[..] } else { at };
    let mut places: Vec<PortPlace> = Vec::new();
    for name in wanted {
        let found = match name.as_str() {
            "rx" => sources(graph),
            "tx" => sinks(graph),
            _ => vec![named(graph, name)?],
        };
        for place in found {
            if !places.iter().any(|known| known.shown.port == place.shown.port) {
                places.push(place);
            }
        }
    }
    if places.is_empty() {
        return Err(refused(
            "capture: the running graph has no source and no sink",
            "name a port with `at`; `weever graph show --running` lists them",
        ));
    }
    Ok(places)
}

/// Every connected port of a source.
fn sources(graph: &Graph) -> Vec<PortPlace> {
    let sources = graph.iter().filter(|(_, node)| node.has(&Attr::Source));
    let ports = sources.flat_map(|(_, node)| node.ports.iter().map(move |port| (node, port)));
    let leading = ports.filter(|(_, port)| !port.targets.is_empty());
    leading.map(|(node, port)| place(node, port, Direction::In)).collect()
}

/// Every port that leads to a sink.
fn sinks(graph: &Graph) -> Vec<PortPlace> {
    let ports = graph.iter().flat_map(|(_, node)| node.ports.iter().map(move |p| (node, p)));
    let is_sink = |port: &Port| port.targets.iter().any(|to| graph.node(*to).has(&Attr::Sink));
    let leading = ports.filter(|(_, port)| is_sink(port));
    leading.map(|(node, port)| place(node, port, Direction::Out)).collect()
}

fn named(graph: &Graph, name: &str) -> Result<PortPlace, ApiError> {
    let remedy = "write it as rx, tx or NODE.PORT; `weever graph show --running` lists the ports";
    let Some((node, port)) = name.rsplit_once('.') else {
        return Err(refused(format!("capture: `{name}` is not a place"), remedy));
    };
    let Some(node) = graph.find(node).map(|id| graph.node(id)) else {
        return Err(refused(format!("capture: the running graph has no node `{node}`"), remedy));
    };
    let Some(found) = node.ports.iter().find(|p| p.name == port) else {
        let known: Vec<&str> = node.ports.iter().map(|p| p.name.as_str()).collect();
        let message = format!("capture: node `{}` has no port `{port}`", node.name);
        return Err(refused(message, format!("it has {}", known.join(", "))));
    };
    Ok(place(node, found, Direction::Inside))
}

fn place(node: &Node, port: &Port, direction: Direction) -> PortPlace {
    let shown = CapturePlace { port: format!("{}.{}", node.name, port.name), direction };
    PortPlace { shown, node: node.name.clone(), port: port.name.clone() }
}

/// The blocks of one capture, one for each place. They are put in again whenever the graph changes.
#[derive(Clone, Debug)]
pub(in crate::stack) struct Splices {
    /// The number of the tap.
    pub(in crate::stack) tap: u32,
    /// Node and port of each place.
    pub(super) ports: Vec<(String, String)>,
}

impl Splices {
    /// The changes that put the blocks into `graph`, each between its port and the port's target;
    /// an error of the change, if a port is not there.
    pub(in crate::stack) fn changes(&self, graph: &Graph) -> ChangeSet {
        let places = self.ports.iter().enumerate();
        places.fold(ChangeSet::new(), |changes, (place, (node, port))| {
            let name = format!("Capture{}_{place}", self.tap);
            let changes = changes.insert(block(&name, self.tap, place));
            let moved = targets(graph, node, port).into_iter().fold(changes, |changes, target| {
                let old = EdgeName::new(node, Outlet::port(port), &target);
                changes.unbind(old).bind(EdgeName::new(&name, Outlet::port("out"), target))
            });
            moved.bind(EdgeName::new(node, Outlet::port(port), name))
        })
    }
}

/// The targets of a port, except operators: their operands are the ports that lead to them, so no
/// block may come between. A block then stands beside the edge.
fn targets(graph: &Graph, node: &str, port: &str) -> Vec<String> {
    let ports = graph.find(node).map(|id| &graph.node(id).ports).into_iter().flatten();
    let edges = ports.filter(|p| p.name == port).flat_map(|p| &p.targets);
    let targets = edges.map(|to| graph.node(*to));
    let targets = targets.filter(|to| !matches!(to.kind, NodeKind::Operator(_)));
    targets.map(|to| to.name.clone()).collect()
}

fn block(name: &str, tap: u32, place: usize) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    node.implementation = Some(CAPTURE.name.into());
    node.ports.push(Port { name: "out".into(), ..Port::default() });
    let param = |key: &str, value: String| Attr::Param { key: key.into(), value };
    node.attrs.push(param("tap", tap.to_string()));
    node.attrs.push(param("place", place.to_string()));
    node
}
pub(super) fn refused(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadParameters, message, remedy)
}
