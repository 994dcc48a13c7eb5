//! Time that is the measurement's own: as a thread of real time, it waits for nobody else's work, and what is taken
//! from it all the same is counted.
//!
//! At 80 % load, a core that is gone for a millisecond moves the 99th percentile of latency a hundred times further
//! than what is measured. Interrupts and the hypervisor still take some time; runs in which they took more are
//! left out ([`pairs`](super::pairs)).

use std::process::{Command, Stdio};
use std::time::Instant;

/// While it lives, this thread and those that it starts run before the machine's ordinary work.
pub(super) struct RealTime {
    thread: String,
}

impl RealTime {
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

/// The lowest class of real time is above all ordinary threads, and below those of the kernel that are above it too.
fn set(class: &str, priority: &str, thread: &str) -> bool {
    let mut command = Command::new("chrt");
    command.args([class, "--pid", priority, thread]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A moment of a thread, to see later how much of the time since then it did not get.
pub(super) struct Moment {
    wall: Instant,
    used: u64,
}

impl Moment {
    pub(super) fn now() -> Moment {
        // The kernel brings its account of a thread up to date when that yields.
        std::thread::yield_now();
        Moment { used: used(), wall: Instant::now() }
    }

    /// Nanoseconds in which the thread wanted to run and did not. Zero on a kernel without such an account.
    pub(super) fn lost(&self) -> u64 {
        let now = Moment::now();
        let passed = (now.wall - self.wall).as_nanos() as u64;
        if now.used == 0 { 0 } else { passed.saturating_sub(now.used - self.used) }
    }
}

/// Nanoseconds for which this thread has had a core so far.
fn used() -> u64 {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    account.split_ascii_whitespace().next().and_then(|used| used.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_without_a_core_is_counted() {
        let moment = Moment::now();
        if moment.used == 0 {
            return println!("skipped: the kernel keeps no account of threads");
        }
        std::thread::sleep(Duration::from_millis(20));
        let lost = moment.lost();
        assert!(lost >= 19_000_000, "{lost} ns of 20 ms asleep");
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
