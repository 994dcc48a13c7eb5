//! The command line.

use std::net::SocketAddr;
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

/// Steers flows of the kernel's stack to queues by a policy, with the NIC's filters or with a program that
/// weever generates.
///
/// Without --apply or --verify it only shows the changes. With --apply it runs until Ctrl-C, then restores the
/// device. The exit status is 2 if a file is wrong, and 1 if the policy cannot be satisfied or something failed; the
/// device is then as it was found. It is also 1 if --verify does not show that the plan is right.
#[derive(Args, Clone, Debug)]
pub struct SteerArgs {
    /// The device.
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "probe_from",
        default_value = "",
        hide_default_value = true
    )]
    pub dev: String,
    /// The policy, in TOML. Without it, flows are balanced.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The flows: one per line or JSON; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub flows: Option<PathBuf>,
    /// Skip flows that cannot be read instead of stopping.
    #[arg(long)]
    pub keep_going: bool,
    /// The number of queues to use; by default all that the NIC has enabled, or one for each CPU.
    #[arg(long, value_name = "N")]
    pub queues: Option<u32>,
    /// The model: a NIC's name or a Unicorn file to use the NIC's own filters, `xdp` to use a program on
    /// any device, `auto` to choose by the device's driver.
    #[arg(long, value_name = "MODEL|FILE", default_value = "auto")]
    pub model: String,
    /// The CPUs to use as queues of the model `xdp`, as `0,2-5`; by default all that are online.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Where the program of the model `xdp` runs.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Apply the plan.
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Leave the filters in place on exit; `--undo` removes them later. Not with the model `xdp`: its
    /// program ends with the process.
    #[arg(long, requires = "apply")]
    pub persist: bool,
    /// Undo changes left by --persist or by a process that was killed.
    #[arg(long)]
    pub undo: bool,
    /// Show what the device has now (queues, rings, interrupts, hash, features, rules), and change nothing.
    #[arg(long, conflicts_with_all = ["apply", "undo", "policy", "flows"])]
    pub show: bool,
    /// Find new flows by their traffic, and remove ended ones.
    #[arg(long, requires = "apply")]
    pub watch: bool,
    /// With --watch: packets per second from which a flow gets a filter of its own.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rate: u64,
    /// With --watch: seconds without a packet after which a flow has ended.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub stale: u64,
    /// With --watch: the largest number of flows to keep track of.
    #[arg(long, value_name = "N", default_value_t = 1 << 16)]
    pub most: u32,
    /// With --watch: look at one packet in N; a power of two.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub every: u32,
    /// Apply the plan, have a peer send probes of every kind, and print where they arrived and where the plan says,
    /// then restore the device. Listens here for the peer, which runs `--probe-from`.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["apply", "undo", "watch", "show"])]
    pub verify: Option<SocketAddr>,
    /// With --verify: seconds to wait for the frames of a probe.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "verify")]
    pub patience: u64,
    /// Send the probes that a `--verify` on another host or in another namespace asks for, from this device.
    #[arg(long, value_name = "NAME", requires = "to", conflicts_with_all = ["verify", "apply", "undo", "dev"])]
    pub probe_from: Option<String>,
    /// With --probe-from: where `--verify` listens.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "probe_from")]
    pub to: Option<SocketAddr>,
    /// Print one JSON object per line: the plan, the changes, and what happens while it runs.
    #[arg(long)]
    pub json: bool,
    /// Seed for the random orders of flows that the search tries.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}
