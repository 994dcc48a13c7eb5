//! The running graph.

use weever_service_api::{Changed, GraphFormat};

use crate::{CliError, Target};

/// The graph that a stack runs, with its counters, in this format.
///
/// # Errors
/// When the stack cannot be asked, or does not know the format.
pub fn running_graph(target: &Target, format: GraphFormat) -> Result<String, CliError> {
    Ok(target.connect()?.graph(format)?.text)
}

/// Makes the graph that a stack runs that of a text in Unicorn; `name` is what messages call it.
///
/// # Errors
/// When the stack cannot be asked, or refuses: then nothing has changed.
pub fn apply_graph(target: &Target, name: &str, text: &str) -> Result<Changed, CliError> {
    Ok(target.connect()?.apply(name, text)?)
}
