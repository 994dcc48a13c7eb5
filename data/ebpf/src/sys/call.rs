//! The system call itself.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Commands of `bpf(2)`, numbered as in `<linux/bpf.h>`.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    ProgramTestRun = 10,
    MapDrain = 25,
    LinkCreate = 28,
    LinkUpdate = 29,
}

/// A variant of `union bpf_attr`: plain integers without padding, addresses as `u64`.
///
/// # Safety
/// The type is `repr(C)`, made of integers only, has no padding, and is laid out as the kernel's
/// variant for the command it is used with.
pub(super) unsafe trait Attributes {}

/// An object name as the kernel stores it: up to 15 bytes of `[A-Za-z0-9_.]`, then zeros.
pub(super) fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    let kept = name.bytes().map(|b| if allowed(&b) { b } else { b'_' });
    bytes[..15].iter_mut().zip(kept).for_each(|(to, from)| *to = from);
    bytes
}

/// How often EAGAIN is taken for a passing state: the verifier gives it when a signal is pending.
const TRIES: u32 = 5;

/// One call, repeated if a signal interrupts it before it did anything.
///
/// # Safety
/// Every address in `attributes` is valid for the command's reads and writes there.
pub(super) unsafe fn bpf<A: Attributes>(command: Command, attributes: &mut A) -> io::Result<i32> {
    let mut tries = 0;
    loop {
        // SAFETY: the caller's word.
        let result = unsafe { bpf_once(command, attributes) };
        match result.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) if tries < TRIES => tries += 1,
            _ => return result,
        }
    }
}

/// One call, not repeated.
///
/// # Safety
/// As [`bpf`].
pub(super) unsafe fn bpf_once<A: Attributes>(
    command: Command,
    attributes: &mut A,
) -> io::Result<i32> {
    let address: *mut A = attributes;
    // SAFETY: `address` and the size describe a live `A`; the caller vouches for the addresses in
    // it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as i32, address, size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// A call that returns a new descriptor.
///
/// # Safety
/// As [`bpf`], and the command returns a descriptor.
pub(super) unsafe fn bpf_fd<A: Attributes>(
    command: Command,
    attributes: &mut A,
) -> io::Result<OwnedFd> {
    // SAFETY: the caller's word.
    let fd = unsafe { bpf(command, attributes)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The address of a slice as the kernel takes it.
pub(super) fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

/// The address of a slice that the kernel writes.
pub(super) fn address_mut<T>(slice: &mut [T]) -> u64 {
    slice.as_mut_ptr() as u64
}
