//! A plan as `ethtool` commands.

use weever_plan::ethtool::commands;

use super::{Result, count};

/// One command or comment per line.
pub(crate) fn ethtool(result: &Result<'_>, device: &str) -> String {
    let configuration = result.plan.configuration(result.model.nic.tables.len());
    let mut lines = commands(&result.model.nic, &configuration, device);
    let unplaced = result.plan.flows.iter().filter(|f| !f.refused.is_empty()).count();
    if unplaced > 0 {
        lines.push(format!(
            "# {} without a rule; `--format text` says why",
            count(unplaced, "flow")
        ));
    }
    lines.join("\n") + "\n"
}
