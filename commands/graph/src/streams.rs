//! Where commands read from and write to.

use std::io::{Read, Write};

/// The streams of a command.
pub struct Streams<'a> {
    /// Read when the file is `-`.
    pub input: &'a mut dyn Read,
    /// Gets results.
    pub output: &'a mut dyn Write,
    /// Gets diagnostics.
    pub errors: &'a mut dyn Write,
    /// Whether diagnostics are coloured.
    pub colours: bool,
}
