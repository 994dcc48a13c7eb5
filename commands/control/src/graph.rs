//! The running graph.

use weever_service_api::{Changed, GraphRequest};

use crate::{CliError, Target};

/// The graph that a stack runs, or the part of it that a worker runs, with its counters.
///
/// # Errors
/// When the stack cannot be asked, does not know the format, or has no such worker or cluster.
pub fn running_graph(target: &Target, wanted: GraphRequest) -> Result<String, CliError> {
    Ok(target.connect()?.graph_as(wanted)?.text)
}

/// Makes the graph that a stack runs that of a text in Unicorn; `name` is what messages call it.
///
/// # Errors
/// When the stack cannot be asked, or refuses: then nothing has changed.
pub fn apply_graph(target: &Target, name: &str, text: &str) -> Result<Changed, CliError> {
    Ok(target.connect()?.apply(name, text)?)
}
