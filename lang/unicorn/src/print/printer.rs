//! Lines with their indentation, and the comments on and between them.

use crate::ast::{Comment, Comments, Raw, Reference};

const INDENT: usize = 4;
/// Lists of targets, types and `linux ethtool` are broken before this column.
pub(super) const WIDTH: usize = 100;

pub(super) struct Printer {
    pub(super) out: String,
    pub(super) indent: usize,
}

impl Printer {
    /// Starts a line with its indentation.
    pub(super) fn start(&mut self, text: &str) {
        self.out.push_str(&" ".repeat(self.indent * INDENT));
        self.out.push_str(text);
    }

    /// SMT-LIB text in braces: on one line, unless it has lines or a comment of its own.
    pub(super) fn raw(&mut self, raw: &Raw) {
        if !raw.text.contains(['\n', ';']) {
            self.out.push_str(&format!("{{ {} }}", raw.text));
            return;
        }
        self.out.push_str("{\n");
        self.indent += 1;
        for line in raw.text.split('\n') {
            if !line.is_empty() {
                self.start(line);
            }
            self.out.push('\n');
        }
        self.indent -= 1;
        self.start("}");
    }

    pub(super) fn comment_lines(&mut self, comments: &[Comment]) {
        for comment in comments {
            self.start("");
            self.comment(comment);
            self.out.push_str(if comment.gap { "\n\n" } else { "\n" });
        }
    }

    /// Puts a comment here; its further lines start relative to this column.
    fn comment(&mut self, comment: &Comment) {
        let indent = " ".repeat(self.column());
        for (i, line) in comment.text.split('\n').enumerate() {
            if i > 0 {
                self.out.push('\n');
                self.out.push_str(if line.is_empty() { "" } else { &indent });
            }
            self.out.push_str(line);
        }
    }

    /// Ends a line, after the comments that belong on it.
    pub(super) fn end(&mut self, comments: &Comments) {
        for comment in &comments.trailing {
            self.out.push(' ');
            self.comment(comment);
        }
        self.out.push('\n');
    }

    /// The number of characters in the last line so far.
    pub(super) fn column(&self) -> usize {
        let line = self.out.rfind('\n').map_or(0, |n| n + 1);
        self.out[line..].chars().count()
    }
}

pub(super) fn reference(reference: &Reference) -> String {
    format!("{}{}", ".".repeat(reference.dots), reference.name)
}

pub(super) fn quoted_str(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
