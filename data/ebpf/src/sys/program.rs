//! Loading programs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use super::BpfError;
use super::error::Rejection;
use crate::asm::Program;

/// `BPF_PROG_TYPE_XDP`.
const TYPE_XDP: u32 = 6;
/// `BPF_XDP` of `enum bpf_attach_type`.
pub(super) const ATTACH_XDP: u32 = 37;
/// None of the helpers used here is reserved for GPL programs.
const LICENSE: &[u8] = b"MIT\0";
const LOG_START: usize = 1 << 18;
const LOG_LIMIT: usize = 1 << 24;

/// An XDP program in the kernel, which frees it with the last descriptor and attachment.
#[derive(Debug)]
pub struct XdpProgram {
    fd: OwnedFd,
    name: String,
}

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    slot_count: u32,
    slots: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach: u32,
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_PROG_LOAD.
unsafe impl Attributes for Load {}

impl XdpProgram {
    /// Has the kernel verify and compile a program. `name` is for people; 15 characters are kept.
    /// Maps it names must be open.
    ///
    /// # Errors
    /// [`BpfError::Rejected`] with the verifier's words beside the instruction they are about;
    /// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN.
    pub fn load(name: &str, program: &Program) -> Result<XdpProgram, BpfError> {
        let loaded = attempt(name, program, &mut []);
        let fd = loaded.map_err(|source| explain(name, program, source))?;
        Ok(XdpProgram { fd, name: name.to_owned() })
    }

    /// The program's name, as given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for XdpProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn attempt(name: &str, program: &Program, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attributes = Load {
        kind: TYPE_XDP,
        slot_count: program.slots().len() as u32,
        slots: address(program.slots()),
        license: address(LICENSE),
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { address_mut(log) },
        name: object_name(name),
        expected_attach: ATTACH_XDP,
        ..Load::default()
    };
    // SAFETY: slots, license (terminated) and log are live and of the sizes given.
    unsafe { bpf_fd(Command::ProgramLoad, &mut attributes) }
}

/// The log costs time, so it is only asked for once the program is known to be rejected.
fn explain(name: &str, program: &Program, source: io::Error) -> BpfError {
    if matches!(source.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
        return BpfError::call(format!("load XDP program `{name}`"), source);
    }
    let log = verifier_log(name, program);
    BpfError::Rejected(Box::new(Rejection::new(name, program, log, source)))
}

fn verifier_log(name: &str, program: &Program) -> String {
    let mut size = LOG_START;
    loop {
        let mut log = vec![0; size];
        let outcome = attempt(name, program, &mut log);
        let full = outcome.is_err_and(|e| e.raw_os_error() == Some(libc::ENOSPC));
        if !full || size >= LOG_LIMIT {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            return String::from_utf8_lossy(&log[..end]).into_owned();
        }
        size *= 4;
    }
}

/// Commands of `bpf(2)`, numbered as in `<linux/bpf.h>`.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    Pin = 6,
    OpenPinned = 7,
    ProgramTestRun = 10,
    ObjectInfo = 15,
    MapDrain = 25,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkDetach = 34,
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
