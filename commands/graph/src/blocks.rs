//! Properties of a graph's nodes, from the blocks that implement them.

use weever_blocks_std::registry;
use weever_graph::{Graph, Node, NodeKind};
use weever_unicorn::Diagnostic;

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
