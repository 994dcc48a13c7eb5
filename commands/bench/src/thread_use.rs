//! The use of a core by a thread of this process so far, by the kernel's books.

use std::io;

/// Time and context switches of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadUse {
    /// Nanoseconds on a core.
    pub(crate) cpu_ns: u64,
    /// Context switches, voluntary and not.
    pub(crate) switches: u64,
    /// Those that the thread did not ask for: somebody else was given the core.
    pub(crate) preempted: u64,
}

impl ThreadUse {
    /// The calling thread's number, for [`read`](Self::read) by another one.
    pub(crate) fn of_this_thread() -> i32 {
        nix::unistd::gettid().as_raw()
    }

    /// The use by the thread with this number.
    ///
    /// # Errors
    /// When there is no such thread.
    pub(crate) fn read(thread: i32) -> io::Result<ThreadUse> {
        let read = |file| std::fs::read_to_string(format!("/proc/self/task/{thread}/{file}"));
        let (schedstat, status) = (read("schedstat")?, read("status")?);
        let cpu_ns = schedstat.split_ascii_whitespace().next().and_then(|n| n.parse().ok());
        let switches = status.lines().filter(|line| line.contains("ctxt_switches:"));
        let switches = switches.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok());
        let cpu_ns = cpu_ns.ok_or_else(|| io::Error::other("the kernel keeps no schedstat"))?;
        // The voluntary ones come first.
        let [switches, preempted] =
            switches.fold([0; 2], |[sum, _], number| [sum + number, number]);
        Ok(ThreadUse { cpu_ns, switches, preempted })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_works_uses_time_and_one_that_sleeps_switches() {
        let thread = ThreadUse::of_this_thread();
        let before = ThreadUse::read(thread).unwrap();
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {}
        (0..5).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        let after = ThreadUse::read(thread).unwrap();
        assert!(after.cpu_ns > before.cpu_ns);
        assert!(after.switches >= before.switches + 5);
        assert!(ThreadUse::read(0).is_err());
    }
}
