//! A stack that runs as a child, and the tests' questions to the kernel.

use std::io::{BufRead, BufReader};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use weever_testbed::{Fixture, Namespace};

pub(crate) const KERNEL: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const STACK: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x10);
pub(crate) const ECHO: u16 = 7;
const PATIENCE: Duration = Duration::from_secs(15);

/// The daemon; ended with the test.
pub(crate) struct Up {
    child: Child,
    directory: PathBuf,
}

impl Up {
    /// Starts it in a namespace, with a directory of its own for all that it writes, and waits for
    /// the end of its banner.
    pub(crate) fn start(namespace: &Namespace, config: &str, args: &[&str]) -> Up {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weever-six-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("weever.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.arg("up").arg("-c").arg(directory.join("weever.toml"));
        command.arg("--control").arg(directory.join("sock")).arg("--state").arg(&directory);
        command.args(["--mode", "interrupt"]).args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = namespace.run(|| command.spawn().unwrap());
        let mut up = Up { child, directory };
        let lines = BufReader::new(up.child.stdout.as_mut().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("Ctrl-C"));
        if !ready {
            panic!("{}", std::io::read_to_string(up.child.stderr.take().unwrap()).unwrap());
        }
        up
    }

    pub(crate) fn ask(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(args).arg("--socket").arg(self.directory.join("sock"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.ask(&["status", "--json"])).unwrap()
    }

    /// A diagnosis, when something did not come.
    pub(crate) fn tell(&self) -> String {
        self.ask(&["status"]) + &self.ask(&["counters", "--drops"])
    }

    /// The first of a list of the first interface's that `fits`, once it is there.
    pub(crate) fn wait_for(&self, list: &str, fits: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let all = status["interfaces"][0][list].as_array().unwrap().clone();
            if let Some(found) = all.iter().filter_map(Value::as_str).find(|text| fits(text)) {
                return found.to_owned();
            }
            assert!(Instant::now() < deadline, "not in {list}: {}", self.tell());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its address that begins with these letters, once it is used.
    pub(crate) fn address(&self, begin: &str) -> Ipv6Addr {
        let found = self.wait_for("addresses", |text| text.starts_with(begin));
        found.split('/').next().unwrap().parse().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A cable whose right end is the kernel's.
pub(crate) fn net() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.right.speak_ipv6().unwrap();
    net.right.add_address6("right0", KERNEL, 64, false).unwrap();
    net
}

pub(crate) fn socket(namespace: &Namespace, at: Ipv6Addr, port: u16) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind((at, port)).unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    setsockopt(&socket, sockopt::RcvBuf, &(1 << 20)).unwrap();
    socket
}

pub(crate) fn at(addr: Ipv6Addr, port: u16, scope: u32) -> SocketAddrV6 {
    SocketAddrV6::new(addr, port, 0, scope)
}

pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

/// Whether a datagram of this length comes back. The first may be spent on finding neighbours and
/// on a path's MTU.
pub(crate) fn echoes(socket: &UdpSocket, to: SocketAddrV6, len: usize) -> bool {
    let (payload, mut answer) = (payload(len), vec![0; 70_000]);
    (0..10).any(|_| {
        // The kernel says so when it has just learned that the path takes less.
        let _ = socket.send_to(&payload, to);
        matches!(socket.recv_from(&mut answer),
            Ok((n, from)) if answer[..n] == payload && from.ip() == *to.ip())
    })
}

pub(crate) fn index(namespace: &Namespace, link: &str) -> u32 {
    namespace.link(link).unwrap().index
}
