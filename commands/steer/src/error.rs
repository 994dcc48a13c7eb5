//! Errors that keep flows from being steered.

use std::process::ExitCode;

use weever_commands_plan::PlanToolError;
use weever_device::actions::PersistError;
use weever_device::claim::ClaimError;
use weever_device::ethtool::EthtoolError;
use weever_device::xdp::XdpError;
use weever_steward::TargetError;

/// Why it ended, other than by a signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] PlanToolError),
    /// The policy cannot be satisfied.
    #[error("the policy cannot be satisfied, and nothing was changed:\n  {0}")]
    Unsatisfied(String),
    /// There is no such device.
    #[error("there is no device `{0}` in this network namespace; `ip link` lists them")]
    NoDevice(String),
    /// The device went away.
    #[error("{device} disappeared while steering{filters}")]
    Vanished {
        /// The device.
        device: String,
        /// The lost filters.
        filters: String,
    },
    /// The device went to another network namespace.
    #[error(
        "{device} was moved to another network namespace{}",
        match filters {
            0 => String::new(),
            count => format!(
                ", and its {count} filters with it: `ethtool -n {device}` lists them there, and \
                 `ethtool -N {device} delete N` removes them"
            ),
        }
    )]
    Moved {
        /// The device.
        device: String,
        /// The filters that it has.
        filters: usize,
    },
    /// The list of CPUs cannot be read.
    #[error("`{0}` is no list of CPUs; write for example `0,2-5`")]
    Cpus(String),
    /// The device has another name now.
    #[error("{device} is called {name} now; its changes were undone: steer it by that name")]
    Renamed {
        /// Its former name.
        device: String,
        /// Its name now.
        name: String,
    },
    /// The requests contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The device's answer.
    #[error(transparent)]
    Device(#[from] EthtoolError),
    /// The plan could not be applied or undone.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Another process steers the device.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The record cannot be kept.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The program cannot be had.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The peer of a verification.
    #[error("cannot verify: {0}")]
    Peer(String),
    /// The system refused something else.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}

impl SteerError {
    /// The exit status for it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            SteerError::File(_) | SteerError::Cpus(_) | SteerError::Usage(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}
