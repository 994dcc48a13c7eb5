//! The running graph.

use weever_service_api::GraphFormat;

use crate::{CliError, Target};

/// The graph that a stack runs, with its counters, in this format.
///
/// # Errors
/// When the stack cannot be asked, or does not know the format.
pub fn running_graph(target: &Target, format: GraphFormat) -> Result<String, CliError> {
    Ok(target.connect()?.graph(format)?.text)
}
