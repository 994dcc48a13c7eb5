//! Transmit: where neighbour discovery's own messages start.

use weever_block::{BlockType, Buffer};
use weever_packet::Flags;

use crate::check::{Validate, boolean};

/// Where messages start: whole, with their checksum, and with their addresses in the metadata.
pub static SEND: BlockType =
    boolean("TxL3NDPSend", "Where neighbour discovery's own messages start.", |_| {
        Ok(Box::new(Validate(|p: &Buffer| p.meta().flags.has(Flags::ENDPOINTS))))
    });
