//! Method `stop`: the stack shuts down.

use serde::{Deserialize, Serialize};

use crate::Method;

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
