//! `weever steer` between two kernels: their traffic goes on while it is steered, arrives on the CPUs
//! that the policy names, and everything is as before when it has ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use socket2::SockRef;
use weever_testbed::{Fixture, allowed_cores, pin_to, require_net_admin};

/// Nothing here takes so long, however loaded the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
const DATAGRAM: Duration = Duration::from_millis(500);

const POLICY: &str = r#"
[[class]]
name = "premium"
match = "udp dst port 7001"
queues = { only = [1] }
"#;

/// Files of one test.
struct Files(PathBuf);

impl Files {
    fn new() -> Files {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weever-steer-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Files(folder)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Two kernels on a cable of two queues, with addresses; the left one's packets have their
/// checksums.
fn net() -> Fixture {
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    net.veth.left.set_checksum_offload(false).unwrap();
    net
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
    command.arg("steer").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The output of a command that ends by itself, in the right namespace.
fn output(net: &Fixture, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = net.right.run(|| command(args).output().unwrap());
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8(text).unwrap())
}

/// A `weever steer` that runs; killed if the test does not end it.
struct Steering {
    child: Child,
    lines: Receiver<String>,
    told: Vec<String>,
}

impl Steering {
    fn start(net: &Fixture, args: &[&str]) -> Steering {
        let mut child = net.right.run(|| command(args).spawn().unwrap());
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        let mut steering = Steering { child, lines, told: Vec::new() };
        steering.wait_for("Ctrl-C");
        steering
    }

    /// Waits until it says a line with this word.
    fn wait_for(&mut self, word: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                drop(self.child.kill());
                let mut errors = String::new();
                let from = self.child.stderr.as_mut().unwrap();
                from.read_to_string(&mut errors).unwrap();
                panic!("it never said `{word}`, but: {:?} {errors}", self.told);
            };
            self.told.push(line.clone());
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Ends it as Ctrl-C does, and returns its last output.
    fn end(self) -> String {
        self.end_by(Signal::SIGINT)
    }

    fn end_by(mut self, signal: Signal) -> String {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        let (status, errors) = self.ended();
        assert!(status.success(), "{errors}");
        // The thread that reads ends with the output.
        self.lines.iter().last().unwrap_or_default()
    }

    fn ended(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status, errors)
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn receiver(net: &Fixture, port: u16) -> UdpSocket {
    let socket = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, port)).unwrap());
    socket.set_read_timeout(Some(DATAGRAM)).unwrap();
    socket
}

fn sender(net: &Fixture, port: u16) -> UdpSocket {
    net.left.run(|| UdpSocket::bind((Fixture::LEFT, port)).unwrap())
}

/// Sends until one arrives; the first may have to wait for ARP. Returns the CPU that delivered it.
fn exchange(from: &UdpSocket, to: &UdpSocket, core: usize) -> usize {
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            pin_to(core).unwrap();
            // The kernel notes the CPU for sockets that have a peer.
            to.connect(from.local_addr().unwrap()).unwrap();
            for _ in 0..20 {
                from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
                let mut buffer = [0; 16];
                if let Ok((5, peer)) = to.recv_from(&mut buffer) {
                    assert_eq!(peer, from.local_addr().unwrap());
                    return SockRef::from(to).cpu_affinity().unwrap();
                }
            }
            panic!("no datagram arrives");
        });
        sending.join().unwrap()
    })
}

/// A megabyte there and back.
fn tcp_works(net: &Fixture) {
    const SIZE: usize = 1 << 20;
    let listener = net.right.run(|| TcpListener::bind((Fixture::RIGHT, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut data = vec![0; SIZE];
        stream.read_exact(&mut data).unwrap();
        stream.write_all(&data).unwrap();
    });
    let mut stream = net.left.run(|| TcpStream::connect(address).unwrap());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let data: Vec<u8> = (0..SIZE).map(|i| (i % 251) as u8).collect();
    stream.write_all(&data).unwrap();
    let mut back = vec![0; SIZE];
    stream.read_exact(&mut back).unwrap();
    assert!(back == data, "the returned data differ");
    echo.join().unwrap();
}

#[test]
fn flows_of_the_kernel_arrive_on_the_cpus_that_the_policy_names() {
    require_net_admin!();
    let cores = allowed_cores().unwrap();
    let [first, second, ..] = cores[..] else {
        println!("skipped: needs two cores");
        return;
    };
    let (net, files) = (net(), Files::new());
    let policy = files.write("policy.toml", POLICY);
    let flows = files.write("flows", "udp 10.77.0.1:5001 -> 10.77.0.2:7001\n");
    let cpus = format!("{first},{second}");
    let (premium, other) = (receiver(&net, 7001), receiver(&net, 7000));
    let (from_premium, from_other) = (sender(&net, 5001), sender(&net, 5000));
    // A veth delivers on the core that sends, unless somebody steers.
    for core in [first, second] {
        assert_eq!(exchange(&from_premium, &premium, core), core);
    }
    let args = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--cpus", &cpus];
    let steering = Steering::start(&net, &[&args[..], &["--apply"]].concat());
    for core in [first, second] {
        for _ in 0..5 {
            assert_eq!(exchange(&from_premium, &premium, core), second, "its own CPU");
            assert_eq!(exchange(&from_other, &other, core), first, "the CPU of all others");
        }
    }
    tcp_works(&net);
    let told = steering.end();
    let hits = told.strip_prefix("filters took ").and_then(|rest| rest.split(' ').next());
    let hits: u32 = hits.unwrap_or_else(|| panic!("{told}")).parse().unwrap();
    assert!(hits >= 10, "{told}");
    for core in [first, second] {
        assert_eq!(exchange(&from_premium, &premium, core), core, "as before");
    }
    tcp_works(&net);
    // It could not be attached again if something were left.
    Steering::start(&net, &[&args[..], &["--apply"]].concat()).end();
}

#[test]
fn flows_are_found_by_their_traffic_and_forgotten_when_they_end() {
    require_net_admin!();
    let net = net();
    let args = ["--dev", "right0", "--apply", "--watch", "--rate", "5", "--stale", "1"];
    let mut steering = Steering::start(&net, &args);
    let to = receiver(&net, 7000);
    let from: Vec<UdpSocket> = (0..3).map(|n| sender(&net, 6000 + n)).collect();
    let address = to.local_addr().unwrap();
    let sending = std::sync::atomic::AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while sending.load(Ordering::Relaxed) {
                from.iter().for_each(|socket| drop(socket.send_to(b"x", address)));
                thread::sleep(Duration::from_millis(5));
            }
        });
        let mut came = 0;
        while came < 3 {
            let line = steering.wait_for(" came");
            let count = line.strip_prefix("flows: ").and_then(|rest| rest.split(' ').next());
            came += count.unwrap().parse::<u32>().unwrap();
            steering.wait_for(" added");
        }
        sending.store(false, Ordering::Relaxed);
    });
    let mut went = 0;
    while went < 3 {
        let line = steering.wait_for(" went");
        let count = line.split(", ").nth(1).and_then(|rest| rest.split(' ').next());
        went += count.unwrap().parse::<u32>().unwrap();
    }
    tcp_works(&net);
    steering.end();
}

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
fn two_on_one_device_keep_out_of_each_other_and_a_killed_one_is_no_hindrance() {
    require_net_admin!();
    let net = net();
    let args = ["--dev", "right0", "--apply"];
    let mut first = Steering::start(&net, &args);
    let holder = format!("process {} (`weever steer`, with a program)", first.child.id());
    for more in [&["--apply"][..], &["--apply", "--model", "82599"], &["--undo"]] {
        let (code, text) = output(&net, &[&args[..2], more].concat());
        assert_eq!(code, Some(1), "{text}");
        let told = text.contains("right0 is steered already") && text.contains(&holder);
        assert!(told && text.contains("kill -INT"), "{more:?}: {text}");
    }
    let (code, text) = output(&net, &args[..2]);
    assert!(code == Some(0) && text.contains(&holder), "looking is free: {text}");
    // Another device, and one with the same number in another namespace.
    let other = self::net();
    Steering::start(&other, &args).end();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    Steering::start(&net, &args).end_by(Signal::SIGTERM);
}

#[test]
fn unfinished_checksums_of_this_machine_survive_unless_the_driver_is_insisted_on() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    let to = receiver(&net, 7000);
    let from = sender(&net, 5000);
    let core = allowed_cores().unwrap()[0];
    let args = ["--dev", "right0", "--apply"];
    let mut steering = Steering::start(&net, &args);
    assert!(steering.told.iter().any(|line| line.contains("in generic mode")));
    assert!(steering.told.iter().any(|line| line.contains("unfinished checksums")));
    exchange(&from, &to, core);
    tcp_works(&net);
    assert!(steering.child.try_wait().unwrap().is_none());
    steering.end();
    let steering = Steering::start(&net, &[&args[..], &["--mode", "native"]].concat());
    let told = steering.told.join("\n");
    assert!(told.contains("native mode") && told.contains("ethtool -K PEER tx off"), "{told}");
    steering.end();
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

#[test]
fn a_hundred_thousand_flows_at_once_get_their_filters() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let flow = |n: u32| {
        let (high, low) = (n >> 8, n & 255);
        format!("udp 10.{}.{}.{low}:5 -> 10.77.0.2:7\n", high >> 8, high & 255)
    };
    let flows = files.write("flows", &(0..100_000).map(flow).collect::<String>());
    let args = ["--dev", "right0", "--flows", &flows, "--apply", "--queues", "2"];
    let steering = Steering::start(&net, &args);
    let told = steering.told.join("\n");
    assert!(told.contains("filters: 100000 added") && told.contains("flows 100000"), "{told}");
    steering.end();
}
