//! Failures: a negative errno as the result, and words for the thread that asks.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_app_sockets::Error;
use weever_app_sockets::control::Refusal;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// A failure: an errno, and words.
pub(crate) struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Failure {
        Failure { errno, text: text.into() }
    }

    /// A pointer that must not be null is.
    pub(crate) fn null(what: &str) -> Failure {
        Failure::new(libc::EINVAL, format!("{what} is NULL"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let errno = match &error {
            Error::NoStack { .. } => libc::ECONNREFUSED,
            Error::Disconnected => libc::ECONNRESET,
            Error::Refused { kind, .. } => match kind {
                Refusal::InUse => libc::EADDRINUSE,
                Refusal::NotAvailable => libc::EADDRNOTAVAIL,
                Refusal::Permission => libc::EACCES,
                Refusal::Invalid => libc::EINVAL,
                Refusal::Limit => libc::ENOBUFS,
                Refusal::Protocol => libc::EPROTO,
                Refusal::Internal => libc::EIO,
            },
            Error::WouldBlock => libc::EAGAIN,
            Error::TooLong { .. } => libc::EMSGSIZE,
            Error::NoSocket => libc::EBADF,
            Error::NoDestination => libc::EDESTADDRREQ,
            Error::System { source, .. } => source.raw_os_error(),
            _ => libc::EPROTO,
        };
        Failure::new(errno, error.to_string())
    }
}

/// Runs a call: its value, or a negative errno. A panic does not cross into C.
pub(crate) fn call<T: TryFrom<i64>>(body: impl FnOnce() -> Result<T, Failure>) -> T {
    let ended = catch_unwind(AssertUnwindSafe(body));
    let panicked = |_| Err(Failure::new(libc::EIO, "weever has failed; this is a bug"));
    ended.unwrap_or_else(panicked).unwrap_or_else(|Failure { errno, text }| {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        LAST.with(|last| *last.borrow_mut() = text);
        // An errno fits into every type that calls return.
        T::try_from(-i64::from(errno)).unwrap_or_else(|_| unreachable!("an errno is small"))
    })
}

/// The last failure of this thread in words, until its next one; empty if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn weever_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// The version of the interface: `WEEVER_API_VERSION` of the header that belongs to the library.
#[unsafe(no_mangle)]
pub extern "C" fn weever_api_version() -> c_int {
    1
}
