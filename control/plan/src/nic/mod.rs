//! A NIC as the planner sees it: the steering part of a PRG, without the graph around it.
//!
//! A PRG is a pipeline (design/0000 §4.5): a source, filter tables in order of precedence, each joined
//! to the next by its port `default`, then spreading by hash or a default queue. [`Nic::of`] reads that
//! pipeline; any other shape is an error that names the node.

mod error;
mod model;
mod pipeline;
#[cfg(test)]
mod tests;
mod view;

pub use error::NicError;
pub use model::{Nic, Table};
