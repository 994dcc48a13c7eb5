//! Names of objects in a BPF file system.
//!
//! An object with a name there outlives the process that made it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::BpfError;
use super::program::{Attributes, Command, bpf, bpf_fd};

#[repr(C)]
#[derive(Default)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}
// SAFETY: integers only, no padding, laid out as the variant of BPF_OBJ_PIN and BPF_OBJ_GET.
unsafe impl Attributes for Object {}

/// Gives an object a name.
pub(super) fn keep(object: &impl AsFd, path: &Path) -> Result<(), BpfError> {
    let failed = |source| BpfError::call(format!("pin {}", path.display()), source);
    let name = c_path(path).map_err(failed)?;
    let fd = object.as_fd().as_raw_fd() as u32;
    let mut attributes = Object { path: name.as_ptr() as u64, fd, flags: 0 };
    // SAFETY: the path is live and ends in a zero.
    unsafe { bpf(Command::Pin, &mut attributes) }.map(drop).map_err(failed)
}

/// The object with this name, if there is one.
pub(super) fn open(path: &Path) -> Result<Option<OwnedFd>, BpfError> {
    let failed = |source| BpfError::call(format!("open {}", path.display()), source);
    let name = c_path(path).map_err(failed)?;
    let mut attributes = Object { path: name.as_ptr() as u64, ..Object::default() };
    // SAFETY: the path is live and ends in a zero; the command returns a descriptor.
    match unsafe { bpf_fd(Command::OpenPinned, &mut attributes) } {
        Ok(fd) => Ok(Some(fd)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
