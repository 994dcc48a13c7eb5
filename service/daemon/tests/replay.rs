//! A stack on a capture file, and the record of its packets: no privilege, no device.

mod common;

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::temporary_path;
use weever_blocks_std::testing::frames::{HOST, PEER, PEER_MAC, from_peer, udp_datagram};
use weever_daemon::config::{Aids, Config, Interface, LinkKind, Pace};
use weever_daemon::{Stack, StartError};
use weever_link::pcap::{Direction, Format, Interface as Captured, Reader, Record, Writer};

const ECHO: u16 = 7;
const PACKETS: u64 = 100;

struct Files(PathBuf, PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
        drop(std::fs::remove_file(&self.1));
    }
}

/// Echo requests, a tenth of a millisecond apart.
fn requests(path: &Path) {
    let file = BufWriter::new(File::create(path).unwrap());
    let mut writer = Writer::new(file, Format::Pcapng, "test").unwrap();
    writer.interface(&Captured::ethernet("peer")).unwrap();
    for number in 0..PACKETS {
        let (from, to) = (SocketAddrV4::new(PEER, 5000), SocketAddrV4::new(HOST, ECHO));
        let frame = from_peer(&udp_datagram(from, to, &number.to_be_bytes()));
        writer.write(&Record::whole(number * 100_000, &frame)).unwrap();
    }
    writer.flush().unwrap();
}

fn replaying(file: &Path) -> Config {
    let address = format!("{HOST}/24").parse().unwrap();
    let mut interface = Interface::new(file.to_str().unwrap(), vec![address]);
    interface.name = "replay".into();
    interface.link = LinkKind::Pcap;
    let mut config = Config::of(vec![interface]);
    config.services.echo = Some(ECHO);
    config.neighbours.push((PEER.into(), PEER_MAC));
    config.control = Some(temporary_path());
    config.pool.frames = 4096;
    config
}

/// The payloads that came and went, as the record has them.
fn recorded(path: &Path, wanted: Direction) -> Vec<u64> {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let mut payloads = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        let is_udp = record.data.len() >= 50 && record.data[23] == 17;
        if record.direction == wanted && is_udp {
            payloads.push(u64::from_be_bytes(record.data[42..50].try_into().unwrap()));
        }
    }
    payloads
}

#[test]
fn a_file_is_replayed_answered_and_the_answers_are_recorded() {
    for (pace, faults) in [(Pace::Recorded, None), (Pace::Unpaced, Some("loss=0.5"))] {
        let files = Files(temporary_path(), temporary_path());
        requests(&files.0);
        let mut config = replaying(&files.0);
        config.interfaces[0].pace = pace;
        let faults = faults.map(|text| text.parse().unwrap());
        config.aids = Aids { record: Some(files.1.clone()), faults, station: None };
        let stack = Stack::start(config).unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        let received =
            |stack: &Stack| stack.counters().links.iter().map(|l| l.rx_packets).sum::<u64>();
        while received(&stack) < PACKETS {
            assert!(Instant::now() < end, "{} of {PACKETS}", received(&stack));
            std::thread::sleep(Duration::from_millis(5));
        }
        // The last packet is answered within a turn.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(stack.stop().failure, None);
        let came = recorded(&files.1, Direction::Inbound);
        let went = recorded(&files.1, Direction::Outbound);
        assert_eq!(came, went, "every request that came was answered");
        match faults {
            None => assert_eq!(came, (0..PACKETS).collect::<Vec<_>>()),
            Some(_) => assert!((10..90).contains(&came.len()), "{} came through", came.len()),
        }
    }
}

#[test]
fn a_file_that_cannot_be_replayed_or_written_is_named() {
    let files = Files(temporary_path(), temporary_path());
    let complaint = |config: Config| match Stack::start(config) {
        Err(StartError::Setting(text)) => text,
        other => panic!("{other:?}"),
    };
    let text = complaint(replaying(&files.0));
    assert!(text.contains(files.0.to_str().unwrap()) && text.contains("No such file"), "{text}");
    std::fs::write(&files.0, b"no capture file at all").unwrap();
    let text = complaint(replaying(&files.0));
    assert!(text.contains(files.0.to_str().unwrap()), "{text}");
    requests(&files.0);
    let mut config = replaying(&files.0);
    config.aids.record = Some("/nonexistent/record.pcapng".into());
    let text = complaint(config);
    assert!(text.contains("/nonexistent/record.pcapng"), "{text}");
}
