//! weever as a router between two network namespaces, with the kernel on both sides.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use weever_testbed::{Namespace, Veth, require_net_admin};

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const LEFT_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const RIGHT_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const PORT: u16 = 4000;

const CONFIG: &str = r#"
dev = "port0"
addr = "10.77.0.1/24"
share = "none"
mode = "interrupt"
forwarding = true
reverse-path = "strict"

[[interface]]
dev = "port1"
addr = ["10.78.0.1/24"]
share = "none"
"#;

/// The daemon; killed if the test does not end it.
struct Router {
    child: Child,
    files: Vec<PathBuf>,
}

impl Router {
    fn start(namespace: &Namespace) -> Router {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = |ending: &str| {
            let name = format!("weever-forward-{}-{number}.{ending}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (config, socket) = (file("toml"), file("sock"));
        std::fs::write(&config, CONFIG).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.arg("up").arg("-c").arg(&config).arg("--control").arg(&socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = namespace.run(|| command.spawn().unwrap());
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("Ctrl-C"));
        if !ready {
            panic!("{}", std::io::read_to_string(child.stderr.take().unwrap()).unwrap());
        }
        Router { child, files: vec![config, socket] }
    }
}

impl Router {
    /// Panics with weever's drops, since the datagram of this length has not come.
    fn panic(&self, error: &std::io::Error, len: usize) -> ! {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weever"));
        command.args(["counters", "--drops", "--socket"]).arg(&self.files[1]);
        let drops = command.output().unwrap();
        panic!("{len} bytes: {error}: {}", String::from_utf8_lossy(&drops.stdout));
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn network() -> (Namespace, Namespace, Namespace) {
    let namespaces = [(); 3].map(|()| Namespace::new().unwrap());
    let [left, router, right] = namespaces;
    let one = Veth::create(&left, "left0", &router, "port0", 1).unwrap();
    let two = Veth::create(&router, "port1", &right, "right0", 1).unwrap();
    one.left.add_address(LEFT, 24).unwrap();
    two.right.add_address(RIGHT, 24).unwrap();
    left.add_route(Ipv4Addr::new(10, 78, 0, 0), 24, LEFT_ROUTER).unwrap();
    right.add_route(Ipv4Addr::new(10, 77, 0, 0), 24, RIGHT_ROUTER).unwrap();
    (left, router, right)
}

fn socket(namespace: &Namespace, at: Ipv4Addr, port: u16) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind(SocketAddrV4::new(at, port)).unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Datagrams go there and back through weever, whose kernel forwards nothing; the kernels' partial
/// checksums are completed on the way, or the receivers would drop them.
#[test]
fn two_kernels_talk_through_weever() {
    require_net_admin!();
    let (left, middle, right) = network();
    let router = Router::start(&middle);
    let (near, far) = (socket(&left, LEFT, 0), socket(&right, RIGHT, PORT));
    for len in [0, 1, 18, 512, 1472] {
        let sent: Vec<u8> = (0..len).map(|i| i as u8).collect();
        near.send_to(&sent, SocketAddrV4::new(RIGHT, PORT)).unwrap();
        let mut buffer = [0; 2000];
        let (n, from) = far.recv_from(&mut buffer).unwrap_or_else(|e| router.panic(&e, len));
        assert_eq!((&buffer[..n], from.ip()), (&sent[..], LEFT.into()), "{len} there");
        far.send_to(&buffer[..n], from).unwrap();
        let (n, from) = near.recv_from(&mut buffer).unwrap_or_else(|e| router.panic(&e, len));
        assert_eq!((&buffer[..n], from.ip()), (&sent[..], RIGHT.into()), "{len} back");
    }
}

/// The kernel understands weever's errors about a datagram whose time to live is spent, and about
/// one to a closed port of weever's.
#[test]
fn the_kernel_understands_the_errors() {
    require_net_admin!();
    let (left, middle, right) = network();
    let _router = Router::start(&middle);
    let (near, _far) = (socket(&left, LEFT, 0), socket(&right, RIGHT, PORT));
    setsockopt(&near, sockopt::Ipv4RecvErr, &true).unwrap();
    near.connect(SocketAddrV4::new(RIGHT, PORT)).unwrap();
    near.set_ttl(1).unwrap();
    near.send(b"spent").unwrap();
    let error = near.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(nix::libc::EHOSTUNREACH), "{error}");

    let closed = socket(&left, LEFT, 0);
    closed.connect(SocketAddrV4::new(LEFT_ROUTER, 9)).unwrap();
    closed.send(b"anyone?").unwrap();
    let error = closed.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}");
}
