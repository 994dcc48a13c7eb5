//! Applications on the kernel's own addresses (`share = "ports"`), with the kernel beside them and at the other end.

mod common;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::temporary_path;
use weever_app_sockets::{AppQueue, Bind, Error, Event, QueueConfig};
use weever_daemon::config::{Config, Interface, PortRange, Share};
use weever_daemon::{ReleaseArgs, Stack};
use weever_testbed::{Fixture, Namespace, own_bpf_files, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(30);
const LEFT6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
const RIGHT6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
const WEB: u16 = 8080;
const NAMES: u16 = 5353;
const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";

/// Two hosts that speak both families; the kernel has all addresses. `None` without a BPF file system.
fn network() -> Option<Fixture> {
    if let Err(why) = own_bpf_files() {
        println!("skipped: needs a BPF file system: {why}");
        return None;
    }
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    for (end, address) in [(&net.veth.left, LEFT6), (&net.veth.right, RIGHT6)] {
        end.speak_ipv6(address, 64).unwrap();
    }
    Some(net)
}

/// The stack's configuration, and where it serves applications.
fn config(keep: u32) -> (Config, PathBuf) {
    let mut interface = Interface::new("left0", Vec::new());
    interface.share = Share::Ports;
    let (mut config, apps) = (Config::of(vec![interface]), temporary_path());
    (config.apps, config.apps_keep) = (Some(apps.clone()), keep);
    config.control = Some(temporary_path());
    config.pool.frames = 4096;
    (config, apps)
}

fn start(net: &Fixture, config: &Config) -> Stack {
    net.left.run(|| Stack::start(config.clone())).unwrap()
}

fn application(apps: &Path) -> AppQueue {
    AppQueue::connect(&QueueConfig { path: apps.into(), ..QueueConfig::default() }).unwrap()
}

/// Answers what comes with the same until `work` on another thread is done.
fn serve<T: Send>(queue: &AppQueue, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            queue.wait(Some(Duration::from_millis(10))).unwrap();
            while let Some(event) = queue.next().unwrap() {
                match event {
                    Event::Datagram(datagram) => datagram.reply().unwrap(),
                    Event::Octets(octets) => {
                        let (stream, sent) = (octets.stream(), octets.octets().to_vec());
                        drop(octets);
                        assert_eq!(queue.write(stream, &sent).unwrap(), sent.len());
                    }
                    Event::Finished(stream) => queue.close_stream(stream).unwrap(),
                    _ => {}
                }
            }
        }
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Serves connections of a kernel's listener, one after the other, until `count` have ended.
fn echo_connections(listener: &TcpListener, count: usize) {
    for _ in 0..count {
        let (mut stream, _) = listener.accept().unwrap();
        let mut octets = Vec::new();
        stream.read_to_end(&mut octets).unwrap();
        stream.write_all(&octets).unwrap();
    }
}

fn echoes(mut stream: TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"octets").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"octets");
}

fn connect(from: &Namespace, to: IpAddr, port: u16) -> io::Result<TcpStream> {
    from.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, port), PATIENCE))
}

/// Asks until there is an answer, since the first datagrams may come before a neighbour is known.
fn ask(from: &Namespace, to: SocketAddr) {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = from.run(|| UdpSocket::bind(any)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket.connect(to).unwrap();
    let (since, mut answer) = (Instant::now(), [0; 10]);
    loop {
        // An error of an earlier one may be told here.
        let _ = socket.send(b"question");
        match socket.recv(&mut answer) {
            Ok(len) => return assert_eq!(&answer[..len], b"question"),
            Err(error) => assert!(since.elapsed() < PATIENCE, "{to}: {error}"),
        }
    }
}

fn own() -> [IpAddr; 2] {
    [Fixture::LEFT.into(), LEFT6.into()]
}

fn refusal(refused: Result<impl Sized, Error>) -> (String, String) {
    match refused {
        Err(Error::Refused { kind, message }) => (format!("{kind:?}"), message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn applications_serve_and_connect_beside_the_kernel() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (config, apps) = config(60);
    let stack = start(&net, &config);
    let queue = application(&apps);
    queue.listen_tcp((Ipv6Addr::UNSPECIFIED, WEB).into(), 16, false).unwrap();
    queue.bind_udp((Ipv6Addr::UNSPECIFIED, NAMES).into()).unwrap();
    let kernels = net.left.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, 9000))).unwrap();
    serve(&queue, || {
        thread::scope(|scope| {
            scope.spawn(|| echo_connections(&kernels, 2));
            for to in own() {
                echoes(connect(&net.right, to, WEB).unwrap());
                ask(&net.right, SocketAddr::new(to, NAMES));
                echoes(connect(&net.right, to, 9000).unwrap());
                let closed = connect(&net.right, to, 9001).unwrap_err();
                assert_eq!(closed.kind(), ErrorKind::ConnectionRefused, "the kernel has the rest");
            }
        });
    });
    for to in [IpAddr::from(Fixture::RIGHT), RIGHT6.into()] {
        let server = net.right.run(|| TcpListener::bind((to, 80))).unwrap();
        let serving = thread::spawn(move || server.accept().unwrap());
        let stream = queue.connect_tcp((to, 80).into()).unwrap();
        queue.commit().unwrap();
        let since = Instant::now();
        'connected: loop {
            assert!(since.elapsed() < PATIENCE, "{to}");
            queue.wait(Some(Duration::from_millis(10))).unwrap();
            while let Some(event) = queue.next().unwrap() {
                match event {
                    Event::Connected(_) => break 'connected,
                    Event::StreamFailed(_, errno) => panic!("{to}: errno {errno}"),
                    _ => {}
                }
            }
        }
        queue.write(stream, b"octets").unwrap();
        queue.finish(stream).unwrap();
        queue.commit().unwrap();
        let (mut peer, client) = serving.join().unwrap();
        let mut heard = Vec::new();
        peer.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"octets");
        assert!((61_000..=63_999).contains(&client.port()), "{client}");
        // By UDP, too, from an ephemeral port.
        let server = net.right.run(|| UdpSocket::bind((to, NAMES))).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = queue.connect_udp(any.parse().unwrap(), (to, NAMES).into()).unwrap();
        queue.send(socket, b"question").unwrap();
        queue.commit().unwrap();
        let (len, client) = server.recv_from(&mut [0; 100]).unwrap();
        assert_eq!((len, client.port()), (8, queue.local_port(socket).unwrap()));
        server.send_to(b"answer", client).unwrap();
        let since = Instant::now();
        'answered: loop {
            assert!(since.elapsed() < PATIENCE, "{to}");
            queue.wait(Some(Duration::from_millis(10))).unwrap();
            while let Some(event) = queue.next().unwrap() {
                if let Event::Datagram(answer) = event {
                    assert_eq!(answer.to_vec(), b"answer");
                    break 'answered;
                }
            }
        }
    }
    drop(queue);
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn a_port_has_one_holder_here_or_in_the_kernel() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (config, apps) = config(60);
    let stack = start(&net, &config);
    let queue = application(&apps);
    let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let process = format!("(pid {})", std::process::id());
    // The kernel's first.
    let tcp = net.left.run(|| TcpListener::bind((Fixture::LEFT, 9000))).unwrap();
    let udp = net.left.run(|| UdpSocket::bind(any(9000))).unwrap();
    let (kind, message) = refusal(queue.listen_tcp(any(9000), 4, false));
    assert!(kind == "InUse" && message.contains(&process), "{message}");
    let (kind, message) = refusal(queue.bind_udp(any(9000)));
    assert!(kind == "InUse" && message.contains("UDP port 9000"), "{message}");
    // One behind the application's own socket is its own.
    let behind = queue.listen(&Bind::at(any(9000)).in_kernel(), 4).unwrap();
    queue.close_listener(behind).unwrap();
    drop((tcp, udp));
    queue.listen_tcp(any(9000), 4, false).unwrap();
    // The application's first.
    let listener = queue.listen_tcp(any(WEB), 4, false).unwrap();
    let socket = queue.bind_udp(any(NAMES)).unwrap();
    let kernel = |address: SocketAddr| net.left.run(|| TcpListener::bind(address)).map(drop);
    let kernel_udp = |address: SocketAddr| net.left.run(|| UdpSocket::bind(address)).map(drop);
    for taken in [any(WEB), (Fixture::LEFT, WEB).into(), (Ipv6Addr::UNSPECIFIED, WEB).into()] {
        assert_eq!(kernel(taken).unwrap_err().kind(), ErrorKind::AddrInUse, "{taken}");
    }
    assert_eq!(kernel_udp(any(NAMES)).unwrap_err().kind(), ErrorKind::AddrInUse);
    kernel((Ipv4Addr::LOCALHOST, WEB).into()).unwrap();
    kernel_udp(any(WEB)).unwrap();
    queue.close_listener(listener).unwrap();
    queue.close(socket).unwrap();
    kernel(any(WEB)).unwrap();
    kernel_udp(any(NAMES)).unwrap();
    // An address that the kernel gets later.
    queue.listen_tcp(any(WEB), 4, false).unwrap();
    net.left.add_address("left0", Ipv4Addr::new(10, 78, 0, 1), 24).unwrap();
    let since = Instant::now();
    while kernel((Ipv4Addr::new(10, 78, 0, 1), WEB).into()).is_ok() {
        assert!(since.elapsed() < PATIENCE, "the address is not reserved");
        thread::sleep(Duration::from_millis(5));
    }
    drop(queue);
    let since = Instant::now();
    while let Err(error) = kernel(any(WEB)) {
        assert!(since.elapsed() < PATIENCE, "a program that ends gives its ports back: {error}");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn a_connection_begins_at_a_port_that_was_taken_or_not_at_all() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (config, apps) = config(60);
    let stack = start(&net, &config);
    let queue = application(&apps);
    let server = net.right.run(|| TcpListener::bind((Fixture::RIGHT, 80))).unwrap();
    let kernels = net.left.run(|| TcpListener::bind((Fixture::LEFT, 22_222))).unwrap();
    let from = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let to = SocketAddr::from((Fixture::RIGHT, 80));
    let (kind, message) = refusal(queue.connect_tcp_from(from(22_222), to));
    assert!(kind == "InUse" && message.contains("TCP port 22222"), "{message}");
    drop(kernels);
    let stream = queue.connect_tcp_from(from(22_222), to).unwrap();
    queue.commit().unwrap();
    let (mut peer, client) = server.accept().unwrap();
    assert_eq!(client, (Fixture::LEFT, 22_222).into());
    let taken = net.left.run(|| TcpListener::bind((Fixture::LEFT, 22_222)));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
    // The connection outlives the queue, and so does the port: its end is not met with a reset.
    drop(queue);
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).unwrap();
    assert!(heard.is_empty());
    let _ = stream;
    assert_eq!(stack.stop().failure, None);
}

/// Waits until the kernel of a namespace has sent a SYN to this port.
fn await_syn(namespace: &Namespace, port: u16) {
    let since = Instant::now();
    let wanted = format!(":{port:04X} 02 ");
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    let has_sent =
        || tables.iter().any(|table| fs::read_to_string(table).unwrap().contains(&wanted));
    while !namespace.run(has_sent) {
        assert!(since.elapsed() < PATIENCE, "no SYN was sent");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Listens for connections, and asks for their answer once the stack serves again.
fn restart(net: &Fixture, config: &Config, apps: &Path, end: impl FnOnce()) {
    end();
    thread::scope(|scope| {
        let right = &net.right;
        let connecting = own().map(|to| scope.spawn(move || connect(right, to, WEB)));
        await_syn(&net.right, WEB);
        // Nobody is there, and the kernel does not say so.
        let socket = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 0))).unwrap();
        socket.connect((Fixture::LEFT, NAMES)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket.send(b"question").unwrap();
        let silent = socket.recv(&mut [0; 10]).unwrap_err();
        assert_ne!(silent.kind(), ErrorKind::ConnectionRefused);
        // Nor while it starts. The application is late, too: its ports are held until then.
        let started = AtomicBool::new(false);
        let stack = thread::scope(|scope| {
            scope.spawn(|| {
                socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                while !started.load(Relaxed) {
                    let silent = socket.send(b"question").and_then(|_| socket.recv(&mut [0; 10]));
                    assert_ne!(silent.unwrap_err().kind(), ErrorKind::ConnectionRefused);
                }
            });
            let stack = start(net, config);
            thread::sleep(Duration::from_millis(20));
            started.store(true, Relaxed);
            stack
        });
        let queue = application(apps);
        queue.listen_tcp((Ipv6Addr::UNSPECIFIED, WEB).into(), 16, false).unwrap();
        queue.bind_udp((Ipv6Addr::UNSPECIFIED, NAMES).into()).unwrap();
        serve(&queue, || {
            connecting.into_iter().for_each(|client| {
                echoes(client.join().unwrap().expect("silence, and then a connection"));
            });
            ask(&net.right, (Fixture::LEFT, NAMES).into());
        });
        assert_eq!(stack.stop().failure, None);
        drop(queue);
    });
}

#[test]
fn the_kernel_is_silent_while_the_stack_restarts() {
    silent_while_it_restarts(None);
}

/// With several sockets on each queue, behind a program that sorts.
#[test]
fn the_kernel_is_silent_while_a_stack_of_shared_queues_restarts() {
    silent_while_it_restarts(Some(2));
}

fn silent_while_it_restarts(threads: Option<u16>) {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (mut config, apps) = config(600);
    let cores = weever_testbed::allowed_cores().unwrap();
    config.cores = cores.into_iter().take(threads.unwrap_or(1).into()).collect();
    config.interfaces[0].threads =
        threads.filter(|threads| *threads as usize <= config.cores.len());
    let stack = start(&net, &config);
    let queue = application(&apps);
    queue.listen_tcp((Ipv6Addr::UNSPECIFIED, WEB).into(), 16, false).unwrap();
    queue.bind_udp((Ipv6Addr::UNSPECIFIED, NAMES).into()).unwrap();
    serve(&queue, || {
        own().into_iter().for_each(|to| echoes(connect(&net.right, to, WEB).unwrap()))
    });
    restart(&net, &config, &apps, || drop(stack.stop()));
    // Somebody gives the ports back.
    let release = ReleaseArgs { dev: "left0".into() };
    let mut told = Vec::new();
    net.left.run(|| release.run(&mut told)).unwrap();
    let told = String::from_utf8(told).unwrap();
    assert_eq!(told, "the kernel has got back on left0: TCP 8080 UDP 5353\n");
    let refused = connect(&net.right, Fixture::LEFT.into(), WEB).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let mut told = Vec::new();
    net.left.run(|| release.run(&mut told)).unwrap();
    assert!(String::from_utf8(told).unwrap().contains("no ports"));
}

#[test]
fn without_time_to_keep_them_ports_are_the_kernels_at_once() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let reserved = || net.left.run(|| fs::read_to_string(RESERVED)).unwrap().trim().to_owned();
    net.left.sysctl("net/ipv4/ip_local_reserved_ports", "53,61100-61200").unwrap();
    let (mut config, apps) = config(0);
    let stack = start(&net, &config);
    assert_eq!(reserved(), "53,61000-63999");
    let queue = application(&apps);
    queue.listen_tcp((Ipv4Addr::UNSPECIFIED, WEB).into(), 16, false).unwrap();
    drop(stack.stop());
    let refused = connect(&net.right, Fixture::LEFT.into(), WEB).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(reserved(), "53,61100-61200");
    drop(queue);
    // With time, they stay reserved until they are released.
    config.apps_keep = 600;
    drop(start(&net, &config).stop());
    assert_eq!(reserved(), "53,61000-63999");
    drop(start(&net, &config).stop());
    let running = start(&net, &config);
    let release = ReleaseArgs { dev: "left0".into() };
    let busy = net.left.run(|| release.run(&mut Vec::new())).unwrap_err().to_string();
    assert!(busy.contains("running stack"), "{busy}");
    drop(running.stop());
    net.left.run(|| release.run(&mut Vec::new())).unwrap();
    assert_eq!(reserved(), "53,61100-61200");
    // So does a stack that shares the device in another way.
    drop(start(&net, &config).stop());
    let (share, address) = (Share::Address, "10.77.0.10/24".parse().unwrap());
    (config.interfaces[0].share, config.interfaces[0].addresses) = (share, vec![address]);
    config.probe = false;
    drop(start(&net, &config).stop());
    assert_eq!(reserved(), "53,61100-61200");
}

#[test]
fn ephemeral_ports_come_to_an_end_and_are_refused_while_the_kernel_has_one() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (mut config, apps) = config(0);
    config.apps_ephemeral = Some(PortRange { first: 5000, last: 5003 });
    let kernels = net.left.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 5002))).unwrap();
    let refused = net.left.run(|| Stack::start(config.clone())).unwrap_err().to_string();
    let wanted = ["apps-ephemeral = 5000-5003", "UDP port 5002", &std::process::id().to_string()];
    assert!(wanted.iter().all(|part| refused.contains(part)), "{refused}");
    assert_eq!(net.left.run(|| fs::read_to_string(RESERVED)).unwrap().trim(), "");
    drop(kernels);
    let stack = start(&net, &config);
    let queue = application(&apps);
    let peer = SocketAddr::from((Fixture::RIGHT, 53));
    let open = || queue.connect_udp("0.0.0.0:0".parse().unwrap(), peer);
    let mut ports: Vec<u16> = (0..4).map(|_| queue.local_port(open().unwrap()).unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [5000, 5001, 5002, 5003]);
    let (kind, message) = refusal(open());
    assert!(kind == "NotAvailable" && message.contains("5000 to 5003"), "{message}");
    // By TCP there is one fewer with each connection to the same server.
    let server = net.right.run(|| TcpListener::bind((Fixture::RIGHT, 80))).unwrap();
    let streams: Vec<_> =
        (0..5).map(|_| queue.connect_tcp((Fixture::RIGHT, 80).into()).unwrap()).collect();
    queue.commit().unwrap();
    let (mut connected, mut failed, since) = (0, 0, Instant::now());
    while connected + failed < streams.len() {
        assert!(since.elapsed() < PATIENCE, "{connected} connected, {failed} failed");
        queue.wait(Some(Duration::from_millis(10))).unwrap();
        while let Some(event) = queue.next().unwrap() {
            connected += usize::from(matches!(event, Event::Connected(_)));
            failed += usize::from(matches!(event, Event::StreamFailed(..)));
        }
    }
    assert_eq!((connected, failed), (4, 1));
    for _ in 0..4 {
        let (_, client) = server.accept().unwrap();
        assert!((5000..=5003).contains(&client.port()), "{client}");
    }
    drop(queue);
    assert_eq!(stack.stop().failure, None);
}

/// A program that has bound a port of the range by its number, or on an address that is not shared, keeps no stack from
/// starting.
#[test]
fn sockets_that_the_kernel_did_not_choose_a_port_for_keep_no_stack_from_starting() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (config, _) = config(600);
    let _loopback = net.left.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 61_004)).unwrap());
    let stack = start(&net, &config);
    // As a program under `weever run` does.
    let _own = net.left.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, 61_005)).unwrap());
    assert_eq!(stack.stop().failure, None);
    assert_eq!(start(&net, &config).stop().failure, None);
    let release = ReleaseArgs { dev: "left0".into() };
    net.left.run(|| release.run(&mut Vec::new())).unwrap();
    let refused = net.left.run(|| Stack::start(config.clone())).unwrap_err().to_string();
    assert!(refused.contains("TCP port 61005"), "{refused}");
}

/// The application's own kernel socket is closed before its connection has ended.
#[test]
fn a_port_that_only_connections_need_is_not_chosen_by_the_kernel() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (config, apps) = config(0);
    let stack = start(&net, &config);
    let queue = application(&apps);
    let server = net.right.run(|| TcpListener::bind((Fixture::RIGHT, 80))).unwrap();
    let own = net.left.run(|| TcpListener::bind((Fixture::LEFT, WEB)).unwrap());
    queue.take_port(WEB, true).unwrap();
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, WEB));
    let stream = queue.connect_tcp_from(any, (Fixture::RIGHT, 80).into()).unwrap();
    queue.commit().unwrap();
    let (peer, client) = server.accept().unwrap();
    assert_eq!(client, (Fixture::LEFT, WEB).into());
    // The peer goes on, so that the connection does not end.
    queue.close_stream(stream).unwrap();
    queue.commit().unwrap();
    drop(own);
    let bind = || net.left.run(|| bind_tcp((Fixture::LEFT, WEB).into()));
    let since = Instant::now();
    while let Ok(free) = bind() {
        drop(free);
        assert!(since.elapsed() < PATIENCE, "the kernel gives the port away");
        thread::sleep(Duration::from_millis(50));
    }
    // The kernel's standard library sets `SO_REUSEADDR`, as servers do.
    drop(net.left.run(|| TcpListener::bind((Fixture::LEFT, WEB))).unwrap());
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let since = Instant::now();
    while let Err(error) = bind() {
        assert!(since.elapsed() < PATIENCE, "the connection was reset: {error}");
        thread::sleep(Duration::from_millis(50));
    }
    drop(queue);
    assert_eq!(stack.stop().failure, None);
}

/// A kernel socket on a port, bound without `SO_REUSEADDR`.
fn bind_tcp(address: SocketAddr) -> io::Result<socket2::Socket> {
    let socket =
        socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[test]
fn groups_are_the_kernels() {
    require_net_admin!();
    let Some(net) = network() else { return };
    let (config, apps) = config(0);
    let stack = start(&net, &config);
    let queue = application(&apps);
    let socket = queue.bind_udp((Ipv4Addr::UNSPECIFIED, NAMES).into()).unwrap();
    let group = Ipv4Addr::new(239, 1, 2, 3).into();
    let (_, message) = refusal(queue.join(socket, group, Some("left0")));
    assert!(message.contains("the interface's groups are the kernel's"), "{message}");
    drop(queue);
    assert_eq!(stack.stop().failure, None);
}
