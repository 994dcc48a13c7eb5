//! What can be configured of a NIC.

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
    /// How many rules' worth of entries table `table` can draw on.
    pub fn capacity(&self, table: usize) -> u32 {
        self.tables[self.tables[table].pool].model.capacity.entries
    }
}
