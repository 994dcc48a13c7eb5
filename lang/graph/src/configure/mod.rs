//! Giving a config node a value (Dragonet thesis §2.2.3; queue management §3.1).
//!
//! The node is replaced: by edges, by a table in its place, or by a subgraph. The replacement may only
//! touch the node's own neighbours, so that the effect of a value stays local.

mod error;
mod subgraph;
mod table_value;
#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use subgraph::{From, NewEdge, Subgraph, To};

use crate::verify::check_table;
use crate::{ConfigSpec, ConfigType, Graph, Node, NodeKind, TableSpec, Value};

/// A value for a config node.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// One of the node's ports: the ports that enabled the node now enable the targets of this port.
    Choice(String),
    /// A table: the node becomes a T-node in place, with the same ports.
    Table(TableSpec),
    /// Nodes and edges, computed by a configuration function.
    Subgraph(Subgraph),
}

/// Replaces the config node called `name` by the result of `value`. Ids of other nodes change
/// when the node vanishes; names do not.
///
/// # Errors
/// If there is no such node, or the value does not lie in its configuration space. The graph is
/// unchanged then.
pub fn configure(graph: &mut Graph, name: &str, value: ConfigValue) -> Result<(), ConfigError> {
    let id = graph.find(name).ok_or_else(|| ConfigError::NoNode(name.into()))?;
    let node = graph.node(id);
    let NodeKind::Config(spec) = &node.kind else {
        return Err(ConfigError::NotConfig(name.into()));
    };
    let ty = config_type(node, spec)?;
    match value {
        ConfigValue::Choice(port) => {
            check_choice(node, ty.as_ref(), &port)?;
            let chosen = subgraph::straight_to(graph, id, &port)?;
            subgraph::replace(graph, id, chosen)
        }
        ConfigValue::Table(table) => {
            table_value::check(node, ty.as_ref(), &table)?;
            check_table(&table, node.ports.len())
                .map_err(|reason| ConfigError::BadTable { node: name.into(), reason })?;
            graph.node_mut(id).kind = NodeKind::Table(table);
            Ok(())
        }
        ConfigValue::Subgraph(subgraph) => subgraph::replace(graph, id, subgraph),
    }
}

/// The type, if one is given.
fn config_type(node: &Node, spec: &ConfigSpec) -> Result<Option<ConfigType>, ConfigError> {
    let Some(text) = &spec.ty else { return Ok(None) };
    let bad = |e: crate::config::TypeError| ConfigError::BadType {
        node: node.name.clone(),
        reason: e.to_string(),
    };
    text.parse().map(Some).map_err(bad)
}

fn check_choice(node: &Node, ty: Option<&ConfigType>, port: &str) -> Result<(), ConfigError> {
    let value = match ty {
        Some(ConfigType::Bool) => port.parse().map_or(Value::Label(port.into()), Value::Bool),
        Some(ConfigType::Int { .. } | ConfigType::UInt(_) | ConfigType::SInt(_)) => {
            port.parse().map_or(Value::Label(port.into()), Value::Number)
        }
        _ => Value::Label(port.into()),
    };
    let checked = ty.map_or(Ok(()), |ty| ty.check(&value));
    checked.map_err(|reason| ConfigError::OutsideType { node: node.name.clone(), reason })
}
