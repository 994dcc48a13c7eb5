//! The control server over a real socket, with clients of every sort.

mod common;
#[path = "common/fake.rs"]
mod fake;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::temporary_path;
use nix::fcntl::{Flock, FlockArg};
use serde_json::json;
use weever_daemon::control::{ControlError, ControlServer, ControlSocket};
use weever_service_api::{
    ApiError, Client, ClientError, CountersRequest, ErrorKind, GraphFormat, GraphRequest, Handle,
    MAX_MESSAGE, Method, Reply, StatusRequest, StopRequest,
};

/// Counts how often it was told to stop. Methods that have no answer here are refused.
#[derive(Default)]
struct Fake {
    stops: Arc<AtomicU32>,
}

impl<M: Method> Handle<M> for Fake {
    fn handle(&self, _: M) -> Result<Reply<M::Answer>, ApiError> {
        let answer = match M::NAME {
            "counters" => json!(fake::counters()),
            "status" => json!(fake::status()),
            "stop" => json!({"pid": std::process::id()}),
            _ => return Err(ApiError::new(ErrorKind::Internal, "not here", "start a real stack")),
        };
        let answer = serde_json::from_value(answer).unwrap();
        let (stops, told) = (Arc::clone(&self.stops), u32::from(M::NAME == "stop"));
        Ok(Reply::followed_by(answer, move |_| {
            stops.fetch_add(told, Ordering::Relaxed);
            Ok(())
        }))
    }
}

fn serve() -> (ControlServer, Arc<Fake>) {
    let source = Arc::new(Fake::default());
    let socket = ControlSocket::bind(&temporary_path()).unwrap();
    (ControlServer::serve(socket, Arc::clone(&source) as _).unwrap(), source)
}

/// Sends raw bytes and returns the first line of the answer.
fn raw(stream: &UnixStream, bytes: &[u8]) -> String {
    let mut writer = stream;
    writer.write_all(bytes).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut line = String::new();
    // One byte at a time, so that nothing of a second answer is swallowed.
    BufReader::with_capacity(1, stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn every_method_is_answered_on_one_connection() {
    let (server, source) = serve();
    let mut client = Client::connect(server.path()).unwrap();
    assert_eq!(client.call(&CountersRequest {}).unwrap().nodes[0].packets, 5);
    assert_eq!(client.call(&StatusRequest {}).unwrap().link, "eth0");
    let refused = client.call(&GraphRequest::from(GraphFormat::Dot)).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(e) if e.kind == ErrorKind::Internal));
    assert_eq!(client.call(&StopRequest {}).unwrap().pid, std::process::id());
    while source.stops.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    drop(server);
    client.wait_closed(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_connection_survives_what_is_no_request() {
    let (server, _) = serve();
    let stream = UnixStream::connect(server.path()).unwrap();
    for (message, kind) in [
        (&b"\n"[..], "bad-message"),
        (b"hello\n", "bad-message"),
        (b"\xff\xfe\x00\n", "bad-message"),
        (b"[[[[[[\n", "bad-message"),
        (b"{\"version\":1,\"id\":1,\"method\":\"fly\"}\n", "unknown-method"),
        (b"{\"version\":99,\"id\":1,\"method\":\"status\"}\n", "unsupported-version"),
        (b"{\"version\":1,\"id\":1,\"method\":\"status\",\"x\":1}\n", "bad-parameters"),
    ] {
        let answer = raw(&stream, message);
        assert!(answer.contains(&format!("\"kind\":\"{kind}\"")), "{answer}");
    }
    let answer = raw(&stream, b"{\"version\":1,\"id\":7,\"method\":\"status\"}\r\n");
    assert!(answer.starts_with("{\"version\":1,\"id\":7,\"ok\":"), "{answer}");
}

#[test]
fn requests_that_come_in_pieces_or_together_are_answered_in_order() {
    let (server, _) = serve();
    let stream = UnixStream::connect(server.path()).unwrap();
    let request = |id: u32| format!("{{\"version\":1,\"id\":{id},\"method\":\"status\"}}\n");
    for byte in request(1).trim_end().bytes() {
        (&stream).write_all(&[byte]).unwrap();
    }
    let first = raw(&stream, format!("\n{}{}", request(2), request(3)).as_bytes());
    assert!(first.contains("\"id\":1"), "{first}");
    for id in [2, 3] {
        let next = raw(&stream, b"");
        assert!(next.contains(&format!("\"id\":{id}")), "{next}");
    }
}

#[test]
fn a_message_without_end_is_refused_and_the_connection_closed() {
    let (server, _) = serve();
    let mut stream = UnixStream::connect(server.path()).unwrap();
    let answer = raw(&stream, &vec![b'x'; MAX_MESSAGE + 100_000]);
    assert!(answer.contains("\"kind\":\"too-long\""), "{answer}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    Client::connect(server.path()).unwrap().call(&StatusRequest {}).unwrap();
}

#[test]
fn clients_that_leave_in_the_middle_do_no_harm() {
    let (server, _) = serve();
    for bytes in [&b""[..], b"{\"version\":1,", b"{\"version\":1,\"id\":1,\"method\":\"status\"}\n"]
    {
        for _ in 0..100 {
            // The server may have turned us away for having been quicker than its threads.
            let mut stream = UnixStream::connect(server.path()).unwrap();
            drop(stream.write_all(bytes));
        }
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while Client::connect(server.path()).unwrap().call(&StatusRequest {}).is_err() {
        assert!(Instant::now() < deadline, "the places of clients that left are not given back");
    }
}

#[test]
fn too_many_clients_are_told_so_and_places_are_given_back() {
    let (server, _) = serve();
    let mut clients = Vec::new();
    let refusal = loop {
        let mut client = Client::connect(server.path()).unwrap();
        match client.call(&StatusRequest {}) {
            Ok(_) => clients.push(client),
            Err(refusal) => break refusal,
        }
        assert!(clients.len() < 1000, "the number of clients is not bounded");
    };
    assert!(matches!(&refusal, ClientError::Refused(e) if e.kind == ErrorKind::Busy), "{refusal}");
    clients.clear();
    let deadline = Instant::now() + Duration::from_secs(10);
    while Client::connect(server.path()).unwrap().call(&StatusRequest {}).is_err() {
        assert!(Instant::now() < deadline, "the places are not given back");
    }
}

#[test]
fn stopping_the_server_ends_its_connections_and_removes_the_file() {
    let (server, _) = serve();
    let path = server.path().to_owned();
    let mut idle = UnixStream::connect(&path).unwrap();
    Client::connect(&path).unwrap().call(&StatusRequest {}).unwrap();
    let begin = Instant::now();
    drop(server);
    assert!(begin.elapsed() < Duration::from_secs(30), "an idle client held it up");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    assert!(!path.exists());
}

#[test]
fn only_the_owner_may_connect() {
    let socket = ControlSocket::bind(&temporary_path()).unwrap();
    let mode = fs::metadata(socket.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_socket_of_a_dead_process_is_replaced() {
    let path = temporary_path();
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let socket = ControlSocket::bind(&path).unwrap();
    assert_eq!(socket.path(), path);
}

#[test]
fn a_socket_of_a_living_stack_is_left_alone_and_its_owner_named() {
    let (server, _) = serve();
    let error = ControlSocket::bind(server.path()).unwrap_err();
    assert!(matches!(error, ControlError::InUse { .. }));
    let text = error.to_string();
    assert!(text.contains("a stack on eth0, process 4711") && text.contains("--control"), "{text}");
    Client::connect(server.path()).unwrap().call(&StatusRequest {}).unwrap();
}

#[test]
fn a_user_who_can_read_the_directory_cannot_hold_up_a_start() {
    let directory = temporary_path().with_extension("locked");
    fs::create_dir(&directory).unwrap();
    let opened = fs::File::open(&directory).unwrap();
    let locked = Flock::lock(opened, FlockArg::LockExclusiveNonblock).unwrap();
    drop(ControlSocket::bind(&directory.join("eth0.sock")).unwrap());
    let lock = fs::metadata(directory.join(".weever.lock")).unwrap();
    assert_eq!(lock.permissions().mode() & 0o777, 0o600);
    // Nor by a link to a file of another.
    fs::remove_file(directory.join(".weever.lock")).unwrap();
    std::os::unix::fs::symlink("/dev/null", directory.join(".weever.lock")).unwrap();
    let refused = ControlSocket::bind(&directory.join("eth0.sock")).unwrap_err();
    assert!(matches!(refused, ControlError::Io { .. }), "{refused}");
    drop(locked);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let path = temporary_path();
    fs::write(&path, "precious").unwrap();
    assert!(matches!(ControlSocket::bind(&path), Err(ControlError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(path).unwrap();
}

#[test]
fn a_place_that_cannot_be_had_is_an_error_with_a_remedy() {
    let long = std::env::temp_dir().join("x".repeat(150));
    for path in [long.as_path(), "/proc/nope/x.sock".as_ref()] {
        let text = ControlSocket::bind(path).unwrap_err().to_string();
        assert!(text.contains(&path.display().to_string()) && text.contains("--control"), "{text}");
    }
}

#[test]
fn directories_that_somebody_named_are_not_made() {
    let directory = temporary_path().with_extension("missing");
    let error = ControlSocket::bind(&directory.join("deeper/x.sock")).unwrap_err();
    assert!(matches!(error, ControlError::NoDirectory { .. }), "{error}");
    assert!(error.to_string().contains("there is no directory"), "{error}");
    assert!(!directory.exists());
}

#[test]
fn a_file_that_somebody_else_put_in_its_place_is_not_removed() {
    let path = temporary_path();
    let socket = ControlSocket::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(socket);
    assert!(path.exists());
    drop(other);
    fs::remove_file(path).unwrap();
}
