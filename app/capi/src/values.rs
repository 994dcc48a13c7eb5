//! Values that cross into C: failures as a negative errno with words for the thread that asks, and
//! addresses as the header has them.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_app_sockets::control::Refusal;
use weever_app_sockets::{Bind, Error};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// An option of sockets and listeners: they may be spanned.
pub(crate) const SPANNABLE: u32 = 1;
/// An option of sockets and listeners: "any" address means IPv6 only.
pub(crate) const V6_ONLY: u32 = 2;

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
                Refusal::Unsupported => libc::EOPNOTSUPP,
                Refusal::Protocol => libc::EPROTO,
                Refusal::Internal => libc::EIO,
            },
            Error::WouldBlock | Error::TooSoon { .. } => libc::EAGAIN,
            Error::TooLong { .. } => libc::EMSGSIZE,
            Error::NoSocket => libc::EBADF,
            Error::NoDescriptors => libc::EMFILE,
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
    2
}

/// `weever_endpoint`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `AF_INET`, `AF_INET6`, or 0 for any.
    pub family: u16,
    /// In host order; 0 for any.
    pub port: u16,
    /// In network order; IPv4 in the first four bytes.
    pub addr: [u8; 16],
}

/// `weever_dest`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dest {
    /// Our end.
    pub local: Endpoint,
    /// The peer's.
    pub remote: Endpoint,
}

impl From<SocketAddr> for Endpoint {
    fn from(end: SocketAddr) -> Endpoint {
        let mut addr = [0; 16];
        let family = match end.ip() {
            IpAddr::V4(v4) => {
                addr[..4].copy_from_slice(&v4.octets());
                libc::AF_INET
            }
            IpAddr::V6(v6) => {
                addr = v6.octets();
                libc::AF_INET6
            }
        };
        Endpoint { family: family as u16, port: end.port(), addr }
    }
}

impl Endpoint {
    /// `None`: any address of any family.
    fn ip(&self) -> Result<Option<IpAddr>, Failure> {
        let [a, b, c, d, ..] = self.addr;
        match i32::from(self.family) {
            0 => Ok(None),
            libc::AF_INET => Ok(Some(Ipv4Addr::new(a, b, c, d).into())),
            libc::AF_INET6 => Ok(Some(Ipv6Addr::from(self.addr).into())),
            other => {
                let text = format!("family {other} is neither AF_INET, AF_INET6 nor 0");
                Err(Failure::new(libc::EAFNOSUPPORT, text))
            }
        }
    }

    /// The local end of a connection to `remote`: any address of its family where this is a wildcard.
    pub(crate) fn local_of(&self, remote: SocketAddr) -> Result<SocketAddr, Failure> {
        let any = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let local = SocketAddr::new(self.ip()?.unwrap_or(any), self.port);
        if local.is_ipv4() != remote.is_ipv4() {
            let text = format!("{local} and {remote} are not of one family");
            return Err(Failure::new(libc::EAFNOSUPPORT, text));
        }
        Ok(local)
    }

    /// The peer at this endpoint, with port 0 for any of its ports; `None` for any peer.
    pub(crate) fn peer(&self) -> Result<Option<SocketAddr>, Failure> {
        Ok(self.ip()?.map(|ip| SocketAddr::new(ip, self.port)))
    }

    /// The end that this is, if it is one and no wildcard.
    pub(crate) fn end(&self) -> Result<Option<SocketAddr>, Failure> {
        let end = self.ip()?.map(|ip| SocketAddr::new(ip, self.port));
        Ok(end.filter(|end| end.port() != 0 && !end.ip().is_unspecified()))
    }
}

impl Dest {
    /// The binding of a socket there.
    pub(crate) fn bind(&self) -> Result<Bind, Failure> {
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let local = SocketAddr::new(self.local.ip()?.unwrap_or(any), self.local.port);
        let bind = Bind::at(local);
        Ok(match self.remote.end()? {
            Some(remote) => bind.connected_to(remote),
            None => bind,
        })
    }
}
