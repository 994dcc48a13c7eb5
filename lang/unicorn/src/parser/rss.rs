//! `rss { … }` and `queues NAME LO .. HI`.

use weever_graph::nic::{FlowType, Queues, RssFields, RssHash, RssType};

use super::cursor::Parser;
use crate::Diagnostic;
use crate::ast::{ClauseKind, Comments, Node, NodeKind, RssLine};
use crate::token::Kind;

const LINES: [&str; 14] = [
    "hash", "entries", "queues", "contexts", "unhashed", "tcp4", "udp4", "sctp4", "ip4", "tcp6",
    "udp6", "sctp6", "ip6", "ether",
];

const CHOICES: &str = "it is `4tuple`, `2tuple` or `none`";

impl Parser<'_> {
    pub(super) fn rss(&mut self) -> Option<ClauseKind> {
        self.block("rss", &LINES, Self::rss_line).map(ClauseKind::Rss)
    }

    fn rss_line(&mut self, word: &str) -> Option<RssLine> {
        Some(match word {
            "hash" => RssLine::Hash(self.hash()?),
            "entries" => RssLine::Entries(self.number("the number of entries")?),
            "queues" => RssLine::Queues(self.range("a queue")?),
            "unhashed" => {
                self.keyword("queue")?;
                RssLine::Unhashed(self.number("a queue")?)
            }
            "contexts" => RssLine::Contexts(self.number("the number of contexts")?),
            flow_type => RssLine::Hashed(RssType {
                flow_type: FlowType::from_name(flow_type)?,
                choices: self.hashed()?,
            }),
        })
    }

    fn hash(&mut self) -> Option<RssHash> {
        match self.one_of(&["toeplitz", "crc32", "xor", "own"], "a hash function")? {
            "toeplitz" => {
                self.keyword("key")?;
                let key_len = self.number("the key's length in bytes")?;
                Some(RssHash::Toeplitz { key_len, symmetric: self.take_keyword("symmetric") })
            }
            "crc32" => Some(RssHash::Crc32),
            "own" => Some(RssHash::Own),
            _ => Some(RssHash::Xor),
        }
    }

    /// `4tuple or 2tuple`.
    fn hashed(&mut self) -> Option<Vec<RssFields>> {
        let mut choices = vec![self.hashed_fields()?];
        while self.take_keyword("or") {
            choices.push(self.hashed_fields()?);
        }
        Some(choices)
    }

    fn hashed_fields(&mut self) -> Option<RssFields> {
        // `4tuple` is a number and a word to the lexer.
        let start = self.here().start;
        if !matches!(self.kind(), Kind::OfType | Kind::Word) {
            self.error_after("expected the fields that are hashed", Some(CHOICES.into()));
            return None;
        }
        if self.kind() == Kind::Word || self.ahead(1) == Kind::Word {
            self.bump();
        }
        if self.source[start..self.here().start].bytes().all(|b| b.is_ascii_digit()) {
            self.bump();
        }
        let text = &self.source[start..self.last_end()];
        let found = RssFields::ALL.into_iter().find(|f| f.name() == text);
        if found.is_none() {
            let error = Diagnostic::error(start..self.last_end(), "these fields are not hashed");
            self.report(error.help(CHOICES));
        }
        found
    }

    /// `queues NAME LO .. HI [linux LO .. HI]`: the node that represents all queues.
    pub(super) fn queues(&mut self) -> Option<Node> {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        self.bump();
        let name = self.name("the name for the queues")?;
        let all = self.range("a queue")?;
        let linux = match self.take_keyword("linux") {
            true => Some(self.range("a queue")?),
            false => None,
        };
        self.bump_if(Kind::Semicolon);
        self.finish(&mut comments);
        let kind = NodeKind::Queues(Queues { all, linux });
        Some(Node { kind, name, body: Vec::new(), comments, tail: Vec::new() })
    }
}
