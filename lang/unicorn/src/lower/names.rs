//! Full names, and the target of a reference in a cluster.

use std::cell::Cell;
use std::collections::HashMap;

use weever_graph::NodeId;
use weever_suggest::nearest;

use crate::Diagnostic;
use crate::ast::{Ast, Item, Node, Reference};

/// Finding the closest name takes time, so only the first unknown names get a suggestion.
const MAX_SUGGESTIONS: usize = 32;

/// A node where it was declared.
pub(super) struct DeclaredNode<'a> {
    pub(super) ast: &'a Node,
    pub(super) clusters: Vec<&'a str>,
    pub(super) full_name: String,
}

/// Every node of the text, each name once.
pub(super) struct Scope<'a> {
    pub(super) nodes: Vec<DeclaredNode<'a>>,
    by_name: HashMap<String, usize>,
    suggestions: Cell<usize>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(ast: &'a Ast, diagnostics: &mut Vec<Diagnostic>) -> Scope<'a> {
        let (nodes, by_name) = (Vec::new(), HashMap::new());
        let mut scope = Scope { nodes, by_name, suggestions: Cell::new(0) };
        scope.collect(&ast.items, &mut Vec::new(), diagnostics);
        scope
    }

    fn collect(
        &mut self,
        items: &'a [Item],
        clusters: &mut Vec<&'a str>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        for item in items {
            match item {
                Item::Node(node) => self.declare(node, clusters, diagnostics),
                Item::Cluster(cluster) => {
                    clusters.push(&cluster.name.name);
                    self.collect(&cluster.items, clusters, diagnostics);
                    clusters.pop();
                }
            }
        }
    }

    fn declare(&mut self, ast: &'a Node, clusters: &[&'a str], found: &mut Vec<Diagnostic>) {
        let full_name = format!("{}{}", clusters.concat(), ast.name.name);
        let declared = DeclaredNode { ast, clusters: clusters.to_vec(), full_name };
        match self.by_name.get(&declared.full_name) {
            Some(first) => found.push(duplicate(&self.nodes[*first], &declared)),
            None => {
                self.by_name.insert(declared.full_name.clone(), self.nodes.len());
                self.nodes.push(declared);
            }
        }
    }

    /// The node that `reference` means inside `clusters`.
    pub(super) fn resolve(
        &self,
        reference: &Reference,
        clusters: &[&str],
    ) -> Result<NodeId, Box<Diagnostic>> {
        let Some(outer) = clusters.len().checked_sub(reference.dots) else {
            return Err(Box::new(self.too_many_dots(reference, clusters)));
        };
        let name = format!("{}{}", clusters[..outer].concat(), reference.name);
        match self.by_name.get(&name) {
            Some(index) => Ok(node_id(*index)),
            None => Err(Box::new(self.unknown(reference, clusters, &name))),
        }
    }

    fn too_many_dots(&self, reference: &Reference, clusters: &[&str]) -> Diagnostic {
        let (dots, depth) = (reference.dots, clusters.len());
        let message = format!("too many dots: {dots} of them in {depth} nested clusters");
        let help = self.other_dots(reference, clusters);
        let error = Diagnostic::error(reference.loc.range(), message);
        error.label("steps out of the graph").maybe_help(help)
    }

    fn unknown(&self, reference: &Reference, clusters: &[&str], name: &str) -> Diagnostic {
        let error = Diagnostic::error(reference.loc.range(), format!("there is no node `{name}`"));
        error.label("not declared").maybe_help(
            self.other_dots(reference, clusters).or_else(|| self.similar(name, clusters)),
        )
    }

    /// The same name with another number of dots, if that exists.
    fn other_dots(&self, reference: &Reference, clusters: &[&str]) -> Option<String> {
        let exists = |dots: &usize| {
            let name = format!("{}{}", clusters[..clusters.len() - dots].concat(), reference.name);
            self.by_name.contains_key(&name)
        };
        let dots = (0..=clusters.len()).find(exists)?;
        Some(format!("did you mean `{}{}`?", ".".repeat(dots), reference.name))
    }

    fn similar(&self, name: &str, clusters: &[&str]) -> Option<String> {
        if self.suggestions.replace(self.suggestions.get() + 1) >= MAX_SUGGESTIONS {
            return None;
        }
        let names = self.nodes.iter().map(|n| n.full_name.as_str());
        let meant = nearest(name, names)?;
        Some(format!("did you mean `{}`?", relative(meant, clusters)))
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).unwrap_or(u32::MAX))
}

/// The shortest way to write a full name inside `clusters`.
fn relative(full_name: &str, clusters: &[&str]) -> String {
    let mut shared = (0..=clusters.len()).rev();
    let outer = shared.find(|n| {
        full_name.strip_prefix(&clusters[..*n].concat()).is_some_and(|rest| !rest.is_empty())
    });
    let outer = outer.unwrap_or(0);
    let rest = &full_name[clusters[..outer].concat().len()..];
    format!("{}{rest}", ".".repeat(clusters.len() - outer))
}

fn duplicate(first: &DeclaredNode, second: &DeclaredNode) -> Diagnostic {
    let same = first.clusters == second.clusters
        && first.ast.kind == second.ast.kind
        && first.ast.body.iter().map(|c| &c.kind).eq(second.ast.body.iter().map(|c| &c.kind));
    let span = second.ast.name.loc.range();
    let name = &second.full_name;
    let diagnostic = if same {
        let message = format!("the node `{name}` is declared twice, with the same body");
        Diagnostic::warning(span, message).help("remove one of the two")
    } else {
        let message = format!("the node `{name}` is declared twice, with different bodies");
        Diagnostic::error(span, message).help("rename one, or move it to another cluster")
    };
    diagnostic.label("again here").related(first.ast.name.loc.range(), "first declared here")
}
