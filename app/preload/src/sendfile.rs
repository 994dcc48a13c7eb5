//! `sendfile`: the file is read into memory piece by piece, and written to the connection.

use std::ffi::c_void;

use libc::{c_int, iovec, off_t, ssize_t};

use crate::failure::Failure;
use crate::parts::Parts;
use crate::real;
use crate::send::send;

/// Octets of a piece: as many as a connection takes at once.
const PIECE: usize = 256 * 1024;

/// `sendfile` to one of weever's sockets. The file's position moves by what was sent, as on Linux.
///
/// # Safety
/// `offset` is null or valid.
pub(crate) unsafe fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> ssize_t {
    // SAFETY: the caller's promise; the file's own position where there is none.
    let start = match unsafe { offset.as_ref() } {
        Some(offset) => *offset,
        // SAFETY: it has no pointers.
        None => unsafe { libc::lseek(from, 0, libc::SEEK_CUR) },
    };
    if start < 0 {
        return -1;
    }
    let mut piece = vec![0u8; PIECE.min(count)];
    let mut done = 0usize;
    let mut failure = None;
    while done < count {
        let want = piece.len().min(count - done);
        let at = start + done as off_t;
        // SAFETY: that many writable bytes.
        let got = unsafe { libc::pread(from, piece.as_mut_ptr().cast::<c_void>(), want, at) };
        if got <= 0 {
            failure = (got < 0).then(real::errno);
            break;
        }
        let part = iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: got as usize };
        // SAFETY: the piece, of which so much was read.
        let parts = unsafe { Parts::new(std::slice::from_ref(&part)) };
        match send(to, &parts, 0, None, None) {
            Ok(sent) => {
                done += sent;
                if sent < got as usize {
                    break;
                }
            }
            Err(why) => {
                failure = Some(if let Failure::Errno(errno) = why { errno } else { libc::EBADF });
                break;
            }
        }
    }
    if done == 0
        && let Some(errno) = failure
    {
        real::set_errno(errno);
        return -1;
    }
    let end = start + done as off_t;
    // SAFETY: the caller's promise.
    match unsafe { offset.as_mut() } {
        Some(offset) => *offset = end,
        // SAFETY: it has no pointers.
        None => drop(unsafe { libc::lseek(from, end, libc::SEEK_SET) }),
    }
    done as ssize_t
}
