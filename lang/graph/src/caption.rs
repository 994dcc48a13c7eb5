//! The texts at nodes in pictures of graphs.

use crate::{Node, Op};

/// A node's name without those of its clusters, which the picture shows around it.
pub(crate) fn short_name(node: &Node) -> &str {
    let own = node.name.strip_prefix(&node.clusters.concat());
    own.filter(|name| !name.is_empty()).unwrap_or(&node.name)
}

/// The name of an operator.
pub(crate) fn operator_name(op: Op) -> &'static str {
    match op {
        Op::And => "AND",
        Op::Or => "OR",
        Op::Nand => "NAND",
        Op::Nor => "NOR",
    }
}
