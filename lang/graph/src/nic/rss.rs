//! Receive side scaling: a hash over header fields chooses an entry of a table of queues.

use super::{FlowType, QueueRange};
use crate::Field;

/// How a NIC spreads packets that no filter took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssModel {
    /// The hash function.
    pub hash: RssHash,
    /// How many entries the table has.
    pub entries: u32,
    /// The queue of packets that are not hashed; without one, they use entry 0 of the table.
    pub unhashed: Option<u32>,
    /// The queues that an entry can hold.
    pub queues: QueueRange,
    /// The hashed fields of packets of each flow type; the others are not hashed.
    pub types: Vec<RssType>,
    /// How many further tables there are, for filters to choose from.
    pub contexts: u32,
}

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RssHash {
    /// Toeplitz with a key of the given number of bytes.
    Toeplitz {
        /// The key's length in bytes.
        key_len: u32,
        /// Whether both directions of a connection have the same hash, because of each pair of fields their
        /// OR and their XOR are hashed instead (`RXH_XFRM_SYM_OR_XOR`).
        symmetric: bool,
    },
    /// CRC-32.
    Crc32,
    /// The exclusive or of the fields.
    Xor,
    /// One that nobody can predict: plans do not tell where it sends a single connection.
    Own,
}

/// The hashed fields of one flow type's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssType {
    /// The flow type.
    pub flow_type: FlowType,
    /// The choices a user has; the first is the one that the NIC starts with.
    pub choices: Vec<RssFields>,
}

/// The fields that are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RssFields {
    /// Both addresses and both ports: `4tuple`.
    FourTuple,
    /// Both addresses: `2tuple`.
    Addresses,
    /// Nothing: `none`.
    None,
}

impl RssFields {
    /// Every choice.
    pub const ALL: [RssFields; 3] = [RssFields::FourTuple, RssFields::Addresses, RssFields::None];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            RssFields::FourTuple => "4tuple",
            RssFields::Addresses => "2tuple",
            RssFields::None => "none",
        }
    }

    /// The fields in the order in which they are hashed, for packets of IP version 4 or 6.
    pub fn of_version(self, version: u8) -> &'static [Field] {
        const FOUR: [Field; 4] = [Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst];
        const SIX: [Field; 4] = [Field::Ip6Src, Field::Ip6Dst, Field::L4Src, Field::L4Dst];
        let all = if version == 6 { &SIX } else { &FOUR };
        match self {
            RssFields::FourTuple => all,
            RssFields::Addresses => &all[..2],
            RssFields::None => &[],
        }
    }
}

impl RssModel {
    /// The hashed fields of packets of `flow_type` as the NIC starts. A transport that is not listed is
    /// hashed as its IP version is.
    pub fn default_fields(&self, flow_type: FlowType) -> RssFields {
        let listed =
            |t| self.types.iter().find(|r| r.flow_type == t).and_then(|r| r.choices.first());
        let network = match flow_type.ip_version() {
            Some(4) => FlowType::Ip4,
            Some(_) => FlowType::Ip6,
            None => FlowType::Ether,
        };
        listed(flow_type).or_else(|| listed(network)).copied().unwrap_or(RssFields::None)
    }
}
