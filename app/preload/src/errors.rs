//! The error queue of a datagram socket (`IP_RECVERR`, ip(7)): ICMP messages, with their senders and the datagrams that they
//! are about.

use std::collections::VecDeque;

use libc::{MSG_ERRQUEUE, MSG_TRUNC, c_int, msghdr};
use weever_app_sockets::Cause;

use crate::failure::{Answer, Failure, fail};
use crate::file::{Kind, Udp};
use crate::parts::Places;
use crate::receive::Got;
use crate::state::lock;
use crate::{address, control};

/// Errors that wait in one socket at the most; later ones are lost, as in the kernel's full buffer.
const MOST: usize = 128;

/// An error that waits.
pub(crate) struct Waiting {
    pub(crate) errno: c_int,
    pub(crate) cause: Box<Cause>,
}

/// Those of a socket.
#[derive(Default)]
pub(crate) struct Errors(VecDeque<Waiting>);

impl Errors {
    pub(crate) fn push(&mut self, errno: c_int, cause: Option<Box<Cause>>) {
        if let Some(cause) = cause.filter(|_| self.0.len() < MOST) {
            self.0.push_back(Waiting { errno, cause });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether a connected socket fails by an error that it has not asked for.
pub(crate) fn is_fatal(cause: Option<&Cause>) -> bool {
    cause.is_none_or(|cause| !cause.may_pass())
}

/// A call with `MSG_ERRQUEUE`: it never waits.
///
/// # Safety
/// The pointers in `message` are as `recvmsg` wants them.
pub(crate) unsafe fn receive(
    fd: c_int,
    places: &Places<'_>,
    message: Option<&mut msghdr>,
) -> Answer<Got> {
    if places.is_nowhere() {
        return fail(libc::EFAULT);
    }
    let mut held = lock();
    held.of(fd)?;
    held.pump();
    let (_, file) = held.of(fd)?;
    let family = file.family;
    let Kind::Udp(Udp { errors, .. }) = &mut file.kind else { return Err(Failure::Kernel) };
    // The kernel's socket may have some; if not, it says so.
    let Some(Waiting { errno, cause }) = errors.0.pop_front() else { return Err(Failure::Kernel) };
    // As in `sock_dequeue_err_skb`: the next one is what `SO_ERROR` tells.
    file.error = errors.0.front().map_or(0, |next| next.errno);
    let octets = cause.datagram();
    let copied = places.fill(0, octets);
    let mut flags = MSG_ERRQUEUE | if copied < octets.len() { MSG_TRUNC } else { 0 };
    if let Some(message) = message {
        // SAFETY: the caller's promise.
        unsafe {
            let name = message.msg_name.cast();
            address::write(cause.remote(), family, name, &raw mut message.msg_namelen);
            flags |= control::write_error(message, family, errno, &cause);
        }
    }
    Ok(Got { octets: copied, flags })
}
