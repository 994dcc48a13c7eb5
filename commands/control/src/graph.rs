//! The running graph.

use weever_service_api::{Changed, GraphFormat};

use crate::{CliError, Target};

/// The graph that a stack runs, or the part of it that a worker runs, with its counters, in this format.
///
/// # Errors
/// When the stack cannot be asked, does not know the format, or has no such worker.
pub fn running_graph(
    target: &Target,
    format: GraphFormat,
    worker: Option<u32>,
) -> Result<String, CliError> {
    let mut stack = target.connect()?;
    let graph = match worker {
        None => stack.graph(format)?,
        Some(worker) => stack.graph_of(worker, format)?,
    };
    Ok(graph.text)
}

/// Makes the graph that a stack runs that of a text in Unicorn; `name` is what messages call it.
///
/// # Errors
/// When the stack cannot be asked, or refuses: then nothing has changed.
pub fn apply_graph(target: &Target, name: &str, text: &str) -> Result<Changed, CliError> {
    Ok(target.connect()?.apply(name, text)?)
}
