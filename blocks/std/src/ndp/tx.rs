//! Transmit: where neighbour discovery's own messages start.

use weever_block::BlockType;
use weever_packet::Flags;

use crate::kinds::{validator, validator_type};

/// Where messages start: whole, with their checksum, and with their addresses in the metadata.
pub static SEND: BlockType =
    validator_type("TxL3NDPSend", "Where neighbour discovery's own messages start.", |_| {
        validator(|p| p.meta().flags.has(Flags::ENDPOINTS))
    });
