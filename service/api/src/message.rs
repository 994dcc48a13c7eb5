//! Messages on the control socket: requests and responses, and the errors in these.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::VERSION;

/// The kind of an error, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not a JSON object in UTF-8, or one without `version`, `id` or `method`.
    BadMessage,
    /// Longer than [`MAX_MESSAGE`](crate::MAX_MESSAGE). The stack closes the connection.
    TooLong,
    /// A version that the stack does not speak.
    UnsupportedVersion,
    /// No such method.
    UnknownMethod,
    /// A parameter is missing, unknown, or has a wrong value.
    BadParameters,
    /// The stack serves its maximum of connections, or did not get round to this one.
    Busy,
    /// The request makes sense, but not for this stack as it is: nothing has changed.
    Refused,
    /// The stack failed in a way that is its own fault.
    Internal,
    /// A kind that this version of the crate does not know.
    #[serde(other)]
    Unknown,
}

/// A refusal, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({remedy})")]
pub struct ApiError {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The error's text, naming the culprit.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl ApiError {
    /// An error.
    pub fn new(kind: ErrorKind, message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError { kind, message: message.into(), remedy: remedy.into() }
    }

    /// A message of more than [`MAX_MESSAGE`](crate::MAX_MESSAGE) bytes came.
    pub fn too_long() -> ApiError {
        let message = format!("the message is longer than {} bytes", crate::MAX_MESSAGE);
        ApiError::new(ErrorKind::TooLong, message, "send one JSON object per line, and less in it")
    }
}

/// A request as it came: its parameters have not been looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Chosen by the client; the answer carries it.
    pub(crate) id: u64,
    /// The name of the method.
    pub(crate) method: String,
    parameters: Map<String, Value>,
}

impl Request {
    /// The parameters as the method's type.
    pub(crate) fn parameters<M: DeserializeOwned>(self) -> Result<M, ApiError> {
        serde_json::from_value(Value::Object(self.parameters)).map_err(|e| {
            let message = format!("{}: {}", self.method, clip(&e.to_string()));
            let remedy = "docs/control.md lists the parameters of every method";
            ApiError::new(ErrorKind::BadParameters, message, remedy)
        })
    }

    /// The refusal of a method that is none of `known`.
    pub(crate) fn unknown_method(&self, known: &[&str]) -> Rejection {
        let suggestion = weever_suggest::did_you_mean(&self.method, known.iter().copied());
        let message = format!("there is no method `{}`", clip(&self.method));
        let remedy = suggestion.unwrap_or_else(|| one_of(known));
        let error = ApiError::new(ErrorKind::UnknownMethod, message, remedy);
        Rejection { id: Some(self.id), error }
    }
}

/// The reason why bytes are not a request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The request's id, as far as it could be read.
    pub(crate) id: Option<u64>,
    /// The answer.
    pub(crate) error: ApiError,
}

/// Reads one message, without its line end; `methods` are for the remedy of one without a method. Never
/// panics, whatever the bytes are.
///
/// # Errors
/// The answer to bytes that are not a request of this version. The version is looked at before
/// anything else, so that a newer client learns that, and not that its method is unknown.
pub(crate) fn decode_request(bytes: &[u8], methods: &[&str]) -> Result<Request, Rejection> {
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
    let method = read_method(fields.remove("method"), methods).map_err(reject)?;
    Ok(Request { id, method, parameters: fields })
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

fn read_method(method: Option<Value>, known: &[&str]) -> Result<String, ApiError> {
    match method {
        Some(Value::String(method)) => Ok(method),
        Some(other) => Err(bad(format!("`method` is {}, not text", brief(&other)), one_of(known))),
        None => Err(bad("`method` is missing", one_of(known))),
    }
}

fn one_of(known: &[&str]) -> String {
    format!("use one of {}", known.join(", "))
}

fn bad(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadMessage, message, remedy)
}

fn brief(value: &Value) -> String {
    clip(&value.to_string())
}

/// A peer's text, short enough to be repeated to it.
fn clip(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response<T = Value> {
    /// [`VERSION`].
    pub version: u32,
    /// The request's id; none if the request's could not be read.
    pub id: Option<u64>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome<T>,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome<T = Value> {
    /// Success, with the answer.
    Ok(T),
    /// It was refused.
    Error(ApiError),
}

impl<T: Serialize> Response<T> {
    /// A response of this version.
    pub fn new(id: Option<u64>, outcome: Result<T, ApiError>) -> Response<T> {
        let outcome = outcome.map_or_else(Outcome::Error, Outcome::Ok);
        Response { version: VERSION, id, outcome }
    }

    /// The response as a line, without its end. One that would be longer than
    /// [`MAX_MESSAGE`](crate::MAX_MESSAGE) becomes an error.
    pub fn encode(&self) -> String {
        let text = serde_json::to_string(self).expect("replies have no maps without text keys");
        if text.len() <= crate::MAX_MESSAGE {
            return text;
        }
        let message = format!("the answer has {} bytes, more than a message may", text.len());
        let kind = crate::ErrorKind::Internal;
        let error = ApiError::new(kind, message, "ask for less: another method or format");
        Response::<Value>::new(self.id, Err(error)).encode()
    }
}

/// Reads a response, without its line end. Never panics, whatever the bytes are.
///
/// # Errors
/// When the bytes are no response.
pub fn decode_response(bytes: &[u8]) -> Result<Response, serde_json::Error> {
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_becomes_an_error() {
        let text = "x".repeat(crate::MAX_MESSAGE);
        let line = Response::new(Some(3), Ok(text)).encode();
        let response = decode_response(line.as_bytes()).unwrap();
        assert_eq!(response.id, Some(3));
        assert!(matches!(response.outcome, Outcome::Error(e) if e.message.contains("bytes")));
    }

    #[test]
    fn an_unknown_kind_of_error_is_still_an_error() {
        let line = br#"{"version":1,"id":1,"error":{"kind":"on-fire","message":"m","remedy":"r"}}"#;
        let response = decode_response(line).unwrap();
        let Outcome::Error(error) = response.outcome else { panic!("not an error") };
        assert_eq!(error.kind, crate::ErrorKind::Unknown);
    }

    #[test]
    fn neither_ok_nor_error_is_no_response() {
        assert!(decode_response(br#"{"version":1,"id":1}"#).is_err());
        assert!(decode_response(b"\xff").is_err());
    }
}
