//! Why a call was not carried out, and how the program is told.

use std::time::Duration;

use libc::c_int;
use weever_app_sockets::Error;
use weever_app_sockets::control::Refusal;

/// Why a call was not carried out on weever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is the kernel's to carry out.
    Kernel,
    /// It fails with this error number.
    Errno(c_int),
}

pub(crate) type Answer<T> = Result<T, Failure>;

/// A failure by its error number.
pub(crate) fn fail<T>(errno: c_int) -> Answer<T> {
    Err(Failure::Errno(errno))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Errno(match error {
            Error::WouldBlock => libc::EAGAIN,
            Error::Refused { kind, .. } => match kind {
                Refusal::InUse => libc::EADDRINUSE,
                Refusal::NotAvailable => libc::EADDRNOTAVAIL,
                Refusal::Permission => libc::EACCES,
                Refusal::Limit => libc::ENOBUFS,
                _ => libc::EINVAL,
            },
            Error::TooLong { .. } => libc::EMSGSIZE,
            Error::NoDestination => libc::EDESTADDRREQ,
            Error::NoSocket => libc::EPIPE,
            Error::NoDescriptors => libc::EMFILE,
            Error::System { source, .. } => source.raw_os_error(),
            _ => libc::ENETDOWN,
        })
    }
}

/// A `timeval` of an option as a duration; zero is no limit.
pub(crate) fn limit(value: libc::timeval) -> Option<Duration> {
    let seconds = u64::try_from(value.tv_sec).ok()?;
    let micros = u64::try_from(value.tv_usec).ok()?;
    let limit = Duration::from_secs(seconds) + Duration::from_micros(micros);
    (!limit.is_zero()).then_some(limit)
}
