//! Loading programs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::BpfError;
use super::call::{Attributes, Command, address, address_mut, bpf_fd, object_name};
use super::rejection::Rejection;
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
