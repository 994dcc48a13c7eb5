//! `weever counters`.

mod view;

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;
use weever_service_api::Counters;

use crate::{CliError, Target};

/// Has a terminal clear its screen and go to the top.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Shows what a running stack has counted: links, nodes with their ports, drops with their reasons.
#[derive(Args, Clone, Debug, Default)]
pub struct CountersArgs {
    #[command(flatten)]
    target: Target,
    /// Only what was dropped, and why
    #[arg(long)]
    drops: bool,
    /// Also nodes that no packet has reached
    #[arg(long, conflicts_with = "drops")]
    all: bool,
    /// Print the answer as JSON, for programs; with --watch, one line per reading
    #[arg(long)]
    json: bool,
    /// Read again every so many seconds, and show rates, until interrupted
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

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|s| (0.1..=86_400.0).contains(s));
    number.map(Duration::from_secs_f64).ok_or_else(|| "use 0.1 to 86400".into())
}

impl CountersArgs {
    /// Asks and prints; with `--watch` until the stack ends, which is then an error.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let mut earlier = None;
        loop {
            // A connection per reading: the stack sends idle clients away.
            let counters = self.target.connect()?.counters()?;
            if self.json {
                serde_json::to_writer(&mut *out, &counters).map_err(io::Error::from)?;
                writeln!(out)?;
            } else {
                if earlier.is_some() && io::stdout().is_terminal() {
                    write!(out, "{CLEAR}")?;
                }
                view::write(out, &counters, earlier.as_ref(), self.drops, self.all)?;
            }
            out.flush()?;
            let Some(pause) = self.watch else { return Ok(()) };
            earlier = Some(counters);
            thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_must_be_a_sensible_number() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
