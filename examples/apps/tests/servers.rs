//! The servers on a stack inside the program; their clients are the kernel's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::SockRef;
use weever_app_library::{QueueConfig, Stack};
use weever_app_sockets::{AppQueue, Error};
use weever_examples_apps::bulk::{self, Carried, Sent};
use weever_examples_apps::{echo, keyvalue, listen, nameserver, web};
use weever_testbed::{Fixture, require_net_admin};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
/// The server's address over IPv6; the kernel has the first of its network.
const SERVER6: &str = "fd77::10";
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `server` on a stack, and `client` with a socket of the kernel at the other end.
fn with<T>(
    threads: usize,
    server: impl Fn(&AppQueue, &dyn Fn() -> bool) -> Result<(), Error> + Sync,
    client: impl FnOnce(&Fixture, UdpSocket) -> T,
) -> T {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let text =
        format!("library:dev=left0,addr={SERVER}/24,addr={SERVER6}/64,share=none,patience=1");
    let config = QueueConfig { path: text.into(), ..QueueConfig::default() };
    let stack = net.left.run(|| Stack::open(&config)).unwrap();
    let socket = net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let running = AtomicBool::new(true);
    let looks = || running.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let serve = || {
            let queue = stack.queue().unwrap();
            server(&queue, &looks).unwrap();
        };
        (0..threads).for_each(|_| drop(scope.spawn(serve)));
        // Also when it panics.
        struct End<'r>(&'r AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        let _end = End(&running);
        client(&net, socket)
    })
}

/// Asks until it is answered: the server may not have its port yet.
fn ask(socket: &UdpSocket, to: (Ipv4Addr, u16), question: &[u8]) -> Vec<u8> {
    let since = Instant::now();
    let mut answer = vec![0; 70_000];
    while since.elapsed() < PATIENCE {
        socket.send_to(question, to).unwrap();
        if let Ok((len, from)) = socket.recv_from(&mut answer)
            && from == SocketAddr::from(to)
        {
            answer.truncate(len);
            return answer;
        }
    }
    panic!("no answer to {question:?}");
}

#[test]
fn the_echo_server_echoes_with_two_threads() {
    require_net_admin!();
    let server = |queue: &AppQueue, running: &dyn Fn() -> bool| echo(queue, 7777, running);
    with(2, server, |net, socket| {
        for size in [1, 100, 1400, 5000] {
            assert_eq!(ask(&socket, (SERVER, 7777), &vec![9; size]).len(), size);
        }
        for _ in 0..16 {
            let another = net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
            another.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            assert_eq!(ask(&another, (SERVER, 7777), b"any port"), b"any port");
        }
    });
}

#[test]
fn the_store_keeps_values_up_to_several_frames() {
    require_net_admin!();
    let server =
        |queue: &AppQueue, running: &dyn Fn() -> bool| keyvalue::serve(queue, 11211, running);
    with(1, server, |_, socket| {
        let mut number = 0u16;
        let mut command = |text: &str| {
            number += 1;
            let [high, low] = number.to_be_bytes();
            let frame = [high, low, 0, 0, 0, 1, 0, 0];
            loop {
                let answer = ask(&socket, (SERVER, 11211), &[&frame[..], text.as_bytes()].concat());
                // A late answer to a repeated question has an earlier number: skipped.
                if answer[..2] == frame[..2] {
                    assert_eq!(answer[..8], frame);
                    return String::from_utf8(answer[8..].to_vec()).unwrap();
                }
            }
        };
        assert_eq!(command("get none\r\n"), "END\r\n");
        for len in [1, 64, 1024, 1900] {
            let value = "v".repeat(len);
            let set = command(&format!("set key{len} 5 0 {len}\r\n{value}\r\n"));
            assert_eq!(set, "STORED\r\n");
            let got = command(&format!("get key{len}\r\n"));
            assert_eq!(got, format!("VALUE key{len} 5 {len}\r\n{value}\r\nEND\r\n"));
        }
        let all = command("get key1 key64 key1024 key1900\r\n");
        assert!(all.len() > 1 + 64 + 1024 + 1900 && all.ends_with("END\r\n"));
        assert_eq!(command("nonsense\r\n"), "ERROR\r\n");
    });
}

#[test]
fn the_name_server_answers_for_its_name_alone() {
    require_net_admin!();
    let ours = ("weever.example", Ipv4Addr::new(192, 0, 2, 7));
    let server =
        |queue: &AppQueue, running: &dyn Fn() -> bool| nameserver::serve(queue, 53, ours, running);
    with(1, server, |net, socket| {
        let query = |name: &str, kind: u8| {
            let header = [0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            [&header[..], &nameserver::encoded(name), &[0, kind, 0, 1]].concat()
        };
        let answer = ask(&socket, (SERVER, 53), &query("WEEVER.example", 1));
        assert_eq!((answer[3] & 15, answer[7]), (0, 1));
        assert!(answer.ends_with(&[0, 4, 192, 0, 2, 7]));
        let other = ask(&socket, (SERVER, 53), &query("weever.example", 28));
        assert_eq!((other[3] & 15, other[7]), (0, 0), "there is the name, but no such record");
        let none = ask(&socket, (SERVER, 53), &query("other.example", 1));
        assert_eq!((none[3] & 15, none[7]), (3, 0));
        let server = format!("@{SERVER}");
        let dig = ["+short", "+tries=3", &server, "weever.example"];
        match net.right.run(|| Command::new("dig").args(dig).output()) {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "192.0.2.7"),
            Err(_) => eprintln!("skipped in part: needs dig"),
        }
    });
}

/// Connects until the server listens.
fn connect(net: &Fixture, port: u16) -> TcpStream {
    connect_to(net, &SERVER.to_string(), port)
}

#[test]
fn the_web_server_answers_many_requests_on_many_connections() {
    require_net_admin!();
    let page: Vec<u8> = (0..100_000u32).map(|i| b'a' + (i % 23) as u8).collect();
    let server =
        |queue: &AppQueue, running: &dyn Fn() -> bool| web::serve(queue, 80, &page, running);
    with(1, server, |net, _| {
        let mut streams: Vec<TcpStream> = (0..8).map(|_| connect(net, 80)).collect();
        for round in 0..3 {
            for stream in &mut streams {
                // In two pieces, of which the first ends within the head.
                stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
                let last = if round == 2 { "Connection: close\r\n" } else { "" };
                stream.write_all(format!("st: x\r\n{last}\r\n").as_bytes()).unwrap();
            }
            for stream in &mut streams {
                let connection = if round == 2 { "close" } else { "keep-alive" };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nConnection: {connection}\r\n\r\n"
                );
                let mut answer = vec![0; head.len() + page.len()];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(String::from_utf8_lossy(&answer[..head.len()]), head);
                assert!(answer[head.len()..] == page, "the page is whole");
            }
        }
        for mut stream in streams {
            assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "the server closes");
        }
        let mut other = connect(net, 80);
        other.write_all(b"GET /other HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        let url = format!("http://{SERVER}/");
        match net.right.run(|| Command::new("curl").args(["-s", "-m", "20", &url]).output()) {
            Ok(output) => assert!(output.stdout == page, "{output:?}"),
            Err(_) => eprintln!("skipped in part: needs curl"),
        }
    });
}

#[test]
fn the_listener_hears_its_group() {
    require_net_admin!();
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let (heard, hearing) = std::sync::mpsc::channel();
    let server = |queue: &AppQueue, running: &dyn Fn() -> bool| {
        let heard = heard.clone();
        listen(queue, (group.into(), 5000), running, |datagram| {
            drop(heard.send(datagram.to_vec()));
        })
    };
    with(1, server, |_, socket| {
        SockRef::from(&socket).set_multicast_if_v4(&Fixture::RIGHT).unwrap();
        let since = Instant::now();
        let first = loop {
            assert!(since.elapsed() < PATIENCE, "nothing was heard");
            // To the host itself, which is not for the listener.
            socket.send_to(b"to you", (SERVER, 5000)).unwrap();
            socket.send_to(b"to all", (group, 5000)).unwrap();
            if let Ok(first) = hearing.recv_timeout(Duration::from_millis(50)) {
                break first;
            }
        };
        assert_eq!(first, b"to all");
    });
}

/// Gives the kernel an address beside the server's, and returns the server's addresses.
fn both_families(net: &Fixture) -> [String; 2] {
    net.veth.right.speak_ipv6("fd77::1".parse().unwrap(), 64).unwrap();
    [SERVER.to_string(), SERVER6.into()]
}

/// Connects to any address until the server listens.
fn connect_to(net: &Fixture, server: &str, port: u16) -> TcpStream {
    let since = Instant::now();
    loop {
        match net.right.run(|| TcpStream::connect((server, port))) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(since.elapsed() < PATIENCE, "{server}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The output of a client in the kernel's namespace; nothing, and a word about it, if it is not installed.
fn client(net: &Fixture, program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments).stdin(std::process::Stdio::null());
    if Command::new(program).arg("--help").output().is_err() {
        eprintln!("skipped in part: needs {program}");
        return None;
    }
    let output = net.right.run(|| command.output()).unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_store_speaks_to_clients_of_memcached_and_redis() {
    require_net_admin!();
    let server =
        |queue: &AppQueue, running: &dyn Fn() -> bool| keyvalue::serve(queue, 11211, running);
    with(1, server, |net, _| {
        for address in both_families(net) {
            let mut memcached = connect_to(net, &address, 11211);
            let value = "v".repeat(100_000);
            let set = format!("set large 5 0 {}\r\n{value}\r\nget none large\r\n", value.len());
            memcached.write_all(set.as_bytes()).unwrap();
            let right = format!("STORED\r\nVALUE large 5 {}\r\n{value}\r\nEND\r\n", value.len());
            let mut answer = vec![0; right.len()];
            memcached.read_exact(&mut answer).unwrap();
            assert!(answer == right.as_bytes(), "{address}");
            memcached.write_all(b"quit\r\n").unwrap();
            assert_eq!(memcached.read(&mut [0; 16]).unwrap(), 0, "the server closes");
            let redis = |words: &[&str]| {
                client(net, "redis-cli", &[&["-h", &address, "-p", "11211"], words].concat())
            };
            if redis(&["set", "key", "of redis"]).is_some() {
                assert_eq!(redis(&["get", "key"]).as_deref(), Some("of redis\n"));
                assert_eq!(redis(&["get", "none"]).as_deref(), Some("\n"));
                assert_eq!(redis(&["del", "key", "none"]).as_deref(), Some("1\n"));
            }
            let load = [
                "-h", &address, "-p", "11211", "-t", "set,get", "-n", "2000", "-c", "20", "-P",
                "4", "-q",
            ];
            if let Some(output) = client(net, "redis-benchmark", &load) {
                assert!(output.contains("SET: ") && output.contains("GET: "), "{output}");
            }
        }
    });
}

#[test]
fn the_web_server_answers_curl_over_both_families() {
    require_net_admin!();
    let page = vec![b'p'; 300_000];
    let server =
        |queue: &AppQueue, running: &dyn Fn() -> bool| web::serve(queue, 80, &page, running);
    with(1, server, |net, _| {
        for address in both_families(net) {
            drop(connect_to(net, &address, 80));
            let host = if address.contains(':') { format!("[{address}]") } else { address };
            let url = format!("http://{host}/");
            // The second request goes over the connection of the first.
            if let Some(pages) = client(net, "curl", &["-gs", "-m", "30", &url, &url]) {
                assert_eq!(pages.len(), 2 * page.len());
            }
        }
    });
}

#[test]
fn many_octets_are_received_from_the_kernel_and_from_nc() {
    require_net_admin!();
    let server =
        |queue: &AppQueue, running: &dyn Fn() -> bool| bulk::receive(queue, 9000, running, |_| {});
    with(1, server, |net, _| {
        let octets: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
        let mut carried = Carried::default();
        carried.add(&octets);
        for address in both_families(net) {
            let mut stream = connect_to(net, &address, 9000);
            stream.write_all(&octets).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut line = String::new();
            stream.read_to_string(&mut line).unwrap();
            assert_eq!(line, carried.line(), "{address}");
            if let Some(line) = client(net, "nc", &["-N", &address, "9000"]) {
                assert_eq!(line, Carried::default().line(), "{address}: nothing was sent");
            }
        }
    });
}

#[test]
fn many_octets_are_sent_to_the_kernel() {
    require_net_admin!();
    const OCTETS: u64 = 5_000_000;
    let (told, outcomes) = std::sync::mpsc::channel();
    let server = |queue: &AppQueue, running: &dyn Fn() -> bool| {
        for peer in ["10.77.0.2:9000", "[fd77::1]:9000"] {
            // The kernel may not listen yet.
            let outcome = loop {
                match bulk::send(queue, peer.parse().unwrap(), OCTETS, running)? {
                    Sent::Failed(_) if running() => std::thread::sleep(Duration::from_millis(50)),
                    outcome => break outcome,
                }
            };
            told.send(outcome).unwrap();
        }
        Ok(())
    };
    with(1, server, |net, _| {
        both_families(net);
        let listener = net.right.run(|| TcpListener::bind(("::", 9000)).unwrap());
        for _ in 0..2 {
            let (mut stream, peer) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut octets, mut carried) = (Vec::new(), Carried::default());
            stream.read_to_end(&mut octets).unwrap();
            carried.add(&octets);
            assert_eq!(carried.octets, OCTETS, "{peer}");
            stream.write_all(carried.line().as_bytes()).unwrap();
            drop(stream);
            let outcome = outcomes.recv_timeout(PATIENCE).unwrap();
            assert_eq!(outcome, Sent::Answered(carried.line()), "{peer}");
        }
    });
}
