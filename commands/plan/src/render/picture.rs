//! A plan as a picture: the PRG with a node for each filter.

use weever_graph::svg::{Extras, svg_with};
use weever_plan::expanded::expand;
use weever_unicorn::predicate::PredicateText;

use super::Result;
use crate::PlanToolError;

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
