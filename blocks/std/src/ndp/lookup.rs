//! The link address of the next hop, and waiting for it.

use weever_block::{BlockType, PortDoc};

use crate::host::V6;
use crate::neighbour::lookup::{lookup, ports};

const PORTS: [PortDoc; 4] = ports("the interface is down, gone or does not speak IPv6");

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = lookup::<V6>("TxL3NDLookup_", &PORTS);
