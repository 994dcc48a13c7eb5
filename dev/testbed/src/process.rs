//! The test's own process: its privileges, and the cores of its threads.

use std::io;
use std::sync::OnceLock;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare};
use nix::unistd::Pid;

use crate::Namespace;

/// The line that a test prints when it may not run; scripts look for exactly this line.
pub const SKIPPED: &str = "skipped: needs CAP_NET_ADMIN";

/// True if this process may create network namespaces and links.
///
/// Found out by trying once, since capabilities alone do not show whether a container's seccomp
/// filter allows it. The answer is kept for the life of the process.
#[must_use]
pub fn privileged() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| Namespace::new().is_ok())
}

/// Returns from the enclosing function, after printing [`SKIPPED`], unless the process is
/// [`privileged`]. An argument is the value to return.
#[macro_export]
macro_rules! require_net_admin {
    () => {
        $crate::require_net_admin!(())
    };
    ($value:expr) => {
        if !$crate::privileged() {
            println!("{}", $crate::SKIPPED);
            return $value;
        }
    };
}

/// Zero stands for the calling thread in the affinity calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// Binds the calling thread to one core, counted from 0.
///
/// # Errors
/// `EINVAL` if the core does not exist or the process may not use it.
pub fn pin_to(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}

/// The cores that the calling thread may run on, in ascending order.
///
/// # Errors
/// The error of `sched_getaffinity`.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(THIS_THREAD)?;
    Ok((0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).collect())
}

/// Where [`own_bpf_files`] mounts: the usual place.
pub const BPF_FILES: &str = "/sys/fs/bpf";

/// Gives the calling thread, and the threads and processes that it starts from now on, an empty BPF file system at
/// [`BPF_FILES`] that nobody else sees and that ends with them.
///
/// # Errors
/// The kernel's word: EPERM without CAP_SYS_ADMIN, ENODEV without eBPF.
pub fn own_bpf_files() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    Ok(mount(Some("bpf"), BPF_FILES, Some("bpf"), MsFlags::empty(), nothing)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_that_core_only() {
        let core = *allowed_cores().unwrap().last().unwrap();
        let seen = std::thread::spawn(move || pin_to(core).and_then(|()| allowed_cores()));
        assert_eq!(seen.join().unwrap().unwrap(), [core]);
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(std::thread::spawn(|| pin_to(1023)).join().unwrap().is_err());
        assert!(pin_to(usize::MAX).is_err());
    }
}
