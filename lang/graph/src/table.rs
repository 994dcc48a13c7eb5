//! T-nodes: a match over packet fields, stored by entries rather than by nodes (design/0000 §4.1).

use crate::Field;

/// One field's part of an entry: `field & mask == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Bits that count; 0 is a wildcard.
    pub mask: u128,
    /// Their required value; no bit outside `mask`.
    pub value: u128,
}

/// An entry of a table. Where several match, the higher priority wins, then the earlier entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Written to the packet's metadata on a hit.
    pub id: u32,
    /// One key per field of the table, in the table's order.
    pub keys: Vec<Key>,
    /// Larger wins.
    pub priority: u32,
    /// The port by which a hit leaves.
    pub port: u32,
}

/// The value of a T-node: its fields and its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// The fields, in the order of [`Entry::keys`].
    pub fields: Vec<Field>,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The port for packets that match none.
    pub miss: u32,
    /// The number of entries that fit.
    pub capacity: usize,
}
