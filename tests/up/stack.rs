//! `weever up` as a child of a test, and what talks to it.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::{Fixture, Namespace};

pub(crate) const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
pub(crate) const ECHO: u16 = 7;
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn temporary(ending: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("weever-up-{}-{number}.{ending}", std::process::id()))
}

/// Runs the program to its end in a namespace.
pub(crate) fn weever(namespace: &Namespace, args: &[&str]) -> Output {
    namespace.run(|| Command::new(env!("CARGO_BIN_EXE_weever")).args(args).output().unwrap())
}

pub(crate) fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A stack that runs as a child; killed if the test does not end it.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) banner: String,
    pub(crate) errors: Option<ChildStderr>,
    pub(crate) socket: PathBuf,
}

impl Up {
    /// Starts it on `left0` and waits for the end of its banner.
    pub(crate) fn start(net: &Fixture, more: &[&str]) -> Up {
        Up::start_at(temporary("sock"), net, more)
    }

    pub(crate) fn start_at(socket: PathBuf, net: &Fixture, more: &[&str]) -> Up {
        let address = format!("{STACK}/24");
        Up::run(socket, net, &[&["--addr", &address, "--echo", "7"], more].concat())
    }

    /// Starts it with these arguments.
    pub(crate) fn run(socket: PathBuf, net: &Fixture, more: &[&str]) -> Up {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(["up", "--dev", "left0"]);
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

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end, and returns its last output.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
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

    pub(crate) fn ask(&self, args: &[&str]) -> String {
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

pub(crate) fn net(queues: u32) -> Fixture {
    let net = Fixture::pair(queues).unwrap();
    net.assign_addresses().unwrap();
    net
}

pub(crate) fn socket(namespace: &Namespace, address: Ipv4Addr) -> UdpSocket {
    namespace.run(|| {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    })
}

/// The kernel sends datagrams to the stack's echo service, and each comes back.
pub(crate) fn echo(net: &Fixture, lengths: &[usize]) {
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
pub(crate) fn kernel_to_kernel(net: &Fixture) {
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
pub(crate) fn await_received(up: &Up) -> u64 {
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
