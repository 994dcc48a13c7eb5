//! Stacks in several network namespaces that share `/run`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use weever_testbed::{Fixture, Namespace, require_net_admin};

/// A stack on `left0` of a namespace; killed at the end.
struct Up(Child);

impl Up {
    fn start(namespace: &Namespace) -> Up {
        namespace.enter();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(["up", "--dev", "left0", "--addr", "10.77.0.100/24", "--mode", "interrupt"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let banner: Vec<String> =
            lines.map(Result::unwrap).take_while(|line| !line.contains("Ctrl-C")).collect();
        assert!(child.try_wait().unwrap().is_none(), "{banner:?}");
        Up(child)
    }

    fn pid(&self) -> String {
        format!("process   {} ", self.0.id())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn weever(namespace: &Namespace, args: &[&str]) -> Output {
    namespace.enter();
    Command::new(env!("CARGO_BIN_EXE_weever")).args(args).output().unwrap()
}

fn told(namespace: &Namespace, args: &[&str]) -> String {
    let output = weever(namespace, args);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(namespace: &Namespace, args: &[&str]) -> String {
    let output = weever(namespace, args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Has the calling thread see a `/run` of its own.
fn private_run() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
}

#[test]
fn devices_of_equal_names_in_two_namespaces_carry_a_stack_each() {
    require_net_admin!();
    let (one, other) = (Fixture::pair(1).unwrap(), Fixture::pair(1).unwrap());
    let third = Namespace::new().unwrap();
    private_run();
    let first = Up::start(&one.left);
    // Without an option, a command asks the stack of its own namespace, and no other.
    assert!(told(&one.left, &["status"]).contains(&first.pid()));
    let elsewhere = refused(&other.left, &["status"]);
    assert!(elsewhere.contains("left0 in network namespace"), "{elsewhere}");
    assert!(elsewhere.contains("--socket /run/weever/left0@"), "{elsewhere}");

    let second = Up::start(&other.left);
    for (namespace, own) in [(&one.left, &first), (&other.left, &second)] {
        for args in [&["status"][..], &["status", "--dev", "left0"]] {
            let status = told(namespace, args);
            assert!(status.contains(&own.pid()), "{status}");
            assert_eq!(
                status.matches("\nalso      left0 in network namespace").count(),
                1,
                "{status}"
            );
        }
    }
    for args in [&["status"][..], &["stop"], &["stop", "--dev", "left0"]] {
        let refused = refused(&third, args);
        assert_eq!(refused.matches("--socket").count(), 2, "{refused}");
    }
    told(&one.left, &["stop"]);
    let status = told(&other.left, &["status"]);
    assert!(status.contains(&second.pid()) && !status.contains("also"), "{status}");
}
