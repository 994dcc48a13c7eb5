//! The wire format, byte by byte: scripts rely on the content of these files. A change to one of
//! them, other than a field added to an answer, needs a new version.

use std::fmt::Debug;
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use weever_service_api::{
    ApplyRequest, Assignment, CaptureEvent, CaptureRequest, Changed, Client, Counters,
    CountersRequest, Direction, FlowsRequest, GraphFormat, GraphRequest, GraphText, Method,
    QueuesRequest, Response, SetRequest, SocketsRequest, Status, StatusRequest, StopRequest,
    Stopping, decode_response,
};

/// Reads an answer into its type and writes it again: the same bytes must come out.
fn round_trip<T: Serialize + DeserializeOwned + Debug>(golden: &str) -> T {
    let golden = golden.trim_end();
    let response: Response<T> = serde_json::from_str(golden).unwrap();
    assert_eq!(response.encode(), golden);
    let weever_service_api::Outcome::Ok(value) = response.outcome else { panic!("not an answer") };
    value
}

/// The line that a client sends.
fn sent<M: Method>(request: &M) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weever-golden-{}-{number}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = Client::connect(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (stream, _) = listener.accept().unwrap();
    // A peer that reads no more is answer enough.
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(client.call(request).is_err());
    drop(client);
    BufReader::new(stream).lines().next().unwrap().unwrap()
}

#[test]
fn requests() {
    let golden = include_str!("golden/requests.jsonl");
    let capture = CaptureRequest {
        filter: "udp port 7".into(),
        at: vec!["rx".into(), "TxQueue.out".into()],
        count: Some(10),
        snaplen: Some(96),
    };
    let part = GraphRequest { worker: Some(1), ..GraphFormat::Text.into() };
    let assignment = "interface.eth0.addr+=192.0.2.7/24".parse::<Assignment>().unwrap();
    let sent = [
        sent(&CountersRequest {}),
        sent(&StatusRequest {}),
        sent(&StopRequest {}),
        sent(&GraphRequest::from(GraphFormat::Dot)),
        sent(&capture),
        sent(&FlowsRequest { most: 50 }),
        sent(&QueuesRequest { filters: 3 }),
        sent(&ApplyRequest::new("mine.unicorn", "graph host {}")),
        sent(&SetRequest::from(assignment)),
        sent(&part),
        sent(&SocketsRequest { most: 7 }),
    ];
    // Each client counts from 1.
    let without_number = |line: &str| {
        let (head, tail) = line.split_once("\"id\":").unwrap();
        format!("{head}{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    let (golden, sent): (Vec<String>, Vec<String>) = (
        golden.lines().map(without_number).collect(),
        sent.iter().map(|line| without_number(line)).collect(),
    );
    assert_eq!(sent, golden);
}

#[test]
fn answers() {
    let counters: Counters = round_trip(include_str!("golden/counters.json"));
    assert_eq!(counters.nodes[0].ports[1].packets, 2);
    assert_eq!(counters.drops[1].port, None);
    let status: Status = round_trip(include_str!("golden/status.json"));
    assert_eq!(status.workers[0].queues, [0, 1, 2, 3]);
    assert_eq!(round_trip::<Stopping>(include_str!("golden/stop.json")).pid, 4711);
    let changed: Changed = round_trip(include_str!("golden/changed.json"));
    assert_eq!(
        (changed.epoch, changed.steps, &changed.afresh[..]),
        (2, 4, &["RxL4UDPEcho".into()][..])
    );
    assert_eq!(round_trip::<GraphText>(include_str!("golden/graph.json")).text.len(), 16);
}

#[test]
fn captures() {
    let lines: Vec<&str> = include_str!("golden/capture.jsonl").lines().collect();
    let events: Vec<CaptureEvent> = lines.iter().map(|line| round_trip(line)).collect();
    let [CaptureEvent::Started(started), CaptureEvent::Packet(packet), missed, ended] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(started.places[0].direction, Direction::In);
    assert_eq!((packet.length, &packet.data[..]), (60, &b"\x02\0\0\0\0\x01"[..]));
    assert_eq!(*missed, CaptureEvent::Missed(4));
    assert!(matches!(ended, CaptureEvent::Ended(end) if end.reason == "count"));
    let bad = lines[1].replace("AgAA", "A*");
    assert!(serde_json::from_str::<Response<CaptureEvent>>(&bad).is_err());
}

#[test]
fn errors() {
    let golden = include_str!("golden/error.json").trim_end();
    let response = decode_response(golden.as_bytes()).unwrap();
    assert_eq!(response.encode(), golden);
}

#[test]
fn fields_of_a_later_release_are_ignored() {
    let golden = include_str!("golden/status.json");
    let later = golden.replace("\"pid\":4711", "\"pid\":4711,\"mood\":\"good\"");
    let response: Response<Status> = serde_json::from_str(&later).unwrap();
    assert!(matches!(response.outcome, weever_service_api::Outcome::Ok(s) if s.pid == 4711));
}
