//! Privileges of a stack that runs: only the needed ones are left, and everything works as before.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use weever_testbed::{Fixture, allowed_cores, require_net_admin};

use super::stack::{ECHO, PATIENCE, Up, echo, net, temporary};

/// The field of every thread's `/proc/PID/task/TID/status`, each value once.
fn of_threads(up: &Up, field: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", up.child.id())).unwrap();
    let mut values: Vec<String> = tasks
        .map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap())
        .map(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            line.trim_start_matches(':').trim().to_owned()
        })
        .collect();
    values.sort();
    values.dedup();
    values
}

/// NET_ADMIN, NET_RAW, IPC_LOCK, PERFMON and BPF.
const NEEDED: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 38 | 1 << 39;

/// With two workers, so that there is a program with filters.
const POLICY: &str =
    "[[class]]\nname = \"gold\"\nmatch = \"udp dst port 7001\"\nqueues = { exclusive = 1 }\n";

#[test]
fn a_stack_that_runs_has_only_what_it_needs_and_can_be_changed() {
    require_net_admin!();
    let (net, policy) = (net(2), temporary("policy"));
    fs::write(&policy, POLICY).unwrap();
    let mut args = vec!["--metrics", "127.0.0.1:0"];
    let has_policy = allowed_cores().unwrap().starts_with(&[0, 1]);
    if has_policy {
        args.extend(["--cores", "0-1", "--policy", policy.to_str().unwrap()]);
    } else {
        println!("skipped: a policy needs two cores");
    }
    let up = Up::start(&net, &args);
    assert_eq!(of_threads(&up, "NoNewPrivs"), ["1"]);
    assert_eq!(of_threads(&up, "Seccomp"), ["2"], "a filter is in place");
    for field in ["CapEff", "CapPrm"] {
        let capabilities = of_threads(&up, field);
        let [one] = &capabilities[..] else { panic!("{capabilities:?}") };
        assert_eq!(u64::from_str_radix(one, 16).unwrap() & !NEEDED, 0, "{field} {one}");
        assert_ne!(u64::from_str_radix(one, 16).unwrap() & 1 << 12, 0, "{field} {one}");
    }
    echo(&net, &[64, 1000]);
    asks_and_changes(&net, &up, has_policy);
    echo(&net, &[64, 1000]);
    up.signal(Signal::SIGTERM);
    assert!(up.end().0.success());
    drop(fs::remove_file(policy));
}

/// All that touches the kernel while a stack runs: addresses in the steering program, filters for new
/// flows, ports, the graph, captures, counters over TCP.
fn asks_and_changes(net: &Fixture, up: &Up, has_policy: bool) {
    up.ask(&[
        "set",
        "interface.left0.addr+=10.77.0.77/24",
        "interface.left0.addr+=2001:db8::77/64",
    ]);
    up.ask(&["set", "interface.left0.mtu=1400", "interface.left0.groups+=239.1.2.3"]);
    up.ask(&["set", "route.198.51.100.0/24=10.77.0.1", "services.discard=7001"]);
    let sender = net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    sender.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // It is used once nobody else has claimed it.
    let deadline = Instant::now() + PATIENCE;
    loop {
        sender.send_to(b"to the new address", ("10.77.0.77", ECHO)).unwrap();
        if sender.recv(&mut [0; 64]).is_ok() {
            break;
        }
        assert!(Instant::now() < deadline, "the steering program lacks the new address");
    }
    let filters = up.ask(&["queues", "--filters", "9"]);
    assert!(!filters.contains("problem"), "{filters}");
    if has_policy {
        assert!(filters.contains("7001"), "{filters}");
    }
    up.ask(&["flows"]);
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/models/proto/host.unicorn");
    up.ask(&["graph", "apply", host]);
    up.ask(&["set", "services.discard=none", "interface.left0.mtu=1500"]);
    up.ask(&["set", "interface.left0.addr-=10.77.0.77/24"]);
    let line = up.banner.lines().find(|line| line.contains("http://")).unwrap();
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics");
    let page = net.left.run(|| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    });
    assert!(page.contains("weever_"), "{page}");
}

#[test]
fn privileges_are_kept_on_request() {
    require_net_admin!();
    let net = net(1);
    let up = Up::start(&net, &["--no-drop-privileges"]);
    assert_eq!(of_threads(&up, "Seccomp"), of_self("Seccomp"));
    assert_eq!(of_threads(&up, "CapEff"), of_self("CapEff"));
    assert_eq!(of_threads(&up, "NoNewPrivs"), of_self("NoNewPrivs"));
}

fn of_self(field: &str) -> [String; 1] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    [line.trim_start_matches(':').trim().to_owned()]
}
