//! The behaviour of a link on sending.

use std::collections::VecDeque;

use weever_packet::Buffer;

use super::bench::{Bench, Setup, frame};

/// Packets of one queue arrive in the order in which they were given, none twice, none lost; the
/// counters say so.
///
/// # Panics
/// When the link does otherwise.
pub fn sends_in_order(setup: Setup) {
    let mut bench = Bench::new("sends in order", setup);
    for queue in 0..bench.info.queues {
        for portion in 0..8 {
            let frames: Vec<_> = (0..25).map(|i| frame(portion * 25 + i, 60)).collect();
            let packets = frames.iter().map(|frame| bench.packet(frame)).collect();
            let seen = bench.send_all(queue, packets, 25);
            bench.must(seen == frames, || format!("portion {portion} is out of order"));
        }
        let stats = bench.stats(queue);
        let counted = (stats.tx_packets, stats.tx_bytes, stats.tx_dropped);
        bench.must(counted == (200, 200 * 60, 0), || format!("counted {stats:?}"));
    }
}

/// Every length up to the longest arrives with every byte as it was given.
///
/// # Panics
/// When the link does otherwise.
pub fn sends_every_length(setup: Setup) {
    let mut bench = Bench::new("sends every length", setup);
    let lengths: Vec<_> = (14..=bench.longest()).collect();
    for lengths in lengths.chunks(25) {
        let frames: Vec<_> = lengths.iter().map(|len| frame(*len as u32, *len)).collect();
        let packets = frames.iter().map(|frame| bench.packet(frame)).collect();
        let seen = bench.send_all(0, packets, frames.len());
        bench.must(seen == frames, || format!("lengths {lengths:?} differ"));
    }
}

/// More than fits is held back, not lost: it stays in the caller's hands, and once there is room
/// again everything arrives in order.
///
/// # Panics
/// When the link does otherwise.
pub fn holds_back_when_full(setup: Setup) {
    let mut bench = Bench::new("holds back when full", setup);
    let mut packets: VecDeque<Buffer> = VecDeque::new();
    let (mut given, mut taken) = (0, 0);
    // Without a flush no room comes back, so the link must be full after a while.
    let most = bench.pool.frames() as u32;
    while packets.is_empty() && given < most {
        let Some(mut buffer) = bench.cache.alloc() else { break };
        buffer.append(&frame(given, 60));
        given += 1;
        packets.push_back(buffer);
        taken += bench.give(0, &mut packets) as u32;
    }
    bench.must(taken > 0, || "nothing was taken".into());
    bench.must(!packets.is_empty(), || {
        format!("{taken} taken and still not full: give the suite a larger pool or smaller rings")
    });
    let seen = bench.send_all(0, packets, given as usize);
    let expected: Vec<_> = (0..given).map(|number| frame(number, 60)).collect();
    bench.must(seen == expected, || format!("{} of {given} arrived in order", seen.len()));
    let stats = bench.stats(0);
    bench.must(stats.tx_packets == u64::from(given), || format!("counted {stats:?}"));
}

/// Packets that no device could send are taken, counted and freed, and the next ones are sent.
///
/// # Panics
/// When the link does otherwise.
pub fn counts_what_cannot_be_sent(setup: Setup) {
    let mut bench = Bench::new("counts what cannot be sent", setup);
    let too_long = bench.longest() + 5;
    let mut packets = VecDeque::new();
    for i in 0..3 {
        let room = bench.packet(&[]).tailroom();
        bench.must(room >= too_long, || "the suite needs a smaller MTU or larger frames".into());
        packets.push_back(bench.packet(&frame(i, too_long)));
        packets.push_back(bench.packet(&frame(i, 60)[..13]));
        packets.push_back(bench.packet(&frame(i, 60)));
    }
    packets.push_back(bench.packet(&[]));
    let seen = bench.send_all(0, packets, 3);
    let expected: Vec<_> = (0..3).map(|i| frame(i, 60)).collect();
    bench.must(seen == expected, || format!("{} frames arrived", seen.len()));
    let stats = bench.stats(0);
    let counted = (stats.tx_packets, stats.tx_dropped);
    bench.must(counted == (3, 7), || format!("counted {stats:?}"));
}

/// The taken packets have been sent once `unsent` is false, which flushing brings about.
///
/// # Panics
/// When the link does otherwise.
pub fn flushes_what_it_took(setup: Setup) {
    let mut bench = Bench::new("flushes what it took", setup);
    bench.must(!bench.queues[0].unsent(), || "unsent before anything was taken".into());
    for i in 0..50 {
        let mut packets = VecDeque::from([bench.packet(&frame(i, 60))]);
        bench.give(0, &mut packets);
        bench.eventually("the end of unsent", |bench| {
            bench.flush(0);
            !bench.queues[0].unsent()
        });
        let seen = bench.peer.receive().map(|(_, frame)| frame);
        bench.must(seen == Some(frame(i, 60)), || format!("frame {i} did not arrive"));
    }
}
