//! `weever up`: a stack in the foreground.

mod banner;
mod log;
mod signals;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::config::{
    Aids, Config, ConfigError, FaultWords, LinkKind, Mode, NicChoice, PoolSettings, Prefix,
    ServiceSettings, Settings, Share, Station,
};
use crate::stack::{Report, Stack, StartError};

pub use log::LogFormat;

/// Runs the stack in the foreground, until it is told to stop by a signal or `weever stop`.
#[derive(Args, Clone, Debug, Default)]
pub struct UpArgs {
    /// Read settings from this file; options of the command line win over it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The network device whose queues the stack uses
    #[arg(long, value_name = "DEVICE")]
    dev: Option<String>,
    /// What the device is: `af-xdp`, `tap` (made unless it is there) or `pcap` (a file to replay)
    #[arg(long, value_name = "KIND")]
    link: Option<LinkKind>,
    /// An address of the stack's own with its network's prefix, such as 192.0.2.10/24 or
    /// 2001:db8::10/64; may be repeated
    #[arg(long, value_name = "ADDRESS/PREFIX", value_delimiter = ',')]
    addr: Vec<Prefix>,
    /// Get an IPv4 address and routes from a DHCP server
    #[arg(long)]
    dhcp: bool,
    /// Make IPv6 addresses from router advertisements
    #[arg(long)]
    slaac: bool,
    /// The router for other networks; one of each family
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    gateway: Vec<IpAddr>,
    /// The VLAN to be in
    #[arg(long, value_name = "ID")]
    vlan: Option<u16>,
    /// What to take from the device: `address`, `ports` (of the kernel's addresses) or `none` (the
    /// whole device)
    #[arg(long, value_name = "WHAT")]
    share: Option<Share>,
    /// What sorts packets for the policy: `xdp` (a program, on any device), `auto` (the device's own
    /// filters if its driver is known) or the model of a NIC (see `weever plan`)
    #[arg(long, value_name = "MODEL")]
    nic: Option<NicChoice>,
    /// How workers wait for packets: `busy`, `adaptive` or `interrupt`
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// The cores to run on, a worker on each
    #[arg(long, value_name = "CORE", value_delimiter = ',', value_parser = core)]
    cores: Option<Vec<usize>>,
    /// Answer datagrams to this UDP port with what they carry
    #[arg(long, value_name = "PORT")]
    echo: Option<u16>,
    /// Take and count datagrams to this UDP port
    #[arg(long, value_name = "PORT")]
    discard: Option<u16>,
    /// How many buffers for packets to have
    #[arg(long, value_name = "NUMBER")]
    frames: Option<u32>,
    /// How large each is: 2048, or 4096 for packets that do not fit
    #[arg(long, value_name = "BYTES")]
    frame_size: Option<u32>,
    /// Listen for control commands on this socket
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Keep the secret that IPv6 addresses are made with in this directory
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,
    /// Let Prometheus have the counters: HTTP on this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = place)]
    metrics: Option<SocketAddr>,
    /// Give flows to workers by this policy (see docs/policies.md)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Flows that are known before they are seen, for the policy
    #[arg(long, value_name = "FILE", requires = "policy")]
    flows: Option<PathBuf>,
    /// What to log on standard error: `error`, `warn`, `info`, `debug`, or TARGET=LEVEL,…; without
    /// it the environment's WEEVER_LOG, or `info`
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// How to log: `text` or `json`
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Do not ask the network whether somebody else has the address
    #[arg(long)]
    no_probe: bool,
    /// Write everything that passes the links to this file (pcapng): for looking for a fault, not for
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

fn core(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "not the number of a core; for several, as 0,1".into())
}

fn place(text: &str) -> Result<SocketAddr, String> {
    let wanted = "not an address with a port, such as 127.0.0.1:9464 or [::1]:9464";
    text.parse().map_err(|_| wanted.into())
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
    /// What is to be logged was not understood.
    #[error("{0}")]
    Log(String),
    /// Signals could not be taken over, or the banner not be written.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
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
        let mut config = Config::try_from(file.overridden_by(self.settings()))?;
        let (record, faults, station) = (self.record.clone(), self.fault, self.station);
        config.aids = Aids { record, faults, station };
        Ok(config)
    }

    fn settings(&self) -> Settings {
        let Self { echo, discard, .. } = *self;
        Settings {
            dev: self.dev.clone(),
            link: self.link,
            addr: self.addr.clone(),
            dhcp: self.dhcp.then_some(true),
            slaac: self.slaac.then_some(true),
            gateway: self.gateway.clone(),
            vlan: self.vlan,
            share: self.share,
            nic: self.nic,
            mode: self.mode,
            cores: self.cores.clone(),
            control: self.control.clone(),
            state: self.state.clone(),
            metrics: self.metrics,
            policy: self.policy.clone(),
            flows: self.flows.clone(),
            probe: self.no_probe.then_some(false),
            services: ServiceSettings { echo, discard },
            pool: PoolSettings {
                frames: self.frames,
                frame_size: self.frame_size,
                huge_pages: None,
            },
            ..Settings::default()
        }
    }

    /// Starts the stack, says on `out` what runs, and blocks until it has stopped: by SIGINT,
    /// SIGTERM or SIGHUP, by a control message, or because a worker failed. To be called on the
    /// main thread before others are started, since signals are taken over for all of them.
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
        // Nobody may be reading any more: that is no reason not to run.
        drop(written);
        stack.wait();
        Ok(stack.stop())
    }
}
