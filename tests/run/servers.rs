//! Servers of one process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weever_testbed::{Fixture, require_net_admin};

use super::lab::{BOTH, Lab, PATIENCE, has};

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn pythons_http_server_serves_both_families_and_loopback() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let content = lab.file("big", 3 << 20);
    lab.file("small", 7);
    let mut server = lab.start(&[PYTHON, "-m", "http.server", "8000", "--bind", "::"]);
    for to in BOTH {
        let (head, body) = lab.get(&mut server, to, 8000, "/big");
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        assert!(body == content, "{} of {} octets are right", body.len(), content.len());
        assert_eq!(lab.get(&mut server, to, 8000, "/small").1.len(), 7);
    }
    lab.await_listed(" *:8000 ", 1);
    // A wildcard serves the kernel's addresses beside the stack's.
    let mut near = lab.net.left.run(|| TcpStream::connect("127.0.0.1:8000").unwrap());
    near.write_all(b"GET /small HTTP/1.0\r\n\r\n").unwrap();
    let mut all = Vec::new();
    near.read_to_end(&mut all).unwrap();
    assert!(all.starts_with(b"HTTP/1.0 200"));
}

#[test]
fn an_asyncio_server_answers_datagrams() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let script = "
import asyncio
class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport): self.transport = transport
    def datagram_received(self, data, addr): self.transport.sendto(data[::-1], addr)
async def main():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, local_addr=('::', 9000))
    await asyncio.sleep(600)
asyncio.run(main())
";
    let mut server = lab.start(&[PYTHON, "-c", script]);
    for to in BOTH {
        for len in [1, 100, 1400, 5000] {
            let question: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let answer = lab.ask(&mut server, (to, 9000), &question);
            assert!(answer.iter().rev().eq(&question), "{to}, {len} octets");
        }
    }
    lab.await_listed(" *:9000 ", 1);
}

#[test]
fn redis_answers_pipelines_and_saves_in_a_child() {
    require_net_admin!();
    if !has("redis-server") {
        return;
    }
    let lab = Lab::new();
    let bind = ["--bind", "0.0.0.0", "::", "--protected-mode", "no", "--port", "6379"];
    let mut server = lab.start(&[&["redis-server"], &bind[..]].concat());
    for to in BOTH {
        let stream = lab.connect(&mut server, to, 6379);
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut next = || lines.next().expect("an answer").unwrap();
        let ask = |text: &str| (&stream).write_all(text.as_bytes()).unwrap();
        for i in 0..500 {
            ask(&format!("SET key{i} value{i}\r\nGET key{i}\r\n"));
        }
        for i in 0..500 {
            assert_eq!(next(), "+OK");
            assert_eq!(
                (next(), next()),
                (format!("${}", format!("value{i}").len()), format!("value{i}"))
            );
        }
        let long = "v".repeat(300_000);
        ask(&format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${}\r\n{long}\r\nGET long\r\n", long.len()));
        assert_eq!((next().as_str(), next().as_str()), ("+OK", "$300000"));
        assert_eq!(next(), long);
        ask("BGSAVE\r\n");
        let started = next();
        assert!(started.contains("Background saving"), "{started}; {}", server.told());
        // The child has its own copy of everything: the parent goes on.
        ask("GET key7\r\n");
        assert_eq!((next().as_str(), next().as_str()), ("$6", "value7"));
        while {
            ask("INFO persistence\r\n");
            let len: usize = next()[1..].parse().unwrap();
            let mut text = String::new();
            while text.len() + 2 < len {
                text.push_str(&next());
                text.push_str("\r\n");
            }
            next();
            text.contains("rdb_bgsave_in_progress:1")
        } {}
    }
}

#[test]
fn memcached_shares_connections_among_its_threads() {
    require_net_admin!();
    if !has("memcached") {
        return;
    }
    let lab = Lab::new();
    let mut server =
        lab.start(&["memcached", "-u", "root", "-t", "4", "-p", "11211", "-U", "11211"]);
    for to in BOTH {
        let mut clients: Vec<_> = (0..12).map(|_| lab.connect(&mut server, to, 11211)).collect();
        for round in 0..20 {
            for (number, client) in clients.iter_mut().enumerate() {
                let value = format!("{round}-{number}").repeat(100);
                let key = format!("key{number}");
                write!(client, "set {key} 0 0 {}\r\n{value}\r\nget {key}\r\n", value.len())
                    .unwrap();
            }
            for (number, client) in clients.iter_mut().enumerate() {
                let value = format!("{round}-{number}").repeat(100);
                let expected =
                    format!("STORED\r\nVALUE key{number} 0 {}\r\n{value}\r\nEND\r\n", value.len());
                let mut got = vec![0; expected.len()];
                client.read_exact(&mut got).unwrap_or_else(|e| panic!("{e}; {}", server.told()));
                assert_eq!(String::from_utf8_lossy(&got), expected);
            }
        }
        let question = b"\0\x07\0\0\0\x01\0\0get key3\r\n";
        let answer = lab.ask(&mut server, (to, 11211), question);
        assert!(answer.starts_with(b"\0\x07\0\0\0\x01\0\0VALUE key3 0 400\r\n19-3"), "{answer:?}");
    }
}

#[test]
fn haproxy_passes_requests_on() {
    require_net_admin!();
    if !has("haproxy") || !has("python3") {
        return;
    }
    let lab = Lab::new();
    let content = lab.file("big", 5 << 20);
    let config = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
         frontend f\n bind 0.0.0.0:8100\n bind :::8100 v6only\n default_backend b\n\
         backend b\n server s {}:8101\n",
        Fixture::RIGHT
    );
    std::fs::write(lab.folder.join("haproxy.cfg"), config).unwrap();
    // The server behind it is the kernel's, on the other host.
    let mut behind = Command::new(PYTHON);
    behind.args(["-m", "http.server", "8101"]).current_dir(&lab.folder);
    behind.stdout(Stdio::null()).stderr(Stdio::null());
    let mut behind = lab.net.right.run(|| behind.spawn().unwrap());
    let since = Instant::now();
    while lab.net.right.run(|| TcpStream::connect((Fixture::RIGHT, 8101)).is_err()) {
        assert!(since.elapsed() < PATIENCE, "the server behind does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut server = lab.start(&["haproxy", "-db", "-f", "haproxy.cfg"]);
    for to in BOTH {
        let (head, body) = lab.get(&mut server, to, 8100, "/big");
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        assert!(body == content, "{to}: {} of {} octets", body.len(), content.len());
    }
    behind.kill().unwrap();
    behind.wait().unwrap();
}
