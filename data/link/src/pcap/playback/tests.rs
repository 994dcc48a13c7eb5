use weever_packet::{Pool, PoolConfig};

use super::*;
use crate::Offload;
use crate::pcap::{Format, Interface, Record, Writer};

const MS: Nanos = 1_000_000;

/// Packets of one byte's repetition: (time, byte, length, original length).
fn file(packets: &[(Nanos, u8, usize, u32)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Format::Pcapng, "test").unwrap();
    writer.interface(&Interface::ethernet("eth0")).unwrap();
    writer.interface(&Interface { link_type: 113, ..Interface::ethernet("any") }).unwrap();
    for (time, byte, len, original) in packets {
        let data = vec![*byte; *len];
        let interface = u32::from(*byte == b'c');
        let record = Record { interface, original: *original, ..Record::whole(*time, &data) };
        writer.write(&record).unwrap();
    }
    writer.into_inner()
}

fn whole(times: &[Nanos]) -> Capture {
    let packets: Vec<_> = times.iter().enumerate().map(|(i, t)| (*t, i as u8, 60, 60)).collect();
    Capture::read(&file(&packets)[..], 1 << 20).unwrap()
}

struct Player {
    queue: Box<dyn LinkQueue>,
    cache: PoolCache,
    pool: Pool,
}

fn player(capture: Capture, pace: Pace, end: End) -> Player {
    let info = LinkInfo {
        name: "file".into(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        queues: 7,
        partial_checksums: true,
        offload: Offload::default(),
        mode: "replay".into(),
    };
    let mut link = PlaybackLink::new(info, capture, pace, end);
    assert_eq!(link.info().queues, 1);
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    Player { queue: link.take_queues().remove(0), cache: pool.cache(), pool }
}

impl Player {
    fn at(&mut self, now: Nanos) -> Vec<u8> {
        self.queue.advance(now);
        let mut burst = Burst::new();
        let n = self.queue.rx(&mut self.cache, &mut burst, 64).unwrap();
        let packets = (0..n).map(|slot| burst.take(slot).expect("no gaps"));
        packets.map(|p| (p.data()[0], self.cache.free(p)).0).collect()
    }
}

#[test]
fn packets_come_when_they_came() {
    let mut player = player(whole(&[50 * MS, 51 * MS, 53 * MS]), Pace::Timed(1.0), End::Quiet);
    assert_eq!(player.at(7 * MS), [0], "the first one at once");
    assert_eq!(player.queue.next_deadline(), Some(8 * MS));
    assert_eq!(player.at(8 * MS - 1), []);
    assert_eq!(player.at(8 * MS), [1]);
    assert_eq!(player.at(100 * MS), [2]);
    assert_eq!((player.at(200 * MS), player.queue.next_deadline()), (vec![], None));
}

#[test]
fn at_another_pace_or_none() {
    let capture = whole(&[0, 10 * MS, 30 * MS]);
    assert_eq!(capture.duration(), 30 * MS);
    let mut twice = player(capture.clone(), Pace::Timed(2.0), End::Quiet);
    assert_eq!([0, 4, 5, 14, 15].map(|ms| twice.at(ms * MS).len()), [1, 0, 1, 0, 1]);
    let mut at_once = player(capture, Pace::Unpaced, End::Quiet);
    assert_eq!(at_once.at(0), [0, 1, 2]);
}

#[test]
fn a_time_that_goes_back_keeps_the_order() {
    let mut player = player(whole(&[10 * MS, 5 * MS, 11 * MS]), Pace::Timed(1.0), End::Quiet);
    assert_eq!(player.at(0), [0, 1]);
    assert_eq!(player.at(MS), [2]);
}

#[test]
fn what_cannot_be_replayed_is_counted() {
    let packets = [(0, b'a', 60, 60), (1, b'b', 60, 90), (2, b'c', 60, 60), (3, b'd', 1515, 1515)];
    let capture = Capture::read(&file(&packets)[..], 1 << 20).unwrap();
    let left_out = capture.left_out();
    assert_eq!((capture.len(), left_out.total()), (2, 2), "a cut one, and another link type");
    let reason = "1 were cut by their capture, 1 are of link type 113 (Linux cooked, as from the \
                  device `any`)";
    assert_eq!(left_out.to_string(), reason);
    let mut player = player(capture, Pace::Unpaced, End::Gone);
    assert_eq!(player.at(0), [b'a']);
    let stats = player.queue.stats();
    assert_eq!((stats.rx_unusable, stats.rx_packets), (3, 1), "those left out, and a long one");
    let over = player.queue.rx(&mut player.cache, &mut Burst::new(), 64).unwrap_err();
    assert!(over.to_string().contains("the capture is over"), "{over}");
    let Player { queue, cache, pool } = player;
    drop((queue, cache));
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_call_looks_at_no_more_than_a_burst_however_many_are_unusable() {
    let mut packets = vec![(0, b'l', 2000, 2000); 200];
    packets.push((1, b'a', 60, 60));
    let capture = Capture::read(&file(&packets)[..], 1 << 20).unwrap();
    let mut player = player(capture, Pace::Unpaced, End::Quiet);
    for turn in 1..=3 {
        assert!(player.at(0).is_empty());
        assert_eq!(player.queue.stats().rx_unusable, 64 * turn);
    }
    assert_eq!(player.at(0), [b'a']);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let error = Capture::read(&file(&[(0, 1, 60, 60), (0, 2, 60, 60)])[..], 100).unwrap_err();
    assert!(error.to_string().contains("more than 100 bytes"), "{error}");
}
