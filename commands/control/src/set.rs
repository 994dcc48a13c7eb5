//! `weever set`, `weever settings` and `weever stop`: changing a running stack, and ending it.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use weever_service_api::settings::paths_help;
use weever_service_api::{Assignment, Changed, SetRequest, SettingsRequest, StopRequest};

use crate::{CliError, Target};

const EXAMPLES: &str = "\
Examples:
  weever set services.echo=7
  weever set interface.eth0.addr+=198.51.100.7/24 route.0.0.0.0/0=198.51.100.1";

fn help() -> String {
    format!("{}\n{EXAMPLES}", paths_help())
}

/// Changes settings of a running stack, all of them or none, without losing a packet.
#[derive(Args, Clone, Debug)]
#[command(after_help = help())]
pub struct SetArgs {
    /// The setting and its new value; `+=` and `-=` add to a list and remove from it
    #[arg(required = true, value_name = "PATH=VALUE")]
    pub(crate) assignments: Vec<Assignment>,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl SetArgs {
    /// Changes all settings, or none.
    ///
    /// # Errors
    /// When the stack cannot be asked, or refuses: then nothing has changed.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let mut assignments = self.assignments.iter().cloned();
        // The command line has one at least.
        let Some(first) = assignments.next() else { return Ok(()) };
        let changed = self.target.ask(&SetRequest::new(first, assignments.collect()))?;
        let all: Vec<String> = self.assignments.iter().map(ToString::to_string).collect();
        writeln!(out, "{}{}", all.join(" "), described(&changed))?;
        Ok(())
    }
}

/// The effect of a change on the graph, for the end of a line.
pub fn described(changed: &Changed) -> String {
    let mut text = match changed.steps {
        0 => String::new(),
        1 => format!(": graph {}, 1 step", changed.epoch),
        steps => format!(": graph {}, {steps} steps", changed.epoch),
    };
    if !changed.afresh.is_empty() {
        text.push_str(&format!("; began afresh: {}", changed.afresh.join(", ")));
    }
    changed.notes.iter().for_each(|note| text.push_str(&format!("; {note}")));
    text
}

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
