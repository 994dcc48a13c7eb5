//! SIGHUP: a stack that runs goes on with its policy and flows as they are now.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use nix::sys::signal::Signal;
use weever_testbed::{allowed_cores, require_net_admin};

use super::stack::{PATIENCE, Up, echo, net, temporary};

/// A class for a port, with a queue of its own.
fn write_class(policy: &Path, flows: &Path, port: u16) {
    let class = format!("[[class]]\nname = \"gold\"\nmatch = \"udp dst port {port}\"\n");
    fs::write(policy, class + "queues = { exclusive = 1 }\n").unwrap();
    fs::write(flows, format!("udp 10.77.0.2:5001 -> 10.77.0.10:{port}\n")).unwrap();
}

/// The log of a stack, line by line.
fn log_of(up: &mut Up) -> Receiver<String> {
    let (errors, (send, receive)) = (up.errors.take().unwrap(), channel());
    std::thread::spawn(move || {
        BufReader::new(errors).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    receive
}

/// Waits for a line of the log.
fn wait_for(log: &Receiver<String>, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        let line = log.recv_timeout(rest);
        if line.unwrap_or_else(|_| panic!("no line with `{wanted}`")).contains(wanted) {
            return;
        }
    }
}

#[test]
fn a_policy_is_read_again_on_sighup() {
    require_net_admin!();
    if !allowed_cores().unwrap().starts_with(&[0, 1]) {
        println!("skipped: a policy needs two cores");
        return;
    }
    let (net, policy, flows) = (net(2), temporary("policy"), temporary("flows"));
    write_class(&policy, &flows, 7001);
    let files = [policy.to_str().unwrap(), flows.to_str().unwrap()];
    let args = ["--cores", "0-1", "--policy", files[0], "--flows", files[1]];
    let mut up = Up::start(&net, &args);
    let log = log_of(&mut up);
    let filters = |up: &Up| up.ask(&["queues", "--filters", "9"]);
    assert!(filters(&up).contains("7001"), "{}", filters(&up));

    write_class(&policy, &flows, 7002);
    up.signal(Signal::SIGHUP);
    wait_for(&log, "were read again");
    let now = filters(&up);
    assert!(now.contains("7002") && !now.contains("7001"), "{now}");
    echo(&net, &[64]);

    let shares = "[sharing]\nmode = \"shared\"\n";
    for (wrong, why) in [
        ("[[class]]\nname = 5\n", "former policy stays"),
        (
            "[[class]]\nname = \"gold\"\nmatch = \"udp dst port 7002\"\nqueues = { exclusive = 9 }\n",
            "cannot be satisfied",
        ),
        (shares, "`[sharing]` cannot change while the stack runs"),
    ] {
        fs::write(&policy, wrong).unwrap();
        up.signal(Signal::SIGHUP);
        wait_for(&log, why);
        assert!(filters(&up).contains("7002"), "{why}");
    }
    fs::remove_file(&policy).unwrap();
    up.signal(Signal::SIGHUP);
    wait_for(&log, "cannot read");
    echo(&net, &[64, 1000]);
    up.signal(Signal::SIGTERM);
    assert!(up.end().0.success());
    fs::remove_file(&flows).unwrap();
}

/// A single worker has no filters: a policy that it cannot satisfy is refused all the same.
#[test]
fn a_stack_of_one_worker_refuses_a_policy_that_cannot_be_satisfied() {
    require_net_admin!();
    let (net, policy) = (net(1), temporary("policy"));
    fs::write(&policy, "objective = \"balance\"\n").unwrap();
    let mut up = Up::start(&net, &["--cores", "0", "--policy", policy.to_str().unwrap()]);
    let log = log_of(&mut up);
    let class = "[[class]]\nname = \"gold\"\nmatch = \"udp dst port 7002\"\n";
    fs::write(&policy, format!("{class}queues = {{ exclusive = 9 }}\n")).unwrap();
    up.signal(Signal::SIGHUP);
    wait_for(&log, "cannot be satisfied");
    fs::write(&policy, class).unwrap();
    up.signal(Signal::SIGHUP);
    wait_for(&log, "were read again");
    up.signal(Signal::SIGTERM);
    assert!(up.end().0.success());
    fs::remove_file(&policy).unwrap();
}

#[test]
fn without_a_policy_sighup_changes_nothing() {
    require_net_admin!();
    let net = net(1);
    let mut up = Up::start(&net, &[]);
    let log = log_of(&mut up);
    up.signal(Signal::SIGHUP);
    wait_for(&log, "no policy to read again");
    echo(&net, &[64]);
    up.signal(Signal::SIGTERM);
    assert!(up.end().0.success());
}
