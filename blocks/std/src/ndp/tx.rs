//! Transmit: where neighbour discovery's own messages start.

use weever_block::{BlockType, validator};
use weever_packet::Flags;

/// Where messages start: whole, with their checksum, and with their addresses in the metadata.
pub static SEND: BlockType =
    BlockType::validator("TxL3NDPSend", "Where neighbour discovery's own messages start.", |_| {
        validator(|p| p.meta().flags.has(Flags::ENDPOINTS))
    });
