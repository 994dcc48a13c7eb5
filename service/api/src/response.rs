//! Responses.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApiError, VERSION};

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
