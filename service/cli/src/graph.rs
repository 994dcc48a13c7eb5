//! The running graph.

use std::io::Write;

use clap::Args;
use weever_service_api::GraphFormat;

use crate::{CliError, Target};

/// Prints the graph of a running stack with its counters, in Graphviz's language.
#[derive(Args, Clone, Debug, Default)]
pub struct LiveGraphArgs {
    #[command(flatten)]
    target: Target,
}

impl LiveGraphArgs {
    /// Asks and prints.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let graph = self.target.connect()?.graph(GraphFormat::Dot)?;
        out.write_all(graph.text.as_bytes())?;
        Ok(())
    }
}
