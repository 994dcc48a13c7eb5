//! Programs of the system as peers: they run in a namespace for as long as a test needs them.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::Namespace;

use crate::common::peer::PATIENCE;

/// Whether a program is there; says so when it is not.
pub(crate) fn is_there(tool: &str) -> bool {
    let there = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .any(|directory| std::path::Path::new(directory).join(tool).exists());
    if !there {
        println!("skipped: needs {tool}");
    }
    there
}

/// A program, told to end when the test is over, with a directory of its own.
pub(crate) struct Tool {
    child: Child,
    pub(crate) directory: PathBuf,
}

/// A directory that no other test has.
pub(crate) fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("weever-interop-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

impl Tool {
    /// Starts it; `args` may name files in the directory.
    pub(crate) fn start(
        namespace: &Namespace,
        tool: &str,
        directory: PathBuf,
        args: &[String],
    ) -> Tool {
        let mut command = Command::new(tool);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let child = namespace.run(|| command.spawn()).unwrap();
        Tool { child, directory }
    }

    /// Has it end in order, which it may take a while for.
    pub(crate) fn end(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let end = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Runs a command to its end in a namespace.
pub(crate) fn run(namespace: &Namespace, command: &str) -> Output {
    let mut words = command.split_whitespace();
    let mut program = Command::new(words.next().unwrap());
    let output = namespace.run(|| program.args(words).output()).unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    output
}

/// Waits until something is so.
pub(crate) fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + 2 * PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
