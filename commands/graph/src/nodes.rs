//! Properties of nodes: values that the command line gives, and effects of the blocks that implement them.

use weever_blocks_std::registry;
use weever_graph::{
    ConfigType, ConfigValue, Finding, Graph, Kind, Node, NodeKind, TableSpec, configure,
};
use weever_unicorn::Diagnostic;

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

/// Fills in the effects of the nodes that do not state them, if there is a block for every one of
/// them. A graph that has blocks for some is probably meant to run on them: that is noted. One
/// that has blocks for none is about something else.
pub(crate) fn annotate(graph: &mut Graph) -> Option<Diagnostic> {
    let registry = registry();
    let silent = |node: &&Node| {
        matches!(node.kind, NodeKind::Function | NodeKind::Table(_)) && node.effects.is_none()
    };
    let silent = graph.iter().map(|(_, node)| node).filter(silent);
    let (known, unknown): (Vec<&Node>, Vec<&Node>) =
        silent.partition(|node| registry.type_of(node).is_ok());
    match unknown.first() {
        // Every node that is looked at has a type now.
        None => drop(registry.annotate(graph)),
        Some(first) if !known.is_empty() => return Some(note(first, unknown.len() - 1)),
        Some(_) => {}
    }
    None
}

fn note(node: &Node, more: usize) -> Diagnostic {
    let name = node.implementation_name();
    let message = match more {
        0 => format!("no block implements `{name}`: its effects are unknown"),
        _ => format!("no block implements `{name}` and {more} more: their effects are unknown"),
    };
    let help = "only effects that are written were checked; write `effects …`, or name the block \
                by `implementation …`";
    Diagnostic::note(node.span.start as usize..node.span.end as usize, message).help(help)
}
