//! A syntax tree back as text, in one canonical layout. Parsing the result gives an equal tree.

mod nic;
mod printer;

use weever_graph::ConfigType;

use crate::ast::{
    Ast, Clause, ClauseKind, Cluster, Helpers, Ident, Item, Node, NodeKind, Reference, Text,
};
use printer::{Printer, WIDTH, quoted_str, reference};

/// The tree's text. Comments stay with the items to which they belong.
pub fn print(ast: &Ast) -> String {
    let mut printer = Printer { out: String::new(), indent: 0 };
    printer.ast(ast);
    printer.out
}

impl Printer {
    fn ast(&mut self, ast: &Ast) {
        self.comment_lines(&ast.comments.leading);
        self.start(&format!("graph {} {{", ast.name.name));
        self.out.push('\n');
        self.indent += 1;
        if let Some(helpers) = &ast.helpers {
            self.helpers(helpers);
            if !ast.items.is_empty() {
                self.out.push('\n');
            }
        }
        self.items(&ast.items);
        self.comment_lines(&ast.tail);
        self.indent -= 1;
        self.start("}");
        self.out.push('\n');
        self.comment_lines(&ast.comments.trailing);
    }

    fn helpers(&mut self, helpers: &Helpers) {
        self.comment_lines(&helpers.comments.leading);
        self.start("helpers ");
        self.raw(&helpers.body);
        self.end(&helpers.comments);
    }

    fn items(&mut self, items: &[Item]) {
        for (i, item) in items.iter().enumerate() {
            if i > 0 && !(one_liner(&items[i - 1]) && one_liner(item)) {
                self.out.push('\n');
            }
            match item {
                Item::Node(node) => self.node(node),
                Item::Cluster(cluster) => self.cluster(cluster),
            }
        }
    }

    fn cluster(&mut self, cluster: &Cluster) {
        self.comment_lines(&cluster.comments.leading);
        self.start(&format!("cluster {} {{", cluster.name.name));
        if cluster.items.is_empty() && cluster.tail.is_empty() {
            self.out.push('}');
        } else {
            self.out.push('\n');
            self.indent += 1;
            self.items(&cluster.items);
            self.comment_lines(&cluster.tail);
            self.indent -= 1;
            self.start("}");
        }
        self.end(&cluster.comments);
    }

    fn node(&mut self, node: &Node) {
        self.comment_lines(&node.comments.leading);
        if let NodeKind::Queues(queues) = &node.kind {
            self.start(&format!("queues {} {}", node.name.name, nic::queues(queues)));
            return self.end(&node.comments);
        }
        self.start(&format!("{} {} {{", node.kind.word(), node.name.name));
        if node.body.is_empty() && node.tail.is_empty() {
            self.out.push('}');
        } else {
            self.out.push('\n');
            self.indent += 1;
            for clause in &node.body {
                self.clause(clause);
            }
            self.comment_lines(&node.tail);
            self.indent -= 1;
            self.start("}");
        }
        self.end(&node.comments);
    }

    fn clause(&mut self, clause: &Clause) {
        self.comment_lines(&clause.comments.leading);
        self.start("");
        match &clause.kind {
            ClauseKind::Port { names, targets } => self.port(names, targets),
            ClauseKind::Semantics { ports, body } => {
                self.out.push_str(&format!("{} ", words("semantics", ports)));
                self.raw(body);
            }
            ClauseKind::Type(ty) => self.config_type(ty),
            ClauseKind::Table(table) => self.table(table),
            ClauseKind::Rss(rss) => self.rss(rss),
            ClauseKind::Feature(feature) => self.feature(feature),
            other => self.out.push_str(&simple(other)),
        }
        self.end(&clause.comments);
    }

    fn port(&mut self, names: &[Ident], targets: &[Reference]) {
        let head = words("port", names) + if names.is_empty() { " [" } else { "[" };
        self.out.push_str(&head);
        let open = self.column();
        for (i, target) in targets.iter().enumerate() {
            let text = reference(target);
            if i > 0 && self.column() + 1 + text.len() + 1 > WIDTH {
                self.out.push('\n');
                self.out.push_str(&" ".repeat(open));
            } else if i > 0 {
                self.out.push(' ');
            }
            self.out.push_str(&text);
        }
        self.out.push(']');
    }

    /// A product that does not fit its line has a line for each member.
    fn config_type(&mut self, ty: &ConfigType) {
        let line = format!("type {ty}");
        let members = match ty {
            ConfigType::Product(members) => Some((members, "", String::new())),
            ConfigType::List { ordered, element, length } => match &**element {
                ConfigType::Product(members) => {
                    let (open, close) = if *ordered { ("[", "]") } else { ("{", "}") };
                    Some((members, open, format!("{close}{length}")))
                }
                _ => None,
            },
            _ => None,
        };
        let fits = self.column() + line.len() <= WIDTH;
        let Some((members, open, close)) = members.filter(|_| !fits) else {
            return self.out.push_str(&line);
        };
        self.out.push_str(&format!("type {open}(\n"));
        self.indent += 1;
        for (i, (label, ty)) in members.iter().enumerate() {
            let comma = if i + 1 == members.len() { "" } else { "," };
            self.start(&format!("{label}: {ty}{comma}\n"));
        }
        self.indent -= 1;
        self.start(&format!("){close}"));
    }
}

/// Whether the item takes one line, so that it may stand next to others like it.
fn one_liner(item: &Item) -> bool {
    let (comments, empty) = match item {
        Item::Node(n) => (&n.comments, n.body.is_empty() && n.tail.is_empty()),
        Item::Cluster(c) => (&c.comments, c.items.is_empty() && c.tail.is_empty()),
    };
    empty && comments.leading.is_empty()
}

fn words(first: &str, names: &[Ident]) -> String {
    names.iter().fold(first.to_string(), |all, n| format!("{all} {}", n.name))
}

fn quoted(text: &Text) -> String {
    quoted_str(&text.value)
}

/// Clauses that fit one line.
fn simple(kind: &ClauseKind) -> String {
    match kind {
        ClauseKind::Spawn { label, target, predicates } => {
            let head = format!("spawn {} {}", label.name, reference(target));
            predicates.iter().fold(head, |all, p| format!("{all} [predicate {}]", quoted(p)))
        }
        ClauseKind::Notify { label, target } => {
            format!("notify {} {}", label.name, reference(target))
        }
        ClauseKind::Effects(names) => words("effects", names),
        ClauseKind::Attr(text) => format!("attr {}", quoted(text)),
        ClauseKind::Implementation(name) => format!("implementation {}", name.name),
        ClauseKind::Function(name) => format!("function {}", name.name),
        ClauseKind::Constraint { port, text } => {
            format!("constraint {} {}", port.name, quoted(text))
        }
        ClauseKind::Predicate { port, text } => format!("predicate {} {}", port.name, quoted(text)),
        ClauseKind::Port { .. }
        | ClauseKind::Semantics { .. }
        | ClauseKind::Type(_)
        | ClauseKind::Table(_)
        | ClauseKind::Rss(_)
        | ClauseKind::Feature(_) => String::new(),
    }
}
