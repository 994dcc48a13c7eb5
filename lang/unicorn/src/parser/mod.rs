//! From tokens to a syntax tree: recursive descent that goes on after an error.

mod block;
mod clause;
mod cursor;
mod items;
mod rss;
mod table;
#[cfg(test)]
mod tests;

use crate::Diagnostic;
use crate::ast::{Ast, Comments, Helpers, Ident, Loc};
use crate::token::{self, Kind};
use cursor::Parser;
use weever_suggest::did_you_mean;

/// Reads a text. The tree holds the parts that could be understood; it is whole if no diagnostic is an
/// error. Takes time linear in the text's length and never panics.
pub fn parse(source: &str) -> (Ast, Vec<Diagnostic>) {
    let tokens = token::tokenize(source);
    let mut parser = Parser::new(source, tokens);
    let ast = parser.graph();
    (ast, parser.into_diagnostics())
}

impl Parser<'_> {
    fn graph(&mut self) -> Ast {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        let Some(name) = self.header() else { return self.no_graph(comments) };
        comments.leading.extend(self.comments_before_last());
        let helpers = (self.word() == Some("helpers")).then(|| self.helpers()).flatten();
        let items = self.items();
        let tail = self.comments_before_here();
        self.close(&name, "graph");
        self.nothing_else();
        comments.trailing = self.comments_before_here();
        Ast { name, helpers, items, comments, tail }
    }

    /// Without a header there is nothing to read the rest as.
    fn no_graph(&mut self, comments: Comments) -> Ast {
        let name = Ident { name: "unnamed".into(), loc: Loc::from(self.here()) };
        Ast { name, helpers: None, items: Vec::new(), comments, tail: Vec::new() }
    }

    fn header(&mut self) -> Option<Ident> {
        let nameless = Ident { name: "unnamed".into(), loc: Loc::from(self.here()) };
        if self.word() == Some("graph") {
            self.bump();
        } else {
            let help = self.word().and_then(|w| did_you_mean(w, ["graph"]));
            let meant = help.is_some();
            let expected = "a file starts with `graph NAME {`".to_string();
            self.error_here("expected `graph`", Some(help.unwrap_or(expected)));
            if !meant {
                return None;
            }
            self.bump();
        }
        let name = self.name("the graph's name").unwrap_or(nameless);
        self.open("graph");
        Some(name)
    }

    fn helpers(&mut self) -> Option<Helpers> {
        let mut comments = Comments { leading: self.comments_before_here(), trailing: Vec::new() };
        self.bump();
        let body = self.raw("helpers")?;
        self.finish(&mut comments);
        Some(Helpers { body, comments })
    }

    fn nothing_else(&mut self) {
        if self.kind() != Kind::End {
            let help = "is there a `}` too many before it?";
            self.error_here("this stands after the end of the graph", Some(help.into()));
            while self.kind() != Kind::End {
                self.bump();
            }
        }
    }
}
