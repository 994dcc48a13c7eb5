//! Asking once, or again and again.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::CliError;

/// Has a terminal clear its screen and go to the top.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Parses a pause from the command line.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|s| (0.1..=86_400.0).contains(s));
    number.map(Duration::from_secs_f64).ok_or_else(|| "use 0.1 to 86400".into())
}

/// Asks and shows; with a pause, again and again until the stack ends, which is then an error. The
/// output may compare with the answer before.
pub(crate) fn repeat<T: Serialize>(
    out: &mut dyn Write,
    json: bool,
    pause: Option<Duration>,
    mut ask: impl FnMut() -> Result<T, CliError>,
    show: impl Fn(&mut dyn Write, &T, Option<&T>) -> io::Result<()>,
) -> Result<(), CliError> {
    let mut earlier: Option<T> = None;
    loop {
        let answer = ask()?;
        if json {
            serde_json::to_writer(&mut *out, &answer).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            if earlier.is_some() && io::stdout().is_terminal() {
                write!(out, "{CLEAR}")?;
            }
            show(out, &answer, earlier.as_ref())?;
        }
        out.flush()?;
        let Some(pause) = pause else { return Ok(()) };
        earlier = Some(answer);
        thread::sleep(pause);
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
