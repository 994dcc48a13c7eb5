//! Why a stack did not start.

use std::io;

use weever_app_server::ListenError;
use weever_device::claim::ClaimError;
use weever_host::HostError;
use weever_link_sys::af_xdp::OpenError;
use weever_link_sys::tap::TapError;
use weever_packet::PoolError;

use super::steward::PolicyError;
use crate::control::ControlError;
use crate::preflight::PreflightError;

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
