//! What can be wrong with a policy.

use std::io;
use std::path::PathBuf;

use weever_device::xdp::XdpError;
use weever_models::NicModelError;
use weever_plan::nic::NicError;
use weever_plan::policy::DocumentError;
use weever_policy::Problems;

/// Why a policy cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A file is longer than any that makes sense.
    #[error("{} is longer than {most} MiB: is the path right?", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        most: u64,
    },
    /// A file has mistakes.
    #[error("{}:\n{problems}\n`weever policy check` and `weever plan` look at files without starting", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// All of its mistakes.
        problems: Problems,
    },
    /// There are flows but no policy.
    #[error(
        "flows without a policy: give `--policy FILE`, or `policy = \"FILE\"` in the configuration"
    )]
    Unused,
    /// The policy contradicts itself.
    #[error("{}: {source}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DocumentError,
    },
    /// The policy wants what the flows and the workers do not allow.
    #[error("{} cannot be satisfied with {workers} worker{}:\n  {}\nnothing was started; more workers are `--cores`", path.display(), if *.workers == 1 { "" } else { "s" }, complaints.join("\n  "))]
    Unsatisfiable {
        /// The file.
        path: PathBuf,
        /// How many workers there are.
        workers: u32,
        /// The classes, and what ran out.
        complaints: Vec<String>,
    },
    /// More workers than the model has queues, or a model that cannot be used.
    #[error("policy: {0}")]
    Nic(#[from] NicError),
    /// The model is at fault: a defect of weever.
    #[error("policy: {0}")]
    Model(#[from] NicModelError),
    /// The device does not take filters.
    #[error("policy on {link}: {source}")]
    Device {
        /// The device.
        link: String,
        /// What it said.
        source: XdpError,
    },
}

impl PolicyError {
    /// Whether a file or a setting is wrong, rather than that it cannot be carried out here.
    pub fn is_about_files(&self) -> bool {
        match self {
            PolicyError::Read { .. }
            | PolicyError::TooLong { .. }
            | PolicyError::Text { .. }
            | PolicyError::Unused
            | PolicyError::Document { .. } => true,
            PolicyError::Unsatisfiable { .. }
            | PolicyError::Nic(_)
            | PolicyError::Model(_)
            | PolicyError::Device { .. } => false,
        }
    }
}
