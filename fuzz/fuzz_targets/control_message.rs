//! Bytes from a client of the control socket: an answer, never a panic; and a parsed request is
//! the same after it has been written and read again.
#![no_main]

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use weever_service_api::{
    ApiError, ErrorKind, Handle, LineReader, Method, Reply, answer, decode_response,
};

/// Refuses every request, and keeps the last one as it was parsed.
#[derive(Default)]
struct Probe(Mutex<Option<Value>>);

impl<M: Method> Handle<M> for Probe {
    fn handle(&self, request: M) -> Result<Reply<M::Answer>, ApiError> {
        let mut message = serde_json::to_value(&request).expect("requests are JSON objects");
        (message["version"], message["id"]) = (json!(weever_service_api::VERSION), json!(1));
        message["method"] = json!(M::NAME);
        *self.0.lock().expect("no handler panics") = Some(message);
        Err(ApiError::new(ErrorKind::Refused, "understood", "this is a test"))
    }
}

/// The request as the handler understood it, if it did.
fn understood(line: &[u8]) -> Option<Value> {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let probe = Probe::default();
    answer(&probe, line, &theirs).expect("the answer fits into the socket");
    drop(theirs);
    let mut answers = BufReader::new(ours).lines();
    let answer = answers.next().expect("an answer").expect("in UTF-8");
    decode_response(answer.as_bytes()).expect("our own answers can be read");
    assert!(answers.next().is_none(), "an answer is one line: {answer}");
    probe.0.into_inner().expect("no handler panics")
}

fuzz_target!(|data: &[u8]| {
    let mut reader = LineReader::new(data);
    while let Ok(Some(line)) = reader.next_line() {
        if let Some(request) = understood(line) {
            let again = understood(request.to_string().as_bytes());
            assert_eq!(again, Some(request));
        }
        if let Ok(response) = decode_response(line) {
            let again = decode_response(response.encode().as_bytes()).expect("written by us");
            assert_eq!(again.id, response.id);
        }
    }
});
