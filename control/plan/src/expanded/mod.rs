//! The reference meaning of a configuration: the PRG with a node for every filter, as the Dragonet
//! queue management paper draws it (§3.1), and a depth-first walk of it (§3.3).
//!
//! The planner does not use this graph: it grows with every rule, and a walk visits all of them. The
//! flow map is tested against it, and pictures show it. [`expand`] makes it by giving every config node
//! of the PRG its value through [`weever_graph::configure()`], which applies the locality rule to each;
//! [`queues_of`] walks it.

mod filters;
mod queues;
mod spreading;
#[cfg(test)]
mod tests;
mod walk;

pub use walk::queues_of;

use weever_graph::{ConfigError, ConfigValue, Graph, configure};

use crate::config::{Configuration, Rule, Target};
use crate::nic::Nic;

/// The PRG of `nic` with the configuration in the place of its config nodes. Queues that nothing
/// can reach are left out.
///
/// `nic` may be a view of the PRG with fewer tables or queues; a table that it does not have stays
/// empty.
///
/// # Errors
/// [`ConfigError`] if `prg` is not the graph that `nic` was read from.
pub fn expand(prg: &Graph, nic: &Nic, configuration: &Configuration) -> Result<Graph, ConfigError> {
    let mut graph =
        queues::one_node_each(prg, &queues::used(nic, configuration), nic.default_queue);
    for name in filters::tables(prg) {
        let at = nic.tables.iter().position(|t| t.name == name);
        let value = match at.and_then(|i| Some((&nic.tables[i], configuration.rules.get(i)?))) {
            Some((table, rules)) => {
                let spreads = |r: &Rule| matches!(r.target, Target::Context(_));
                let contexts = match rules.iter().any(spreads) {
                    true => spreading::contexts(&graph, nic, configuration)?,
                    false => Vec::new(),
                };
                filters::chain(&graph, table, rules, &contexts)?
            }
            None => ConfigValue::Choice("default".into()),
        };
        configure(&mut graph, &name, value)?;
    }
    for name in spreading::nodes(prg) {
        let value = spreading::node(&graph, &name, nic, &configuration.rss)?;
        configure(&mut graph, &name, value)?;
    }
    Ok(graph)
}
