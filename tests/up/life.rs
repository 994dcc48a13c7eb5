//! Start, end and refusals of `weever up`.

use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use weever_testbed::{Fixture, require_net_admin};

use super::stack::{
    ECHO, STACK, Up, await_received, complaint, echo, kernel_to_kernel, net, socket, temporary,
    weever,
};

#[test]
fn it_echoes_is_asked_and_ends_cleanly_on_a_signal() {
    require_net_admin!();
    let net = net(4);
    let up = Up::start(&net, &["--counters"]);
    let expected = ["left0", "AF_XDP", "4 queues", "10.77.0.10/24", "udp echo", "port 7"];
    for part in expected.iter().copied().chain([up.socket.to_str().unwrap()]) {
        assert!(up.banner.contains(part), "{part} is not in\n{}", up.banner);
    }
    echo(&net, &[0, 1, 64, 1000, 1472]);
    kernel_to_kernel(&net);

    let counters = up.ask(&["counters"]);
    assert!(counters.contains("RxQueue") && counters.contains("left0"), "{counters}");
    assert!(await_received(&up) >= 5);
    assert!(up.ask(&["counters", "--drops"]).contains("drop"));
    assert!(up.ask(&["status"]).contains("udp echo 7"));
    for command in ["live", "dot"] {
        assert!(up.ask(&["graph", command]).starts_with("digraph"));
    }
    let picture = up.ask(&["graph", "svg"]);
    assert!(picture.starts_with("<svg") && picture.contains(" packets</text>"), "{picture}");
    assert!(up.ask(&["graph", "show"]).contains("packets)"));

    let path = up.socket.clone();
    up.signal(Signal::SIGTERM);
    let (status, rest) = up.end();
    assert_eq!(status.code(), Some(0));
    assert!(rest.contains("weever has stopped") && rest.contains("RxQueue"), "{rest}");
    assert!(!path.exists(), "the control socket was left behind");
    kernel_to_kernel(&net);
    // The device is free for the next one, which stops by being asked.
    let up = Up::start(&net, &["--share", "address", "--mode", "busy"]);
    echo(&net, &[64]);
    assert!(up.ask(&["stop"]).contains("has shut down"));
    assert_eq!(up.end().0.code(), Some(0));
}

#[test]
fn killed_in_the_middle_of_traffic_it_leaves_the_device_to_the_kernel() {
    require_net_admin!();
    let net = net(2);
    let up = Up::start(&net, &[]);
    echo(&net, &[64]);
    let flood = net.right.spawn("flood", || {
        let socket = UdpSocket::bind((Fixture::RIGHT, 0)).unwrap();
        for _ in 0..20_000 {
            drop(socket.send_to(&[0; 64], (STACK, ECHO)));
        }
    });
    std::thread::sleep(Duration::from_millis(20));
    up.signal(Signal::SIGKILL);
    let socket = up.socket.clone();
    let stale = temporary("sock");
    std::fs::rename(&socket, &stale).unwrap();
    assert_eq!(up.end().0.signal(), Some(Signal::SIGKILL as i32));
    flood.unwrap().join().unwrap();
    kernel_to_kernel(&net);
    // Its socket is still there, and the next stack takes its place.
    let up = Up::start_at(stale.clone(), &net, &[]);
    echo(&net, &[64]);
    up.signal(Signal::SIGINT);
    assert_eq!(up.end().0.code(), Some(0));
    assert!(!stale.exists());
}

#[test]
fn what_cannot_be_is_said_clearly() {
    require_net_admin!();
    let net = net(1);
    let up = |args: &[&str]| complaint(&weever(&net.left, &[&["up"], args].concat()));
    for (args, parts) in [
        (&["--dev", "left7", "--addr", "10.77.0.10/24"][..], &["left7", "left0"][..]),
        (&["--dev", "left0", "--addr", "10.77.0.1/24"], &["in use", "ip addr del"]),
        (&["--dev", "left0", "--addr", "10.77.0.2/24"], &["in use", "answers for it"]),
        (&["--dev", "left0"], &["addr is not set"]),
        (&["--addr", "10.77.0.10/24"], &["dev is not set"]),
        (&[], &["error: dev is not set", "error: addr is not set"]),
        (
            &["--dev", "left0", "--addr", "10.77.0.10/24", "--cores", "1023"],
            &["1023", "use one of"],
        ),
        (
            &["--dev", "left0", "--addr", "10.77.0.10/24", "--control", "/nowhere/at/all"],
            &["/nowhere/at"],
        ),
        (&["-c", "/dev/zero"], &["/dev/zero is longer than 16 MiB"]),
        (&["--dev", "left0", "--addr", "10.77.0.10"], &["10.77.0.10", "prefix"]),
        (&["-c", "/nonexistent.toml"], &["/nonexistent.toml"]),
    ] {
        let complaint = up(args);
        for part in parts {
            assert!(complaint.contains(part), "{args:?}: {complaint}");
        }
    }
    assert!(!Path::new("/nowhere").exists());
    kernel_to_kernel(&net);
}

#[test]
fn packets_of_a_larger_mtu_need_larger_frames() {
    require_net_admin!();
    let net = net(1);
    net.veth.left.set_mtu(3000).unwrap();
    net.veth.right.set_mtu(3000).unwrap();
    let args = ["up", "--dev", "left0", "--addr", "10.77.0.10/24", "--no-probe"];
    let complaint = complaint(&weever(&net.left, &args));
    assert!(
        complaint.contains("MTU is 3000") && complaint.contains("--frame-size 4096"),
        "{complaint}"
    );
    let _up = Up::start(&net, &["--frame-size", "4096"]);
    echo(&net, &[64, 2900]);
}

#[test]
fn a_second_stack_on_the_same_device_is_refused_and_the_first_goes_on() {
    require_net_admin!();
    let net = net(1);
    let up = Up::start(&net, &[]);
    let control = temporary("sock");
    let args = ["up", "--dev", "left0", "--addr", "10.77.0.11/24", "--control"];
    let args = [&args[..], &[control.to_str().unwrap()]].concat();
    let complaint = complaint(&weever(&net.left, &args));
    let by = format!("left0 is steered already, by process {}", up.child.id());
    assert!(complaint.contains(&by), "{complaint}");
    assert!(!control.exists());
    echo(&net, &[64]);
    drop(up);
}

#[test]
fn the_whole_device_can_be_taken_and_is_given_back() {
    require_net_admin!();
    let net = net(2);
    for mode in ["busy", "interrupt"] {
        let up = Up::start(&net, &["--share", "none", "--mode", mode]);
        echo(&net, &[1, 1472]);
        let kernel = socket(&net.left, Fixture::LEFT);
        kernel.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let stranger = socket(&net.right, Fixture::RIGHT);
        stranger.send_to(b"for the kernel", kernel.local_addr().unwrap()).unwrap();
        assert!(
            kernel.recv_from(&mut [0; 64]).is_err(),
            "nothing is shared, but the kernel got a packet"
        );
        up.signal(Signal::SIGINT);
        assert_eq!(up.end().0.code(), Some(0));
        kernel_to_kernel(&net);
    }
}
