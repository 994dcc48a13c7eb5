//! `weever release`: ports that stay closed to the kernel after a stack are the kernel's again.

use std::io::{self, Write};

use clap::Args;
use weever_device::claim::{Claim, ClaimError};
use weever_device::ifindex;
use weever_link_sys::af_xdp::{Pins, Port};

use crate::stack;

/// Gives the ports back to the kernel that a stack with `share = "ports"` has left closed: applications' ports, and the
/// ephemeral ones
#[derive(Args, Clone, Debug)]
pub struct ReleaseArgs {
    /// The network device
    #[arg(long, value_name = "NAME")]
    pub dev: String,
}

/// Why ports cannot be given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// There is no such device.
    #[error("there is no device {0}; `ip link` lists those of this network namespace")]
    NoDevice(String),
    /// A stack runs on the device.
    #[error("{0}; a running stack gives ports back as applications close them")]
    Claim(#[from] ClaimError),
    /// The system refused.
    #[error("the ports of {device} cannot be given back: {source}; run as root")]
    System {
        /// The device.
        device: String,
        /// The system's word.
        source: io::Error,
    },
    /// The result could not be written.
    #[error("cannot write: {0}")]
    Write(io::Error),
}

impl ReleaseArgs {
    /// Gives the ports back, of a device of the calling thread's network namespace, and lists them on `out`.
    ///
    /// # Errors
    /// See [`ReleaseError`].
    pub fn run(&self, out: &mut dyn Write) -> Result<(), ReleaseError> {
        let device = || self.dev.clone();
        let index = ifindex(&self.dev).ok_or_else(|| ReleaseError::NoDevice(device()))?;
        let _claim = Claim::of(&self.dev, index, "`weever release`")?;
        let failed = |source| ReleaseError::System { device: device(), source };
        let pins = Pins::of(index).map_err(failed)?;
        if !pins.exist() {
            return writeln!(out, "no ports of {} are kept", self.dev).map_err(ReleaseError::Write);
        }
        // Those that cannot be listed are given back nevertheless.
        let mut ports = pins.left().unwrap_or_default();
        ports.sort_unstable();
        stack::release(&pins).map_err(failed)?;
        let name = |port: &Port| match *port {
            Port { protocol: 6, port } => format!(" TCP {port}"),
            Port { port, .. } => format!(" UDP {port}"),
        };
        let names: String = ports.iter().map(name).collect();
        let what = if names.is_empty() { " the ephemeral ports" } else { &names };
        writeln!(out, "the kernel has got back on {}:{what}", self.dev).map_err(ReleaseError::Write)
    }
}
