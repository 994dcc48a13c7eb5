//! `weever set`.

use std::io::Write;

use clap::Args;
use weever_service_api::settings::paths_help;
use weever_service_api::{Assignment, Changed, SetRequest};

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
    assignments: Vec<Assignment>,
    #[command(flatten)]
    target: Target,
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
