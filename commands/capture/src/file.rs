//! Captured packets in a pcapng file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weever_link::pcap::{Direction as Way, Format, Interface, Record, Statistics, Writer};
use weever_service_api::{CaptureStarted, CapturedPacket, Direction};

/// A file with an interface for each link.
pub(crate) struct PacketFile {
    writer: Writer<BufWriter<Box<dyn Write>>>,
    /// By place: which way packets go there.
    places: Vec<Way>,
    interfaces: u32,
    last: u64,
}

impl PacketFile {
    /// Makes the file; `-` is standard output.
    pub(crate) fn create(path: &Path, started: &CaptureStarted) -> io::Result<PacketFile> {
        let out: Box<dyn Write> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            Box::new(File::create(path)?)
        };
        PacketFile::new(out, started)
    }

    pub(crate) fn new(out: Box<dyn Write>, started: &CaptureStarted) -> io::Result<PacketFile> {
        let application = concat!("weever ", env!("CARGO_PKG_VERSION"));
        let mut writer = Writer::new(BufWriter::new(out), Format::Pcapng, application)?;
        for name in &started.links {
            let interface = Interface { snaplen: started.snaplen, ..Interface::ethernet(name) };
            writer.interface(&interface)?;
        }
        let places = started.places.iter().map(|place| way(place.direction)).collect();
        Ok(PacketFile { writer, places, interfaces: started.links.len() as u32, last: 0 })
    }

    pub(crate) fn write(&mut self, packet: &CapturedPacket) -> io::Result<()> {
        let direction = self.places.get(usize::from(packet.place)).copied().unwrap_or_default();
        // A stack that names a link it has not declared would make the file malformed.
        let interface = u32::from(packet.link).min(self.interfaces.saturating_sub(1));
        self.last = packet.time_ns;
        self.writer.write(&Record {
            interface,
            time: packet.time_ns,
            original: packet.length,
            direction,
            dropped: 0,
            data: &packet.data,
        })
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Writes how many packets were missed, if it is known of which interface they were.
    pub(crate) fn finish(mut self, missed: u64) -> io::Result<()> {
        if self.interfaces == 1 {
            let known = Statistics { received: None, dropped: Some(missed) };
            self.writer.statistics(0, self.last, known)?;
        }
        self.writer.flush()
    }
}

fn way(direction: Direction) -> Way {
    match direction {
        Direction::In => Way::Inbound,
        Direction::Out => Way::Outbound,
        Direction::Inside => Way::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use weever_link::pcap::Reader;
    use weever_service_api::CapturePlace;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_link_is_an_interface_with_its_name() {
        let place = |port: &str, direction| CapturePlace { port: port.into(), direction };
        let places = vec![
            place("RxQueue.out", Direction::In),
            place("TxFill.out", Direction::Out),
            place("RxValid.true", Direction::Inside),
        ];
        let kept = Kept::default();
        let started =
            CaptureStarted { links: vec!["eth0".into(), "eth1".into()], places, snaplen: 96 };
        let mut file = PacketFile::new(Box::new(kept.clone()), &started).unwrap();
        for place in [0, 1, 2] {
            let packet = CapturedPacket {
                place,
                link: place / 2,
                time_ns: 1_700_000_000_000_000_000,
                length: 60,
                data: vec![place as u8; 20],
            };
            file.write(&packet).unwrap();
        }
        file.finish(0).unwrap();
        let bytes = kept.0.lock().unwrap().clone();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut seen = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            seen.push((record.interface, record.direction, record.original, record.data.to_vec()));
        }
        let names: Vec<&str> = reader.interfaces().iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1"]);
        let expected = [(0, Way::Inbound), (0, Way::Outbound), (1, Way::Unknown)];
        for (i, (interface, way)) in expected.into_iter().enumerate() {
            assert_eq!(seen[i], (interface, way, 60, vec![i as u8; 20]));
        }
    }
}
