//! Discarding sent packets.

use std::collections::VecDeque;

use weever_packet::{Buffer, PoolCache};

use crate::{QueueStats, fits};

/// Takes all packets, counts them as sent, or as dropped if they are too long for the MTU, and frees
/// them: the `tx` of a queue that has no peer. Returns how many there were.
pub fn free_sent(
    mtu: u16,
    pool: &mut PoolCache,
    packets: &mut VecDeque<Buffer>,
    stats: &mut QueueStats,
) -> usize {
    let n = packets.len();
    for packet in packets.drain(..) {
        if fits(packet.data(), mtu) {
            stats.tx_packets += 1;
            stats.tx_bytes += packet.len() as u64;
        } else {
            stats.tx_dropped += 1;
        }
        pool.free(packet);
    }
    n
}
