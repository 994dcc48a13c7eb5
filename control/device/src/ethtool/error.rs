//! The errors that a device may answer.

use std::io;

use weever_plan::search::Refused;

/// An error of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EthtoolError {
    /// There is no such device, or no longer.
    #[error("there is no device `{device}` (any more) in this network namespace")]
    Gone {
        /// The device.
        device: String,
    },
    /// The process may not.
    #[error("{device}: cannot {what}: it needs CAP_NET_ADMIN (run as root)")]
    Denied {
        /// The device.
        device: String,
        /// The attempted request.
        what: String,
    },
    /// The driver has no such thing.
    #[error(
        "{device}: its driver cannot {what}; use the xdp model (`--model xdp`), which needs no help \
         from the device"
    )]
    Unsupported {
        /// The device.
        device: String,
        /// The attempted request.
        what: String,
    },
    /// The device refused.
    #[error("{device}: cannot {what}: {source}{hint}")]
    Refused {
        /// The device.
        device: String,
        /// The attempted request.
        what: String,
        /// The driver's reason.
        source: io::Error,
        /// The usual meaning.
        hint: &'static str,
    },
    /// The device took a rule and made another one of it, which was taken out again.
    #[error(
        "{device}: its driver makes `{made}` of the rule `{asked}`, which matches other packets or does \
         something else with them; it was taken out again"
    )]
    Altered {
        /// The device.
        device: String,
        /// The rule that it was to take.
        asked: Box<str>,
        /// The rule that it shows.
        made: Box<str>,
    },
    /// The device leaves a feature as it is.
    #[error(
        "{device}: its driver leaves the feature `{name}` {}: it is fixed, or other features need it so \
         (`ethtool -k {device}`)",
        if *on { "off" } else { "on" }
    )]
    Kept {
        /// The device.
        device: String,
        /// The feature.
        name: String,
        /// Whether it was to be on.
        on: bool,
    },
    /// The answer makes no sense.
    #[error("{device}: the driver's answer to \"{what}\" makes no sense; is it out of date?")]
    Answer {
        /// The device.
        device: String,
        /// The attempted request.
        what: String,
    },
    /// The name can be no device's.
    #[error("`{device}` is no name of a device: it takes 1 to 15 characters")]
    Name {
        /// The name.
        device: String,
    },
}

impl EthtoolError {
    /// The kernel's word, understood.
    pub(crate) fn of(device: &str, what: String, source: io::Error) -> EthtoolError {
        let device = device.to_string();
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => EthtoolError::Gone { device },
            Some(libc::EPERM | libc::EACCES) => EthtoolError::Denied { device, what },
            Some(libc::EOPNOTSUPP) => EthtoolError::Unsupported { device, what },
            _ => {
                let hint = hint(&source);
                EthtoolError::Refused { device, what, source, hint }
            }
        }
    }

    /// Whether the device is gone.
    pub fn is_gone(&self) -> bool {
        matches!(self, EthtoolError::Gone { .. })
    }

    /// The meaning of this answer to a rule for other rules; nothing if the rule is not to blame.
    pub fn refusal(&self) -> Option<Refused> {
        match self {
            EthtoolError::Unsupported { .. }
            | EthtoolError::Altered { .. }
            | EthtoolError::Kept { .. } => Some(Refused::Kind),
            EthtoolError::Refused { source, .. } => Some(match source.raw_os_error() {
                Some(libc::ENOSPC) => Refused::Full { room: None },
                Some(libc::EINVAL) => Refused::Kind,
                _ => Refused::Rule,
            }),
            _ => None,
        }
    }

    /// Whether the requested object is not there (any more), though the device is.
    pub fn is_absent(&self) -> bool {
        let EthtoolError::Refused { source, .. } = self else { return false };
        // Drivers say it in one way or the other.
        matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EINVAL))
    }

    /// Whether the driver has no such thing.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, EthtoolError::Unsupported { .. })
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOSPC) => "; its table is full",
        Some(libc::EBUSY) => "; the table has no room for this rule, or something else uses it",
        Some(libc::EINVAL) => "; the driver takes no such value, mask or location: see `dmesg`",
        Some(libc::EEXIST) => "; there is such a rule already",
        _ => "",
    }
}
