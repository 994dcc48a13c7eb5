//! `weever counters`.

mod view;

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use weever_service_api::{Counters, CountersRequest};

use crate::watch::{repeat, seconds};
use crate::{CliError, Target};

/// Shows the counters of a running stack: links, nodes with their ports, drops with their reasons.
#[derive(Args, Clone, Debug, Default)]
pub struct CountersArgs {
    #[command(flatten)]
    target: Target,
    /// Only drops, with their reasons
    #[arg(long)]
    drops: bool,
    /// Also nodes that no packet has reached
    #[arg(long, conflicts_with = "drops")]
    all: bool,
    /// Print the answer as JSON, for programs; with --watch, one line per reading
    #[arg(long)]
    json: bool,
    /// Repeat every SECONDS and show rates, until interrupted
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<Duration>,
}

/// Writes counters as tables for people, those of nodes that nothing reached left out.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_counters(out: &mut dyn Write, counters: &Counters) -> io::Result<()> {
    view::write(out, counters, None, false, false)
}

impl CountersArgs {
    /// Asks and prints; with `--watch` until the stack ends, which is then an error.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let ask = || self.target.ask(&CountersRequest {});
        repeat(out, self.json, self.watch, ask, |out, counters, earlier| {
            view::write(out, counters, earlier, self.drops, self.all)
        })
    }
}
