//! Captures of a stack over a memory link, through the control socket.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::peer::{self, DISCARD, PATIENCE, Peer};
use weever_blocks_std::testing::frames;
use weever_daemon::Stack;
use weever_service_api::{
    CaptureEvent, CaptureRequest, CaptureStarted, CapturedPacket, Client, ClientError, Direction,
    GraphFormat, SetRequest,
};

/// A capture that goes on until it is dropped.
#[derive(Debug)]
struct Stream {
    client: Client,
    started: CaptureStarted,
}

impl Stream {
    fn start(mut client: Client, wanted: &CaptureRequest) -> Result<Stream, ClientError> {
        match client.call(wanted)? {
            CaptureEvent::Started(started) => Ok(Stream { client, started }),
            other => panic!("{other:?}"),
        }
    }

    fn next(&mut self, wait: Duration) -> Result<Option<CaptureEvent>, ClientError> {
        self.client.next_answer::<CaptureRequest>(wait)
    }
}

fn start() -> (Stack, Peer) {
    peer::start(peer::config())
}

fn begin_when_there_is_room(stack: &Stack, wanted: CaptureRequest) -> Stream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let client = Client::connect(stack.control_path().unwrap()).unwrap();
        match Stream::start(client, &wanted) {
            Ok(stream) => return stream,
            Err(e) => assert!(Instant::now() < deadline && e.to_string().contains("go on"), "{e}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn begin(stack: &Stack, wanted: CaptureRequest) -> Stream {
    let client = Client::connect(stack.control_path().unwrap()).unwrap();
    Stream::start(client, &wanted).unwrap()
}

fn filtered(filter: &str) -> CaptureRequest {
    CaptureRequest { filter: filter.into(), ..CaptureRequest::default() }
}

fn next_packet(stream: &mut Stream) -> CapturedPacket {
    match stream.next(PATIENCE).unwrap() {
        Some(CaptureEvent::Packet(packet)) => packet,
        other => panic!("{other:?}"),
    }
}

fn nodes(stack: &Stack) -> String {
    stack.graph(GraphFormat::Text).unwrap()
}

/// Waits until the running graph has no block that captures.
fn await_removal(stack: &Stack) {
    let deadline = Instant::now() + PATIENCE;
    while nodes(stack).contains("Capture") {
        assert!(Instant::now() < deadline, "{}", nodes(stack));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn both_directions_are_seen_and_traffic_goes_on() {
    let (stack, mut peer) = start();
    peer.echo(b"before");
    let mut stream = begin(&stack, filtered("udp port 7"));
    let ways: Vec<Direction> = stream.started.places.iter().map(|p| p.direction).collect();
    assert_eq!(ways, [Direction::In, Direction::Out]);
    assert_eq!(stream.started.links, ["memory0"]);
    assert!(nodes(&stack).contains("= Capture"), "{}", nodes(&stack));
    for payload in [&b"one"[..], b"two"] {
        peer.echo(payload);
        let (asked, answered) = (next_packet(&mut stream), next_packet(&mut stream));
        assert_eq!((asked.place, answered.place), (0, 1));
        assert!(asked.data.ends_with(payload) && answered.data.ends_with(payload));
        assert!(asked.time_ns > 1_600_000_000_000_000_000, "{}", asked.time_ns);
        assert!(asked.time_ns < answered.time_ns, "an answer comes later than its request");
    }
    drop(stream);
    await_removal(&stack);
    peer.echo(b"after");
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn what_does_not_match_is_left_out_and_the_rest_is_cut() {
    let (stack, mut peer) = start();
    let wanted = CaptureRequest {
        at: vec!["rx".into()],
        count: Some(2),
        snaplen: Some(42),
        ..filtered("udp dst port 9")
    };
    let mut stream = begin(&stack, wanted);
    peer.echo(b"not this");
    for _ in 0..3 {
        peer.send(&frames::udp(4000, DISCARD, b"but this"));
    }
    for _ in 0..2 {
        let packet = next_packet(&mut stream);
        assert_eq!((packet.length, packet.data.len()), (50, 42));
        assert_eq!(packet.data[36..38], [0, 9]);
    }
    let end = stream.next(PATIENCE).unwrap();
    let Some(CaptureEvent::Ended(end)) = end else { panic!("{end:?}") };
    assert_eq!((end.captured, end.reason.as_str()), (2, "count"));
    await_removal(&stack);
}

#[test]
fn any_edge_can_be_looked_at() {
    let (stack, mut peer) = start();
    // Behind the table of sockets; and a port that leads to an operator.
    for at in ["RxL4UDPSockets.echo", "RxL4UDPValidLength.true"] {
        let wanted = CaptureRequest { at: vec![at.into()], ..CaptureRequest::default() };
        let mut stream = begin(&stack, wanted);
        assert_eq!(stream.started.places[0].port, at);
        peer.echo(at.as_bytes());
        assert!(next_packet(&mut stream).data.ends_with(at.as_bytes()));
        drop(stream);
        await_removal(&stack);
    }
    peer.echo(b"and as before");
}

#[test]
fn several_captures_do_not_know_of_each_other() {
    let (stack, mut peer) = start();
    let mut streams: Vec<Stream> =
        (0..8).map(|_| begin(&stack, filtered("udp dst port 7"))).collect();
    let ninth = Client::connect(stack.control_path().unwrap()).unwrap();
    let refused = Stream::start(ninth, &CaptureRequest::default()).unwrap_err();
    assert!(refused.to_string().contains("go on already"), "{refused}");
    // The middle ones leave first.
    while streams.len() > 1 {
        peer.echo(b"to all");
        for stream in &mut streams {
            assert!(next_packet(stream).data.ends_with(b"to all"));
        }
        streams.remove(streams.len() / 2);
        if streams.len() == 4 {
            // Those that left are taken out when their threads notice.
            streams.push(begin_when_there_is_room(&stack, filtered("udp dst port 7")));
            streams.remove(0);
        }
    }
    drop(streams);
    await_removal(&stack);
    peer.echo(b"after");
}

#[test]
fn a_capture_goes_on_while_others_change_the_graph() {
    let (stack, mut peer) = start();
    let path = stack.control_path().unwrap().to_owned();
    let mut stream = begin(&stack, filtered("udp dst port 7"));
    Client::connect(&path)
        .unwrap()
        .call(&"services.discard=99".parse::<SetRequest>().unwrap())
        .unwrap();
    peer.echo(b"still seen");
    assert!(next_packet(&mut stream).data.ends_with(b"still seen"));
    drop(stream);
    await_removal(&stack);
}

#[test]
fn what_cannot_be_captured_is_refused_and_nothing_changes() {
    let (stack, mut peer) = start();
    let before = nodes(&stack).lines().count();
    let at = |place: &str| CaptureRequest { at: vec![place.into()], ..CaptureRequest::default() };
    for (wanted, word) in [
        (filtered("udp prot 7"), "at byte"),
        (filtered("pred(some.label,value)"), "some.label"),
        (at("nowhere"), "`nowhere` is not a place"),
        (at("No.out"), "no node `No`"),
        (at("RxQueue.true"), "no port `true`"),
    ] {
        let client = Client::connect(stack.control_path().unwrap()).unwrap();
        let refused = Stream::start(client, &wanted).unwrap_err();
        let ClientError::Refused(error) = &refused else { panic!("{refused}") };
        assert!(error.message.contains(word), "{error}");
        assert!(!error.remedy.is_empty());
    }
    assert_eq!(nodes(&stack).lines().count(), before);
    peer.echo(b"as ever");
}

#[test]
fn a_client_that_does_not_read_is_sent_away_and_loses_only_its_copies() {
    let (stack, mut peer) = start();
    let stream = begin(&stack, CaptureRequest::default());
    let deadline = Instant::now() + PATIENCE;
    // More than socket and ring hold.
    while stack.counters().nodes.iter().all(|node| {
        let lost = node.own.iter().any(|own| own.name == "missed" && own.value > 0);
        !(node.name.starts_with("Capture") && lost)
    }) {
        for _ in 0..32 {
            peer.echo(&[7; 1400]);
        }
        assert!(Instant::now() < deadline, "nothing is ever missed");
    }
    peer.echo(b"the stack does not care");
    drop(stream);
    await_removal(&stack);
    assert!(stack.counters().drops.iter().all(|d| !d.node.starts_with("Capture")));
}

/// The next line that the stack sends.
fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

fn raw(stack: &Stack) -> (UnixStream, BufReader<UnixStream>) {
    let stream = UnixStream::connect(stack.control_path().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    (stream.try_clone().unwrap(), BufReader::new(stream))
}

#[test]
fn a_capture_ends_with_the_next_request_and_the_connection_goes_on() {
    let (stack, mut peer) = start();
    let (mut writer, mut reader) = raw(&stack);
    writer.write_all(b"{\"version\":1,\"id\":1,\"method\":\"capture\"}\n").unwrap();
    let begun = line(&mut reader);
    assert!(begun.contains("\"started\"") && begun.contains("\"id\":1"), "{begun}");
    peer.echo(b"seen");
    let packet = line(&mut reader);
    assert!(packet.contains("\"packet\"") && packet.contains("\"id\":1"), "{packet}");
    writer.write_all(b"{\"version\":1,\"id\":2,\"method\":\"status\"}\n").unwrap();
    let mut ended = line(&mut reader);
    while ended.contains("\"packet\"") {
        ended = line(&mut reader);
    }
    assert!(ended.contains("\"reason\":\"request\""), "{ended}");
    let status = line(&mut reader);
    assert!(status.contains("\"id\":2") && status.contains("\"pid\":"), "{status}");
    assert!(!nodes(&stack).contains("= Capture"), "the end was told too early");
}

#[test]
fn a_script_that_only_listens_gets_its_packets() {
    let (stack, mut peer) = start();
    let (mut writer, mut reader) = raw(&stack);
    let request = b"{\"version\":1,\"id\":1,\"method\":\"capture\",\"count\":2,\"at\":[\"rx\"]}\n";
    writer.write_all(request).unwrap();
    writer.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(line(&mut reader).contains("\"started\""));
    for _ in 0..3 {
        peer.echo(b"seen");
    }
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("\"packet\"").count(), 2, "{rest}");
    assert!(rest.contains("\"reason\":\"count\""), "{rest}");
}

#[test]
fn a_stack_that_stops_ends_its_captures() {
    let (stack, mut peer) = start();
    let mut stream = begin(&stack, filtered("udp dst port 7"));
    peer.echo(b"last");
    assert_eq!(next_packet(&mut stream).data.len(), 46);
    assert_eq!(stack.stop().failure, None);
    match stream.next(PATIENCE) {
        Ok(Some(CaptureEvent::Ended(_))) | Err(_) => {}
        Ok(other) => panic!("{other:?}"),
    }
}
