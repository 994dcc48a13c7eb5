//! Blocks of lines inside a clause, and the small things their lines are made of.

use weever_graph::nic::QueueRange;
use weever_suggest::did_you_mean;

use super::clause::{self, starts_item};
use super::cursor::Parser;
use crate::Diagnostic;
use crate::ast::{Block, Comments, Line, Loc};
use crate::token::Kind;

impl<'s> Parser<'s> {
    /// `{ … }` with lines that start with one of `words`; `line` reads the rest of one.
    pub(super) fn block<K>(
        &mut self,
        what: &str,
        words: &[&'static str],
        line: impl Fn(&mut Self, &'static str) -> Option<K>,
    ) -> Option<Block<K>> {
        let starts_at = Loc { start: self.last_end(), end: self.last_end() };
        if !self.open(what) {
            return None;
        }
        let mut lines = Vec::new();
        while !self.block_is_over(words) {
            lines.extend(self.line(what, words, &line));
        }
        let tail = self.comments_before_here();
        if !self.bump_if(Kind::BraceClose) {
            let end = self.last_end();
            let message = format!("expected `}}` to close the {what}");
            let error = Diagnostic::error(end..end, message).label("before this point");
            self.report(error.related(starts_at.range(), format!("the {what} starts here")));
        }
        Some(Block { lines, tail })
    }

    /// At its brace, or where something starts that stands in no block.
    fn block_is_over(&self, words: &[&str]) -> bool {
        let outside =
            |w: &str| !words.contains(&w) && (clause::WORDS.contains(&w) || starts_item(w));
        matches!(self.kind(), Kind::BraceClose | Kind::End) || self.word().is_some_and(outside)
    }

    fn line<K>(
        &mut self,
        what: &str,
        words: &[&'static str],
        line: &impl Fn(&mut Self, &'static str) -> Option<K>,
    ) -> Option<Line<K>> {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        let start = self.here().start;
        let word = self.one_of(words, &format!("a line of a {what}"));
        let Some(kind) = word.and_then(|word| line(self, word)) else {
            self.skip_to_line(start, words);
            return None;
        };
        let loc = Loc { start, end: self.last_end() };
        self.bump_if(Kind::Semicolon);
        self.finish(&mut comments);
        Some(Line { kind, comments, loc })
    }

    fn skip_to_line(&mut self, started: usize, words: &[&str]) {
        while !self.block_is_over(words) {
            let moved = self.here().start > started;
            if moved && self.bump_if(Kind::Semicolon) {
                return;
            }
            if moved && self.word().is_some_and(|w| words.contains(&w)) {
                return;
            }
            self.skip_one();
        }
    }

    /// Takes one of `words`.
    pub(super) fn one_of(&mut self, words: &[&'static str], what: &str) -> Option<&'static str> {
        let here = self.word().unwrap_or_default();
        if let Some(word) = words.iter().find(|w| **w == here) {
            self.bump();
            return Some(word);
        }
        let known = || format!("it is one of `{}`", words.join("`, `"));
        let help = did_you_mean(here, words.iter().copied()).unwrap_or_else(known);
        self.error_after(&format!("expected {what}"), Some(help));
        None
    }

    /// Takes the word `wanted`.
    pub(super) fn keyword(&mut self, wanted: &str) -> Option<()> {
        if self.take_keyword(wanted) {
            return Some(());
        }
        let help = self.word().and_then(|w| did_you_mean(w, [wanted]));
        self.error_after(&format!("expected `{wanted}`"), help);
        None
    }

    pub(super) fn take_keyword(&mut self, wanted: &str) -> bool {
        let found = self.word() == Some(wanted);
        if found {
            self.bump();
        }
        found
    }

    /// A whole number that fits 32 bits.
    pub(super) fn number(&mut self, what: &str) -> Option<u32> {
        let digits = &self.source[self.here()];
        if self.kind() != Kind::OfType || !digits.bytes().all(|b| b.is_ascii_digit()) {
            self.error_after(&format!("expected {what}, a number"), None);
            return None;
        }
        match digits.parse() {
            Ok(number) => {
                self.bump();
                Some(number)
            }
            Err(_) => {
                let help = format!("the largest is {}", u32::MAX);
                self.error_here(&format!("{what} is too large"), Some(help));
                None
            }
        }
    }

    /// `LO .. HI`.
    pub(super) fn range(&mut self, what: &str) -> Option<QueueRange> {
        let lo = self.number(what)?;
        if !(self.bump_if(Kind::Dot) && self.bump_if(Kind::Dot)) {
            let help = format!("write a range, as `{lo} .. {}`", u64::from(lo) + 15);
            self.error_after("expected `..`", Some(help));
            return None;
        }
        Some(QueueRange { lo, hi: self.number(what)? })
    }
}
