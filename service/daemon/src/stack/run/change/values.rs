//! Values of settings as they are written, and their refusals.

use std::str::FromStr;

use weever_net::state::{ReversePath, StateError};
use weever_service_api::settings::check_path;
use weever_service_api::{ApiError, Assignment, ErrorKind, How};

/// The form of addresses and routes.
pub(super) const PREFIX: &str =
    "an address with a prefix length, such as 192.0.2.0/24 or 2001:db8::/64";

/// The reason why the network does not change.
pub(super) enum Refusal {
    State(StateError),
    Api(Box<ApiError>),
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Refusal {
        Refusal::State(error)
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        Refusal::Api(Box::new(error))
    }
}

pub(super) fn reverse_path(assignment: &Assignment) -> Result<ReversePath, ApiError> {
    match only_set(assignment)? {
        "none" => Ok(ReversePath::None),
        "loose" => Ok(ReversePath::Loose),
        "strict" => Ok(ReversePath::Strict),
        _ => Err(refused(assignment, "use none, loose or strict")),
    }
}

pub(super) fn switch(assignment: &Assignment) -> Result<bool, ApiError> {
    match only_set(assignment)? {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(refused(assignment, "use on or off")),
    }
}

/// The value of a setting that is no list.
pub(super) fn only_set(assignment: &Assignment) -> Result<&str, ApiError> {
    match assignment.how {
        How::Set => Ok(&assignment.value),
        _ => Err(refused(assignment, "it is no list: use =")),
    }
}

pub(super) fn mtu(assignment: &Assignment) -> Result<u16, ApiError> {
    parse(assignment, only_set(assignment)?, "a number of bytes, up to 65535")
}

pub(super) fn optional<T: FromStr>(
    assignment: &Assignment,
    wanted: &str,
) -> Result<Option<T>, ApiError> {
    match assignment.value.as_str() {
        "none" => Ok(None),
        value => parse(assignment, value, wanted).map(Some),
    }
}

pub(super) fn list<T: FromStr>(assignment: &Assignment, wanted: &str) -> Result<Vec<T>, ApiError> {
    match assignment.value.as_str() {
        "none" if assignment.how == How::Set => Ok(Vec::new()),
        values => values.split(',').map(|value| parse(assignment, value.trim(), wanted)).collect(),
    }
}

pub(super) fn parse<T: FromStr>(
    assignment: &Assignment,
    text: &str,
    wanted: &str,
) -> Result<T, ApiError> {
    text.parse().map_err(|_| refused(assignment, &format!("`{text}` is not {wanted}")))
}

pub(super) fn refused(assignment: &Assignment, why: &str) -> ApiError {
    let remedy = "it stays as it was; `weever set --help` lists settings and their values";
    ApiError::new(ErrorKind::Refused, format!("{assignment}: {why}"), remedy)
}

/// The reason why `path` is not changed: it is not in the table of settings, or there is no such
/// interface.
pub(super) fn unknown(path: &str) -> ApiError {
    let (why, remedy) = match check_path(path) {
        Err(unknown) => (unknown.to_string(), unknown.remedy()),
        Ok(_) => (
            format!("{path} cannot be changed by this version of weever"),
            "`weever set --help` lists the settings".into(),
        ),
    };
    ApiError::new(ErrorKind::BadParameters, why, remedy)
}
