//! Descriptors of sockets that are sent to other processes (`SCM_RIGHTS`, unix(7)).
//!
//! A connection's holder and files with the waiting datagrams of others go along, behind the program's descriptors, with
//! a [description](crate::handover) of each socket. The receiving process' shim takes these out before its program sees
//! the message. On its way the holder keeps the connection: it is closed if no process receives it.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use libc::{SCM_RIGHTS, SOL_SOCKET, c_int, cmsghdr, msghdr, ssize_t};

use crate::behind::option;
use crate::handover::{self, MAGIC};
use crate::state::lock;
use crate::{inside, numbers, real};

/// Octets of the control part for descriptors that are sent along with the program's own.
const MORE: usize = 256;
/// The longest control part that is examined.
const MOST: usize = 4096;
const HEAD: usize = size_of::<cmsghdr>();

/// A control part, aligned as the kernel wants it.
#[repr(align(8))]
struct Control([u8; MOST + MORE]);

/// One control message: its level, its type and its octets.
struct Part {
    level: c_int,
    kind: c_int,
    octets: Vec<u8>,
}

impl Part {
    fn is_rights(&self) -> bool {
        (self.level, self.kind) == (SOL_SOCKET, SCM_RIGHTS)
    }

    fn descriptors(&self) -> Vec<c_int> {
        let words = self.octets.chunks_exact(size_of::<c_int>());
        words.map(|word| c_int::from_ne_bytes(word.try_into().unwrap_or_default())).collect()
    }
}

fn octets_of(fds: &[c_int]) -> Vec<u8> {
    fds.iter().flat_map(|fd| fd.to_ne_bytes()).collect()
}

/// The messages of a control part.
///
/// # Safety
/// It is readable, as the header says.
unsafe fn parts(message: &msghdr) -> Vec<Part> {
    let mut parts = Vec::new();
    // SAFETY: the caller's promise; the C library's walk stays inside.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = at.as_ref() {
            let len = head.cmsg_len.saturating_sub(HEAD);
            let octets = std::slice::from_raw_parts(libc::CMSG_DATA(at), len).to_vec();
            parts.push(Part { level: head.cmsg_level, kind: head.cmsg_type, octets });
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    parts
}

/// Messages behind each other.
struct Written {
    /// Octets.
    len: usize,
    /// Something had no room.
    cut: bool,
    /// Descriptors for which there was no room.
    left_out: Vec<c_int>,
}

fn write(parts: &[Part], to: &mut [u8]) -> Written {
    let (mut at, mut end, mut cut, mut left_out) = (0, 0, false, Vec::new());
    for part in parts {
        let room = to.len().saturating_sub(at + HEAD);
        let mut len = part.octets.len().min(room);
        if part.is_rights() {
            len -= len % size_of::<c_int>();
        }
        cut |= len < part.octets.len();
        if part.is_rights() {
            left_out.extend(&part.descriptors()[len / size_of::<c_int>()..]);
        }
        if len == 0 {
            continue;
        }
        to[at..at + 8].copy_from_slice(&(HEAD + len).to_ne_bytes());
        to[at + 8..at + 12].copy_from_slice(&part.level.to_ne_bytes());
        to[at + 12..at + 16].copy_from_slice(&part.kind.to_ne_bytes());
        to[at + HEAD..at + HEAD + len].copy_from_slice(&part.octets[..len]);
        end = at + HEAD + len;
        at = (end + 7) & !7;
    }
    Written { len: at.min(to.len()).max(end), cut, left_out }
}

fn close_all(fds: &[c_int]) {
    // SAFETY: descriptors that the program never knew.
    fds.iter().for_each(|fd| _ = unsafe { real::close(*fd) });
}

/// Sends a message with descriptors of weever's sockets; `None` when it has none.
///
/// # Safety
/// As `sendmsg` of the C library.
pub(crate) unsafe fn send(fd: c_int, message: &msghdr, flags: c_int) -> Option<ssize_t> {
    if message.msg_control.is_null() || message.msg_controllen > MOST || inside::is_chosen() {
        return None;
    }
    // SAFETY: the caller's promise.
    let mut parts = unsafe { parts(message) };
    let rights = parts.iter_mut().find(|part| part.is_rights())?;
    let mut fds = rights.descriptors();
    let (text, companions) = lock().describe_sent(&fds)?;
    fds.extend(companions.iter().map(|companion| companion.as_fd().as_raw_fd()));
    let names: Vec<String> = fds.iter().map(c_int::to_string).collect();
    let description = handover::sealed(&format!("{MAGIC}numbers {}\n{text}", names.join(",")))?;
    fds.push(description);
    rights.octets = octets_of(&fds);
    let mut control = Control([0; MOST + MORE]);
    let Written { len, cut, .. } = write(&parts, &mut control.0);
    let mut larger = *message;
    (larger.msg_control, larger.msg_controllen) = (control.0.as_mut_ptr().cast(), len);
    // SAFETY: the caller's promise, and a control part of this function's.
    let sent = (!cut).then(|| unsafe { real::sendmsg(fd, &larger, flags) });
    let errno = real::errno();
    close_all(&[description]);
    drop(companions);
    real::set_errno(errno);
    sent
}

/// Receives a message whose control part may have descriptors of weever's sockets; `None` when it cannot
/// have any.
///
/// # Safety
/// As `recvmsg` of the C library.
pub(crate) unsafe fn receive(fd: c_int, message: &mut msghdr, flags: c_int) -> Option<ssize_t> {
    let room = message.msg_controllen;
    let fits = (HEAD + size_of::<c_int>()..=MOST).contains(&room);
    if message.msg_control.is_null() || !fits || flags & libc::MSG_PEEK != 0 || inside::is_chosen()
    {
        return None;
    }
    if option::<c_int>(fd, SOL_SOCKET, libc::SO_DOMAIN) != Some(libc::AF_UNIX) {
        return None;
    }
    let mut control = Control([0; MOST + MORE]);
    let mut larger = *message;
    (larger.msg_control, larger.msg_controllen) = (control.0.as_mut_ptr().cast(), room + MORE);
    // SAFETY: the caller's promise, and a control part of this function's.
    let got = unsafe { real::recvmsg(fd, &mut larger, flags) };
    let errno = real::errno();
    if got >= 0 {
        // SAFETY: the kernel has written it.
        let mut parts = unsafe { parts(&larger) };
        for part in parts.iter_mut().filter(|part| part.is_rights()) {
            let mut fds = part.descriptors();
            unpack(&mut fds);
            part.octets = octets_of(&fds);
        }
        // SAFETY: as long as the program has said.
        let to = unsafe { std::slice::from_raw_parts_mut(message.msg_control.cast::<u8>(), room) };
        let Written { len, cut, left_out } = write(&parts, to);
        close_all(&left_out);
        message.msg_controllen = len;
        message.msg_namelen = larger.msg_namelen;
        message.msg_flags = larger.msg_flags | if cut { libc::MSG_CTRUNC } else { 0 };
    }
    real::set_errno(errno);
    Some(got)
}

/// Takes out what was sent along with a program's descriptors, and makes
/// these sockets of weever.
fn unpack(fds: &mut Vec<c_int>) {
    let Some(text) = fds.last().and_then(|last| handover::read(*last)) else { return };
    let Some((first, lines)) = text.split_once('\n') else { return };
    let Some(names) = first.strip_prefix("numbers ") else { return };
    close_all(&fds[fds.len() - 1..]);
    fds.pop();
    let names = names.split(',').filter_map(|name| name.parse::<c_int>().ok());
    let now: Vec<(c_int, c_int)> = names.zip(fds.iter().copied()).collect();
    // What came along is behind the program's descriptors.
    let own = lock().take_lines(lines, Some(&now), &[]);
    fds.truncate(fds.len().saturating_sub(own));
    debug_assert!(fds.iter().all(|fd| numbers::meaning(*fd) != Some(numbers::Meaning::Internal)));
}
