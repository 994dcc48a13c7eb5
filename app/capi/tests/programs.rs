//! C programs on a stack in this process, whose only neighbour sends every datagram back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weever_app_server::{Access, AppListener, PlanLimits, PlanTokens};
use weever_blocks_std::testing::frames::{PEER, PEER_MAC, udp};
use weever_host::{HostBuilder, InterfaceConfig, RunningHost};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};
use weever_testbed::{Fixture, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(60);

fn pool() -> Pool {
    let config = PoolConfig { frames: 4096, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::new(config).unwrap()
}

struct Bench {
    path: PathBuf,
    cable: Option<Box<dyn LinkQueue>>,
    frames: Option<PoolCache>,
    _listener: AppListener,
    _host: RunningHost,
}

fn bench(name: &str) -> Bench {
    let config = MemoryConfig { waitable: true, ..MemoryConfig::default() };
    let (ours, mut theirs) = pair(&config).unwrap();
    let mut builder = HostBuilder::new(pool());
    builder.workers(2);
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap());
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let server = builder.applications(Some(Pool::new(PoolConfig::large(64)).unwrap()), 1000);
    let mut server = server.unwrap();
    let others = PlanTokens { tokens: 2, refill: Duration::from_secs(60) };
    server.set_plan_limits(PlanLimits { named: Default::default(), others });
    let host = builder_start(builder);
    let path = std::env::temp_dir().join(format!("weever-c-{name}-{}.sock", std::process::id()));
    let listener = AppListener::start(&path, &Access::default(), server).unwrap();
    let cable = theirs.take_queues().remove(0);
    Bench {
        path,
        cable: Some(cable),
        frames: Some(pool().cache()),
        _listener: listener,
        _host: host,
    }
}

fn builder_start(builder: HostBuilder) -> RunningHost {
    builder.start().unwrap()
}

/// Sends every UDP packet back: addresses and ports swapped, which no checksum notices.
fn reflect(
    mut cable: Box<dyn LinkQueue>,
    mut frames: PoolCache,
    stop: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut burst = Burst::new();
        while !stop.load(Ordering::Relaxed) {
            let count = cable.rx(&mut frames, &mut burst, 64).unwrap();
            for mut packet in (0..count).filter_map(|slot| burst.take(slot)).collect::<Vec<_>>() {
                let data = packet.data_mut();
                if data.len() > 42 && data[12..14] == [8, 0] && data[23] == 17 {
                    let (dst, src) = data.split_at_mut(6);
                    dst.swap_with_slice(&mut src[..6]);
                    let (src, dst) = data[26..].split_at_mut(4);
                    src.swap_with_slice(&mut dst[..4]);
                    // Only the first fragment has ports.
                    if data[20..22].iter().zip([0x1f, 0xff]).all(|(b, mask)| b & mask == 0) {
                        data[34..38].rotate_left(2);
                    }
                    cable.tx(&mut frames, &mut [packet].into()).unwrap();
                }
            }
            cable.flush(&mut frames).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
    })
}

/// Where cargo puts libraries: two folders above this test.
fn library() -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent()?.parent()?.to_owned();
    // Beside the tests, or where `cargo build` puts it.
    let places = [folder.join("deps"), folder];
    places.into_iter().find(|place| place.join("libweever_c.a").exists())
}

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Compiles a program of these tests; nothing without a compiler.
fn compiled(name: &str) -> Option<PathBuf> {
    if !has("cc") {
        eprintln!("skipped: needs cc");
        return None;
    }
    let program =
        std::env::temp_dir().join(format!("weever-{name}-{:?}", std::thread::current().id()));
    let library = library().expect("cargo builds the library with its tests");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-g"])
        .arg("-I")
        .arg(root().join("include"))
        .arg(root().join(format!("tests/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg(library.join("libweever_c.a"))
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program)
}

/// Runs a program of these tests on a stack whose neighbour sends everything back.
fn run(name: &str) {
    let Some(program) = compiled(name) else { return };
    let mut bench = bench(name);
    let stop = Arc::<AtomicBool>::default();
    let (cable, frames) = (bench.cable.take().unwrap(), bench.frames.take().unwrap());
    let reflector = reflect(cable, frames, Arc::clone(&stop));
    let output = Command::new(&program).env("WEEVER_APPS", &bench.path).output().unwrap();
    stop.store(true, Ordering::Relaxed);
    reflector.join().unwrap();
    succeeded(&program, &output);
}

fn succeeded(program: &Path, output: &Output) {
    std::fs::remove_file(program).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

#[test]
fn every_call_answers_as_the_manual_says() {
    run("calls");
}

#[test]
fn every_call_for_streams_answers_as_the_manual_says() {
    run("streams");
}

/// The kernel at the far end of a cable sends back what comes to two of its ports.
#[test]
fn programs_bring_their_stack_along() {
    require_net_admin!();
    let (Some(calls), Some(streams)) = (compiled("calls"), compiled("streams")) else { return };
    let net = Fixture::pair(1).unwrap();
    net.right.add_address("right0", [10, 0, 0, 2].into(), 24).unwrap();
    let stop = Arc::<AtomicBool>::default();
    let echoes = [7, 9].map(|port| {
        let socket = net.right.run(|| UdpSocket::bind(("10.0.0.2", port)).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut space = [0; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut space) {
                    socket.send_to(&space[..len], from).unwrap();
                }
            }
        })
    });
    for program in [calls, streams] {
        let mut command = Command::new(&program);
        command.env("WEEVER_APPS", "library:dev=left0,addr=10.0.0.1/24,patience=1");
        let output = net.left.run(|| command.output().unwrap());
        succeeded(&program, &output);
    }
    stop.store(true, Ordering::Relaxed);
    echoes.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn the_steady_state_allocates_nothing_and_makes_no_system_call_but_the_kick() {
    run("steady");
}

/// Makes the examples in C, in a folder for this one: its program.
fn made(example: &str) -> PathBuf {
    let out = std::env::temp_dir().join(format!("weever-c-{example}-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let library = library().expect("cargo builds the library with its tests");
    let variable = |name: &str, path: &Path| format!("{name}={}", path.display());
    let made = Command::new("make")
        .arg("-C")
        .arg(root().join("../../examples/c"))
        .args([variable("LIBDIR", &library), variable("OUT", &out), "CFLAGS=-Werror".into()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    out.join(example)
}

/// Killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_echo_server_in_c_echoes_on_all_of_its_threads() {
    if !has("make") || !has("cc") {
        eprintln!("skipped: needs make and cc");
        return;
    }
    let mut bench = bench("echo");
    let program = made("fancyecho");
    let mut command = Command::new(&program);
    command.args(["7777", "2"]).env("WEEVER_APPS", &bench.path).stdout(Stdio::piped());
    let mut server = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "echoing on port 7777, 2 threads\n");
    let (mut cable, mut frames) = (bench.cable.take().unwrap(), bench.frames.take().unwrap());
    let mut burst = Burst::new();
    // From many ports, so that both threads have some.
    for port in 4000..4032u16 {
        let mut packet = frames.alloc().unwrap();
        assert!(packet.append(&udp(port, 7777, &port.to_be_bytes())));
        cable.tx(&mut frames, &mut [packet].into()).unwrap();
        cable.flush(&mut frames).unwrap();
        let since = Instant::now();
        let mut came = false;
        while !came {
            assert!(since.elapsed() < PATIENCE, "no answer to port {port}");
            let count = cable.rx(&mut frames, &mut burst, 64).unwrap();
            came = (0..count).filter_map(|slot| burst.take(slot)).any(|packet| {
                let data = packet.data();
                data.len() > 42
                    && data[34..36] == 7777u16.to_be_bytes()
                    && data[36..38] == port.to_be_bytes()
            });
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    drop(server);
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
}

#[test]
fn the_web_server_in_c_answers_the_kernel_and_curl() {
    require_net_admin!();
    if !has("make") || !has("cc") {
        eprintln!("skipped: needs make and cc");
        return;
    }
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let program = made("web");
    let mut command = Command::new(&program);
    command.args(["80", "a page in C"]).stdout(Stdio::piped());
    command.env("WEEVER_APPS", "library:dev=left0,addr=10.77.0.10/24");
    let mut server = Running(net.left.run(|| command.spawn().unwrap()));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "serving on port 80\n");
    let mut stream = net.right.run(|| TcpStream::connect("10.77.0.10:80")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Two requests, of which the second is cut within its end.
    let right = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\na page in C".repeat(2);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r").unwrap();
    stream.write_all(b"\n").unwrap();
    let mut answer = vec![0; right.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), right);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut answer).unwrap(), 0, "the server closes");
    let curl = ["-s", "-m", "20", "http://10.77.0.10/"];
    match net.right.run(|| Command::new("curl").args(curl).output()) {
        Ok(output) => assert_eq!(output.stdout, b"a page in C", "{output:?}"),
        Err(_) => eprintln!("skipped in part: needs curl"),
    }
    drop(server);
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
}
