//! Attaching a program that sends frames to CPUs, where the kernel's stack takes them.

use weever_device::xdp::{AttachMode, XdpError, XdpSteering};

/// The place where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramMode {
    /// In the driver if it can, except where checksums would suffer.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Behind the driver.
    Generic,
}

/// The interface that a program is attached to once its first filters are in place.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The interface's name, for reports.
    pub device: String,
    /// The interface's number.
    pub ifindex: u32,
    /// The place where the program runs.
    pub mode: ProgramMode,
    /// Whether frames may arrive with unfinished checksums
    /// ([`hands_over_partial_checksums`](weever_device::hands_over_partial_checksums)).
    pub partial_checksums: bool,
}

impl Attachment {
    /// Attaches the program, and returns a description, a line each.
    pub(crate) fn attach(&self, steering: &mut XdpSteering) -> Result<Vec<String>, XdpError> {
        match self.attach_mode() {
            None => steering.attach(self.ifindex)?,
            Some(mode) => steering.attach_in(self.ifindex, mode)?,
        }
        let mode = steering.mode();
        let shown = mode.map(|mode| mode.to_string()).unwrap_or_default();
        let mut lines = vec![format!("attached to {} in {shown} mode", self.device)];
        lines.extend(self.about_checksums(mode).map(str::to_owned));
        Ok(lines)
    }

    /// A program in the driver makes the kernel forget that a frame's checksum is unfinished; behind
    /// it, the kernel still has this information when the frame arrives at its CPU.
    pub(crate) fn attach_mode(&self) -> Option<AttachMode> {
        match self.mode {
            ProgramMode::Auto if self.partial_checksums => Some(AttachMode::Generic),
            ProgramMode::Auto => None,
            ProgramMode::Native => Some(AttachMode::Native),
            ProgramMode::Generic => Some(AttachMode::Generic),
        }
    }

    fn about_checksums(&self, mode: Option<AttachMode>) -> Option<&'static str> {
        match (self.partial_checksums, mode) {
            (true, Some(AttachMode::Native)) => Some(
                "note: frames from a kernel of this machine arrive here with unfinished checksums and \
                 would be lost on their way to a CPU: switch that off at the sending end, \
                 `ethtool -K PEER tx off`, or use `--mode generic`",
            ),
            (true, Some(AttachMode::Generic)) if self.mode == ProgramMode::Auto => Some(
                "note: the program runs behind the driver, because frames from this machine have \
                 unfinished checksums; `--mode native` is faster where the sending end finishes them",
            ),
            _ => None,
        }
    }
}
