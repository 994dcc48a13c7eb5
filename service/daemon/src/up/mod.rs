//! `weever up`: a stack in the foreground.

mod log;
mod options;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use options::SettingOptions;
use weever_wire::MacAddr;

use crate::config::{Aids, Config, ConfigError, FaultWords, Interface, Settings, Station};
use crate::stack::{PolicyReloader, Stack, StackTotals, StartError, Stopper};

pub use log::LogFormat;

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

    /// Starts the stack, describes it on `out`, and blocks until it has stopped: by SIGINT or SIGTERM, by a control
    /// message, or because a worker failed. SIGHUP has it read its policy again. To be called on the main thread
    /// before others are started, since signals are taken over for all of them.
    ///
    /// # Errors
    /// See [`UpError`]. A worker's failure is in the report.
    pub fn run(&self, out: &mut dyn Write) -> Result<StackTotals, UpError> {
        let config = self.config()?;
        log::begin(self.log.as_deref(), self.log_format).map_err(UpError::Log)?;
        let signals = take_over_signals();
        let signals =
            signals.map_err(|source| UpError::Io { what: "take over signals", source })?;
        let stack = Stack::start_alone(config)?;
        let written = write_banner(out, &stack).and_then(|()| out.flush());
        let watching = watch_signals(signals, stack.stopper(), stack.reloader());
        watching.map_err(|source| UpError::Io { what: "watch for signals", source })?;
        // Standard output may be closed: that is no reason not to run.
        drop(written);
        stack.wait();
        Ok(stack.stop())
    }
}

/// Exit status of a process that a second SIGINT ended (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Blocks the stack's signals in this thread and those it starts; they are collected
/// by [`watch_signals`].
fn take_over_signals() -> io::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    Ok(signals)
}

/// Has SIGHUP read the policy again, the first other signal stop the stack, and a second one end the process at once: the
/// kernel then takes the device back.
fn watch_signals(signals: SigSet, stopper: Stopper, reloader: PolicyReloader) -> io::Result<()> {
    // A plan for very many flows takes long, and no signal waits for it. One more request may wait.
    let (again, requests) = mpsc::sync_channel(1);
    let reload = move || {
        while requests.recv().is_ok() {
            let read = reloader.reload();
            let _ = read.inspect_err(|why| tracing::error!("the former policy stays: {why}"));
        }
    };
    thread::Builder::new().name("policy".into()).spawn(reload)?;
    let watch = move || {
        let mut stops = false;
        while let Ok(signal) = signals.wait() {
            if signal == Signal::SIGHUP {
                let _one_waits_already = again.try_send(());
            } else if stops {
                std::process::exit(INTERRUPTED);
            } else {
                stopper.stop();
                stops = true;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}

/// Device, mode, address, services and control socket, a line each.
fn write_banner(out: &mut dyn Write, stack: &Stack) -> io::Result<()> {
    let status = stack.status();
    writeln!(out, "weever {} is up", status.program)?;
    for link in stack.links() {
        let queues = if link.queues == 1 { "queue" } else { "queues" };
        let mac = MacAddr(link.mac);
        writeln!(
            out,
            "  device    {} ({mac}), {} {queues}, {}",
            link.name, link.queues, link.mode
        )?;
    }
    let workers = if status.workers.len() == 1 { "worker" } else { "workers" };
    writeln!(out, "  workers   {} {workers}, {}", status.workers.len(), stack.config().mode)?;
    for interface in &stack.config().interfaces {
        write!(out, "  interface {}", interface.name)?;
        interface.addresses.iter().try_for_each(|address| write!(out, " {address}"))?;
        writeln!(out, "{}; share {}", sources_of_addresses(interface), interface.share)?;
    }
    for service in &status.services {
        writeln!(
            out,
            "  service   {} {} on port {}",
            service.protocol, service.name, service.port
        )?;
    }
    if let Some(address) = stack.metrics_address() {
        writeln!(out, "  metrics   http://{address}/metrics")?;
    }
    if let Some(path) = stack.applications_path() {
        writeln!(out, "  apps      {}", path.display())?;
    }
    if let Some(path) = stack.control_path() {
        writeln!(out, "  control   {}", path.display())?;
    }
    writeln!(out, "Ctrl-C or `weever stop` ends it.")
}

/// The sources of addresses beside the configuration.
fn sources_of_addresses(interface: &Interface) -> &'static str {
    match (interface.dhcp, interface.slaac) {
        (true, true) => " and addresses from DHCP and routers",
        (true, false) => " and addresses from DHCP",
        (false, true) => " and addresses from routers",
        (false, false) => "",
    }
}
