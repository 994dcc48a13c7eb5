//! Why a stack did not start, and why a policy cannot be carried out.

use std::io;
use std::path::PathBuf;

use weever_app_server::ListenError;
use weever_device::claim::ClaimError;
use weever_device::nic::NicError as DeviceError;
use weever_device::xdp::XdpError;
use weever_host::HostError;
use weever_link_sys::af_xdp::OpenError;
use weever_link_sys::tap::TapError;
use weever_models::NicModelError;
use weever_packet::PoolError;
use weever_plan::nic::NicError;
use weever_policy::Problems;

use crate::control::ControlError;
use crate::preflight::PreflightError;
use crate::privileges::PrivilegeError;

/// Why a stack did not start. Nothing of the attempt is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The device, the address or the rights of the process are not as they have to be.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// There is no place for the control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// There is no memory for packets.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The device could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Somebody else steers the device.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The TAP interface could not be made.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// The policy cannot be carried out.
    #[error(transparent)]
    Policy(#[from] Box<PolicyError>),
    /// The configuration asks for something that cannot be had.
    #[error("{0}")]
    Setting(String),
    /// The host cannot be assembled from its parts, or its workers not be started.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Applications cannot be served.
    #[error("apps: {0}")]
    Applications(#[from] ListenError),
    /// The address for metrics cannot be had.
    #[error("metrics = {address}: {source}; choose another, or 127.0.0.1:0 for any free port")]
    Metrics {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's word.
        source: io::Error,
    },
    /// Privileges could not be given up.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// The system refused.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

impl From<PolicyError> for StartError {
    fn from(error: PolicyError) -> StartError {
        StartError::Policy(Box::new(error))
    }
}

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
    /// The flows and the workers do not allow the policy.
    #[error("{} cannot be satisfied with {workers} worker{}:\n  {}\nnothing was changed; more workers are `--cores`", path.display(), if *.workers == 1 { "" } else { "s" }, complaints.join("\n  "))]
    Unsatisfiable {
        /// The file.
        path: PathBuf,
        /// The number of workers.
        workers: u32,
        /// The classes, and the resource that each lacks.
        complaints: Vec<String>,
    },
    /// A policy that was read again changes what is decided at the start.
    #[error("{}: {what} cannot change while the stack runs: start it anew, or leave that as it was", path.display())]
    Fixed {
        /// The file.
        path: PathBuf,
        /// The setting.
        what: &'static str,
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
        /// The device's error.
        source: XdpError,
    },
    /// The device does not take filters that the policy needs.
    #[error("policy on {link}: {source}")]
    Refused {
        /// The device.
        link: String,
        /// The refused filters.
        source: Box<weever_steward::TargetError>,
    },
    /// Workers cannot share the device's queues as the policy wants.
    #[error("[sharing] of the policy, on {link}: {problem}")]
    Sharing {
        /// The device.
        link: String,
        /// Why, and the remedy.
        problem: String,
    },
    /// The device has no filters of its own.
    #[error(
        "nic = \"{model}\": {link} takes no steering rules (`ethtool -N`): its driver, {driver}, has \
         none; use nic = \"xdp\", with which a program sorts the packets on any device"
    )]
    NoRules {
        /// The device.
        link: String,
        /// Its driver.
        driver: String,
        /// The model that was to describe it.
        model: String,
    },
    /// The device's own filters are not as the policy needs them.
    #[error("policy on {link}: {source}; with nic = \"xdp\" a program sorts the packets instead")]
    Hardware {
        /// The device.
        link: String,
        /// The device's error.
        source: Box<DeviceError>,
    },
    /// The device has too few queues, and cannot be told to have more.
    #[error(
        "policy on {link}: it has {queues} queues for {workers} workers, and its driver does not \
         change that; use as many `--cores`, or nic = \"xdp\""
    )]
    Queues {
        /// The device.
        link: String,
        /// The number of its queues.
        queues: u16,
        /// The number of workers.
        workers: u32,
    },
}

impl PolicyError {
    /// Whether a file or a setting is wrong; else the policy cannot be carried out here.
    pub fn is_about_files(&self) -> bool {
        match self {
            PolicyError::Read { .. }
            | PolicyError::TooLong { .. }
            | PolicyError::Text { .. }
            | PolicyError::Fixed { .. }
            | PolicyError::Unused => true,
            PolicyError::Unsatisfiable { .. }
            | PolicyError::Nic(_)
            | PolicyError::Model(_)
            | PolicyError::Device { .. }
            | PolicyError::Refused { .. }
            | PolicyError::NoRules { .. }
            | PolicyError::Hardware { .. }
            | PolicyError::Queues { .. }
            | PolicyError::Sharing { .. } => false,
        }
    }
}
