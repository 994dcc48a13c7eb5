//! Values of config nodes, as the command line writes them.

use weever_graph::{
    ConfigType, ConfigValue, Finding, Graph, Kind, Node, NodeKind, TableSpec, configure,
};

/// The value that stands for a table without entries.
const EMPTY: &str = "empty";
/// The names of the port for packets that match no entry, where there is one.
const MISS: [&str; 2] = ["miss", "default"];

/// Splits `NODE=VALUE`.
pub(crate) fn parse(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(node, value)| !node.is_empty() && !value.is_empty());
    let (node, value) =
        parts.ok_or("write it as NODE=PORT or NODE=empty, for instance RxFilter=default")?;
    Ok((node.into(), value.into()))
}

/// Gives the node called `name` its value.
///
/// # Errors
/// Why it does not take it, in one line.
pub(crate) fn apply(graph: &mut Graph, name: &str, value: &str) -> Result<(), String> {
    let node = graph.find(name).map(|id| graph.node(id));
    let (value, hint) = match node.filter(|node| becomes_table(node)) {
        Some(node) if value == EMPTY => (ConfigValue::Table(empty(node)), ""),
        Some(_) => (ConfigValue::Choice(value.into()), "; try `empty`, a table without entries"),
        None => (ConfigValue::Choice(value.into()), ""),
    };
    configure(graph, name, value).map_err(|error| format!("{error}{hint}"))
}

/// The remedy for a finding, where the command line has one.
pub(crate) fn remedy(graph: &Graph, finding: &Finding) -> Option<String> {
    let node = graph.node(finding.node);
    let value = match node.ports.first() {
        _ if finding.kind != Kind::NotConfigured => return None,
        _ if becomes_table(node) => EMPTY,
        Some(port) => &port.name,
        None => return None,
    };
    Some(format!("give it a value, for instance `--set {}={value}`", node.name))
}

/// Whether the node's values are lists of entries, or one entry.
fn becomes_table(node: &Node) -> bool {
    let NodeKind::Config(spec) = &node.kind else { return false };
    let ty = spec.ty.as_ref().and_then(|ty| ty.parse().ok());
    matches!(ty, Some(ConfigType::List { .. } | ConfigType::Product(_)))
}

fn empty(node: &Node) -> TableSpec {
    let named = MISS.iter().find_map(|name| node.port(name));
    let miss = named.unwrap_or(node.ports.len().saturating_sub(1));
    TableSpec { miss: miss as u32, ..TableSpec::default() }
}
