//! Counters over HTTP, for clients of every sort.

mod common;
#[path = "common/fake.rs"]
mod fake;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use common::peer;
use weever_daemon::metrics::{MetricsServer, exposition};

fn serve() -> MetricsServer {
    let page = || exposition(&fake::counters(), &fake::status());
    MetricsServer::serve(TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(page)).unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Head and body of the answer to these bytes.
fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = connect(address);
    // It may be refused before it has been sent whole.
    drop(stream.write_all(request));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.into(), body.into())
}

#[test]
fn a_scraper_gets_every_kind_of_counter() {
    let server = serve();
    let (head, body) =
        ask(server.address(), b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    for line in [
        "weever_node_packets_total{node=\"RxL3IPv4\"} 5",
        "weever_port_packets_total{node=\"RxL3IPv4\",port=\"false\"} 2",
        "weever_dropped_packets_total{node=\"RxL3IPv4\",port=\"false\",reason=\"bad checksum\"} 2",
        "weever_worker_sleeps_total{worker=\"worker-0\"} 12",
        "weever_worker_running{worker=\"worker-0\"} 1",
        "weever_neighbours{interface=\"eth0\",state=\"reachable\"} 1",
    ] {
        assert!(body.lines().any(|found| found == line), "{line} is not in\n{body}");
    }
    assert!(body.ends_with("# EOF\n"), "{body}");
}

#[test]
fn bad_requests_are_answered_and_nobody_is_the_worse_for_them() {
    let server = serve();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics/x HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"\xff\xfe\x00\r\n\r\n", "400"),
        (b"GET /metrics SMTP/1.1\r\n\r\n", "400"),
        (&[b'x'; 64 << 10], "431"),
    ] {
        let (head, _) = ask(server.address(), request);
        // Too long a request may cost the client its answer: unread input remains.
        let lost = status == "431" && head.is_empty();
        assert!(lost || head.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {head}");
    }
    drop(connect(server.address()));
    assert!(ask(server.address(), b"GET /metrics?x=1 HTTP/1.0\n\n").0.contains("200 OK"));
}

#[test]
fn clients_that_wait_take_no_place_for_ever() {
    let server = serve();
    let idle: Vec<TcpStream> = (0..8).map(|_| connect(server.address())).collect();
    let mut refused = String::new();
    while !refused.contains("503") {
        refused = ask(server.address(), b"").0;
    }
    drop(idle);
    while !ask(server.address(), b"GET /metrics HTTP/1.1\r\n\r\n").0.contains("200 OK") {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_running_stack_has_them_and_they_end_with_it() {
    let mut config = peer::config();
    config.metrics = Some("127.0.0.1:0".parse().unwrap());
    let (stack, mut peer) = peer::start(config);
    peer.echo(b"counted");
    let address = stack.metrics_address().unwrap();
    let (_, body) = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
    let reached = body.lines().find(|l| l.contains("node_packets_total{node=\"RxL4UDPSockets\""));
    assert!(reached.is_some_and(|line| line.ends_with(" 1")), "{body}");
    assert!(body.contains("weever_link_received_packets_total{link=\"memory0\",queue=\"0\"}"));
    assert_eq!(stack.stop().failure, None);
    assert!(TcpStream::connect(address).is_err());
}
