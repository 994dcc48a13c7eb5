//! A NIC as the planner sees it: what a PRG says about steering, without the graph around it.
//!
//! A PRG is a pipeline (design/0000 §4.5): a source, filter tables in order of precedence, each joined
//! to the next by its port `default`, then spreading by hash or a default queue. [`Nic::of`] reads
//! that pipeline; whatever is no pipeline is an error that names the node.

mod error;
mod pipeline;
#[cfg(test)]
mod tests;
mod view;

pub use error::NicError;

use weever_graph::Graph;
use weever_graph::nic::{QueueRange, RssModel, TableModel};

/// What can be configured of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The PRG's name.
    pub name: String,
    /// Its receive queues.
    pub queues: QueueRange,
    /// Its filter tables, the one that is asked first in front.
    pub tables: Vec<Table>,
    /// How it spreads what no table took, if it can.
    pub rss: Option<RssModel>,
    /// How many rules of all tables together can be told apart, if Linux numbers them.
    pub locations: Option<u32>,
    /// The queue for what no table took and nothing spreads.
    pub default_queue: u32,
}

/// A filter table of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The config node's full name.
    pub name: String,
    /// What its rules can do.
    pub model: TableModel,
    /// Whose entries its rules take: the position in [`Nic::tables`] of the table that they share,
    /// or its own.
    pub pool: usize,
}

impl Nic {
    /// Reads a PRG that has no configuration yet.
    ///
    /// # Errors
    /// [`NicError`] names the node at which the graph stops being a pipeline, or the table that is
    /// impossible.
    pub fn of(prg: &Graph) -> Result<Nic, NicError> {
        pipeline::read(prg)
    }

    /// How many rules' worth of entries table `table` can draw on.
    pub fn capacity(&self, table: usize) -> u32 {
        self.tables[self.tables[table].pool].model.capacity.entries
    }
}
