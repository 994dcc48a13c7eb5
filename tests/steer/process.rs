//! `weever steer` as a child of a test, and its files.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::Fixture;

/// Nothing here takes so long, however loaded the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const DATAGRAM: Duration = Duration::from_millis(500);

pub(crate) const POLICY: &str = r#"
[[class]]
name = "premium"
match = "udp dst port 7001"
queues = { only = [1] }
"#;

/// Files of one test.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Files {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weever-steer-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Files(folder)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Two kernels on a cable of two queues, with addresses; the left one's packets have their
/// checksums.
pub(crate) fn net() -> Fixture {
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    net.veth.left.set_checksum_offload(false).unwrap();
    net
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
    command.arg("steer").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The output of a command that ends by itself, in the right namespace.
pub(crate) fn output(net: &Fixture, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = net.right.run(|| command(args).output().unwrap());
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8(text).unwrap())
}

/// A `weever steer` that runs; killed if the test does not end it.
pub(crate) struct Steering {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) told: Vec<String>,
}

impl Steering {
    pub(crate) fn start(net: &Fixture, args: &[&str]) -> Steering {
        let mut steering = Steering::spawn(net, args);
        steering.wait_for("Ctrl-C");
        steering
    }

    /// Does not wait until it steers.
    pub(crate) fn spawn(net: &Fixture, args: &[&str]) -> Steering {
        let mut child = net.right.run(|| command(args).spawn().unwrap());
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        Steering { child, lines, told: Vec::new() }
    }

    /// Waits until it says a line with this word.
    pub(crate) fn wait_for(&mut self, word: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                drop(self.child.kill());
                let mut errors = String::new();
                let from = self.child.stderr.as_mut().unwrap();
                from.read_to_string(&mut errors).unwrap();
                panic!("it never said `{word}`, but: {:?} {errors}", self.told);
            };
            self.told.push(line.clone());
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Ends it as Ctrl-C does, and returns its last output.
    pub(crate) fn end(self) -> String {
        self.end_by(Signal::SIGINT)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn end_by(mut self, signal: Signal) -> String {
        self.signal(signal);
        let (status, errors) = self.ended();
        assert!(status.success(), "{errors}");
        // The thread that reads ends with the output.
        self.lines.iter().last().unwrap_or_default()
    }

    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status, errors)
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
