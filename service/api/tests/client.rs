//! The client against peers that misbehave.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weever_service_api::{Client, ClientError, MAX_MESSAGE, StatusRequest};

fn temporary_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("weever-client-{}-{number}.sock", std::process::id()))
}

/// A listener that reads one request and then does `answer`.
fn peer(answer: impl FnOnce(UnixStream) + Send + 'static) -> (PathBuf, JoinHandle<()>) {
    let path = temporary_path();
    let listener = UnixListener::bind(&path).unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 && byte != *b"\n" {}
        answer(stream);
    };
    (path, std::thread::spawn(serve))
}

fn status_from(answer: impl FnOnce(UnixStream) + Send + 'static) -> ClientError {
    let (path, thread) = peer(answer);
    let mut client = Client::connect_within(&path, Duration::from_millis(300)).unwrap();
    let error = client.call(&StatusRequest {}).unwrap_err();
    drop(client);
    thread.join().unwrap();
    std::fs::remove_file(path).unwrap();
    error
}

#[test]
fn nobody_listens() {
    let path = temporary_path();
    assert!(matches!(Client::connect(&path), Err(ClientError::NotRunning { .. })));
    drop(UnixListener::bind(&path).unwrap());
    assert!(matches!(Client::connect(&path), Err(ClientError::NotRunning { .. })));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_path_longer_than_a_socket_address_is_an_error() {
    let path = format!("/tmp/{}", "x".repeat(200));
    assert!(matches!(Client::connect(path), Err(ClientError::Connect { .. })));
}

#[test]
fn a_silent_peer_and_a_dripping_one_end_with_the_timeout() {
    let begin = Instant::now();
    let silent = status_from(|mut stream| drop(stream.read(&mut [0])));
    assert!(matches!(silent, ClientError::TimedOut { .. }), "{silent}");
    let dripping = status_from(|mut stream| {
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(matches!(dripping, ClientError::TimedOut { .. }), "{dripping}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_listener_that_accepts_nobody_ends_with_the_timeout() {
    let path = temporary_path();
    let listener = UnixListener::bind(&path).unwrap();
    let timeout = Duration::from_millis(50);
    let mut waiting = Vec::new();
    let error = loop {
        assert!(waiting.len() < 100_000, "the backlog never fills");
        match Client::connect_within(&path, timeout) {
            Ok(client) => waiting.push(client),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    drop(listener);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_peer_that_goes_away_is_told_from_one_that_talks_nonsense() {
    let gone = status_from(drop);
    assert!(matches!(gone, ClientError::Broken { .. }), "{gone}");
    let cut = status_from(|mut stream| stream.write_all(br#"{"version":1,"#).unwrap());
    assert!(matches!(cut, ClientError::Broken { .. }), "{cut}");
    for nonsense in [&b"\xff\n"[..], b"[]\n", b"{\"version\":1,\"id\":1,\"ok\":{}}\n"] {
        let error = status_from(move |mut stream| stream.write_all(nonsense).unwrap());
        assert!(matches!(error, ClientError::Protocol { .. }), "{error}");
    }
    let endless = status_from(|mut stream| {
        drop(stream.write_all(&vec![b'x'; MAX_MESSAGE + 10_000]));
    });
    assert!(matches!(endless, ClientError::Protocol { .. }), "{endless}");
}

#[test]
fn an_answer_to_another_request_or_of_another_version_is_not_taken() {
    let status = include_str!("golden/status.json");
    for (from, to) in [("\"id\":2", "\"id\":7"), ("\"version\":1", "\"version\":3")] {
        let line = status.replace(from, to).replace("\"id\":2", "\"id\":1");
        let error = status_from(move |mut stream| stream.write_all(line.as_bytes()).unwrap());
        assert!(matches!(error, ClientError::Protocol { .. }), "{error}");
    }
}

#[test]
fn a_good_answer_is_understood() {
    let (path, thread) = peer(|mut stream| {
        let line = include_str!("golden/status.json").replace("\"id\":2", "\"id\":1");
        stream.write_all(line.as_bytes()).unwrap();
    });
    let status = Client::connect(&path).unwrap().call(&StatusRequest {}).unwrap();
    assert_eq!((status.pid, status.link.as_str()), (4711, "eth0"));
    thread.join().unwrap();
    std::fs::remove_file(path).unwrap();
}
