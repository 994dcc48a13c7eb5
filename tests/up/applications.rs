//! Applications of a stack that runs, and the end of either.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use weever_app_sockets::{AppQueue, Event, QueueConfig, SendOptions};
use weever_testbed::require_net_admin;

use super::stack::{ECHO, PATIENCE, STACK, Up, echo, net, temporary};

/// A program with sockets on the stack, in a process other than the stack's; the client is the
/// kernel's.
#[test]
fn an_application_answers_and_its_end_closes_its_port() {
    require_net_admin!();
    let net = net(1);
    let apps = temporary("apps");
    let up = Up::start(&net, &["--apps", apps.to_str().unwrap()]);
    assert!(up.banner.contains(apps.to_str().unwrap()), "{}", up.banner);
    let config =
        QueueConfig { path: apps.clone(), name: "answerer".into(), ..QueueConfig::default() };
    let queue = AppQueue::connect(&config).unwrap();
    let taken = queue.bind_udp(([0, 0, 0, 0], ECHO).into()).unwrap_err();
    assert!(taken.to_string().contains("in use"), "{taken}");
    queue.bind_udp(([0, 0, 0, 0], 5353).into()).unwrap();
    let client = net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect((STACK, 5353)).unwrap();
    for size in [0, 1, 1000, 4000] {
        let payload = vec![7; size];
        client.send(&payload).unwrap();
        let datagram = loop {
            if let Some(Event::Datagram(datagram)) = queue.next().unwrap() {
                break datagram;
            }
            assert!(queue.wait(Some(PATIENCE)).unwrap(), "{size} bytes did not arrive");
        };
        assert_eq!(datagram.remote().port(), client.local_addr().unwrap().port());
        assert_eq!(datagram.to_vec(), payload);
        datagram.reply().unwrap();
        queue.commit().unwrap();
        let mut answer = [0; 5000];
        assert_eq!(client.recv(&mut answer).unwrap(), size);
    }
    let listed = up.ask(&["sockets"]);
    let socket = listed.lines().find(|line| line.contains("*:5353 (IPv4)")).expect(&listed);
    assert!(socket.contains("answerer") && socket.contains(" 4 "), "{listed}");
    assert!(up.ask(&["queues"]).contains("answerer 1"), "the workers' rows name it");
    drop(queue);
    // The port is closed: the kernel is told by ICMP, unless a datagram comes in the middle of closing.
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let refused = client.send(b"anybody?").and_then(|_| client.recv(&mut [0; 10]));
        if refused.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            break;
        }
        assert!(Instant::now() < deadline, "the port is still open");
    }
    let queue = AppQueue::connect(&config).unwrap();
    up.signal(Signal::SIGTERM);
    assert!(matches!(queue.wait(Some(PATIENCE)), Err(weever_app_sockets::Error::Disconnected)));
    assert!(up.end().0.success());
    assert!(!apps.exists());
}

/// Not a test: the program of the processes that are killed. Talks to itself by its own sockets, as
/// fast as it can, until it is killed or the stack is.
#[test]
#[ignore = "runs in processes of `applications_and_stacks_killed_at_any_point_leave_nothing_behind`"]
fn an_application_to_be_killed() {
    let path = std::env::var_os("WEEVER_TEST_APPS").expect("started by the test").into();
    let config = QueueConfig { path, name: "victim".into(), ..QueueConfig::default() };
    let Ok(queue) = AppQueue::connect(&config) else { return };
    let sockets: Vec<_> = (0..50).map(|_| queue.bind_udp(([0, 0, 0, 0], 0).into())).collect();
    loop {
        for socket in sockets.iter().flatten() {
            let Ok(port) = queue.local_port(*socket) else { return };
            let _ =
                queue.send_to(*socket, b"to myself", (STACK, port).into(), SendOptions::default());
        }
        if queue.wait(Some(Duration::from_millis(1))).is_err() {
            return;
        }
        while let Ok(Some(_)) = queue.next() {}
    }
}

#[test]
fn applications_and_stacks_killed_at_any_point_leave_nothing_behind() {
    require_net_admin!();
    let net = net(1);
    let apps = temporary("apps");
    let victim = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "up::applications::an_application_to_be_killed", "--ignored"]);
        command.env("WEEVER_TEST_APPS", &apps).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    for round in 0..3 {
        let up = Up::start(&net, &["--apps", apps.to_str().unwrap()]);
        let listed = || up.ask(&["sockets"]).lines().next().unwrap().to_owned();
        for number in 0..8 {
            let mut pair = [victim(), victim()];
            // Somewhere between its start and the middle of its traffic.
            std::thread::sleep(Duration::from_millis(1 + (number * 37 + round * 11) % 60));
            pair.iter_mut().for_each(|child| child.kill().unwrap());
            for child in &mut pair {
                child.wait().unwrap();
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while !listed().ends_with(": 0 queues, 0 sockets") {
            assert!(Instant::now() < deadline, "{}", listed());
            std::thread::sleep(Duration::from_millis(5));
        }
        echo(&net, &[100]);
        // Now the stack: the application learns of it and ends, and the next stack starts.
        let mut survivor = victim();
        let deadline = Instant::now() + PATIENCE;
        while !listed().ends_with(": 1 queues, 50 sockets") {
            assert!(Instant::now() < deadline, "{}", listed());
        }
        up.signal(Signal::SIGKILL);
        drop(up.end());
        let deadline = Instant::now() + PATIENCE;
        while survivor.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the application has not noticed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    drop(std::fs::remove_file(apps));
}
