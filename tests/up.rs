//! `weever up` as a process of its own, in a network namespace, with the kernel as the peer.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_app_sockets::{AppQueue, Config, Event, SendOptions};
use weever_testbed::{Fixture, Namespace, require_net_admin};

const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
const ECHO: u16 = 7;
const PATIENCE: Duration = Duration::from_secs(10);

fn temporary(ending: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("weever-up-{}-{number}.{ending}", std::process::id()))
}

/// Runs the program to its end in a namespace.
fn weever(namespace: &Namespace, args: &[&str]) -> Output {
    namespace.run(|| Command::new(env!("CARGO_BIN_EXE_weever")).args(args).output().unwrap())
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A stack that runs as a child; killed if the test does not end it.
struct Up {
    child: Child,
    banner: String,
    errors: Option<ChildStderr>,
    socket: PathBuf,
}

impl Up {
    /// Starts it on `left0` and waits for the end of its banner.
    fn start(net: &Fixture, more: &[&str]) -> Up {
        Up::start_at(temporary("sock"), net, more)
    }

    fn start_at(socket: PathBuf, net: &Fixture, more: &[&str]) -> Up {
        let address = format!("{STACK}/24");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(["up", "--dev", "left0", "--addr", &address, "--echo", "7"]);
        command.arg("--control").arg(&socket).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = net.left.run(|| command.spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            let Some(line) = lines.next() else {
                let errors = std::io::read_to_string(child.stderr.unwrap()).unwrap();
                panic!("it ended before its banner did: {errors}");
            };
            let line = line.unwrap();
            banner.push_str(&line);
            banner.push('\n');
        }
        let errors = child.stderr.take();
        Up { child, banner, errors, socket }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end, and returns its last output.
    fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (status, rest)
    }

    fn ask(&self, args: &[&str]) -> String {
        let socket = self.socket.to_str().unwrap();
        let program = env!("CARGO_BIN_EXE_weever");
        let output = Command::new(program).args(args).args(["--socket", socket]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_file(&self.socket));
    }
}

fn net(queues: u32) -> Fixture {
    let net = Fixture::pair(queues).unwrap();
    net.assign_addresses().unwrap();
    net
}

fn socket(namespace: &Namespace, address: Ipv4Addr) -> UdpSocket {
    namespace.run(|| {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    })
}

/// The kernel sends datagrams to the stack's echo service, and each comes back.
fn echo(net: &Fixture, lengths: &[usize]) {
    let socket = socket(&net.right, Fixture::RIGHT);
    let mut buffer = [0; 4096];
    for length in lengths {
        let payload: Vec<u8> = (0..*length).map(|i| (i * 7) as u8).collect();
        socket.send_to(&payload, (STACK, ECHO)).unwrap();
        let (got, from) = socket.recv_from(&mut buffer).expect("no answer");
        assert_eq!(&buffer[..got], payload);
        assert_eq!(from, SocketAddrV4::new(STACK, ECHO).into());
    }
}

/// The kernel's own addresses at both ends talk to each other, past the stack or after it.
fn kernel_to_kernel(net: &Fixture) {
    let left = socket(&net.left, Fixture::LEFT);
    let right = socket(&net.right, Fixture::RIGHT);
    let mut buffer = [0; 64];
    for (from, to) in [(&right, &left), (&left, &right)] {
        to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let end = Instant::now() + PATIENCE;
        // A device that gets or loses a program may lose the packets under way.
        let got = loop {
            assert!(Instant::now() < end, "the kernel lost it");
            from.send_to(b"by the kernel", to.local_addr().unwrap()).unwrap();
            if let Ok((got, _)) = to.recv_from(&mut buffer) {
                break got;
            }
        };
        assert_eq!(&buffer[..got], b"by the kernel");
    }
}

/// How many packets the link has received, which is known a tenth of a second later.
fn await_received(up: &Up) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let json = up.ask(&["counters", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let links = json["links"].as_array().unwrap().iter();
        let received = links.map(|link| link["rx_packets"].as_u64().unwrap()).sum();
        if received > 0 || Instant::now() > deadline {
            return received;
        }
    }
}

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
        up.signal(Signal::SIGHUP);
        assert_eq!(up.end().0.code(), Some(0));
        kernel_to_kernel(&net);
    }
}

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

/// A program with sockets on the stack, in a process other than the stack's; the client is the
/// kernel's.
#[test]
fn an_application_answers_and_its_end_closes_its_port() {
    require_net_admin!();
    let net = net(1);
    let apps = temporary("apps");
    let up = Up::start(&net, &["--apps", apps.to_str().unwrap()]);
    assert!(up.banner.contains(apps.to_str().unwrap()), "{}", up.banner);
    let config = Config { path: apps.clone(), name: "answerer".into(), ..Config::default() };
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
    // The port is closed: the kernel is told by ICMP.
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
    let config = Config { path, name: "victim".into(), ..Config::default() };
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
        command.args(["--exact", "an_application_to_be_killed", "--ignored"]);
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
