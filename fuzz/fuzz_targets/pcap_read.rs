//! Any bytes as a capture file: reading ends, with bounded records of declared
//! interfaces or an error within the file; and the records are the same after they have been written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_link::pcap::{Format, LONGEST_PACKET, PcapError, Reader, Record, Writer};

fuzz_target!(|file: &[u8]| {
    let Ok(mut reader) = Reader::new(file) else { return };
    let mut writer = Writer::new(Vec::new(), Format::Pcapng, "fuzz").expect("a Vec takes all");
    let (mut declared, mut written) = (0, Vec::new());
    loop {
        match reader.read() {
            Ok(None) => break,
            Ok(Some(record)) => {
                assert!(record.data.len() <= LONGEST_PACKET as usize);
                assert!(record.original as usize >= record.data.len());
                written.push(kept(&record));
            }
            Err(PcapError::Truncated { offset, .. } | PcapError::Malformed { offset, .. }) => {
                assert!(offset <= file.len() as u64);
                break;
            }
            Err(other) => panic!("{other}"),
        }
        while declared < reader.interfaces().len() {
            writer.interface(&reader.interfaces()[declared]).expect("a Vec takes all");
            declared += 1;
        }
        let (interface, data) = written.last().expect("just pushed");
        assert!((*interface as usize) < declared);
        let record = Record { interface: *interface, ..Record::whole(0, data) };
        writer.write(&record).expect("a Vec takes all");
    }
    let file = writer.into_inner();
    let mut again = Reader::new(&file[..]).expect("ours is well-formed");
    for expected in written {
        let record = again.read().expect("well-formed").expect("as many as were written");
        assert_eq!(kept(&record), expected);
    }
    assert!(again.read().expect("well-formed").is_none());
});

fn kept(record: &Record<'_>) -> (u32, Vec<u8>) {
    (record.interface, record.data.to_vec())
}
