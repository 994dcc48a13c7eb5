//! Attaches comments to the items beside them.

use std::ops::Range;

use crate::ast::{Comment, Comments};

/// The comments of a text, given out in order.
pub(crate) struct CommentStream<'s> {
    source: &'s str,
    spans: Vec<Range<usize>>,
    next: usize,
}

impl<'s> CommentStream<'s> {
    pub(crate) fn new(source: &'s str, spans: Vec<Range<usize>>) -> CommentStream<'s> {
        CommentStream { source, spans, next: 0 }
    }

    /// The comments that start before `offset` and were not given out yet.
    pub(crate) fn before(&mut self, offset: usize) -> Vec<Comment> {
        let mut out = Vec::new();
        while let Some(span) = self.spans.get(self.next).filter(|s| s.start < offset) {
            out.push(self.comment(span.clone()));
            self.next += 1;
        }
        out
    }

    /// Completes the comments of the item that ends at `end`: those inside it go before it, those that
    /// follow on its last line after it.
    pub(crate) fn finish(&mut self, comments: &mut Comments, end: usize) {
        comments.leading.extend(self.before(end).into_iter().map(without_gap));
        let mut end = end;
        while let Some(span) = self.spans.get(self.next) {
            let between = &self.source[end..span.start];
            if !between.bytes().all(|b| b == b' ' || b == b'\t') {
                break;
            }
            end = span.end;
            let comment = without_gap(self.comment(span.clone()));
            let ends_line = comment.text.starts_with("//");
            comments.trailing.push(comment);
            self.next += 1;
            if ends_line {
                break;
            }
        }
    }

    fn comment(&self, span: Range<usize>) -> Comment {
        let text = self.source[span.clone()].trim_end();
        let line_start = self.source[..span.start].rfind('\n').map_or(0, |n| n + 1);
        let column = self.source[line_start..span.start].chars().count();
        Comment { text: relative_to(text, column), gap: gap_after(&self.source[span.end..]) }
    }
}

fn without_gap(mut comment: Comment) -> Comment {
    comment.gap = false;
    comment
}

/// Whether an empty line follows, and something after that.
fn gap_after(rest: &str) -> bool {
    let space = rest.len() - rest.trim_start().len();
    let next = rest[space..].chars().next();
    rest[..space].matches('\n').count() > 1 && next.is_some_and(|c| c != '}')
}

/// Takes up to `column` characters of white space from each line but the first.
fn relative_to(text: &str, column: usize) -> String {
    let mut lines = text.lines();
    let mut out = lines.next().unwrap_or_default().trim_end().to_string();
    for line in lines {
        let line = line.trim_end();
        let indent = line.chars().take_while(|c| c.is_whitespace()).count().min(column);
        out.push('\n');
        out.extend(line.chars().skip(indent));
    }
    out
}
