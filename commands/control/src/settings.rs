//! `weever settings`.

use std::io::Write;

use clap::Args;
use weever_service_api::SettingsRequest;

use crate::{CliError, Target};

/// Shows the present values of all that `weever set` can change, in the form that `weever set`
/// takes.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingsArgs {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
}

impl SettingsArgs {
    /// Asks and prints.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let answer = self.target.ask(&SettingsRequest {})?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &answer).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            answer.settings.iter().try_for_each(|setting| writeln!(out, "{setting}"))?;
        }
        Ok(())
    }
}
