//! The formats of a plan.

use clap::ValueEnum;

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// For programs.
    Json,
    /// The `ethtool` commands that would make it.
    Ethtool,
    /// A picture of the NIC with its filters.
    Svg,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Ethtool => "ethtool",
            Format::Svg => "svg",
        })
    }
}
