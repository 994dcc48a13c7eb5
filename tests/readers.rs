//! Readers that go away while the program writes: no reason to panic, nor for another exit status.

use std::io::pipe;
use std::process::{Command, Stdio};

/// The exit status when nobody reads the output.
fn unread(args: &[&str]) -> Option<i32> {
    let writer = || Stdio::from(pipe().expect("a pipe").1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
    command.args(args).stdin(Stdio::null()).stdout(writer()).stderr(writer());
    command.status().expect("it runs").code()
}

#[test]
fn nobody_reads_and_the_status_is_the_same() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/nic/xdp.unicorn");
    for (args, status) in [
        (&["graph", "show", model][..], 0),
        (&["graph", "check", "-"], 1),
        (&["plan", "--nic", "xdp", "--queues", "4", "--flows", "/dev/null"], 0),
        (&["plan", "--nic", "none", "--flows", "/dev/null"], 2),
        (&["plan", "--nic", "xdp", "--queues", "4", "--flows", "-", "--explain"], 0),
        (&["policy", "check", "/dev/null"], 0),
        (&["policy", "check", model], 1),
        (&["up"], 2),
        (&["up", "--dev", "x", "--addr", "10.0.0.1/24", "--log", "loud"], 2),
        (&["status", "--socket", "/nonexistent/x.sock"], 1),
        (&["completions", "bash"], 0),
    ] {
        assert_eq!(unread(args), Some(status), "{args:?}");
    }
}
