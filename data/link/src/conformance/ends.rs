//! The behaviour of a link at its end.

use std::collections::VecDeque;

use weever_packet::{BURST, Burst};

use super::bench::{Bench, Setup, frame};
use crate::LinkError;

/// Once the link and everything received are gone, every frame of the pool is home.
///
/// # Panics
/// When the link does otherwise.
pub fn conserves_buffers(setup: Setup) {
    let mut bench = Bench::new("conserves buffers", setup);
    for queue in 0..bench.info.queues {
        for portion in 0..4 {
            (0..25).for_each(|i| bench.peer_sends(queue, &frame(portion * 25 + i, 60)));
            bench.receive_frames(queue, 25);
            let packets: VecDeque<_> = (0..25).map(|i| bench.packet(&frame(i, 60))).collect();
            bench.send_all(queue, packets, 25);
        }
    }
    for queue in 0..bench.info.queues {
        // Some that are never received, and some that are never flushed.
        (0..10).for_each(|i| bench.peer_sends(queue, &frame(i, 60)));
        let mut packets: VecDeque<_> = (0..10).map(|i| bench.packet(&frame(i, 60))).collect();
        bench.give(queue, &mut packets);
    }
    let pool = bench.pool.clone();
    drop(bench);
    let (home, all) = (pool.available(), pool.frames());
    assert_eq!(home, all, "conserves buffers: {home} of {all} frames came home");
}

/// When the peer has gone, receiving and sending report it after the last packet that was still to
/// be received, and go on doing so. Nothing to check for a peer that cannot leave.
///
/// # Panics
/// When the link does otherwise.
pub fn reports_a_gone_peer(setup: Setup) {
    let mut bench = Bench::new("reports a gone peer", setup);
    (0..5).for_each(|i| bench.peer_sends(0, &frame(i, 60)));
    bench.receive_frames(0, 5);
    if !bench.peer.leave() {
        return;
    }
    bench.eventually("a report by rx", |bench| {
        let mut burst = Burst::new();
        bench.queue(0);
        let received = bench.queues[0].rx(&mut bench.cache, &mut burst, BURST);
        matches!(received, Err(LinkError::Gone { .. }))
    });
    let mut packets = VecDeque::from([bench.packet(&frame(0, 60))]);
    bench.eventually("a report by tx or flush", |bench| {
        bench.queue(0);
        let sent = bench.queues[0].tx(&mut bench.cache, &mut packets);
        let sent = sent.and_then(|_| bench.queues[0].flush(&mut bench.cache));
        matches!(sent, Err(LinkError::Gone { .. }))
    });
}
