//! Methods `apply`, `set`, `settings` and `stop`: changes of the running stack, the present values of what
//! can be changed, and its end.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Method;

/// Parameters of `apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// The text's name in messages: the name of its file.
    #[serde(default = "unnamed")]
    pub name: String,
    /// The graph that is to run, in Unicorn.
    pub text: String,
}

fn unnamed() -> String {
    "graph".into()
}

impl ApplyRequest {
    /// A request to run the graph of `text`, which messages call `name`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> ApplyRequest {
        ApplyRequest { name: name.into(), text: text.into() }
    }
}

impl Method for ApplyRequest {
    const NAME: &'static str = "apply";
    type Answer = Changed;
}

/// The operation of an assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The setting gets this value.
    #[default]
    Set,
    /// Its list gets this one as well.
    Add,
    /// Its list loses this one.
    Remove,
}

/// A setting and its value: `PATH=VALUE`, or `+=` and `-=` for lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// The setting, such as `services.echo` or `interface.eth0.addr`.
    pub path: String,
    /// Its value; `none` where it can be without.
    pub value: String,
    /// The operation.
    #[serde(default)]
    pub how: How,
}

/// Parameters of `set`: an assignment, and others to make with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// As in [`Assignment`].
    pub path: String,
    /// As in [`Assignment`].
    pub value: String,
    /// As in [`Assignment`].
    #[serde(default)]
    pub how: How,
    /// More assignments, made after this one. All are made, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Assignment>,
}

impl Method for SetRequest {
    const NAME: &'static str = "set";
    type Answer = Changed;
}

impl From<Assignment> for SetRequest {
    fn from(only: Assignment) -> SetRequest {
        SetRequest::new(only, Vec::new())
    }
}

impl FromStr for SetRequest {
    type Err = ParseAssignmentError;

    /// One assignment, as in [`Assignment`].
    fn from_str(text: &str) -> Result<SetRequest, ParseAssignmentError> {
        text.parse().map(|only: Assignment| only.into())
    }
}

impl SetRequest {
    /// A request that makes `first`, then `also`.
    pub fn new(first: Assignment, also: Vec<Assignment>) -> SetRequest {
        let Assignment { path, value, how } = first;
        SetRequest { path, value, how, also }
    }

    /// Every assignment, in order.
    pub fn assignments(self) -> Vec<Assignment> {
        let SetRequest { path, value, how, also } = self;
        std::iter::once(Assignment { path, value, how }).chain(also).collect()
    }
}

/// Text that is no assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not PATH=VALUE, PATH+=VALUE or PATH-=VALUE, such as services.echo=7")]
pub struct ParseAssignmentError;

impl FromStr for Assignment {
    type Err = ParseAssignmentError;

    fn from_str(text: &str) -> Result<Assignment, ParseAssignmentError> {
        let (left, value) = text.split_once('=').ok_or(ParseAssignmentError)?;
        let (path, how) = match (left.strip_suffix('+'), left.strip_suffix('-')) {
            (Some(path), _) => (path, How::Add),
            (_, Some(path)) => (path, How::Remove),
            _ => (left, How::Set),
        };
        let (path, value) = (path.trim(), value.trim());
        if path.is_empty() || value.is_empty() {
            return Err(ParseAssignmentError);
        }
        Ok(Assignment { path: path.into(), value: value.into(), how })
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.how {
            How::Set => "=",
            How::Add => "+=",
            How::Remove => "-=",
        };
        write!(f, "{}{sign}{}", self.path, self.value)
    }
}

/// Answer to `apply` and `set`: the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changed {
    /// The number of the graph that runs now; 0 is the one that the stack was started with.
    pub epoch: u64,
    /// The number of steps from the last graph to this one; 0: it is the same.
    pub steps: usize,
    /// Nodes whose state could not be kept, and which began afresh.
    pub afresh: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// Parameters of `settings`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsRequest {}

impl Method for SettingsRequest {
    const NAME: &'static str = "settings";
    type Answer = Settings;
}

/// Answer to `settings`. Given back to `set`, it changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Services, interfaces, routes of operators, and settings of the whole stack. Parameters of
    /// nodes are in the graph.
    pub settings: Vec<Assignment>,
}

/// Parameters of `stop`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {}

impl Method for StopRequest {
    const NAME: &'static str = "stop";
    type Answer = Stopping;
}

/// Answer to `stop`: the stack shuts down once this has been sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// The process that ends, or that had the stack.
    pub pid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_and_written() {
        for (text, path, value, how) in [
            ("services.echo=7", "services.echo", "7", How::Set),
            ("interface.eth0.addr+=fd00::1/64", "interface.eth0.addr", "fd00::1/64", How::Add),
            ("a-=b=c", "a", "b=c", How::Remove),
        ] {
            let assignment: Assignment = text.parse().unwrap();
            assert_eq!((assignment.path.as_str(), assignment.value.as_str()), (path, value));
            assert_eq!((assignment.how, assignment.to_string().as_str()), (how, text));
        }
        for text in ["", "a", "=7", "a=", "+=1", "-=1"] {
            assert_eq!(text.parse::<Assignment>(), Err(ParseAssignmentError), "{text}");
        }
    }
}
