//! The behaviour of a link on receiving.

use weever_packet::{BURST, Buffer};

use super::bench::{Bench, Setup, frame};

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
