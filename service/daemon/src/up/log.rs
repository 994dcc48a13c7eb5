//! Logs on standard error: for people at a terminal, for journald, or as JSON.

use std::fmt;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The environment variable with the log level, where the command line has none.
const VARIABLE: &str = "WEEVER_LOG";

/// The variable that names journald's standard error, as `DEVICE:INODE` (systemd.exec(5)).
const JOURNAL: &str = "JOURNAL_STREAM";

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people, and for journald if it reads standard error: then with its levels, and without
    /// the time.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("use text or json".into()),
        }
    }
}

/// Begins to log: as `wanted` says, or the environment, or `info` and worse. A process that logs
/// already keeps its logging.
///
/// # Errors
/// The mistake in the filter.
pub(super) fn begin(wanted: Option<&str>, format: LogFormat) -> Result<(), String> {
    let environment = std::env::var(VARIABLE).ok();
    let (text, from) = match (wanted, &environment) {
        (Some(text), _) => (text, "--log"),
        (None, Some(text)) if !text.is_empty() => (text.as_str(), VARIABLE),
        _ => ("info", "--log"),
    };
    let filter = filter(text).map_err(|e| {
        format!("{from} {text}: {e}; use error, warn, info, debug or trace, or TARGET=LEVEL,…")
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let begun = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text if goes_to(&std::env::var(JOURNAL).unwrap_or_default()) => {
            let inner = Format::default().without_time().with_level(false).with_ansi(false);
            builder.with_ansi(false).event_format(Journald(inner)).try_init()
        }
        LogFormat::Text => builder.with_target(false).try_init(),
    };
    // This fails if the program that uses the library has installed a subscriber of its own.
    drop(begun);
    Ok(())
}

/// A word alone is a level here. The crate would read it as a target all of whose lines are wanted,
/// so that a mistyped level would pass without an error.
fn filter(text: &str) -> Result<EnvFilter, String> {
    for word in text.split(',').map(str::trim).filter(|word| !word.contains(['=', '['])) {
        if word.parse::<LevelFilter>().is_err() {
            return Err(format!("`{word}` is no level"));
        }
    }
    EnvFilter::try_new(text).map_err(|e| e.to_string())
}

/// Whether standard error leads to this stream: a service may have passed the variable on to its
/// children, which write elsewhere.
fn goes_to(stream: &str) -> bool {
    let number = |text: Option<&str>| text?.parse::<u64>().ok();
    let mut parts = stream.split(':');
    let named = (number(parts.next()), number(parts.next()));
    std::fs::metadata("/proc/self/fd/2").is_ok_and(|m| named == (Some(m.dev()), Some(m.ino())))
}

/// Lines that begin with the level in the form of sd-daemon(3).
struct Journald<F>(F);

impl<S, N, F> FormatEvent<S, N> for Journald<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        self.0.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_level_is_refused_instead_of_silence() {
        for right in
            ["info", "WARN", "off", "weever_daemon=debug", "warn,weever_daemon::stack=info"]
        {
            assert!(filter(right).is_ok(), "{right}");
        }
        for wrong in ["verbose", "info,chatty", "weever_daemon", "weever_daemon=loud"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_journal_is_where_standard_error_leads() {
        let stderr = std::fs::metadata("/proc/self/fd/2").unwrap();
        assert!(goes_to(&format!("{}:{}", stderr.dev(), stderr.ino())));
        let other = format!("{}:{}", stderr.dev(), stderr.ino() + 1);
        for elsewhere in [other.as_str(), "", "9", "x:y", ":"] {
            assert!(!goes_to(elsewhere), "{elsewhere}");
        }
    }
}
