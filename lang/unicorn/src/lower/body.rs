//! A node's clauses.

use weever_graph::nic::Queues;
use weever_graph::{Attr, Edge, Effects, Node, NodeKind, Port, Predicate};
use weever_suggest::did_you_mean;

use super::names::{DeclaredNode, Scope};
use crate::ast::{self, ClauseKind, Ident, Raw, Reference, Text};
use crate::{Diagnostic, predicate};

pub(super) struct Context<'c, 'a> {
    pub(super) scope: &'c Scope<'a>,
    pub(super) declared: &'c DeclaredNode<'a>,
    pub(super) queues: Option<Queues>,
    pub(super) diagnostics: &'c mut Vec<Diagnostic>,
}

/// Puts the clauses of `ast` into `node`: ports first, since other clauses name them.
pub(super) fn lower(ast: &ast::Node, node: &mut Node, context: &mut Context) {
    for clause in &ast.body {
        if let ClauseKind::Port { names, targets } = &clause.kind {
            context.ports(node, names, targets);
        }
    }
    boolean_first(&mut node.ports);
    context.check_boolean(ast, node);
    for clause in &ast.body {
        context.clause(node, clause);
    }
    if ast.kind == ast::NodeKind::Boolean {
        complement(node);
    }
}

/// A boolean node that states only when packets leave by `true` sends all others to `false`.
fn complement(node: &mut Node) {
    if let [no, yes] = node.ports.as_mut_slice()
        && no.predicate == Predicate::True
        && yes.predicate != Predicate::True
    {
        no.predicate = Predicate::Not(Box::new(yes.predicate.clone()));
    }
}

/// `false` at 0 and `true` at 1, if both are there; the others keep their order.
fn boolean_first(ports: &mut [Port]) {
    let has = |name: &str| ports.iter().any(|p| p.name == name);
    if has("false") && has("true") {
        ports.sort_by_key(|p| match p.name.as_str() {
            "false" => 0,
            "true" => 1,
            _ => 2,
        });
    }
}

impl Context<'_, '_> {
    fn ports(&mut self, node: &mut Node, names: &[Ident], targets: &[Reference]) {
        let targets: Vec<_> = targets.iter().filter_map(|t| self.resolve(t)).collect();
        for name in names {
            if node.port(&name.name).is_some() {
                let message = format!("the port `{}` is declared twice", name.name);
                let help = "put the targets of both into one";
                self.diagnostics.push(Diagnostic::error(name.loc.range(), message).help(help));
                continue;
            }
            let (name, targets) = (name.name.clone(), targets.clone());
            node.ports.push(Port { name, targets, ..Port::default() });
        }
    }

    pub(super) fn resolve(&mut self, reference: &Reference) -> Option<weever_graph::NodeId> {
        match self.scope.resolve(reference, &self.declared.clusters) {
            Ok(id) => Some(id),
            Err(error) => {
                self.diagnostics.push(*error);
                None
            }
        }
    }

    fn check_boolean(&mut self, ast: &ast::Node, node: &Node) {
        let must = !matches!(
            ast.kind,
            ast::NodeKind::Node | ast::NodeKind::Config | ast::NodeKind::Queues(_)
        );
        if must && !node.ports.iter().map(|p| p.name.as_str()).eq(["false", "true"]) {
            let (word, name) = (ast.kind.word(), &ast.name.name);
            let message = format!("{word} `{name}` must have exactly the ports `true` and `false`");
            let has: Vec<String> = node.ports.iter().map(|p| format!("`{}`", p.name)).collect();
            let has = if has.is_empty() { "no ports".into() } else { has.join(", ") };
            let error = Diagnostic::error(ast.name.loc.range(), message);
            self.diagnostics.push(
                error
                    .label(format!("has {has}"))
                    .help("write `port p[]` for a port without targets"),
            );
        }
    }

    fn clause(&mut self, node: &mut Node, clause: &ast::Clause) {
        match &clause.kind {
            ClauseKind::Port { .. } => {}
            ClauseKind::Spawn { label, target, predicates } => {
                let predicates = predicates.iter().filter_map(|p| self.predicate(p)).collect();
                node.spawns.extend(self.edge(label, target, predicates));
            }
            ClauseKind::Notify { label, target } => {
                node.notifies.extend(self.edge(label, target, Vec::new()));
            }
            ClauseKind::Effects(names) => effects(node, names),
            ClauseKind::Attr(text) => self.attribute(node, text),
            ClauseKind::Implementation(name) => node.implementation = Some(name.name.clone()),
            ClauseKind::Function(name) => {
                if let NodeKind::Config(spec) = &mut node.kind {
                    spec.function = Some(name.name.clone());
                }
            }
            ClauseKind::Type(ty) => {
                if let NodeKind::Config(spec) = &mut node.kind {
                    spec.ty = Some(ty.to_string());
                }
            }
            ClauseKind::Table(table) => self.table(node, table, clause.loc),
            ClauseKind::Rss(rss) => self.rss(node, rss, clause.loc),
            ClauseKind::Feature(feature) => self.feature(node, feature, clause.loc),
            ClauseKind::Constraint { port, text } | ClauseKind::Predicate { port, text } => {
                if let Some(port) = self.port(node, port)
                    && let Some(predicate) = self.predicate(text)
                {
                    add_predicate(&mut node.ports[port].predicate, predicate);
                }
            }
            ClauseKind::Semantics { ports, body } => self.semantics(node, ports, body),
        }
    }

    fn edge(
        &mut self,
        label: &Ident,
        target: &Reference,
        predicates: Vec<Predicate>,
    ) -> Option<Edge> {
        let target = self.resolve(target)?;
        Some(Edge { label: label.name.clone(), target, predicates })
    }

    fn attribute(&mut self, node: &mut Node, text: &Text) {
        let attr = Attr::parse(&text.value);
        if let Attr::Drop { port, .. } = &attr
            && node.port(port).is_none()
        {
            let name = Ident { name: port.clone(), loc: text.loc };
            self.no_port(node, &name);
        }
        node.attrs.push(attr);
    }

    fn port(&mut self, node: &Node, name: &Ident) -> Option<usize> {
        let found = node.port(&name.name);
        if found.is_none() {
            self.no_port(node, name);
        }
        found
    }

    fn no_port(&mut self, node: &Node, name: &Ident) {
        let message = format!("`{}` has no port `{}`", self.declared.ast.name.name, name.name);
        let help = did_you_mean(&name.name, node.ports.iter().map(|p| p.name.as_str()));
        self.diagnostics.push(Diagnostic::error(name.loc.range(), message).maybe_help(help));
    }

    pub(super) fn predicate(&mut self, text: &Text) -> Option<Predicate> {
        match predicate::parse(&text.value) {
            Ok(predicate) => Some(predicate),
            Err(error) => {
                let inside = text.loc.start + 1;
                let last = text.loc.end.saturating_sub(1).max(inside);
                let at = (inside + error.at).min(last);
                let message = format!("this is no predicate: {}", error.message);
                let error = Diagnostic::error(at..last, message).maybe_help(error.help);
                self.diagnostics.push(error);
                None
            }
        }
    }

    fn semantics(&mut self, node: &mut Node, ports: &[Ident], body: &Raw) {
        for name in ports {
            let Some(port) = self.port(node, name) else { continue };
            let known = &mut node.ports[port].semantics;
            *known = Some(match known.take() {
                Some(before) => format!("(and {before} {})", body.text),
                None => body.text.clone(),
            });
        }
    }
}

fn effects(node: &mut Node, names: &[Ident]) {
    let known = names.iter().filter_map(|n| Effects::from_name(&n.name));
    let all = known.fold(node.effects.unwrap_or_default(), Effects::union);
    node.effects = Some(all);
}

fn add_predicate(known: &mut Predicate, more: Predicate) {
    *known = match (std::mem::take(known), more) {
        (Predicate::True, more) => more,
        (before, Predicate::True) => before,
        (before, more) => Predicate::And(vec![before, more]),
    };
}
