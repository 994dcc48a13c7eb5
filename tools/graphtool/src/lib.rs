//! weever graph: check, format and draw Unicorn files.
#![forbid(unsafe_code)]
