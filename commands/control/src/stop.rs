//! `weever stop`.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use weever_service_api::StopRequest;

use crate::{CliError, Target};

/// The longest time that a stack may take to shut down.
const PATIENCE: Duration = Duration::from_secs(30);

/// Shuts a running stack down, and waits until it has given its device back.
#[derive(Args, Clone, Debug, Default)]
pub struct StopArgs {
    #[command(flatten)]
    target: Target,
}

impl StopArgs {
    /// Asks and waits.
    ///
    /// # Errors
    /// When the stack cannot be asked, or takes longer than half a minute.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let mut client = self.target.connect()?;
        let pid = client.call(&StopRequest {})?.pid;
        client.wait_closed(PATIENCE)?;
        writeln!(out, "the stack of process {pid} has shut down")?;
        Ok(())
    }
}
