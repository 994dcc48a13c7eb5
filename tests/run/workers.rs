//! Servers of several processes.

use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, Program, has};

/// How often nginx reads its configuration again, unless `WEEVER_RELOADS` says otherwise.
const RELOADS: usize = 20;

/// nginx with a master and two workers, which listen: two listeners each.
fn nginx(lab: &Lab) -> Program {
    let server = start(lab, 2);
    lab.await_listed(" *:80 ", 6);
    server
}

/// nginx with so many workers, which may not serve yet.
fn start(lab: &Lab, workers: usize) -> Program {
    let folder = lab.folder.display();
    let text = format!(
        "worker_processes {workers}; daemon off; user root; pid {folder}/pid; error_log {folder}/errors info;
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; server {{
           listen 80; listen [::]:80; root {folder};
           location /hello {{ return 200 hello; }} }} }}"
    );
    std::fs::write(lab.folder.join("nginx.conf"), text).unwrap();
    let config = lab.folder.join("nginx.conf");
    lab.start(&["nginx", "-c", config.to_str().unwrap()])
}

#[test]
fn nginx_of_one_worker_serves_those_who_come_while_it_starts() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    let starts = std::env::var("WEEVER_STARTS").map_or(5, |text| text.parse().unwrap());
    for _ in 0..starts {
        let mut server = start(&lab, 1);
        for to in BOTH {
            // Tried from the first moment on: the master listens before it has a worker.
            let (_, body) = lab.get(&mut server, to, 80, "/hello");
            assert_eq!(body, b"hello", "{}", server.told());
        }
        drop(server);
        lab.await_listed(" *:80 ", 0);
    }
}

#[test]
fn nginx_serves_files_and_keeps_connections() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    let content = lab.file("big", 20 << 20);
    let mut server = nginx(&lab);
    for to in BOTH {
        let (head, body) = lab.get(&mut server, to, 80, "/big");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(body == content, "{to}: {} of {} octets", body.len(), content.len());
        let mut kept = lab.connect(&mut server, to, 80);
        for _ in 0..50 {
            kept.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"hello") {
                let mut more = [0; 1024];
                let len = kept.read(&mut more).unwrap();
                assert!(len > 0, "{to}: closed after {answer:?}; {}", server.told());
                answer.extend(&more[..len]);
            }
        }
    }
}

/// Queues that listen at port 80, but for the master's, which is the first and stays.
fn workers(lab: &Lab) -> Vec<String> {
    let listed = lab.up().ask(&["sockets"]);
    let lines = listed.lines().filter(|line| line.contains(" *:80 "));
    let mut queues: Vec<_> =
        lines.map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect();
    let master = queues.iter().map(|queue| queue.parse::<u32>().unwrap()).min();
    queues.retain(|queue| Some(queue.parse().unwrap()) != master);
    queues
}

/// Ends the clients, also when the test has failed.
struct End<'o>(&'o AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes requests, each by a connection of its own, and returns how many were answered. None may fail.
fn requests_until(lab: &Lab, client: usize, over: &AtomicBool) -> usize {
    lab.net.right.run(|| {
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            let to = BOTH[(client + number) % 2];
            let stream = TcpStream::connect((to, 80));
            let mut stream = stream.unwrap_or_else(|error| panic!("{to}, {number}: {error}"));
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut answer = Vec::new();
            let asked = stream.write_all(b"GET /hello HTTP/1.0\r\n\r\n");
            let read = asked.and_then(|()| stream.read_to_end(&mut answer));
            read.unwrap_or_else(|error| panic!("{to}, {number}: {error} after {answer:?}"));
            assert!(answer.ends_with(b"hello"), "{to}, {number}: {answer:?}");
            number += 1;
        }
        number
    })
}

#[test]
fn reloads_of_nginx_refuse_and_reset_no_connection() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    let mut server = nginx(&lab);
    // A request that is being served when the reloads begin is served to its end.
    let mut kept = lab.connect(&mut server, BOTH[0], 80);
    let mut answer = Vec::new();
    kept.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    while !answer.ends_with(b"hello") {
        let mut more = [0; 1024];
        let len = kept.read(&mut more).unwrap();
        answer.extend(&more[..len]);
    }
    kept.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n").unwrap();
    let reloads = std::env::var("WEEVER_RELOADS").map_or(RELOADS, |text| text.parse().unwrap());
    let over = AtomicBool::new(false);
    let requests = std::thread::scope(|scope| {
        let client = |number| requests_until(&lab, number, &over);
        let clients = [0, 1, 2].map(|number| scope.spawn(move || client(number)));
        let end = End(&over);
        for _ in 0..reloads {
            let before = workers(&lab);
            kill(Pid::from_raw(server.child.id() as i32), Signal::SIGHUP).unwrap();
            // Until two new workers listen, and no old one.
            let since = Instant::now();
            while {
                let now = workers(&lab);
                now.len() != 4 || now.iter().any(|queue| before.contains(queue))
            } {
                assert!(since.elapsed() < PATIENCE, "a reload has no end: {}", server.told());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        drop(end);
        clients.map(|client| client.join().unwrap()).iter().sum::<usize>()
    });
    eprintln!("{requests} requests during {reloads} reloads");
    assert!(requests > reloads, "{requests} requests");
    kept.write_all(b"Connection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    kept.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(b"hello"), "{}", server.told());
}

/// Makes a listener, and forks when it is told to: the child serves.
const FORKS: &str = "
import os, socket, time
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
while not os.path.exists('connected'):
    time.sleep(0.02)
if os.fork():
    os.wait()
while True:
    stream = listener.accept()[0]
    while data := stream.recv(100000):
        stream.sendall(data.upper())
    stream.close()
";

#[test]
fn connections_from_before_the_fork_go_to_the_child_that_serves() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&["/usr/bin/python3", "-c", FORKS]);
    let mut streams = BOTH.map(|to| lab.connect(&mut server, to, 9100));
    streams.iter_mut().for_each(|stream| stream.write_all(b"early").unwrap());
    std::fs::write(lab.folder.join("connected"), "").unwrap();
    for mut stream in streams {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        read.unwrap_or_else(|error| panic!("{error}; {}", server.told()));
        assert_eq!(answer, b"EARLY", "{}", server.told());
    }
}

/// Becomes a daemon as most programs do: forks twice, and the one that is left uses its listener when it is told to. It
/// may be another user by then.
const DAEMON: &str = "
import os, socket, sys, time
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
spare = socket.create_server(('::', 9101), family=socket.AF_INET6, dualstack_ipv6=True)
other = socket.create_server(('::', 9102), family=socket.AF_INET6, dualstack_ipv6=True)
if sys.argv[1] == 'nobody':
    os.setresuid(65534, 65534, 65534)
for _ in range(2):
    if os.fork():
        os._exit(0)
open('daemon', 'w').write(str(os.getpid()))
while not os.path.exists('connected'):
    time.sleep(0.02)
spare.close()
other.shutdown(socket.SHUT_RDWR)
for _ in range(2):
    stream = listener.accept()[0]
    while data := stream.recv(100000):
        stream.sendall(data.upper())
    stream.close()
listener.close()
open('closed', 'w').close()
time.sleep(600)
";

/// Waits for a file of the program's, and returns what is in it.
fn written(lab: &Lab, name: &str, server: &mut Program) -> String {
    let since = Instant::now();
    loop {
        match std::fs::read_to_string(lab.folder.join(name)) {
            Ok(text) if name != "daemon" || !text.is_empty() => return text,
            _ => assert!(since.elapsed() < PATIENCE, "{}", server.told()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_wait_for_a_daemon_whose_parents_have_ended() {
    require_net_admin!();
    if has("python3") {
        becomes_a_daemon("root");
    }
}

#[test]
fn connections_wait_for_a_daemon_that_has_changed_its_user() {
    require_net_admin!();
    if has("python3") {
        becomes_a_daemon("nobody");
    }
}

fn becomes_a_daemon(user: &str) {
    let lab = Lab::new();
    // Whoever it is by then, it writes its files.
    std::fs::set_permissions(&lab.folder, Permissions::from_mode(0o777)).unwrap();
    let mut server = lab.start(&["/usr/bin/python3", "-c", DAEMON, user]);
    written(&lab, "daemon", &mut server);
    assert!(server.child.wait().unwrap().success(), "{}", server.told());
    // Its ports are held for the child, and listed so.
    lab.await_listed(": 0 queues", 1);
    for port in [9100, 9101, 9102] {
        let listed = lab.await_listed(&format!(":{port} "), 1);
        assert!(
            listed.lines().any(|line| line.contains("held") && line.contains(&format!(":{port} "))),
            "{listed}"
        );
    }
    // At the first attempt: nobody has the listener on a queue.
    let connect = |to| lab.net.right.run(|| TcpStream::connect((to, 9100)));
    let streams = BOTH.map(|to| connect(to).unwrap_or_else(|e| panic!("{e}; {}", server.told())));
    std::fs::write(lab.folder.join("connected"), "").unwrap();
    for mut stream in streams {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"waited").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        read.unwrap_or_else(|error| panic!("{error}; {}", server.told()));
        assert_eq!(answer, b"WAITED", "{}", server.told());
    }
    // Nothing is left that keeps its ports open.
    written(&lab, "closed", &mut server);
    await_refused(&lab, &[9100, 9101, 9102], &mut server);
}

/// Waits until connections to these ports are refused.
fn await_refused(lab: &Lab, ports: &[u16], server: &mut Program) {
    for (to, port) in BOTH.into_iter().flat_map(|to| ports.iter().map(move |port| (to, *port))) {
        let since = Instant::now();
        let connect = || TcpStream::connect_timeout(&(to, port).into(), PATIENCE);
        // Where it is open, nobody answers once the backlog is full.
        while !lab.net.right.run(connect).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            assert!(since.elapsed() < PATIENCE, "port {port} is still open; {}", server.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Becomes a daemon by two forks, and closes one of its listeners without having used it, and one that it has used. It
/// accepts by the third when it is told to.
const CLOSES: &str = "
import os, socket, time
def listener(port):
    return socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)
unused, used, kept = [listener(port) for port in (9101, 9102, 9100)]
for _ in range(2):
    if os.fork():
        os._exit(0)
unused.close()
used.setblocking(False)
try:
    used.accept()
except BlockingIOError:
    used.close()
open('daemon', 'w').write(str(os.getpid()))
while not os.path.exists('connected'):
    time.sleep(0.02)
for _ in range(2):
    stream = kept.accept()[0]
    stream.sendall(stream.recv(100).upper())
    stream.close()
";

#[test]
fn a_child_that_closes_some_of_its_listeners_keeps_the_others_only() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&["/usr/bin/python3", "-c", CLOSES]);
    written(&lab, "daemon", &mut server);
    assert!(server.child.wait().unwrap().success(), "{}", server.told());
    await_refused(&lab, &[9101, 9102], &mut server);
    let told = server.told();
    assert!(!told.contains("stays open for this process"), "{told}");
    // At the first attempt: they wait for the child.
    let connect = |to| lab.net.right.run(|| TcpStream::connect((to, 9100)));
    let streams = BOTH.map(|to| connect(to).unwrap_or_else(|e| panic!("{e}; {}", server.told())));
    std::fs::write(lab.folder.join("connected"), "").unwrap();
    for mut stream in streams {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"waited").unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        read.unwrap_or_else(|error| panic!("{error}; {}", server.told()));
        assert_eq!(answer, b"WAITED", "{}", server.told());
    }
}
