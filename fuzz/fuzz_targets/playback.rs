//! Any bytes as a record: the replay ends, every packet is received or counted, and
//! a recording of it can be replayed again.
#![no_main]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use weever_link::pcap::playback::{Capture, End, Pace, PlaybackLink};
use weever_link::pcap::{Format, Recorder, Writer};
use weever_link::trace::{Shared, TracedLink};
use weever_link::{Link, LinkInfo, Offload};
use weever_packet::{Burst, Pool, PoolConfig};

const MOST: usize = 1 << 16;

fuzz_target!(|file: &[u8]| {
    let Ok(capture) = Capture::read(file, MOST) else { return };
    let writer = Writer::new(Vec::new(), Format::Pcapng, "fuzz").expect("a Vec takes all");
    let recorder = Arc::new(Mutex::new(Some(Recorder::new(writer, 0))));
    let (received, sent) = replay(&capture, &recorder);
    let recorder = recorder.lock().expect("nobody panics").take().expect("put there above");
    let record = recorder.finish().expect("a Vec takes all");
    // Packets were seen on their way in and out.
    let again = Capture::read(&record[..], 4 * MOST).expect("ours is well-formed");
    assert_eq!((again.len() as u64, again.left_out().total()), (received + sent, 0));
});

/// Receives everything and sends it back; says how many packets that were.
fn replay(capture: &Capture, recorder: &Arc<Mutex<Option<Recorder<Vec<u8>>>>>) -> (u64, u64) {
    let info = LinkInfo {
        name: "file".into(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        queues: 1,
        partial_checksums: false,
        offload: Offload::default(),
        mode: String::new(),
    };
    let (packets, skipped) = (capture.len() as u64, capture.left_out().total());
    let link = PlaybackLink::new(info, capture.clone(), Pace::Timed(1.0), End::Gone);
    let mut link = TracedLink::new(Box::new(link), Shared::of(Arc::clone(recorder)));
    let mut queue = link.take_queues().remove(0);
    let pool = Pool::new(PoolConfig { frames: 128, ..PoolConfig::default() }).expect("memory");
    let mut cache = pool.cache();
    queue.advance(u64::MAX);
    loop {
        let mut burst = Burst::new();
        let Ok(n) = queue.rx(&mut cache, &mut burst, 64) else { break };
        let mut back: VecDeque<_> = (0..n).filter_map(|slot| burst.take(slot)).collect();
        queue.tx(&mut cache, &mut back).expect("there is room");
        queue.flush(&mut cache).expect("nothing to fail");
    }
    let stats = queue.stats();
    assert_eq!(stats.rx_packets + stats.rx_unusable, packets + skipped);
    drop((queue, cache));
    assert_eq!(pool.available(), pool.frames());
    (stats.rx_packets, stats.tx_packets)
}
