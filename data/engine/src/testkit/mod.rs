//! Random graphs over blocks whose decisions are a hash of the packet and the node.

mod blocks;
mod graph;

use weever_packet::{Buffer, HugePages, Pool, PoolCache, PoolConfig};

pub(crate) use blocks::registry;
pub(crate) use graph::{KINDS, NodeSpec, QUICK_KINDS, STATELESS, graph};

/// SplitMix64's finaliser.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(mix(seed), |h, b| mix(h ^ u64::from(*b)))
}

/// A packet of generation 0.
pub(crate) fn packet(pool: &mut PoolCache, id: u64) -> Buffer {
    let mut buffer = pool.alloc().expect("the pool is large enough for the test");
    assert!(buffer.append(&id.to_be_bytes()) && buffer.append(&[0]));
    buffer
}

pub(crate) fn pool(frames: u32) -> Pool {
    let config = PoolConfig { frames, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::new(config).expect("a small pool")
}
