//! From a syntax tree to a graph: full names, edges, ports, predicates.

mod body;
mod names;
mod nic;
#[cfg(test)]
mod tests;

use weever_graph::nic::Queues;
use weever_graph::{Graph, NodeKind, Op, Span};

use crate::ast::{self, Ast};
use crate::diagnostic::{Diagnostic, has_errors};
use names::{DeclaredNode, Scope};

/// Makes a graph of a tree without errors.
///
/// # Errors
/// Everything that keeps the tree from being a graph: unknown targets, names declared twice with
/// different bodies, wrong ports of `boolean` and operators, predicates that cannot be read.
pub fn lower(ast: &Ast) -> Result<Graph, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let graph = lower_into(ast, &mut diagnostics);
    if has_errors(&diagnostics) { Err(diagnostics) } else { Ok(graph) }
}

/// The same, with its findings in `diagnostics`. The graph is usable only without errors.
pub(crate) fn lower_into(ast: &Ast, diagnostics: &mut Vec<Diagnostic>) -> Graph {
    let scope = Scope::new(ast, diagnostics);
    let mut graph = Graph::new(ast.name.name.clone());
    graph.helpers = ast.helpers.as_ref().map(|h| h.body.text.clone());
    let queues = nic::declared(&scope, diagnostics);
    for declared in &scope.nodes {
        graph.add(node(declared, &scope, queues, diagnostics));
    }
    graph
}

fn node(
    declared: &DeclaredNode,
    scope: &Scope,
    queues: Option<Queues>,
    diagnostics: &mut Vec<Diagnostic>,
) -> weever_graph::Node {
    let ast = declared.ast;
    let mut node = weever_graph::Node::new(declared.full_name.clone(), kind(ast.kind));
    node.clusters = declared.clusters.iter().map(|c| (*c).to_string()).collect();
    node.span = span(ast.name.loc);
    if let ast::NodeKind::Queues(queues) = ast.kind {
        node.queues = Some(queues);
    }
    body::lower(ast, &mut node, &mut body::Context { scope, declared, queues, diagnostics });
    node
}

fn kind(kind: ast::NodeKind) -> NodeKind {
    match kind {
        ast::NodeKind::Node | ast::NodeKind::Boolean | ast::NodeKind::Queues(_) => {
            NodeKind::Function
        }
        ast::NodeKind::And => NodeKind::Operator(Op::And),
        ast::NodeKind::Nand => NodeKind::Operator(Op::Nand),
        ast::NodeKind::Or => NodeKind::Operator(Op::Or),
        ast::NodeKind::Nor => NodeKind::Operator(Op::Nor),
        ast::NodeKind::Config => NodeKind::Config(Default::default()),
    }
}

fn span(loc: ast::Loc) -> Span {
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span { start: offset(loc.start), end: offset(loc.end) }
}
