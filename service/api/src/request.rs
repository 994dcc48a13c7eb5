//! Requests, and reading them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ApiError, CaptureRequest, ErrorKind, MAX_FLOWS, SetRequest, VERSION};

/// A question or an order to a running stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// Chosen by the client; the answer carries it.
    pub id: u64,
    /// What is wanted.
    #[serde(flatten)]
    pub call: Call,
}

/// The methods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "method", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Call {
    /// What has been counted; answered by [`Counters`](crate::Counters).
    Counters,
    /// What is running; answered by [`Status`](crate::Status).
    Status,
    /// Which flow goes where; answered by [`Flows`](crate::Flows).
    Flows {
        /// How many of them to list.
        most: usize,
    },
    /// What each worker gets; answered by [`Queues`](crate::Queues).
    Queues {
        /// How many filters of each to list.
        filters: usize,
    },
    /// Shut down; answered by [`Stopping`](crate::Stopping) before it happens.
    Stop,
    /// Makes the running graph this one; answered by [`Changed`](crate::Changed).
    Apply {
        /// What the text is called in messages: its file.
        name: String,
        /// The graph in Unicorn.
        text: String,
    },
    /// Changes settings, all or none; answered by [`Changed`](crate::Changed).
    Set(SetRequest),
    /// The running graph with its counters; answered by [`GraphText`](crate::GraphText).
    Graph(GraphRequest),
    /// Copies packets as they pass; answered by [`CaptureEvent`](crate::CaptureEvent)s.
    Capture(CaptureRequest),
}

/// Parameters of `graph`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphRequest {
    /// The language it is wanted in.
    pub format: GraphFormat,
    /// The worker whose part of it is wanted; `None`: the graph of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// Clusters that a picture shows with all of their nodes; `*`: every one. Others are single boxes
    /// in SVG; other formats always show all nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfold: Vec<String>,
}

/// Languages in which the running graph can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GraphFormat {
    /// Graphviz.
    #[default]
    Dot,
    /// Unicorn: the text that was shipped or applied last, without counters.
    Unicorn,
    /// A picture.
    Svg,
    /// A list of nodes for people.
    Text,
}

impl Request {
    /// The request as a line, without its end.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a request has no map with keys that are not text")
    }
}

/// Why bytes are not a request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The request's id, as far as it could be read.
    pub id: Option<u64>,
    /// What to answer.
    pub error: ApiError,
}

/// Reads one message, without its line end. Never panics, whatever the bytes are.
///
/// # Errors
/// What to answer, when it is not a request of this version. The version is looked at before
/// anything else, so that a newer client learns that, and not that its method is unknown.
pub fn decode_request(bytes: &[u8]) -> Result<Request, Rejection> {
    let mut fields = match read_object(bytes) {
        Ok(fields) => fields,
        Err(error) => return Err(Rejection { id: None, error }),
    };
    let id = fields.remove("id").and_then(|v| v.as_u64());
    let reject = |error| Rejection { id, error };
    check_version(fields.remove("version")).map_err(reject)?;
    let Some(id) = id else {
        return Err(reject(bad("`id` is missing or not a whole number", "add \"id\":1")));
    };
    let call = read_call(fields).map_err(reject)?;
    Ok(Request { version: VERSION, id, call })
}

fn read_object(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if bytes.len() > crate::MAX_MESSAGE {
        return Err(ApiError::too_long());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        bad(format!("the message is not UTF-8 at byte {at}"), "send JSON in UTF-8")
    })?;
    let remedy = r#"send one JSON object per line, such as {"version":1,"id":1,"method":"status"}"#;
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(bad("the message is not a JSON object", remedy)),
        Err(e) => Err(bad(format!("the message is not JSON: {e}"), remedy)),
    }
}

fn check_version(version: Option<Value>) -> Result<(), ApiError> {
    let remedy = format!("use \"version\":{VERSION}");
    let Some(version) = version else {
        return Err(bad("`version` is missing", remedy));
    };
    if version.as_u64() == Some(u64::from(VERSION)) {
        return Ok(());
    }
    let message = format!("version {} is not spoken here", brief(&version));
    Err(ApiError::new(ErrorKind::UnsupportedVersion, message, remedy))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyParameters {
    #[serde(default = "unnamed")]
    name: String,
    text: String,
}

fn unnamed() -> String {
    "graph".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowsParameters {
    #[serde(default = "all_flows")]
    most: usize,
}

fn all_flows() -> usize {
    MAX_FLOWS
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueuesParameters {
    #[serde(default)]
    filters: usize,
}

fn read_call(mut fields: Map<String, Value>) -> Result<Call, ApiError> {
    let Some(method) = fields.remove("method") else {
        return Err(bad("`method` is missing", METHODS));
    };
    let Some(method) = method.as_str() else {
        return Err(bad(format!("`method` is {}, not text", brief(&method)), METHODS));
    };
    let fields = Value::Object(fields);
    match method {
        "counters" => parameters::<NoParameters>(method, fields).map(|_| Call::Counters),
        "status" => parameters::<NoParameters>(method, fields).map(|_| Call::Status),
        "flows" => parameters::<FlowsParameters>(method, fields)
            .map(|FlowsParameters { most }| Call::Flows { most: most.min(MAX_FLOWS) }),
        "queues" => parameters::<QueuesParameters>(method, fields)
            .map(|QueuesParameters { filters }| Call::Queues { filters: filters.min(MAX_FLOWS) }),
        "stop" => parameters::<NoParameters>(method, fields).map(|_| Call::Stop),
        "apply" => parameters::<ApplyParameters>(method, fields)
            .map(|ApplyParameters { name, text }| Call::Apply { name, text }),
        "set" => parameters::<SetRequest>(method, fields).map(Call::Set),
        "graph" => parameters::<GraphRequest>(method, fields).map(Call::Graph),
        "capture" => parameters::<CaptureRequest>(method, fields).map(Call::Capture),
        other => {
            let message = format!("there is no method `{}`", clip(other));
            Err(ApiError::new(ErrorKind::UnknownMethod, message, METHODS))
        }
    }
}

const METHODS: &str = "use counters, status, flows, queues, graph, capture, apply, set or stop";

fn parameters<T: for<'a> Deserialize<'a>>(method: &str, fields: Value) -> Result<T, ApiError> {
    serde_json::from_value(fields).map_err(|e| {
        let message = format!("{method}: {}", clip(&e.to_string()));
        let remedy = "docs/control.md lists the parameters of every method";
        ApiError::new(ErrorKind::BadParameters, message, remedy)
    })
}

fn bad(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadMessage, message, remedy)
}

fn brief(value: &Value) -> String {
    clip(&value.to_string())
}

/// What a peer sent, short enough to be repeated to it.
fn clip(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(message: &[u8]) -> ErrorKind {
        decode_request(message).unwrap_err().error.kind
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let capture = CaptureRequest {
            filter: "udp port 7".into(),
            at: vec!["rx".into()],
            count: Some(3),
            snaplen: None,
        };
        let calls = [
            Call::Counters,
            Call::Status,
            Call::Stop,
            Call::Flows { most: 5 },
            Call::Queues { filters: 3 },
            Call::Graph(GraphRequest::default()),
            Call::Graph(GraphRequest {
                format: GraphFormat::Svg,
                worker: Some(1),
                unfold: vec!["*".into()],
            }),
            Call::Capture(CaptureRequest::default()),
            Call::Capture(capture),
            Call::Set(SetRequest::new("a=1".parse().unwrap(), vec!["b+=2".parse().unwrap()])),
        ];
        for (id, call) in calls.into_iter().enumerate() {
            let request = Request { version: VERSION, id: id as u64, call };
            assert_eq!(decode_request(request.encode().as_bytes()), Ok(request));
        }
    }

    #[test]
    fn a_newer_client_learns_the_version_before_anything_else() {
        let rejection = decode_request(br#"{"version":2,"id":9,"method":"fly"}"#).unwrap_err();
        assert_eq!(rejection.id, Some(9));
        assert_eq!(rejection.error.kind, ErrorKind::UnsupportedVersion);
        assert!(rejection.error.remedy.contains("\"version\":1"), "{}", rejection.error.remedy);
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
    fn a_misspelt_parameter_is_named() {
        let line = br#"{"version":1,"id":1,"method":"graph","fromat":"dot"}"#;
        let rejection = decode_request(line).unwrap_err();
        assert_eq!(rejection.error.kind, ErrorKind::BadParameters);
        assert!(rejection.error.message.contains("fromat"), "{}", rejection.error.message);
        assert_eq!(
            kind(br#"{"version":1,"id":1,"method":"graph","format":"png"}"#),
            ErrorKind::BadParameters
        );
    }

    #[test]
    fn deep_nesting_and_long_names_do_no_harm() {
        assert_eq!(kind("[".repeat(100_000).as_bytes()), ErrorKind::BadMessage);
        let long = format!(r#"{{"version":1,"id":1,"method":"{}"}}"#, "ä".repeat(100_000));
        let rejection = decode_request(long.as_bytes()).unwrap_err();
        assert!(rejection.error.message.len() < 400);
        assert_eq!(kind(&vec![b' '; crate::MAX_MESSAGE + 1]), ErrorKind::TooLong);
    }
}
