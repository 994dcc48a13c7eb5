//! Nodes and clusters.

use weever_suggest::nearest;

use super::clause::{self, starts_item};
use super::cursor::Parser;
use crate::Diagnostic;
use crate::ast::{Clause, Cluster, Comments, Item, Node, NodeKind};
use crate::token::Kind;

/// Clusters nest no deeper than this.
const MAX_DEPTH: usize = 64;

impl Parser<'_> {
    /// Everything up to the brace that closes the graph or cluster.
    pub(super) fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while !matches!(self.kind(), Kind::BraceClose | Kind::End) {
            let word = self.word().unwrap_or_default();
            match NodeKind::from_word(word) {
                Some(kind) => items.extend(self.node(kind).map(Item::Node)),
                None if word == "cluster" => items.extend(self.cluster().map(Item::Cluster)),
                None if word == "queues" => items.extend(self.queues_item()),
                None => items.extend(self.unknown_item(word)),
            }
        }
        items
    }

    fn queues_item(&mut self) -> Option<Item> {
        let queues = self.queues().map(Item::Node);
        if queues.is_none() {
            self.skip_to_item();
        }
        queues
    }

    fn unknown_item(&mut self, word: &str) -> Option<Item> {
        let words = NodeKind::ALL.iter().map(|k| k.word()).chain(["cluster", "queues"]);
        let meant = nearest(word, words);
        let declares = self.ahead(1) == Kind::Word && self.ahead(2) == Kind::BraceOpen;
        let help = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if clause::WORDS.contains(&word) => {
                format!("`{word}` belongs in the body of a node")
            }
            None => "a graph holds `node`, `config`, `boolean`, `and`, `nand`, `or`, `nor`, \
                     `queues` and `cluster` declarations"
                .into(),
        };
        self.error_here("expected a node or a cluster", Some(help));
        let meant = meant.filter(|_| declares);
        match meant.and_then(NodeKind::from_word) {
            Some(kind) => self.node(kind).map(Item::Node),
            None if meant == Some("cluster") => self.cluster().map(Item::Cluster),
            None => {
                self.skip_to_item();
                None
            }
        }
    }

    fn skip_to_item(&mut self) {
        loop {
            self.skip_one();
            let done = matches!(self.kind(), Kind::BraceClose | Kind::End);
            if done || self.word().is_some_and(starts_item) {
                return;
            }
        }
    }

    fn cluster(&mut self) -> Option<Cluster> {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        let keyword = self.bump();
        if self.depth == MAX_DEPTH {
            let message = format!("clusters nest deeper than {MAX_DEPTH} levels");
            self.report(Diagnostic::error(keyword, message));
            self.skip_to_item();
            return None;
        }
        let name = self.name("the cluster's name")?;
        if !self.open("cluster") {
            return None;
        }
        comments.leading.extend(self.comments_before_last());
        self.depth += 1;
        let items = self.items();
        self.depth -= 1;
        let tail = self.comments_before_here();
        self.close(&name, "cluster");
        self.finish(&mut comments);
        Some(Cluster { name, items, comments, tail })
    }

    fn node(&mut self, kind: NodeKind) -> Option<Node> {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        self.bump();
        let name = self.name("the node's name")?;
        if !self.open("node") {
            return None;
        }
        comments.leading.extend(self.comments_before_last());
        let body = self.body(kind);
        let tail = self.comments_before_here();
        self.close(&name, "node");
        self.finish(&mut comments);
        Some(Node { kind, name, body, comments, tail })
    }

    fn body(&mut self, node: NodeKind) -> Vec<Clause> {
        let mut clauses = Vec::new();
        while !matches!(self.kind(), Kind::BraceClose | Kind::End) {
            if self.word().is_some_and(starts_item) {
                break;
            }
            clauses.extend(self.clause(node));
        }
        clauses
    }
}
