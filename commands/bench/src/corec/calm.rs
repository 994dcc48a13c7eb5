//! Threads with real-time priority (`SCHED_FIFO`), which no ordinary work interrupts, and the time for which they
//! still had no core.
//!
//! At 80 % load, the loss of a core for a millisecond changes the 99th percentile of latency a hundred times more than
//! the difference to be measured. Other threads of real-time priority, and a hypervisor that reports it, still take
//! time; runs in which they took more are left out ([`pairs`](super::pairs)).

use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// While it lives, this thread and those that it starts run before the machine's ordinary work.
pub(super) struct RealTime {
    thread: String,
}

impl RealTime {
    /// As [`begin`](Self::begin), but not in tests, whose neighbours need the cores, too.
    pub(super) fn for_measuring() -> Option<RealTime> {
        if cfg!(test) { None } else { RealTime::begin() }
    }

    /// `None` where that is not allowed (it needs CAP_SYS_NICE), or without the command `chrt`.
    pub(super) fn begin() -> Option<RealTime> {
        let link = std::fs::read_link("/proc/thread-self").ok()?;
        let thread = link.file_name()?.to_str()?.to_owned();
        set("--fifo", "1", &thread).then_some(RealTime { thread })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        set("--other", "0", &self.thread);
    }
}

/// The lowest real-time priority is above all ordinary threads, and below the kernel's own real-time threads.
fn set(class: &str, priority: &str, thread: &str) -> bool {
    let mut command = Command::new("chrt");
    command.args([class, "--pid", priority, thread]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A moment of a thread, from which the time is counted that the thread loses.
pub(super) struct Moment {
    wall: Instant,
    used: u64,
}

impl Moment {
    pub(super) fn now() -> Moment {
        Moment { used: used(), wall: Instant::now() }
    }

    /// Nanoseconds since then in which the thread had no core.
    pub(super) fn lost(&self) -> u64 {
        let now = Moment::now();
        let passed = (now.wall - self.wall).as_nanos() as u64;
        passed.saturating_sub(now.used - self.used)
    }
}

/// Nanoseconds for which this thread has had a core so far: up to this moment, where `schedstat` is brought up to
/// date by the tick only.
fn used() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_without_a_core_is_counted() {
        let moment = Moment::now();
        std::thread::sleep(Duration::from_millis(20));
        let lost = moment.lost();
        assert!(lost >= 19_000_000, "{lost} ns of 20 ms asleep");
    }

    #[test]
    fn time_with_a_core_is_not() {
        // A busy machine takes the core away now and then.
        let spun = || {
            let moment = Moment::now();
            let until = Instant::now() + Duration::from_micros(500);
            while Instant::now() < until {}
            moment.lost()
        };
        let least = (0..1000).map(|_| spun()).find(|lost| *lost < 50_000);
        assert!(least.is_some(), "no half millisecond in a thousand passed on a core");
    }

    #[test]
    fn real_time_ends_with_its_guard() {
        let class = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<String> =
                stat.rsplit(')').next().unwrap().split(' ').map(String::from).collect();
            // Field 41 of proc_pid_stat(5), the policy; the first behind the bracket is field 3, after a space.
            fields[41 - 2].clone()
        };
        let Some(real_time) = RealTime::begin() else {
            return println!("skipped: needs CAP_SYS_NICE and `chrt`");
        };
        assert_eq!(class(), "1");
        assert_eq!(
            std::thread::scope(|scope| scope.spawn(class).join().unwrap()),
            "1",
            "inherited"
        );
        drop(real_time);
        assert_eq!(class(), "0");
    }
}
