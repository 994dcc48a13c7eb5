//! The link address of the next hop, and waiting for it.

use weever_block::{BlockType, PortDoc};

use crate::host::V4;
use crate::neighbour::lookup::{lookup, ports};

const PORTS: [PortDoc; 4] = ports("the interface is down or gone");

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = lookup::<V4>("TxL3ARPLookup_", &PORTS);
