//! `weever set`.

use std::io::Write;

use clap::Args;
use weever_service_api::settings::paths_help;
use weever_service_api::{Assignment, Changed};

use crate::{CliError, Target};

const EXAMPLES: &str = "\
Examples:
  weever set services.echo=7
  weever set interface.eth0.addr+=198.51.100.7/24 route.0.0.0.0/0=198.51.100.1";

fn help() -> String {
    format!("{}\n{EXAMPLES}", paths_help())
}

/// Changes settings of a running stack, one after the other, without losing a packet.
#[derive(Args, Clone, Debug)]
#[command(after_help = help())]
pub struct SetArgs {
    /// What to change, and how: PATH=VALUE, or += and -= for what is a list
    #[arg(required = true, value_name = "PATH=VALUE")]
    assignments: Vec<Assignment>,
    #[command(flatten)]
    target: Target,
}

impl SetArgs {
    /// Changes one setting after the other, up to the first that is refused.
    ///
    /// # Errors
    /// When the stack cannot be asked, or refuses: those before have been changed, and said so.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let mut client = self.target.connect()?;
        for assignment in &self.assignments {
            let changed = client.set(assignment.clone())?;
            writeln!(out, "{assignment}{}", described(&changed))?;
        }
        Ok(())
    }
}

/// What a change did to the graph, for the end of a line.
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
