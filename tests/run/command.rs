//! The command itself.

use std::net::TcpListener;

use weever_testbed::require_net_admin;

use super::lab::{Lab, has};
use crate::stack::{complaint, temporary, weever};

#[test]
fn without_a_stack_the_program_runs_on_the_kernels_or_not_at_all() {
    require_net_admin!();
    let net = crate::stack::net(1);
    let nowhere = temporary("apps");
    let apps = ["run", "--apps", nowhere.to_str().unwrap()];
    let output = weever(&net.left, &[&apps[..], &["--", "echo", "it", "ran"]].concat());
    assert!(output.status.success());
    assert_eq!(output.stdout, b"it ran\n");
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(
        warning.starts_with("warning: echo runs on the kernel's stack: no weever stack"),
        "{warning}"
    );
    let output = weever(&net.left, &[&apps[..], &["--require", "--", "echo"]].concat());
    assert!(complaint(&output).contains("weever up --apps"));
}

#[test]
fn programs_that_cannot_be_reached_are_refused_with_the_reason() {
    require_net_admin!();
    let lab = Lab::new();
    let data = lab.folder.join("data");
    std::fs::write(&data, "no program").unwrap();
    let refused = |program: &str| {
        let mut command = lab.command(&["--", program]);
        complaint(&lab.net.left.run(|| command.output().unwrap()))
    };
    assert!(refused(data.to_str().unwrap()).contains("no 64-bit ELF program"));
    assert!(refused("no-such-program").contains("no such program in PATH"));
    // The dynamic loader itself has none.
    let loader = "/lib64/ld-linux-x86-64.so.2";
    if std::path::Path::new(loader).exists() {
        let told = refused(loader);
        assert!(
            told.contains("linked statically") && told.contains("without `weever run`"),
            "{told}"
        );
    }
    let mut command = lab.command(&["--only", "tcp prot 80", "--", "echo"]);
    let told = complaint(&lab.net.left.run(|| command.output().unwrap()));
    assert!(told.contains("\"prot\"") && told.contains("udp port 53"), "{told}");
}

#[test]
fn a_choice_leaves_other_sockets_to_the_kernel() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let script = "
import socket, sys
made = [socket.create_server(('0.0.0.0', port)) for port in (8003, 8004)]
print('ready', flush=True)
sys.stdin.read()
";
    let defaults = lab.folder.join("run.toml");
    std::fs::write(&defaults, "[program.python3]\nonly = \"tcp port 8003\"\n").unwrap();
    let program = ["--", "/usr/bin/python3", "-c", script];
    for choice in [["--only", "tcp port 8003"], ["--defaults", defaults.to_str().unwrap()]] {
        chooses(&lab, &[&choice[..], &program[..]].concat());
    }
    std::fs::write(&defaults, "[program.python3]\nonyl = 3\n").unwrap();
    let mut command = lab.command(&["--", "echo"]);
    command.env("WEEVER_RUN", &defaults);
    let told = complaint(&lab.net.left.run(|| command.output().unwrap()));
    assert!(told.contains("program.python3") && told.contains("onyl"), "{told}");
}

/// A program with listeners at ports 8003 and 8004 has the first on weever, and the second in the kernel.
fn chooses(lab: &Lab, args: &[&str]) {
    let mut command = lab.command(args);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = lab.net.left.run(|| command.spawn().unwrap());
    let mut line = String::new();
    let out = child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let listed = lab.up().ask(&["sockets"]);
    assert!(listed.contains(":8003") && !listed.contains(":8004"), "{listed}");
    // Ports of both are taken for everybody else.
    for port in [8003, 8004] {
        let taken = lab.net.left.run(|| TcpListener::bind(("0.0.0.0", port)).unwrap_err());
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    lab.await_listed(":8003", 0);
}
