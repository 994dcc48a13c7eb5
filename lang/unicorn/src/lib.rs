//! Unicorn, the language of protocol graphs.
#![forbid(unsafe_code)]
