//! The cores that threads run on.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Zero stands for the calling thread in the affinity calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// The cores that the calling thread may run on, in ascending order.
///
/// # Errors
/// When the system does not say.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(THIS_THREAD)?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

/// Binds the calling thread to one core.
pub(crate) fn bind(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}
