//! Lines about sockets that are not on weever, with the reasons, on request.
//!
//! `WEEVER_PRELOAD_LOG=1` writes them to standard error, `WEEVER_PRELOAD_LOG=/a/path` to the end of a file. A line
//! is one write, without buffers, so that processes and threads do not mix theirs.

use std::ffi::CString;
use std::fmt::{Arguments, Write};
use std::sync::OnceLock;

/// Where lines go: a descriptor's number for standard error, a path otherwise.
enum Target {
    Nowhere,
    Errors,
    File(CString),
}

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| match std::env::var("WEEVER_PRELOAD_LOG") {
        Ok(value) if value.starts_with('/') => {
            CString::new(value).map_or(Target::Nowhere, Target::File)
        }
        Ok(value) if !value.is_empty() && value != "0" => Target::Errors,
        _ => Target::Nowhere,
    })
}

/// Reads the environment, which some programs clear later.
pub(crate) fn prepare() {
    target();
}

fn line(text: Arguments<'_>) -> String {
    let mut line = String::new();
    // SAFETY: it has no arguments.
    let process = unsafe { libc::getpid() };
    // Writing to a string does not fail.
    let _ = writeln!(line, "weever-preload[{process}]: {text}");
    line
}

fn put(fd: i32, line: &str) {
    // SAFETY: a range of memory that is borrowed. A failure to write a log is nobody's concern.
    unsafe { libc::syscall(libc::SYS_write, fd, line.as_ptr(), line.len()) };
}

/// Writes a line if lines were asked for.
pub(crate) fn note(text: Arguments<'_>) {
    match target() {
        Target::Nowhere => {}
        Target::Errors => put(2, &line(text)),
        Target::File(path) => {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
            // SAFETY: a path that ends with a zero; the descriptor is closed below, and nobody else's.
            unsafe {
                let fd =
                    libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o644);
                if fd >= 0 {
                    put(fd as i32, &line(text));
                    libc::syscall(libc::SYS_close, fd);
                }
            }
        }
    }
}

/// Writes a line to standard error in any case.
pub(crate) fn always(text: Arguments<'_>) {
    put(2, &line(text));
}
