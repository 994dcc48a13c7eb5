//! Programs on the kernel's own addresses (`share = "ports"`), beside programs of the kernel's.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use weever_testbed::{Fixture, own_bpf_files, require_net_admin};

use super::lab::{LEFT6, Lab, PATIENCE, Program, RIGHT6, has};

const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Fixture::LEFT), IpAddr::V6(LEFT6)];

/// A UDP server that answers with the same.
const ECHO: &str = "\
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 5300))
while True:
    data, peer = s.recvfrom(1000)
    s.sendto(data, peer)
";

/// A UDP client of the server at its first argument; it prints the answer.
const QUESTION: &str = "\
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
for _ in range(30):
    s.sendto(b'question', (sys.argv[1], 5300))
    try:
        print(s.recv(100).decode())
        break
    except TimeoutError:
        pass
";

fn lab() -> Option<Lab> {
    if !has("python3") || !has("curl") {
        return None;
    }
    match own_bpf_files() {
        Ok(()) => Some(Lab::sharing_ports()),
        Err(why) => {
            println!("skipped: needs a BPF file system: {why}");
            None
        }
    }
}

fn web_server(lab: &Lab) -> Program {
    lab.start(&["python3", "-m", "http.server", "8000", "--bind", "::"])
}

/// A TCP server that answers a line with the same, and waits in epoll.
const LINES: &str = "\
import asyncio
async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(echo, None, 8000)
    await server.serve_forever()
asyncio.run(main())
";

/// Answers one request of HTTP, and returns the client's end.
fn answer(listener: &TcpListener) -> SocketAddr {
    let (mut stream, peer) = listener.accept().unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        stream.read_exact(&mut octet).unwrap();
        request.extend(octet);
    }
    stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    peer
}

#[test]
fn servers_and_clients_have_ports_of_the_kernels_addresses() {
    require_net_admin!();
    let Some(lab) = lab() else { return };
    let content = lab.file("page", 300_000);
    let mut web = web_server(&lab);
    let mut echo = lab.start(&["python3", "-c", ECHO]);
    let kernels = lab.net.left.run(|| TcpListener::bind("[::]:9000").unwrap());
    let serving = thread::spawn(move || {
        (0..2).for_each(|_| {
            answer(&kernels);
        })
    });
    for to in ADDRESSES {
        assert_eq!(lab.get(&mut web, to, 8000, "/page").1, content);
        assert_eq!(lab.ask(&mut echo, (to, 5300), b"question"), b"question");
        let kernel = lab.get(&mut web, to, 9000, "/");
        assert_eq!(kernel.1, b"hello", "the kernel's server");
        let taken = lab.net.left.run(|| TcpListener::bind((to, 8000))).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse, "the program's own socket has it");
    }
    serving.join().unwrap();
    lab.await_listed(" *:8000 ", 1);
    lab.await_listed(" *:5300 ", 1);
    for to in [IpAddr::from(Fixture::RIGHT), RIGHT6.into()] {
        let server = lab.net.right.run(|| TcpListener::bind((to, 80)).unwrap());
        let serving = thread::spawn(move || answer(&server));
        let url = format!("http://{}/", SocketAddr::new(to, 80));
        assert_eq!(lab.output(&["curl", "-s", "--max-time", "30", &url]), "hello");
        let peer = serving.join().unwrap();
        assert!((61_000..=63_999).contains(&peer.port()), "{peer} is not the stack's");
        let server = lab.net.right.run(|| UdpSocket::bind((to, 5300)).unwrap());
        let serving = thread::spawn(move || {
            let mut question = [0; 100];
            let (len, peer) = server.recv_from(&mut question).unwrap();
            server.send_to(&question[..len], peer).unwrap();
        });
        let told = lab.output(&["python3", "-c", QUESTION, &to.to_string()]);
        assert_eq!(told.trim(), "question");
        serving.join().unwrap();
    }
}

/// A client that connects as often as its first argument says, each time from a port that the kernel chose, and tells
/// the last; it goes on until it is ended.
const CLIENT: &str = "\
import socket, sys, time
for n in range(int(sys.argv[1])):
    s = socket.socket()
    s.bind((sys.argv[2], 0))
    port = s.getsockname()[1]
    s.connect((sys.argv[3], 80))
    assert s.recv(10) == b'', 'the server closes first'
    s.close()
print('last', port, flush=True)
time.sleep(600)
";

/// Debian's nginx: its workers are another user's, whom the stack admits.
#[test]
fn an_nginx_with_workers_of_another_user_serves_while_it_reloads() {
    require_net_admin!();
    let Some(user) = User::from_name("www-data").unwrap() else {
        return println!("skipped: needs the user www-data");
    };
    if !has("nginx") || own_bpf_files().is_err() {
        return println!("skipped: needs nginx and a BPF file system");
    }
    let mut lab = Lab::sharing_ports();
    lab.kill_stack();
    lab.share_ports_with(&["--apps-users", &user.uid.to_string()]);
    let content = lab.file("page", 300_000);
    let folder = lab.folder.display();
    let text = format!(
        "user www-data; worker_processes 2; daemon off; pid {folder}/pid;
         error_log {folder}/errors info; events {{ worker_connections 64; }}
         http {{ access_log off; server {{ listen 80; listen [::]:80; root {folder}; }} }}"
    );
    let config = lab.folder.join("nginx.conf");
    std::fs::write(&config, text).unwrap();
    let mut server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    let workers = |server: &Program| -> Vec<u32> {
        let pid = server.child.id();
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace().map(|child| child.parse().unwrap()).collect()
    };
    for to in ADDRESSES {
        assert_eq!(lab.get(&mut server, to, 80, "/page").1, content);
    }
    let before = workers(&server);
    for pid in &before {
        let owner = std::fs::metadata(format!("/proc/{pid}")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), user.uid.as_raw());
    }
    kill(Pid::from_raw(server.child.id() as i32), Signal::SIGHUP).unwrap();
    let since = Instant::now();
    // The old ones end once their connections have.
    while before.iter().any(|pid| workers(&server).contains(pid)) {
        assert!(since.elapsed() < PATIENCE, "{}", server.told());
        for to in ADDRESSES {
            assert_eq!(lab.get(&mut server, to, 80, "/page").1, content);
        }
    }
    for to in ADDRESSES {
        assert_eq!(lab.get(&mut server, to, 80, "/page").1, content);
    }
}

#[test]
fn ports_of_connections_are_the_kernels_again_after_them() {
    require_net_admin!();
    let Some(lab) = lab() else { return };
    // More than a queue may have at once.
    const COUNT: usize = 1200;
    let server = lab.net.right.run(|| TcpListener::bind((Fixture::RIGHT, 80)).unwrap());
    let serving = thread::spawn(move || {
        server.incoming().take(COUNT).for_each(|stream| drop(stream.unwrap()));
    });
    let (count, own) = (COUNT.to_string(), Fixture::LEFT.to_string());
    let to = Fixture::RIGHT.to_string();
    let mut client = lab.start(&["python3", "-c", CLIENT, &count, &own, &to]);
    let since = Instant::now();
    let port = loop {
        let told = client.told();
        let last = told.lines().find_map(|line| line.strip_prefix("last "));
        if let Some(port) = last {
            break port.parse::<u16>().unwrap();
        }
        assert!(client.child.try_wait().unwrap().is_none(), "{told}");
        assert!(since.elapsed() < 8 * PATIENCE, "{told}");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(!(61_000..=63_999).contains(&port), "the kernel chose {port}");
    serving.join().unwrap();
    let _other = lab.net.right.run(|| TcpListener::bind((Fixture::RIGHT, 81)).unwrap());
    // A program of the kernel's has the last of them now.
    let from = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Fixture::LEFT, port)).into())?;
        socket.connect_timeout(
            &SocketAddr::from((Fixture::RIGHT, 81)).into(),
            Duration::from_millis(200),
        )
    };
    let since = Instant::now();
    while let Err(error) = lab.net.left.run(from) {
        assert!(since.elapsed() < PATIENCE, "{port}: {error}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stack_that_is_killed_leaves_silence_and_the_next_one_serves() {
    require_net_admin!();
    let Some(mut lab) = lab() else { return };
    let mut server = lab.start(&["python3", "-c", LINES]);
    let echoes = |mut stream: TcpStream, told: &str| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"a line\n").unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"a line\n", "{told}");
    };
    lab.await_listed(":8000 ", 2);
    ADDRESSES.iter().for_each(|to| echoes(lab.connect(&mut server, *to, 8000), ""));
    lab.kill_stack();
    let right = lab.net.right.clone();
    let clients = ADDRESSES.map(|to| {
        let right = right.clone();
        thread::spawn(move || {
            right.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, 8000), PATIENCE))
        })
    });
    let since = Instant::now();
    let has_sent = || {
        let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
        let sent = |table| std::fs::read_to_string(table).unwrap().contains(":1F40 02 ");
        tables.into_iter().all(sent)
    };
    while !right.run(has_sent) {
        assert!(since.elapsed() < PATIENCE, "no SYNs were sent");
        thread::sleep(Duration::from_millis(5));
    }
    // No other program gets the port meanwhile.
    let taken = lab.net.left.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 8000)));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
    lab.share_ports();
    lab.await_listed(":8000 ", 2);
    for client in clients {
        let stream = client.join().unwrap().expect("silence, and then a connection");
        echoes(stream, &server.told());
    }
}
