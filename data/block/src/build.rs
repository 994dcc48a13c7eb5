//! Making a block of a node.

use std::str::FromStr;

use weever_graph::Node;

use crate::{BlockType, Env};

/// Why a node could not be given an implementation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing is registered under the node's implementation name.
    #[error("node {node}: no block type `{implementation}`{hint}")]
    UnknownType {
        /// The node.
        node: String,
        /// The name that was looked up.
        implementation: String,
        /// A suggestion, or nothing.
        hint: String,
    },
    /// The node's ports, spawn or notify edges are not those of the type.
    #[error("node {node}: block type `{implementation}` has {what} `{name}`, the node has not")]
    Missing {
        /// The node.
        node: String,
        /// The block type.
        implementation: String,
        /// `port`, `spawn edge` or `notify edge`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The node has a port or edge that the type does not know.
    #[error("node {node}: {what} `{name}` is not one of block type `{implementation}` ({known})")]
    Unknown {
        /// The node.
        node: String,
        /// The block type.
        implementation: String,
        /// `port`, `spawn edge`, `notify edge` or `parameter`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Those that the type has.
        known: String,
    },
    /// A parameter's value is unusable.
    #[error("node {node}: parameter {key}={value}: {problem}")]
    Param {
        /// The node.
        node: String,
        /// The parameter.
        key: String,
        /// What it was set to.
        value: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The environment lacks something the block needs.
    #[error("node {node}: {what} is missing from the environment")]
    Environment {
        /// The node.
        node: String,
        /// What was looked for.
        what: &'static str,
    },
}

/// What a block type gets to make a block of.
#[derive(Debug)]
pub struct Build<'a> {
    /// The node: name, parameters, and for a table its entries.
    pub node: &'a Node,
    /// Its type.
    pub block_type: &'static BlockType,
    /// What the blocks of this stack share.
    pub env: &'a Env,
}

impl Build<'_> {
    /// The value of parameter `key`, or its default, read as a `T`.
    ///
    /// Panics when the type does not declare `key`: that is a bug of the type.
    pub fn param<T: FromStr>(&self, key: &str) -> Result<T, BuildError>
    where
        T::Err: std::fmt::Display,
    {
        let declared = self.block_type.params.iter().find(|p| p.name == key);
        let default =
            declared.expect("a block reads only parameters that its type declares").default;
        let value = self.node.param(key).unwrap_or(default);
        value.parse().map_err(|e: T::Err| self.bad_param(key, value, &e.to_string()))
    }

    /// An error about parameter `key`.
    pub fn bad_param(&self, key: &str, value: &str, problem: &str) -> BuildError {
        BuildError::Param {
            node: self.node.name.clone(),
            key: key.into(),
            value: value.into(),
            problem: problem.into(),
        }
    }

    /// The `T` of the environment, or an error that says `what` is missing.
    pub fn env<T: std::any::Any + Send + Sync>(
        &self,
        what: &'static str,
    ) -> Result<std::sync::Arc<T>, BuildError> {
        let missing = || BuildError::Environment { node: self.node.name.clone(), what };
        self.env.get::<T>().ok_or_else(missing)
    }
}
