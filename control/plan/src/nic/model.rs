//! The configurable parts of a NIC.

use weever_graph::nic::{QueueRange, RssModel, TableModel};

/// The configurable parts of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The PRG's name.
    pub name: String,
    /// Its receive queues.
    pub queues: QueueRange,
    /// Its filter tables, in order of precedence.
    pub tables: Vec<Table>,
    /// The spreading of packets that no table took, if it can spread.
    pub rss: Option<RssModel>,
    /// The number of rules of all tables together that can be distinguished, if Linux numbers them.
    pub locations: Option<u32>,
    /// The queue for packets that no table took and no hash spreads.
    pub default_queue: u32,
}

/// A filter table of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The config node's full name.
    pub name: String,
    /// The capabilities of its rules.
    pub model: TableModel,
    /// The pool from which its rules take entries: the position in [`Nic::tables`] of the table that
    /// they share, or its own.
    pub pool: usize,
}

impl Nic {
    /// How many rules' worth of entries table `table` can draw on.
    pub fn capacity(&self, table: usize) -> u32 {
        self.tables[self.tables[table].pool].model.capacity.entries
    }
}
