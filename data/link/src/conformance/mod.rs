//! The duties of every link, as a suite that runs against a link and its other end.
//!
//! A link's tests implement [`Peer`], make a [`Setup`] and call [`suite`]. Each behaviour is also a
//! function of its own. A violation panics with the behaviour's name. A queue has to hold at least
//! 100 packets in either direction, and the pool more than its rings.

mod bench;

use std::collections::VecDeque;

use weever_packet::{BURST, Buffer, Burst};

use crate::LinkError;

use bench::{Bench, frame};
pub use bench::{ETHERTYPE, Peer, Setup};

/// Runs every behaviour on a fresh set-up.
///
/// # Panics
/// When the link violates one.
pub fn suite(mut make: impl FnMut() -> Setup) {
    receives_in_order(make());
    receives_every_length(make());
    receives_from_slot_zero(make());
    respects_max(make());
    is_not_quiet_while_packets_wait(make());
    survives_an_exhausted_pool(make());
    sends_in_order(make());
    sends_every_length(make());
    holds_back_when_full(make());
    counts_what_cannot_be_sent(make());
    flushes_what_it_took(make());
    conserves_buffers(make());
    reports_a_gone_peer(make());
}

/// Packets of one queue come in the order in which they were sent, none twice, none lost while
/// there is room; each on the queue it was sent to; the counters say so.
///
/// # Panics
/// When the link does otherwise.
pub fn receives_in_order(setup: Setup) {
    let mut bench = Bench::new("receives in order", setup);
    for queue in 0..bench.info.queues {
        let before = bench.stats(queue);
        for portion in 0..8 {
            let frames: Vec<_> = (0..25).map(|i| frame(portion * 25 + i, 60)).collect();
            frames.iter().for_each(|frame| bench.peer_sends(queue, frame));
            let received = bench.receive_frames(queue, 25);
            bench.must(received == frames, || format!("portion {portion} is out of order"));
        }
        let stats = bench.stats(queue);
        let packets = stats.rx_packets - before.rx_packets;
        let bytes = stats.rx_bytes - before.rx_bytes;
        bench.must(packets >= 200 && bytes >= 200 * 60, || format!("counted {stats:?}"));
    }
}

/// Every length up to the longest comes in with every byte as it was sent.
///
/// # Panics
/// When the link does otherwise.
pub fn receives_every_length(setup: Setup) {
    let mut bench = Bench::new("receives every length", setup);
    let lengths: Vec<_> = (14..=bench.longest()).collect();
    for lengths in lengths.chunks(25) {
        let frames: Vec<_> = lengths.iter().map(|len| frame(*len as u32, *len)).collect();
        frames.iter().for_each(|frame| bench.peer_sends(0, frame));
        let received = bench.receive_frames(0, frames.len());
        bench.must(received == frames, || format!("lengths {lengths:?} differ"));
    }
}

/// Received packets lie in the burst from slot 0 on without gaps, those beyond a burst's size stay
/// for the next call, and nothing to receive is no error.
///
/// # Panics
/// When the link does otherwise.
pub fn receives_from_slot_zero(setup: Setup) {
    let mut bench = Bench::new("receives from slot zero", setup);
    (0..100).for_each(|i| bench.peer_sends(0, &frame(i, 60)));
    let mut seen = 0;
    bench.eventually("reception of 100 packets", |bench| {
        let packets = bench.receive(0, usize::MAX);
        bench.must(packets.len() <= BURST, || format!("{} in a burst", packets.len()));
        seen += packets.len();
        packets.into_iter().for_each(|packet| bench.cache.free(packet));
        seen >= 100
    });
    bench.eventually("quiet", |bench| bench.receive(0, BURST).is_empty());
}

/// No more than `max` packets come at once, none for 0.
///
/// # Panics
/// When the link does otherwise.
pub fn respects_max(setup: Setup) {
    let mut bench = Bench::new("respects max", setup);
    (0..40).for_each(|i| bench.peer_sends(0, &frame(i, 60)));
    let mut seen = 0;
    bench.eventually("reception of 40 packets", |bench| {
        for max in [0, 1, 3, 7] {
            let packets = bench.receive(0, max);
            bench.must(packets.len() <= max, || format!("{} of {max}", packets.len()));
            seen += packets.len();
            packets.into_iter().for_each(|packet| bench.cache.free(packet));
        }
        seen >= 40
    });
}

/// A queue that has something to receive does not say that it is quiet; a look takes nothing away.
///
/// # Panics
/// When the link does otherwise.
pub fn is_not_quiet_while_packets_wait(setup: Setup) {
    let mut bench = Bench::new("is not quiet while packets wait", setup);
    for i in 0..40 {
        bench.peer_sends(0, &frame(i, 60));
        bench.eventually("the end of quiet", |bench| !bench.queue(0).is_quiet());
        let is_quiet = bench.queue(0).is_quiet();
        bench.must(!is_quiet, || "quiet at the second look".into());
        let received = bench.receive_frames(0, 1);
        bench.must(received == [frame(i, 60)], || format!("packet {i} is another one"));
    }
}

/// With every free frame taken the link neither fails nor loses its footing: once frames are free
/// again it receives.
///
/// # Panics
/// When the link does otherwise.
pub fn survives_an_exhausted_pool(setup: Setup) {
    let mut bench = Bench::new("survives an exhausted pool", setup);
    let mut hoard = Vec::new();
    for i in 0..4 * bench.pool.frames() as u32 {
        while let Some(buffer) = bench.cache.alloc() {
            hoard.push(buffer);
        }
        if !bench.peer.send(0, &frame(i, 60)) {
            break;
        }
        hoard.extend(bench.receive(0, BURST));
    }
    // A peer in memory sends from a pool of its own, so its packets may go on coming.
    hoard.drain(..).for_each(|buffer| bench.cache.free(buffer));
    // The link may take its time, so any frame sent from here on will do.
    let first = u32::MAX / 2;
    let mut number = first;
    bench.eventually("reception after exhaustion", |bench| {
        number += 1;
        bench.peer.send(0, &frame(number, 60));
        let packets = bench.receive(0, BURST);
        let fresh = |packet: &Buffer| (first + 1..=number).any(|n| packet.data() == frame(n, 60));
        let seen = packets.iter().any(fresh);
        packets.into_iter().for_each(|packet| bench.cache.free(packet));
        seen
    });
}

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
