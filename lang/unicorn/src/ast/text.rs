//! Pieces of text with their places: names, strings, comments.

use std::ops::Range;

/// Where something stands, in bytes of the source. All places are equal.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Loc {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl PartialEq for Loc {
    fn eq(&self, _: &Loc) -> bool {
        true
    }
}

impl From<Range<usize>> for Loc {
    fn from(span: Range<usize>) -> Loc {
        Loc { start: span.start, end: span.end }
    }
}

impl Loc {
    /// The location as a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// Its characters.
    pub name: String,
    /// Its place in the source.
    pub loc: Loc,
}

/// A string without its quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its characters.
    pub value: String,
    /// Its place in the source, with its quotes.
    pub loc: Loc,
}

/// SMT-LIB text, without the indentation that its lines share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Its characters.
    pub text: String,
    /// Its place in the source, without its braces.
    pub loc: Loc,
}

/// A comment, with its delimiters. Lines after the first are relative to its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its characters.
    pub text: String,
    /// Whether an empty line follows.
    pub gap: bool,
}

/// The comments of a node, cluster or clause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comments {
    /// On lines of their own before it.
    pub leading: Vec<Comment>,
    /// After it on its last line.
    pub trailing: Vec<Comment>,
}

/// A node by its name relative to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// How many clusters it steps outwards.
    pub dots: usize,
    /// The rest of the name.
    pub name: String,
    /// Its place in the source, with its dots.
    pub loc: Loc,
}
