//! `weever up`: a stack in the foreground.

mod banner;
mod log;
mod options;
mod signals;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use crate::config::{Aids, Config, ConfigError, FaultWords, Settings, Station};
use crate::stack::{Report, Stack, StartError};

pub use log::LogFormat;
use options::SettingOptions;

/// Runs the stack in the foreground, until it is told to stop by a signal or `weever stop`.
#[derive(Args, Clone, Debug, Default)]
pub struct UpArgs {
    /// Read settings from this file; options of the command line win over it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingOptions,
    /// The log on standard error: `error`, `warn`, `info`, `debug`, or TARGET=LEVEL,…; without it
    /// the environment's WEEVER_LOG, or `info`
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// How to log: `text` or `json`
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Write everything that passes the links to this file (pcapng): for debugging, not for
    /// speed
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// With `--link pcap`: take the place of this station of the file, a MAC or IP address; without it
    /// that of the stack's own address, else of the first packet's receiver
    #[arg(long, value_name = "STATION")]
    station: Option<Station>,
    /// Make the links lossy, slow or narrow: `loss=0.01,delay=5ms,rate=10M`
    #[arg(long, value_name = "FAULTS", hide = true)]
    fault: Option<FaultWords>,
    /// Print all counters at the end
    #[arg(long)]
    pub counters: bool,
}

/// Why `weever up` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The stack could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The log filter is wrong.
    #[error("{0}")]
    Log(String),
    /// Signals could not be taken over, or the banner could not be written.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

impl UpArgs {
    /// The configuration that file and command line give together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn config(&self) -> Result<Config, ConfigError> {
        let file = self.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        let mut config = Config::try_from(file.overridden_by(self.settings.0.clone()))?;
        let (record, faults, station) = (self.record.clone(), self.fault, self.station);
        config.aids = Aids { record, faults, station };
        Ok(config)
    }

    /// Starts the stack, describes it on `out`, and blocks until it has stopped: by SIGINT, SIGTERM
    /// or SIGHUP, by a control message, or because a worker failed. To be called on the main thread
    /// before others are started, since signals are taken over for all of them.
    ///
    /// # Errors
    /// See [`UpError`]. A worker's failure is in the report.
    pub fn run(&self, out: &mut dyn Write) -> Result<Report, UpError> {
        let config = self.config()?;
        log::begin(self.log.as_deref(), self.log_format).map_err(UpError::Log)?;
        let signals = signals::take_over();
        let signals =
            signals.map_err(|source| UpError::Io { what: "take over signals", source })?;
        let stack = Stack::start(config)?;
        let written = banner::write(out, &stack).and_then(|()| out.flush());
        let watching = signals::watch(signals, stack.stopper());
        watching.map_err(|source| UpError::Io { what: "watch for signals", source })?;
        // Standard output may be closed: that is no reason not to run.
        drop(written);
        stack.wait();
        Ok(stack.stop())
    }
}
