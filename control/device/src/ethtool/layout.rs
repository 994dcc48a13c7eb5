//! Where things lie in the structures of `<linux/ethtool.h>`, and the numbers of commands.
//!
//! Structures are byte buffers here: they have unions, flexible arrays and padding, and a buffer
//! has no uninitialised byte.

/// `ETHTOOL_*`.
pub(super) mod command {
    pub(crate) const DRIVER_INFO: u32 = 0x03;
    pub(crate) const GET_RINGS: u32 = 0x10;
    pub(crate) const GET_FLAGS: u32 = 0x25;
    pub(crate) const SET_FLAGS: u32 = 0x26;
    pub(crate) const GET_STRINGS: u32 = 0x1b;
    pub(crate) const GET_STATISTICS: u32 = 0x1d;
    pub(crate) const GET_PRIVATE: u32 = 0x27;
    pub(crate) const SET_PRIVATE: u32 = 0x28;
    pub(crate) const COUNT_STRINGS: u32 = 0x37;
    pub(crate) const GET_HASH_FIELDS: u32 = 0x29;
    pub(crate) const SET_HASH_FIELDS: u32 = 0x2a;
    pub(crate) const COUNT_RULES: u32 = 0x2e;
    pub(crate) const GET_RULE: u32 = 0x2f;
    pub(crate) const LIST_RULES: u32 = 0x30;
    pub(crate) const DELETE_RULE: u32 = 0x31;
    pub(crate) const INSERT_RULE: u32 = 0x32;
    pub(crate) const GET_FEATURES: u32 = 0x3a;
    pub(crate) const GET_CHANNELS: u32 = 0x3c;
    pub(crate) const SET_CHANNELS: u32 = 0x3d;
    pub(crate) const GET_SPREADING: u32 = 0x46;
    pub(crate) const SET_SPREADING: u32 = 0x47;
}

/// `struct ethtool_sset_info` and `struct ethtool_gstrings`.
pub(super) mod strings {
    /// `ETH_SS_PRIV_FLAGS`.
    pub(crate) const PRIVATE_FLAGS: u32 = 2;
    /// `ETH_SS_FEATURES`.
    pub(crate) const FEATURES: u32 = 4;
    /// `ETH_SS_STATS`.
    pub(crate) const STATISTICS: u32 = 1;
    /// The sets that are asked about, a bit each, and the size of the first.
    pub(crate) const SETS: usize = 8;
    pub(crate) const SIZE_OF_SET: usize = 16;
    pub(crate) const COUNT_END: usize = 20;
    pub(crate) const SET: usize = 4;
    pub(crate) const COUNT: usize = 8;
    pub(crate) const TEXTS: usize = 12;
    /// `ETH_GSTRING_LEN`.
    pub(crate) const TEXT: usize = 32;
}

/// `struct ethtool_stats`.
pub(super) mod statistics {
    pub(crate) const COUNT: usize = 4;
    pub(crate) const VALUES: usize = 8;
    pub(crate) const VALUE: usize = 8;
}

/// `struct ethtool_rxnfc`.
pub(super) mod rules {
    pub(crate) const FLOW_TYPE: usize = 4;
    pub(crate) const DATA: usize = 8;
    pub(crate) const SPEC: usize = 16;
    /// A union: a number of rules, or a context.
    pub(crate) const COUNT: usize = 184;
    pub(crate) const LOCATIONS: usize = 188;
    pub(crate) const SIZE: usize = 192;
    /// In `data`: the driver chooses locations (`RX_CLS_LOC_SPECIAL`).
    pub(crate) const CHOOSES: u64 = 0x8000_0000;
}

/// `struct ethtool_rx_flow_spec`.
pub(super) mod spec {
    pub(crate) const VALUES: usize = 4;
    pub(crate) const EXT_VALUES: usize = 56;
    pub(crate) const MASKS: usize = 76;
    pub(crate) const EXT_MASKS: usize = 128;
    pub(crate) const COOKIE: usize = 152;
    pub(crate) const LOCATION: usize = 160;
    pub(crate) const SIZE: usize = 168;
    /// In `flow_type`: the tag counts (`FLOW_EXT`).
    pub(crate) const TAG: u32 = 0x8000_0000;
    /// In `flow_type`: the destination's hardware address counts (`FLOW_MAC_EXT`).
    pub(crate) const MAC: u32 = 0x4000_0000;
    /// In `flow_type`: spread by a context (`FLOW_RSS`).
    pub(crate) const CONTEXT: u32 = 0x2000_0000;
    /// A cookie: drop (`RX_CLS_FLOW_DISC`).
    pub(crate) const DROP: u64 = u64::MAX;
}

/// `struct ethtool_rxfh`.
pub(super) mod spreading {
    pub(crate) const CONTEXT: usize = 4;
    pub(crate) const TABLE_SIZE: usize = 8;
    pub(crate) const KEY_SIZE: usize = 12;
    /// A bit for each function: Toeplitz, XOR, CRC32.
    pub(crate) const FUNCTION: usize = 16;
    /// What is done with the hash's input (`RXH_XFRM_*`); free before Linux 6.8, and 0 then.
    pub(crate) const TRANSFORMATION: usize = 17;
    /// Those of them that make the hash symmetric: `RXH_XFRM_SYM_XOR`, `RXH_XFRM_SYM_OR_XOR`.
    pub(crate) const SYMMETRIC: u8 = 3;
    pub(crate) const CONFIG: usize = 24;
    /// As a context: make one (`ETH_RXFH_CONTEXT_ALLOC`).
    pub(crate) const NEW_CONTEXT: u32 = 0xffff_ffff;
    /// As the table's size: leave it (`ETH_RXFH_INDIR_NO_CHANGE`).
    pub(crate) const SAME_TABLE: u32 = 0xffff_ffff;
}

/// `struct ethtool_channels`: the command, four maxima, four counts.
pub(super) mod channels {
    pub(crate) const MOST: usize = 4;
    pub(crate) const COUNTS: usize = 20;
    pub(crate) const SIZE: usize = 36;
}

/// `struct ethtool_ringparam`: the command, four maxima, four counts, in the order receive, mini, jumbo, send.
pub(super) mod rings {
    pub(crate) const MOST: [usize; 2] = [4, 16];
    pub(crate) const COUNTS: [usize; 2] = [20, 32];
    pub(crate) const SIZE: usize = 36;
}

/// `struct ethtool_gfeatures`.
pub(super) mod feature_words {
    pub(crate) const BLOCKS: usize = 4;
    pub(crate) const FIRST: usize = 8;
    /// A block is for 32 features.
    pub(crate) const BLOCK: usize = 16;
    /// In a block.
    pub(crate) const ACTIVE: usize = 8;
}

/// `struct ethtool_drvinfo`.
pub(super) mod driver {
    pub(crate) const NAME: usize = 4;
    pub(crate) const BUS: usize = 100;
    /// Both are as long.
    pub(crate) const TEXT: usize = 32;
    pub(crate) const SIZE: usize = 196;
}

/// `ETH_FLAG_NTUPLE`.
pub(super) const NTUPLE: u32 = 1 << 27;

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}
