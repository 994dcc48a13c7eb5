//! Impossible requests are refused with the reason, and nothing is changed.

use weever_testbed::require_net_admin;

use super::process::{Files, POLICY, Steering, net, output};

#[test]
fn a_policy_that_cannot_be_satisfied_changes_nothing() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let wants = |name: &str, port: u16| {
        format!(
            "[[class]]\nname = \"{name}\"\nmatch = \"udp dst port {port}\"\nqueues = {{ exclusive = 2 }}\n"
        )
    };
    let policy = files.write("policy.toml", &(wants("gold", 1) + &wants("silver", 2)));
    let flows = files.write("flows", "udp 10.77.0.1:1 -> 10.77.0.2:1\nudp *:* -> 10.77.0.2:2\n");
    let args = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--queues", "2"];
    let (code, text) = output(&net, &[&args[..], &["--model", "xdp", "--apply"]].concat());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("nothing was changed") && text.contains("silver"), "{text}");
    assert!(text.contains("queue"), "the resource is named: {text}");
    Steering::start(&net, &["--dev", "right0", "--apply"]).end();
}

#[test]
fn what_the_program_refuses_and_the_policy_needs_keeps_it_from_being_attached() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    // As many ordered filters as the model has room for, each too long for so many.
    let flow = |n: u32| {
        format!(
            "ip6 and udp and src net 2001:db8:{n:x}:1:2:3:4::/100 and dst net 2001:db8:f:{n:x}:1:2:3::/100 \
             and src portrange 1024-2047 and dst portrange 4096-8191\n"
        )
    };
    let flows = files.write("flows", &(1..=1000).map(flow).collect::<String>());
    let policy = files.write("policy", &POLICY.replace("udp dst port 7001", "ip6 and udp"));
    let args = ["--dev", "right0", "--policy", &policy, "--flows", &flows];
    let (status, text) = output(&net, &[&args[..], &["--queues", "2", "--apply"]].concat());
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("the policy cannot be satisfied, and nothing was changed"), "{text}");
    assert!(text.contains("a program of so many ordered filters would be too long"), "{text}");
    assert!(text.contains("flows leave the queues of class `premium` (1)"), "{text}");
    assert!(!text.contains("attached"), "{text}");
}

#[test]
fn a_device_that_disappears_ends_it_with_an_error() {
    require_net_admin!();
    let net = net();
    for watch in [&["--apply"][..], &["--apply", "--watch"]] {
        let net = if watch.len() == 1 { net.clone() } else { self::net() };
        let args = [&["--dev", "right0"][..], watch].concat();
        let mut steering = Steering::start(&net, &args);
        net.veth.clone().delete().unwrap();
        let (status, errors) = steering.ended();
        assert_eq!(status.code(), Some(1));
        assert!(errors.contains("right0 disappeared while steering"), "{errors}");
    }
}

#[test]
fn what_a_veth_cannot_is_told_with_the_remedy() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let flows =
        files.write("flows", "udp 10.77.0.1:1 -> 10.77.0.2:1\nudp 10.77.0.3:1 -> 10.77.0.2:1\n");
    for more in [&[][..], &["--apply"]] {
        let args = ["--dev", "right0", "--flows", &flows, "--model", "82599"];
        let (code, text) = output(&net, &[&args[..], more].concat());
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("--model xdp"), "{text}");
    }
    let (code, text) = output(&net, &["--dev", "nobody0"]);
    assert!(code == Some(1) && text.contains("no device `nobody0`"), "{text}");
    let (code, text) = output(&net, &["--dev", "right0", "--apply", "--persist"]);
    assert!(code == Some(2) && text.contains("run it as a service"), "{text}");
}

#[test]
fn without_apply_nothing_happens_and_garbage_is_told_by_line() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let flows = "udp 10.77.0.1:1 -> 10.77.0.2:1\n\u{0}\u{1}garbage\ntcp 1.2.3.4.5:6 -> *:80\n";
    let flows = files.write("flows", flows);
    let args = ["--dev", "right0", "--flows", &flows, "--cpus", "0"];
    let (code, text) = output(&net, &args);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("line 2") && text.contains("line 3"), "{text}");
    let (code, text) = output(&net, &[&args[..], &["--keep-going"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("queue 0, CPU 0") && text.contains("--apply does it"), "{text}");
    assert!(text.contains("left out: line 2"), "{text}");
    for wrong in ["", "x", "5-1"] {
        let (code, text) = output(&net, &["--dev", "right0", "--cpus", wrong]);
        assert!(code == Some(2) && text.contains("no list of CPUs"), "{text}");
    }
    let (code, text) = output(&net, &["--dev", "right0", "--cpus", "4000", "--apply"]);
    assert!(code == Some(1) && text.contains("CPU 4000"), "{text}");
}

#[test]
fn a_device_that_is_renamed_ends_it_and_is_named() {
    require_net_admin!();
    let net = net();
    let mut steering = Steering::start(&net, &["--dev", "right0", "--apply"]);
    net.right.rename("right0", "other0").unwrap();
    let (status, errors) = steering.ended();
    assert_eq!(status.code(), Some(1));
    assert!(errors.contains("right0 is called other0 now"), "{errors}");
    // Nothing is left on it.
    Steering::start(&net, &["--dev", "other0", "--apply"]).end();
}
