//! `weever`: the command that joins the rooms. Each subcommand lives in a crate of its own.
#![forbid(unsafe_code)]

fn main() {}
