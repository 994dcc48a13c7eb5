//! Which core a thread runs on.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

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
