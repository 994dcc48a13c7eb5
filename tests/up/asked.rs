//! Commands that ask a stack that runs, or find none.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::signal::Signal;
use weever_testbed::{Fixture, require_net_admin};

use super::stack::{ECHO, PATIENCE, STACK, Up, complaint, echo, net, socket, temporary, weever};

#[test]
fn a_reader_may_close_early() {
    require_net_admin!();
    let net = net(1);
    let up = Up::start(&net, &["--mode", "interrupt"]);
    let socket = up.socket.to_str().unwrap();
    for command in [
        &["counters"][..],
        &["counters", "--json"],
        &["counters", "--watch", "0.1"],
        &["status"],
        &["graph", "svg"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_weever"));
        program.args(command).args(["--socket", socket]).stdout(writer);
        let output = program.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn counters_are_watched_until_the_stack_ends() {
    require_net_admin!();
    let net = net(1);
    let up = Up::start(&net, &["--mode", "interrupt"]);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_weever"))
        .args(["counters", "--json", "--watch", "0.1", "--socket"])
        .arg(&up.socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut uptime = || {
        let json: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        json["uptime_ns"].as_u64().unwrap()
    };
    assert!(uptime() < uptime());
    drop(up);
    let output = watch.wait_with_output().unwrap();
    // It was killed: between two readings, or in the middle of one.
    let said = complaint(&output);
    let ended =
        said.contains("no weever stack listens") || said.contains("broke: Connection reset");
    assert!(ended, "{said}");
}

#[test]
fn what_the_link_lost_is_among_the_drops() {
    require_net_admin!();
    let net = net(1);
    let up = Up::start(&net, &["--frames", "1024", "--mode", "interrupt"]);
    echo(&net, &[64]);
    // More than the rings hold arrives while the stack stands still.
    up.signal(Signal::SIGSTOP);
    let flood = socket(&net.right, Fixture::RIGHT);
    for _ in 0..10_000 {
        drop(flood.send_to(&[0; 64], (STACK, ECHO)));
    }
    up.signal(Signal::SIGCONT);
    let deadline = Instant::now() + PATIENCE;
    let drops = loop {
        let drops = up.ask(&["counters", "--drops"]);
        if drops.contains("left0 queue 0") || Instant::now() > deadline {
            break drops;
        }
    };
    assert!(drops.contains("ring full, or no free frame"), "{drops}");
    let json = up.ask(&["counters", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let lost = json["links"][0]["rx_dropped"].as_u64().unwrap();
    let drops = json["drops"].as_array().unwrap().iter();
    let by_queue = drops.filter(|d| d["node"] == "left0 queue 0").map(|d| d["packets"].as_u64());
    assert!(lost > 1000 && by_queue.sum::<Option<u64>>() == Some(lost), "{json}");
}

#[test]
fn the_number_of_a_queues_workers_is_set_while_it_answers() {
    require_net_admin!();
    let cores = weever_testbed::allowed_cores().unwrap();
    let [first, second, ..] = cores[..] else {
        return println!("skipped: needs two cores");
    };
    let net = net(1);
    let cores = format!("{first},{second}");
    let up = Up::start(&net, &["--mode", "interrupt", "--cores", &cores, "--threads", "1"]);
    let queues =
        || -> serde_json::Value { serde_json::from_str(&up.ask(&["queues", "--json"])).unwrap() };
    for threads in [2, 1, 2] {
        up.ask(&["queue", "set", "left0", &format!("threads={threads}")]);
        let queues = queues();
        let all = queues["queues"].as_array().unwrap();
        assert!(all.len() == 2 && all.iter().all(|queue| queue["threads"] == threads), "{queues}");
        echo(&net, &[64, 100]);
    }
    let socket = up.socket.to_str().unwrap();
    let refused = weever(&net.left, &["queue", "set", "left0", "threads=3", "--socket", socket]);
    assert!(complaint(&refused).contains("use 1 to 2"), "{refused:?}");
    let refused = weever(&net.left, &["queue", "set", "left9", "threads=1", "--socket", socket]);
    assert!(complaint(&refused).contains("there are left0"), "{refused:?}");
    assert_eq!(queues()["queues"][0]["threads"], 2, "a refusal changes nothing");
    echo(&net, &[64]);
}

#[test]
fn a_device_that_is_removed_ends_it_with_a_reason() {
    require_net_admin!();
    let net = net(2);
    let mut up = Up::start(&net, &["--mode", "busy"]);
    echo(&net, &[64]);
    net.veth.clone().delete().unwrap();
    let errors = up.errors.take().unwrap();
    assert_eq!(up.end().0.code(), Some(1));
    let complaint = std::io::read_to_string(errors).unwrap();
    assert!(complaint.contains("left0"), "{complaint}");
}

#[test]
fn commands_say_when_nothing_runs() {
    let nowhere = temporary("sock");
    for command in [&["status"][..], &["counters"], &["stop"], &["graph", "svg"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_weever"))
            .args(command)
            .arg("--socket")
            .arg(&nowhere)
            .output()
            .unwrap();
        let complaint = complaint(&output);
        assert_eq!(output.status.code(), Some(1));
        assert!(complaint.contains(nowhere.to_str().unwrap()), "{complaint}");
        assert!(complaint.contains("weever up"), "{complaint}");
    }
}

#[test]
fn without_rights_it_says_which_are_missing() {
    require_net_admin!();
    let net = net(1);
    if !Path::new("/usr/bin/setpriv").exists() {
        println!("skipped: needs setpriv");
        return;
    }
    // The program may lie where nobody else may read.
    let copy = temporary("bin");
    std::fs::copy(env!("CARGO_BIN_EXE_weever"), &copy).unwrap();
    let output = net.left.run(|| {
        Command::new("/usr/bin/setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&copy)
            .args(["up", "--dev", "left0", "--addr", "10.77.0.10/24"])
            .output()
            .unwrap()
    });
    std::fs::remove_file(copy).unwrap();
    let complaint = complaint(&output);
    assert!(complaint.contains("CAP_NET_ADMIN") && complaint.contains("root"), "{complaint}");
}

#[test]
fn a_capture_shows_what_the_kernel_does_not_see() {
    require_net_admin!();
    let net = net(1);
    let up = Up::start(&net, &["--no-probe"]);
    let file = temporary("pcapng");
    let socket = up.socket.to_str().unwrap();
    let capture = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(["capture", "udp port 7", "--socket", socket, "-c", "4"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("capturing at RxQueue.out, Tx"), "{line}");
        (child, errors)
    };
    let (lines, mut errors) = capture(&[]);
    let (filed, _errors) = capture(&["-w", file.to_str().unwrap()]);
    echo(&net, &[100, 200]);
    let printed = lines.wait_with_output().unwrap();
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(printed.status.success() && rest.contains("4 packets captured, 0 missed"), "{rest}");
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("left0 < 10.") && printed.contains(" > 10."), "{printed}");
    assert!(printed.contains(":7 UDP, 142 bytes"), "{printed}");
    assert!(filed.wait_with_output().unwrap().status.success());
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "not a pcapng file");
    assert!(bytes.windows(5).any(|part| part == b"left0"), "the interface has no name");
    // The graph is as it was.
    assert!(!up.ask(&["graph", "show"]).contains("Capture0"));
    echo(&net, &[64]);
    drop(up);
}
