//! The command lines.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Subcommand};

use crate::{Format, PlanToolError};

/// The help of `--nic`, with the models that ship.
static NIC_HELP: LazyLock<String> = LazyLock::new(|| {
    let models: Vec<&str> = weever_models::nics().collect();
    format!(
        "The NIC: the name of a model that ships ({}), a Unicorn file, or `auto` for the device --dev as it is now",
        models.join(", ")
    )
});

/// Plans which queue gets which flow, on any NIC that has a model.
///
/// Exits with 1 if the policy cannot be satisfied, and with 2 if a file is wrong.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// The NIC: a model that ships, a Unicorn file, or `auto` for the device `--dev` as it is now.
    #[arg(long, value_name = "MODEL|FILE", help = NIC_HELP.as_str())]
    pub nic: String,
    /// Use this many of its queues; by default all.
    #[arg(long, value_name = "N")]
    pub queues: Option<u32>,
    /// The flows: one per line or JSON; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub flows: PathBuf,
    /// The policy, in TOML. Without it, flows are balanced.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Use the filters that Linux exposes of the NIC; the default if it exposes any.
    #[arg(long, conflicts_with = "silicon")]
    pub linux: bool,
    /// Use all filters that the silicon has.
    #[arg(long)]
    pub silicon: bool,
    /// How to show the plan.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Explain for each flow its queue, and which other choice came second and why (formats `text` and
    /// `json`).
    #[arg(long)]
    pub explain: bool,
    /// Show how much of the host's graph each queue needs (formats `text` and `json`).
    #[arg(long)]
    pub graphs: bool,
    /// Show the host's graph behind this queue instead of the plan (formats `svg` and `text`).
    #[arg(long, value_name = "QUEUE")]
    pub graph: Option<u32>,
    /// The device in the `ethtool` commands, and that of `--nic auto`.
    #[arg(long, value_name = "NAME", default_value = "eth0")]
    pub dev: String,
    /// The key of the NIC's hash, in hexadecimal; with it the plan knows where the hash sends a flow.
    #[arg(long, value_name = "HEX")]
    pub rss_key: Option<String>,
    /// Seed for the random orders of flows that the search tries; the same seed gives the same plan.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Skip flows that cannot be read instead of stopping.
    #[arg(long)]
    pub keep_going: bool,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

impl PlanArgs {
    /// The option that the format cannot show, if one was given. Nothing is left out in silence.
    pub(crate) fn misfit(&self) -> Option<PlanToolError> {
        let (option, formats) = match self.graph {
            Some(_) if self.explain => {
                return Some(PlanToolError::NoPlanShown { option: "--explain" });
            }
            Some(_) if self.graphs => {
                return Some(PlanToolError::NoPlanShown { option: "--graphs" });
            }
            Some(_) => ("--graph", [Format::Text, Format::Svg]),
            None if self.explain => ("--explain", [Format::Text, Format::Json]),
            None if self.graphs => ("--graphs", [Format::Text, Format::Json]),
            None => return None,
        };
        let format = self.format;
        (!formats.contains(&format)).then_some(PlanToolError::Misfit { option, format, formats })
    }
}

/// Work with policies.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyCommand {
    /// Reports all mistakes in a policy, each with its line and a remedy. The exit status is 1 if there is one.
    Check(PolicyCheck),
}

/// The policy to check.
#[derive(Args, Clone, Debug)]
pub struct PolicyCheck {
    /// The policy, in TOML; `-` for standard input.
    pub file: PathBuf,
    /// Check also that this many queues are enough.
    #[arg(long, value_name = "N")]
    pub queues: Option<u32>,
}
