//! Requests as they come from clients of every sort, through the call that a stack answers with.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use serde_json::{Value, json};
use weever_service_api::{
    ApiError, ErrorKind, Handle, MAX_MESSAGE, METHODS, Method, Outcome, Reply, Response, answer,
    decode_response,
};

/// Refuses every request, and keeps the last one as it understood it.
#[derive(Default)]
struct Probe(Mutex<Value>);

impl<M: Method> Handle<M> for Probe {
    fn handle(&self, request: M) -> Result<Reply<M::Answer>, ApiError> {
        let mut understood = serde_json::to_value(&request).unwrap();
        understood["method"] = json!(M::NAME);
        *self.0.lock().unwrap() = understood;
        Err(ApiError::new(ErrorKind::Refused, "understood", "this is a test"))
    }
}

/// The stack's answer, and the request as the handler got it (null if none did).
fn ask(message: &[u8]) -> (Response, Value) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let probe = Probe::default();
    answer(&probe, message, &theirs).unwrap();
    drop(theirs);
    let mut lines = BufReader::new(ours).lines();
    let response = decode_response(lines.next().unwrap().unwrap().as_bytes()).unwrap();
    assert!(lines.next().is_none(), "one answer to a request");
    (response, probe.0.into_inner().unwrap())
}

fn error(message: &[u8]) -> ApiError {
    let (response, understood) = ask(message);
    assert_eq!(understood, Value::Null, "no handler was to be asked");
    let Outcome::Error(error) = response.outcome else { panic!("not an error") };
    error
}

fn kind(message: &[u8]) -> ErrorKind {
    error(message).kind
}

#[test]
fn every_method_is_understood_as_it_was_written() {
    let lines: Vec<&str> = include_str!("golden/requests.jsonl").lines().collect();
    let mut methods: Vec<String> = Vec::new();
    for line in lines {
        let sent: Value = serde_json::from_str(line).unwrap();
        let (response, mut understood) = ask(line.as_bytes());
        assert_eq!(response.id, sent["id"].as_u64());
        methods.push(understood["method"].as_str().unwrap_or(line).into());
        (understood["version"], understood["id"]) = (sent["version"].clone(), sent["id"].clone());
        assert_eq!(understood, sent);
    }
    methods.sort();
    methods.dedup();
    assert!(methods.iter().all(|method| METHODS.contains(&method.as_str())), "{methods:?}");
}

#[test]
fn parameters_that_are_left_out_have_their_defaults() {
    for (message, parameter, value) in [
        (r#"{"version":1,"id":1,"method":"flows"}"#, "most", json!(2000)),
        (r#"{"version":1,"id":1,"method":"queues"}"#, "filters", json!(0)),
        (r#"{"version":1,"id":1,"method":"graph"}"#, "format", json!("dot")),
        (r#"{"version":1,"id":1,"method":"apply","text":""}"#, "name", json!("graph")),
    ] {
        assert_eq!(ask(message.as_bytes()).1[parameter], value, "{message}");
    }
}

#[test]
fn a_newer_client_learns_the_version_before_anything_else() {
    let (response, _) = ask(br#"{"version":2,"id":9,"method":"fly"}"#);
    assert_eq!(response.id, Some(9));
    let Outcome::Error(error) = response.outcome else { panic!("not an error") };
    assert_eq!(error.kind, ErrorKind::UnsupportedVersion);
    assert!(error.remedy.contains("\"version\":1"), "{}", error.remedy);
}

#[test]
fn what_is_not_a_request_is_refused_with_its_kind() {
    assert_eq!(kind(b""), ErrorKind::BadMessage);
    assert_eq!(kind(b"\xff\xfe{}"), ErrorKind::BadMessage);
    assert_eq!(kind(b"[1,2]"), ErrorKind::BadMessage);
    assert_eq!(kind(br#"{"version":1,"id":1}"#), ErrorKind::BadMessage);
    assert_eq!(kind(br#"{"version":1,"id":-1,"method":"status"}"#), ErrorKind::BadMessage);
    assert_eq!(kind(br#"{"version":1,"id":1,"method":7}"#), ErrorKind::BadMessage);
    assert_eq!(kind(br#"{"id":1,"method":"status"}"#), ErrorKind::BadMessage);
    assert_eq!(kind(br#"{"version":1,"id":1,"method":"fly"}"#), ErrorKind::UnknownMethod);
}

#[test]
fn an_unknown_method_gets_the_name_that_was_meant_or_all_of_them() {
    let near = error(br#"{"version":1,"id":1,"method":"statsu"}"#);
    assert!(near.message.contains("`statsu`"), "{near}");
    assert_eq!(near.remedy, "did you mean `status`?");
    let far = error(br#"{"version":1,"id":1,"method":"xyzzy"}"#);
    assert!(METHODS.iter().all(|method| far.remedy.contains(method)), "{far}");
}

#[test]
fn a_misspelt_parameter_is_named() {
    let misspelt = error(br#"{"version":1,"id":1,"method":"graph","fromat":"dot"}"#);
    assert_eq!(misspelt.kind, ErrorKind::BadParameters);
    assert!(misspelt.message.contains("fromat"), "{misspelt}");
    for message in [
        &br#"{"version":1,"id":1,"method":"graph","format":"png"}"#[..],
        br#"{"version":1,"id":1,"method":"status","x":1}"#,
        br#"{"version":1,"id":1,"method":"apply"}"#,
    ] {
        assert_eq!(kind(message), ErrorKind::BadParameters);
    }
}

#[test]
fn deep_nesting_and_long_names_do_no_harm() {
    assert_eq!(kind("[".repeat(100_000).as_bytes()), ErrorKind::BadMessage);
    let long = format!(r#"{{"version":1,"id":1,"method":"{}"}}"#, "ä".repeat(100_000));
    assert!(error(long.as_bytes()).message.len() < 400);
    assert_eq!(kind(&vec![b' '; MAX_MESSAGE + 1]), ErrorKind::TooLong);
}
