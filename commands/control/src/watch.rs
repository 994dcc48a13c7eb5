//! Asking once, or again and again: the options that commands with tables share.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;
use weever_service_api::Method;

use crate::{CliError, Target};

/// Has a terminal clear its screen and go to the top.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// The options of a command that shows a table: the stack to ask, the form, and how often.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Repeated {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON, for programs; with --watch, one line per reading
    #[arg(long)]
    json: bool,
    /// Repeat every SECONDS until interrupted; counters then come with rates
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<Duration>,
}

impl Repeated {
    /// Asks and shows; with `--watch` again and again until the stack ends, which is then an error.
    /// `show` may compare with the answer before.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub(crate) fn run<M: Method>(
        &self,
        out: &mut dyn Write,
        request: &M,
        show: impl Fn(&mut dyn Write, &M::Answer, Option<&M::Answer>) -> io::Result<()>,
    ) -> Result<(), CliError> {
        let mut earlier: Option<M::Answer> = None;
        loop {
            let answer = self.target.ask(request)?;
            if self.json {
                serde_json::to_writer(&mut *out, &answer).map_err(io::Error::from)?;
                writeln!(out)?;
            } else {
                if earlier.is_some() && io::stdout().is_terminal() {
                    write!(out, "{CLEAR}")?;
                }
                show(out, &answer, earlier.as_ref())?;
            }
            out.flush()?;
            let Some(pause) = self.watch else { return Ok(()) };
            earlier = Some(answer);
            thread::sleep(pause);
        }
    }
}

/// Parses a pause from the command line.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|s| (0.1..=86_400.0).contains(s));
    number.map(Duration::from_secs_f64).ok_or_else(|| "use 0.1 to 86400".into())
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
