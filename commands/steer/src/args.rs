//! The command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weever_steward::ProgramMode;

/// Where the program of the model `xdp` runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// In the driver if it can, except where checksums would suffer.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Behind it.
    Generic,
}

impl From<Mode> for ProgramMode {
    fn from(mode: Mode) -> ProgramMode {
        match mode {
            Mode::Auto => ProgramMode::Auto,
            Mode::Native => ProgramMode::Native,
            Mode::Generic => ProgramMode::Generic,
        }
    }
}

/// Steers the flows of the kernel's stack to queues as a policy wants, by the NIC's filters or by a
/// program that weever generates.
///
/// Without --apply it only shows what it would do. With it, it runs until Ctrl-C and leaves the device
/// as it found it. Exits with 1 if the policy cannot be satisfied or something failed, and with 2 if a
/// file is wrong; nothing is changed then.
#[derive(Args, Clone, Debug)]
pub struct SteerArgs {
    /// The device.
    #[arg(long, value_name = "NAME")]
    pub dev: String,
    /// The policy, in TOML. Without it, flows are balanced.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The flows: one per line or JSON; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub flows: Option<PathBuf>,
    /// Plan with the flows that can be read although others cannot.
    #[arg(long)]
    pub keep_going: bool,
    /// How many queues to use: all that the NIC has switched on, or as many as there are CPUs.
    #[arg(long, value_name = "N")]
    pub queues: Option<u32>,
    /// The model: that of a NIC or a Unicorn file for its own filters, `xdp` for a program on any
    /// device, `auto` for what the driver's name tells.
    #[arg(long, value_name = "MODEL|FILE", default_value = "auto")]
    pub model: String,
    /// The CPUs that are the queues of the model `xdp`, as `0,2-5`; all that are online if not given.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Where the program of the model `xdp` runs: in the driver, behind it, or what is right for the
    /// device.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Do it.
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Leave it so on exit. `--undo` undoes it later. Not with the model `xdp`, whose program goes with
    /// the process.
    #[arg(long, requires = "apply")]
    pub persist: bool,
    /// Undo what was left, by --persist or by a process that was killed.
    #[arg(long)]
    pub undo: bool,
    /// Find new flows by their traffic, and forget those that have ended.
    #[arg(long, requires = "apply")]
    pub watch: bool,
    /// With --watch: a flow with so many packets per second gets a place of its own.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rate: u64,
    /// With --watch: a flow has ended when no packet came for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub stale: u64,
    /// With --watch: so many flows are kept in mind at most.
    #[arg(long, value_name = "N", default_value_t = 1 << 16)]
    pub most: u32,
    /// With --watch: look at one packet in so many, a power of two.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub every: u32,
    /// Decides the order of flows where it is tried at random.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}
