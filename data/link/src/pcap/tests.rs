//! Round trips, files made by hand in every dialect, and files that are wrong.

use proptest::prelude::*;

use super::*;

fn read_all(file: &[u8]) -> Result<(Vec<Interface>, Vec<Owned>), PcapError> {
    let mut reader = Reader::new(file)?;
    let mut records = Vec::new();
    while let Some(record) = reader.read()? {
        records.push(Owned::of(&record));
    }
    Ok((reader.interfaces().to_vec(), records))
}

#[derive(Clone, Debug, PartialEq)]
struct Owned {
    interface: u32,
    time: u64,
    original: u32,
    direction: Direction,
    dropped: u64,
    data: Vec<u8>,
}

impl Owned {
    fn of(record: &Record<'_>) -> Owned {
        let Record { interface, time, original, direction, dropped, data } = *record;
        Owned { interface, time, original, direction, dropped, data: data.to_vec() }
    }

    fn record(&self) -> Record<'_> {
        let Owned { interface, time, original, direction, dropped, ref data } = *self;
        Record { interface, time, original, direction, dropped, data }
    }
}

fn some_record() -> impl Strategy<Value = Owned> {
    let direction =
        prop_oneof![Just(Direction::Unknown), Just(Direction::Inbound), Just(Direction::Outbound)];
    let data = proptest::collection::vec(any::<u8>(), 0..80);
    // Classic files hold seconds in 32 bits.
    let time = 0..u64::from(u32::MAX) * 1_000_000_000;
    (0..2u32, time, 0..9000u32, direction, any::<u64>(), data).prop_map(
        |(interface, time, more, direction, dropped, data)| {
            let original = data.len() as u32 + more;
            Owned { interface, time, original, direction, dropped, data }
        },
    )
}

fn written(format: Format, records: &[Owned]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format, "weever's tests").unwrap();
    for name in ["lan", "uplink0"] {
        writer.interface(&Interface::ethernet(name)).unwrap();
    }
    records.iter().for_each(|record| writer.write(&record.record()).unwrap());
    let known = Statistics { received: Some(records.len() as u64), dropped: Some(7) };
    writer.statistics(1, 5, known).unwrap();
    writer.into_inner()
}

proptest! {
    #[test]
    fn pcapng_keeps_everything(records in proptest::collection::vec(some_record(), 0..20)) {
        let (interfaces, read) = read_all(&written(Format::Pcapng, &records)).unwrap();
        prop_assert_eq!(&read, &records);
        let names: Vec<_> = interfaces.iter().map(|i| i.name.as_str()).collect();
        prop_assert_eq!(names, ["lan", "uplink0"]);
        prop_assert_eq!(interfaces[0].statistics, Statistics::default());
        let received = Some(records.len() as u64);
        prop_assert_eq!(interfaces[1].statistics, Statistics { received, dropped: Some(7) });
    }

    #[test]
    fn pcap_keeps_time_and_bytes(records in proptest::collection::vec(some_record(), 0..20)) {
        let (_, read) = read_all(&written(Format::Pcap, &records)).unwrap();
        let expected: Vec<_> = records
            .into_iter()
            .map(|r| Owned { interface: 0, direction: Direction::Unknown, dropped: 0, ..r })
            .collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_cut_file_gives_its_whole_records_and_then_says_where_it_was_cut(
        records in proptest::collection::vec(some_record(), 1..6), cut: prop::sample::Index,
        classic: bool,
    ) {
        let format = if classic { Format::Pcap } else { Format::Pcapng };
        let file = written(format, &records);
        let cut = cut.index(file.len());
        let Ok(mut reader) = Reader::new(&file[..cut]) else { return Ok(()) };
        let mut seen = 0;
        loop {
            let before = reader.offset();
            match reader.read() {
                Ok(Some(record)) => prop_assert_eq!(record.data, &records[seen].data),
                Ok(None) => break,
                Err(PcapError::Truncated { offset, .. }) => {
                    prop_assert!(offset >= before && offset <= cut as u64);
                    prop_assert!(matches!(reader.read(), Ok(None)), "an error is the end");
                    break;
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
            seen += 1;
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_or_other_records(
        records in proptest::collection::vec(some_record(), 1..6),
        place: prop::sample::Index, byte: u8, classic: bool,
    ) {
        let format = if classic { Format::Pcap } else { Format::Pcapng };
        let mut file = written(format, &records);
        let place = place.index(file.len());
        file[place] = byte;
        let _either_is_fine = read_all(&file);
    }

    #[test]
    fn an_independent_reader_agrees(records in proptest::collection::vec(some_record(), 0..10)) {
        let file = written(Format::Pcapng, &records);
        let mut peer = pcap_file::pcapng::PcapNgReader::new(&file[..]).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = peer.next_block() {
            if let pcap_file::pcapng::Block::EnhancedPacket(packet) = block.unwrap() {
                seen.push((packet.interface_id, packet.original_len, packet.data.to_vec()));
            }
        }
        let ours = records.iter().map(|r| (r.interface, r.original, r.data.clone()));
        prop_assert_eq!(seen, ours.collect::<Vec<_>>());
    }
}

/// Bytes put together in one byte order.
struct Made {
    big: bool,
    bytes: Vec<u8>,
}

impl Made {
    fn new(big: bool) -> Made {
        Made { big, bytes: Vec::new() }
    }

    fn n16(mut self, values: &[u16]) -> Made {
        let bytes = |v: &u16| if self.big { v.to_be_bytes() } else { v.to_le_bytes() };
        self.bytes.extend(values.iter().flat_map(bytes));
        self
    }

    fn n32(mut self, values: &[u32]) -> Made {
        let bytes = |v: &u32| if self.big { v.to_be_bytes() } else { v.to_le_bytes() };
        self.bytes.extend(values.iter().flat_map(bytes));
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Made {
        self.bytes.extend(bytes);
        self
    }

    fn block(self, kind: u32, body: impl FnOnce(Made) -> Made) -> Made {
        let body = body(Made::new(self.big)).bytes;
        let total = body.len() as u32 + 12;
        self.n32(&[kind, total]).raw(&body).n32(&[total])
    }

    fn section(self) -> Made {
        self.block(0x0a0d_0d0a, |b| b.n32(&[0x1a2b_3c4d]).n16(&[1, 0]).n32(&[u32::MAX; 2]))
    }
}

#[test]
fn classic_files_of_both_orders_and_resolutions() {
    for big in [false, true] {
        for (magic, fraction) in [(0xa1b2_c3d4, 250), (0xa1b2_3c4d, 250_000)] {
            let file = Made::new(big)
                .n32(&[magic])
                .n16(&[2, 4])
                .n32(&[0, 0, 65_535, 1])
                .n32(&[3, fraction, 4, 60])
                .raw(&[1, 2, 3, 4]);
            let (interfaces, records) = read_all(&file.bytes).unwrap();
            assert_eq!((interfaces.len(), interfaces[0].link_type), (1, ETHERNET));
            assert_eq!(records[0].time, 3_000_250_000);
            assert_eq!((records[0].original, &records[0].data[..]), (60, &[1, 2, 3, 4][..]));
        }
    }
}

#[test]
fn sections_blocks_and_orders_of_all_kinds() {
    let section = |made: Made, name: &[u8; 4], resolution: u8| {
        made.section()
            .block(0xbad, |b| b.raw(&[0; 40]))
            .block(1, |b| {
                let b = b.n16(&[1, 0]).n32(&[0]);
                let b = b.n16(&[2, 4]).raw(name).n16(&[9, 1]).raw(&[resolution, 0, 0, 0]);
                b.n16(&[0, 0])
            })
            .block(3, |b| b.n32(&[3]).raw(&[7, 8, 9, 0]))
            .block(2, |b| b.n16(&[0, 5]).n32(&[0, 9, 4, 4]).raw(&[4, 3, 2, 1]))
            .block(5, |b| b.n32(&[0, 0, 0]).n16(&[5, 8]).n32(&[0, 0]).n16(&[0, 0]))
    };
    let first = section(Made::new(false), b"left", 9);
    let file = section(Made { big: true, bytes: first.bytes }, b"rite", 3);
    let (interfaces, records) = read_all(&file.bytes).unwrap();
    let names: Vec<_> = interfaces.iter().map(|i| &i.name[..]).collect();
    assert_eq!(names, ["left", "rite"]);
    assert!(interfaces.iter().all(|i| i.statistics.dropped == Some(0)));
    let seen: Vec<_> = records.iter().map(|r| (r.interface, r.time, r.dropped)).collect();
    assert_eq!(seen, [(0, 0, 0), (0, 9, 5), (1, 0, 0), (1, 9_000_000, 5)]);
    assert_eq!((&records[0].data[..], records[0].original), (&[7, 8, 9][..], 3));
    assert_eq!(records[3].data, [4, 3, 2, 1]);
}

fn complaint(file: &[u8]) -> String {
    read_all(file).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_said_with_its_offset() {
    assert!(complaint(b"GIF89a..").contains("not a capture file"));
    assert!(complaint(b"").contains("offset 0: the file ends within the first bytes"));
    let packet = Made::new(false).n32(&[0xa1b2_c3d4]).n16(&[2, 4]).n32(&[0, 0, 0, 1]);
    let huge = packet.n32(&[0, 0, u32::MAX, u32::MAX]);
    assert!(complaint(&huge.bytes).contains("offset 24: a packet of 4294967295 bytes"));
    let started = || Made::new(false).section();
    let short = started().n32(&[6, 8]);
    assert!(complaint(&short.bytes).contains("offset 28: a block of 8 bytes"));
    let unequal = started().n32(&[0xbad, 12, 16]);
    assert!(complaint(&unequal.bytes).contains("12 in front and 16 behind"));
    let nowhere = started().block(6, |b| b.n32(&[3, 0, 0, 0, 0]));
    assert!(complaint(&nowhere.bytes).contains("interface 3, of which the section declares 0"));
    let with_interface = || started().block(1, |b| b.n16(&[1, 0]).n32(&[0]));
    let overlong = with_interface().block(6, |b| b.n32(&[0, 0, 0, 100, 100]).raw(&[0; 8]));
    assert!(complaint(&overlong.bytes).contains("needs 100 bytes"));
    let large = with_interface().n32(&[6, 1 << 28]);
    assert!(complaint(&large.bytes).contains("is the most"));
    let old = Made::new(false).block(0x0a0d_0d0a, |b| b.n32(&[0x1a2b_3c4d]).n16(&[9, 0]));
    assert!(complaint(&old.bytes).contains("version 9"), "{}", complaint(&old.bytes));
}

#[test]
fn the_number_of_interfaces_is_bounded() {
    let mut made = Made::new(false).section();
    for _ in 0..=MOST_INTERFACES {
        made = made.block(1, |b| b.n16(&[1, 0]).n32(&[0]));
    }
    assert!(complaint(&made.bytes).contains("more than 4096 interfaces"));
}

#[test]
fn every_resolution_comes_out_in_nanoseconds() {
    assert_eq!(Ticks::MICROS.nanos(1_500_000), 1_500_000_000);
    assert_eq!(Ticks::NANOS.nanos(7), 7);
    assert_eq!(Ticks::new(0, 0).nanos(3), 3_000_000_000);
    assert_eq!(Ticks::new(12, 0).nanos(9_999), 9);
    assert_eq!(Ticks::new(0x80 | 10, 0).nanos(1024), 1_000_000_000);
    assert_eq!(Ticks::new(6, 100).nanos(0), 100_000_000_000);
    assert_eq!(Ticks::new(6, -100).nanos(5), 0);
}

#[test]
fn no_resolution_and_no_offset_overflows() {
    for resolution in 0..=255 {
        for offset in [i64::MIN, 0, i64::MAX] {
            Ticks::new(resolution, offset).nanos(u64::MAX);
        }
    }
}
