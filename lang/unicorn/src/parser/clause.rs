//! The lines of a node's body.

use weever_graph::{ConfigType, Effects};
use weever_suggest::{did_you_mean, nearest};

use super::cursor::Parser;
use crate::Diagnostic;
use crate::ast::{
    Clause, ClauseKind, Comments, FeatureLine, Ident, Loc, NodeKind, Reference, Text,
};
use crate::token::{Kind, is_reserved};

/// The words that start a clause.
pub(super) const WORDS: [&str; 14] = [
    "port",
    "spawn",
    "notify",
    "effects",
    "attr",
    "implementation",
    "function",
    "type",
    "table",
    "rss",
    "feature",
    "constraint",
    "predicate",
    "semantics",
];

/// Whether a word starts a node or cluster. No clause goes on past it, so a body without its closing
/// brace ends there.
pub(super) fn starts_item(word: &str) -> bool {
    word == "cluster" || NodeKind::from_word(word).is_some()
}

impl Parser<'_> {
    /// One clause. After an error, goes on to where the next one may start.
    pub(super) fn clause(&mut self, node: NodeKind) -> Option<Clause> {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        let start = self.here().start;
        let Some(kind) = self.clause_kind(node) else {
            self.skip_to_clause(start);
            return None;
        };
        let loc = Loc { start, end: self.last_end() };
        self.finish(&mut comments);
        Some(Clause { kind, comments, loc })
    }

    /// Never goes past the end of the body, and never stays where the clause started.
    fn skip_to_clause(&mut self, started: usize) {
        loop {
            let starts = |w| WORDS.contains(&w) || starts_item(w);
            let stop = match self.kind() {
                Kind::BraceClose | Kind::End => true,
                _ => self.here().start > started && self.word().is_some_and(starts),
            };
            if stop {
                return;
            }
            self.skip_one();
        }
    }

    fn clause_kind(&mut self, node: NodeKind) -> Option<ClauseKind> {
        let word = self.word().unwrap_or_default();
        let word = if WORDS.contains(&word) { word } else { self.meant_clause(word)? };
        let keyword = self.bump();
        let configures = matches!(word, "type" | "function" | "table" | "rss" | "feature");
        if configures && node != NodeKind::Config {
            let message = format!("`{word}` is for config nodes only");
            let help = format!("this is a `{}`", node.word());
            self.report(Diagnostic::error(keyword, message).help(help));
        }
        match word {
            "port" => self.port(),
            "spawn" => self.spawn(),
            "notify" => self.notify(),
            "effects" => self.effects(),
            "attr" => Some(ClauseKind::Attr(self.text("an attribute")?)),
            "implementation" => Some(ClauseKind::Implementation(self.name("a function's name")?)),
            "function" => Some(ClauseKind::Function(self.name("a function's name")?)),
            "type" => self.config_type(),
            "table" => self.table(),
            "rss" => self.rss(),
            "feature" => self.feature(),
            "semantics" => self.semantics(),
            _ => self.port_condition(word == "predicate"),
        }
    }

    fn meant_clause(&mut self, word: &str) -> Option<&'static str> {
        let meant = nearest(word, WORDS);
        let help = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("a node's body holds `{}`", WORDS.join("`, `")),
        };
        self.error_here("expected a clause of a node", Some(help));
        let goes_on =
            matches!(self.ahead(1), Kind::Word | Kind::Text | Kind::BracketOpen | Kind::BraceOpen);
        meant.and_then(|m| WORDS.into_iter().find(|w| *w == m)).filter(|_| goes_on)
    }

    fn names(&mut self) -> Vec<Ident> {
        let mut names = Vec::new();
        let complete = self.words_lead_to_bracket();
        while let Some(word) = self.word() {
            if !complete && self.starts_line() {
                // Unlikely to be a port's name.
                break;
            }
            let closes = matches!(self.ahead(1), Kind::BracketOpen | Kind::BraceOpen);
            if is_reserved(word) && !closes {
                break;
            }
            names.extend(self.name("a port's name"));
        }
        names
    }

    fn port(&mut self) -> Option<ClauseKind> {
        let names = self.names();
        if self.kind() != Kind::BracketOpen {
            let help = "write the nodes that the port enables in brackets, `[]` for none";
            self.error_after("expected `[`", Some(help.into()));
            return Some(ClauseKind::Port { names, targets: Vec::new() });
        }
        self.bump();
        let targets = self.targets();
        Some(ClauseKind::Port { names, targets })
    }

    fn targets(&mut self) -> Vec<Reference> {
        let mut targets = Vec::new();
        loop {
            match self.kind() {
                Kind::BracketClose => {
                    self.bump();
                    return targets;
                }
                Kind::Dot => targets.extend(self.reference()),
                Kind::Word if !self.word().is_some_and(is_reserved) => {
                    targets.extend(self.reference());
                }
                Kind::Word if self.ahead(1) == Kind::BracketClose => {
                    targets.extend(self.reference());
                }
                Kind::Comma => {
                    let help = "targets are separated by white space";
                    self.error_here("unexpected `,`", Some(help.into()));
                    self.bump();
                }
                _ => {
                    self.error_here("expected a node's name or `]`", None);
                    return targets;
                }
            }
        }
    }

    fn spawn(&mut self) -> Option<ClauseKind> {
        let label = self.name("the spawn edge's label")?;
        let target = self.reference()?;
        let mut predicates = Vec::new();
        while self.bump_if(Kind::BracketOpen) {
            predicates.push(self.spawn_predicate()?);
        }
        Some(ClauseKind::Spawn { label, target, predicates })
    }

    fn spawn_predicate(&mut self) -> Option<Text> {
        if self.word() != Some("predicate") {
            self.error_here("expected `predicate \"…\"`", None);
            return None;
        }
        self.bump();
        let text = self.text("a predicate")?;
        self.expect(Kind::BracketClose, "expected `]`")?;
        Some(text)
    }

    fn notify(&mut self) -> Option<ClauseKind> {
        let label = self.name("the notify edge's label")?;
        Some(ClauseKind::Notify { label, target: self.reference()? })
    }

    fn effects(&mut self) -> Option<ClauseKind> {
        let mut effects = Vec::new();
        while let Some(word) = self.word().filter(|w| !is_reserved(w) && !WORDS.contains(w)) {
            let loc = Loc::from(self.bump());
            if Effects::from_name(word).is_none() {
                self.unknown_effect(word, loc);
                continue;
            }
            effects.push(Ident { name: word.into(), loc });
        }
        Some(ClauseKind::Effects(effects))
    }

    fn unknown_effect(&mut self, word: &str, loc: Loc) {
        let known: Vec<&str> = Effects::ALL.names().collect();
        let help = did_you_mean(word, known.iter().copied());
        let help = help.unwrap_or_else(|| format!("effects are {}", known.join(", ")));
        let message = format!("there is no effect `{word}`");
        self.report(Diagnostic::error(loc.range(), message).help(help));
    }

    fn config_type(&mut self) -> Option<ClauseKind> {
        let start = self.last_end();
        match ConfigType::parse_prefix(&self.source[start..]) {
            Ok((ty, len)) => {
                self.advance_to(start + len);
                Some(ClauseKind::Type(ty))
            }
            Err(error) => {
                // The parser stays at the start of the type, so that it is skipped as a whole.
                let at = (start + error.at).min(self.source.len());
                self.report(Diagnostic::error(at..at, error.message).label("here"));
                None
            }
        }
    }

    fn port_condition(&mut self, predicate: bool) -> Option<ClauseKind> {
        let port = self.name("a port's name")?;
        let text = self.text("an expression")?;
        Some(match predicate {
            true => ClauseKind::Predicate { port, text },
            false => ClauseKind::Constraint { port, text },
        })
    }

    fn semantics(&mut self) -> Option<ClauseKind> {
        let ports = self.names();
        let body = self.raw("semantics")?;
        Some(ClauseKind::Semantics { ports, body })
    }
}

/// The lines of `feature { … }`, the work that a device does on packets.
const FEATURE_LINES: [&str; 10] =
    ["ethtool", "starts", "vouches", "drops", "fills", "cuts", "joins", "takes", "puts", "stamps"];

impl Parser<'_> {
    pub(super) fn feature(&mut self) -> Option<ClauseKind> {
        self.block("feature", &FEATURE_LINES, Self::feature_line).map(ClauseKind::Feature)
    }

    fn feature_line(&mut self, word: &str) -> Option<FeatureLine> {
        Some(match word {
            "ethtool" => {
                let mut names = vec![self.text("the name of a feature")?];
                while self.kind() == Kind::Text {
                    names.push(self.text("the name of a feature")?);
                }
                FeatureLine::Ethtool(names)
            }
            "starts" => FeatureLine::Starts(self.one_of(&["on", "off"], "how it starts")? == "on"),
            "vouches" => {
                let of = self.one_of(&["always", "each"], "for which packets it vouches")?;
                FeatureLine::Vouches { always: of == "always", text: self.text("a predicate")? }
            }
            "drops" => FeatureLine::Drops(self.text("a predicate")?),
            "fills" => FeatureLine::Fills(self.text("a predicate")?),
            "cuts" => FeatureLine::Cuts(self.flow_types()?),
            "joins" => FeatureLine::Joins(self.flow_types()?),
            "takes" => FeatureLine::Takes(self.field()?),
            "puts" => FeatureLine::Puts(self.field()?),
            _ => FeatureLine::Stamps,
        })
    }
}
