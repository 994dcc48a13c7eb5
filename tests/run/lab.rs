//! A stack with both families, programs on it, and clients at the other end of the cable.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::Fixture;

use crate::stack::{ECHO, STACK, Up, net, temporary};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const STACK6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x10);
pub(crate) const RIGHT6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const LEFT6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
/// Where the kernel at the stack's end is reached, by both families.
pub(crate) const KERNELS: [IpAddr; 2] = [IpAddr::V4(Fixture::LEFT), IpAddr::V6(LEFT6)];
/// Where the stack is reached, by both families.
pub(crate) const BOTH: [IpAddr; 2] = [IpAddr::V4(STACK), IpAddr::V6(STACK6)];

/// Whether a program is there; says that a test is skipped if not.
pub(crate) fn has(program: &str) -> bool {
    let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let there = folders.iter().any(|folder| Path::new(folder).join(program).exists());
    if !there {
        eprintln!("skipped: needs {program}");
    }
    there
}

/// Where cargo puts the library: with the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().join("libweever_preload.so");
    assert!(path.exists(), "cargo builds {} with these tests", path.display());
    path
}

/// A folder for one test.
fn folder() -> PathBuf {
    let folder = temporary("files");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Two namespaces and a stack, or programs that bring theirs along.
pub(crate) struct Lab {
    pub(crate) net: Fixture,
    /// The stack; nothing where programs have theirs inside.
    up: Option<Up>,
    /// Where it serves applications, or how the stack inside is named.
    apps: OsString,
    /// A folder for the programs' files.
    pub(crate) folder: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        Lab::with(&[])
    }

    /// With more arguments for `weever up`.
    pub(crate) fn with(more: &[&str]) -> Lab {
        let net = net(1);
        net.veth.right.speak_ipv6(RIGHT6, 64).unwrap();
        let apps = temporary("apps");
        let address = format!("{STACK6}/64");
        let mut args = vec!["--apps", apps.to_str().unwrap(), "--addr", &address];
        args.extend(more);
        let mut up = Up::start(&net, &args);
        // The log has to be read: a stack that cannot write its log stops.
        let mut log = up.errors.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let lab = Lab { net, up: Some(up), apps: apps.into(), folder: folder() };
        lab.await_six();
        lab
    }

    /// A stack with the kernel's own addresses: [`Fixture::LEFT`] and [`LEFT6`].
    pub(crate) fn sharing_ports() -> Lab {
        let net = net(1);
        net.veth.right.speak_ipv6(RIGHT6, 64).unwrap();
        net.veth.left.speak_ipv6(LEFT6, 64).unwrap();
        let mut lab = Lab { net, up: None, apps: temporary("apps").into(), folder: folder() };
        lab.share_ports();
        lab
    }

    /// Starts the stack of [`sharing_ports`](Self::sharing_ports).
    pub(crate) fn share_ports(&mut self) {
        self.share_ports_with(&[]);
    }

    /// With more arguments.
    pub(crate) fn share_ports_with(&mut self, more: &[&str]) {
        let mut args = vec!["--share", "ports", "--apps", self.apps.to_str().unwrap()];
        args.extend(more);
        let mut up = Up::run(temporary("sock"), &self.net, &args);
        let mut log = up.errors.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        self.up = Some(up);
    }

    /// Ends the stack without a warning.
    pub(crate) fn kill_stack(&mut self) {
        drop(self.up.take());
    }

    /// Without a stack: programs have one inside, on `left0`.
    pub(crate) fn inside() -> Lab {
        let net = net(1);
        net.veth.right.speak_ipv6(RIGHT6, 64).unwrap();
        let apps = format!("library:dev=left0,addr={STACK}/24,addr={STACK6}/64");
        Lab { net, up: None, apps: apps.into(), folder: folder() }
    }

    /// As [`inside`](Self::inside), at the addresses that the kernel has on `left0`: without a stack there, the kernel
    /// answers.
    pub(crate) fn inside_at_the_kernels() -> Lab {
        let net = net(1);
        net.veth.right.speak_ipv6(RIGHT6, 64).unwrap();
        net.veth.left.speak_ipv6(LEFT6, 64).unwrap();
        let apps = format!("library:dev=left0,addr={}/24,addr={LEFT6}/64", Fixture::LEFT);
        Lab { net, up: None, apps: apps.into(), folder: folder() }
    }

    /// Ends the stack without a warning, and starts another one after a while.
    pub(crate) fn restart(&mut self) {
        drop(self.up.take());
        std::thread::sleep(Duration::from_millis(300));
        let apps = self.apps.to_str().unwrap();
        let address = format!("{STACK6}/64");
        self.up = Some(Up::start(&self.net, &["--apps", apps, "--addr", &address]));
    }

    /// Where it serves applications.
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.apps)
    }

    /// The stack.
    pub(crate) fn up(&self) -> &Up {
        self.up.as_ref().expect("this lab has a stack")
    }

    /// Waits until the stack has made sure that its IPv6 address is nobody else's, and answers.
    fn await_six(&self) {
        let socket = self.net.right.run(|| UdpSocket::bind("[::]:0").unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let since = Instant::now();
        while socket.recv(&mut [0; 10]).is_err() {
            assert!(since.elapsed() < PATIENCE, "the stack does not answer by IPv6");
            let _later = socket.send_to(b"?", (STACK6, ECHO));
        }
    }

    /// `weever run`, with these arguments.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.arg("run");
        if self.up.is_none() {
            command.args(["--stack", "inside"]);
        }
        command.args(args);
        command.env("WEEVER_APPS", &self.apps).env("WEEVER_PRELOAD", library());
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Starts a program on the stack.
    pub(crate) fn start(&self, args: &[&str]) -> Program {
        let log = self.folder.join("log");
        let mut command = self.command(&["--require", "--log", "--"]);
        let out = fs::File::create(&log).unwrap();
        command.args(args).stdout(out.try_clone().unwrap()).stderr(out);
        // With its children in a group of their own, to be ended together.
        command.process_group(0);
        let child = self.net.left.run(|| command.spawn().unwrap());
        Program { child, log }
    }

    /// Runs a program on the stack to its end, and returns its output.
    pub(crate) fn output(&self, args: &[&str]) -> String {
        let mut command = self.command(&["--require", "--"]);
        command.args(args);
        let output = self.net.left.run(|| command.output().unwrap());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A file of this many octets for programs to serve.
    pub(crate) fn file(&self, name: &str, len: usize) -> Vec<u8> {
        let content: Vec<u8> = (0..len).map(|i| (i * 31 + (i >> 9)) as u8).collect();
        fs::write(self.folder.join(name), &content).unwrap();
        content
    }

    /// A connection from the other end; tried until the program listens.
    pub(crate) fn connect(&self, program: &mut Program, to: IpAddr, port: u16) -> TcpStream {
        let since = Instant::now();
        loop {
            match self.net.right.run(|| TcpStream::connect((to, port))) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) => {
                    assert!(since.elapsed() < PATIENCE, "{to}: {error}; {}", program.told())
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A question by UDP, asked until it is answered.
    pub(crate) fn ask(&self, program: &mut Program, to: (IpAddr, u16), question: &[u8]) -> Vec<u8> {
        let any = if to.0.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.net.right.run(|| UdpSocket::bind(any).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket.connect(to).unwrap();
        let since = Instant::now();
        let mut answer = vec![0; 65_536];
        loop {
            assert!(since.elapsed() < PATIENCE, "no answer from {to:?}; {}", program.told());
            let _refused = socket.send(question);
            if let Ok(len) = socket.recv(&mut answer) {
                answer.truncate(len);
                return answer;
            }
        }
    }

    /// What HTTP gives for a path, head and body.
    pub(crate) fn get(
        &self,
        program: &mut Program,
        to: IpAddr,
        port: u16,
        path: &str,
    ) -> (String, Vec<u8>) {
        let mut stream = self.connect(program, to, port);
        write!(stream, "GET {path} HTTP/1.0\r\nHost: test\r\n\r\n").unwrap();
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all);
        read.unwrap_or_else(|error| {
            panic!("{path}: {error} after {}; {}", all.len(), program.told())
        });
        let end = all.windows(4).position(|part| part == b"\r\n\r\n").expect("a head");
        let body = all.split_off(end + 4);
        (String::from_utf8_lossy(&all).into_owned(), body)
    }

    /// Waits for a file that the program makes in the lab's folder.
    pub(crate) fn await_file(&self, name: &str, program: &mut Program) {
        let since = Instant::now();
        while !self.folder.join(name).exists() {
            assert!(since.elapsed() < PATIENCE, "{name}: {}", program.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the stack has put so many datagrams on the rings of its first application.
    pub(crate) fn await_received(&self, count: u64) {
        let since = Instant::now();
        loop {
            let listed = self.up().ask(&["sockets", "--json"]);
            let told: serde_json::Value = serde_json::from_str(&listed).unwrap();
            let received = told["queues"][0]["received"].as_u64().unwrap_or_default();
            if received >= count {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{received} of {count}: {listed}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has the stack's list of sockets this many lines with a text, sooner or later?
    pub(crate) fn await_listed(&self, text: &str, count: usize) -> String {
        let since = Instant::now();
        loop {
            let listed = self.up().ask(&["sockets"]);
            if listed.lines().filter(|line| line.contains(text)).count() == count {
                return listed;
            }
            assert!(since.elapsed() < PATIENCE, "{count} lines with {text}: {listed}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
        // Kept for the next stack, which there is none of.
        let mut key = self.apps.clone();
        key.push(".key");
        drop(fs::remove_file(key));
    }
}

/// A program that runs until the test ends.
pub(crate) struct Program {
    pub(crate) child: Child,
    log: PathBuf,
}

impl Program {
    /// What it has written.
    pub(crate) fn told(&mut self) -> String {
        let ended = self.child.try_wait().unwrap();
        format!("ended: {ended:?}\n{}", fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = kill(Pid::from_raw(-(self.child.id() as i32)), Signal::SIGKILL);
        drop(self.child.wait());
    }
}
