//! A plan, shown: as text, JSON, `ethtool` commands, graphs, or a picture of the PRG with a node for each filter.

mod graphs;
mod json;
mod text;
mod work;

use weever_graph::svg::{Extras, svg_with};
use weever_plan::embed::Embedded;
use weever_plan::ethtool::commands;
use weever_plan::expanded::expand;
use weever_plan::flow::Flow;
use weever_plan::search::{Explanation, FlowId, Plan};
use weever_policy::policy::CheckedPolicy;
use weever_unicorn::predicate::PredicateText;

use crate::PlanToolError;
use crate::load::Model;

pub(crate) use graphs::{embedded, host, of_queue, single_homed};
pub(crate) use json::json;
pub(crate) use text::text;

/// All that is known of a plan.
pub(crate) struct Result<'r> {
    pub(crate) model: &'r Model,
    pub(crate) page: &'r CheckedPolicy,
    /// The flows in the order of the file, which is that of the plan.
    pub(crate) flows: &'r [Flow],
    pub(crate) plan: &'r Plan,
    pub(crate) explanations: Vec<(FlowId, Explanation)>,
    /// The graphs behind the queues, if they are wanted.
    pub(crate) embedded: Vec<Embedded>,
    /// The work of the device for them.
    pub(crate) work: Option<work::Work>,
}

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

/// A picture of more filters is none.
const MAX_FILTERS: usize = 500;

/// The expanded graph in SVG.
pub(crate) fn picture(result: &Result<'_>) -> std::result::Result<String, PlanToolError> {
    let filters = result.plan.rules.len();
    if filters > MAX_FILTERS {
        return Err(PlanToolError::TooLarge { filters, most: MAX_FILTERS });
    }
    let nic = &result.model.nic;
    let configuration = result.plan.configuration(nic.tables.len());
    let graph = expand(&result.model.prg, nic, &configuration).map_err(PlanToolError::Picture)?;
    let condition = |port: weever_graph::PortId| {
        let port = graph.node(port.node).ports.get(port.port as usize)?;
        // That a filter does not match follows from its other port.
        (port.name == "true").then(|| PredicateText(&port.predicate).to_string())
    };
    Ok(svg_with(&graph, &Extras { condition: Some(&condition), ..Extras::default() }))
}

/// `1 flow`, `2 flows`.
pub(crate) fn count(n: usize, what: &str) -> String {
    let plural = match (n, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{n} {what}{plural}")
}

/// Rows under a heading, each column as wide as it has to be; numbers stand right.
pub(super) fn columns(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let right = |column: usize| {
        let number = |c: &String| c.chars().all(|c| c.is_ascii_digit() || c == '.');
        rows.iter().filter_map(|r| r.get(column)).all(number)
    };
    let right: Vec<bool> = (0..heading.len()).map(right).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for (column, cell) in cells.enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let (before, after) =
                if right[column] { (pad.as_str(), "") } else { ("", pad.as_str()) };
            out.push_str(&format!("{before}{cell}{after}  "));
        }
        out.trim_end().to_string() + "\n"
    };
    let mut out = line(&mut heading.iter().copied());
    for row in rows {
        out.push_str(&line(&mut row.iter().map(|c| c.as_str())));
    }
    out
}
