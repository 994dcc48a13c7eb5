//! Errors in responses.

use serde::{Deserialize, Serialize};

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
