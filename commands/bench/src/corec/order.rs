//! Packets that two threads reorder: of one flow, by the length of its packets and its rate, and of a capture.
//!
//! The router's work does not depend on a packet's length, so length and rate say when packets arrive.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufReader;
use std::path::Path;

use weever_link::pcap::Reader;

use super::queue::{Packet, Queue};
use super::reorder::{Reordering, pause};
use super::team::Team;
use crate::samples::Samples;
use crate::{BenchError, Report};

/// Packets at the highest rate; at lower ones as many as arrive in the same time.
const PACKETS: f64 = 30_000.0;
/// Lengths of frames, without check sequence.
const LENGTHS: [u64; 5] = [124, 252, 508, 1020, 1514];
/// Gbit/s, the highest first.
const RATES: [f64; 3] = [10.0, 5.0, 1.0];
/// How much of a capture is used: so many packets, and so many nanoseconds.
const MOST: usize = 500_000;
const LONGEST: u64 = 2_000_000_000;

/// Reordering, as a percentage, and its extent.
#[derive(Default)]
struct Found {
    shares: Samples,
    extents: Samples,
}

impl Found {
    fn push(&mut self, Reordering { share, extent }: Reordering) {
        self.shares.push(share * 100.0);
        self.extents.push(extent as f64);
    }

    fn report(&self, report: &mut Report, name: &str) {
        report.row(&format!("reordered, {name}"), "%", &self.shares);
        report.row(&format!("largest extent, {name}"), "packets", &self.extents);
    }
}

/// Reordering by two threads that forward.
#[derive(Default)]
pub(super) struct Order {
    flows: [[Found; RATES.len()]; LENGTHS.len()],
    capture: Option<(Capture, [Found; 2])>,
}

impl Order {
    /// Of one flow, and of the packets of this capture file.
    pub(super) fn new(capture: Option<&Path>) -> Result<Order, BenchError> {
        let capture = capture.map(Capture::read).transpose()?;
        let capture = capture.map(|capture| (capture, Default::default()));
        Ok(Order { capture, ..Order::default() })
    }

    pub(super) fn round(&mut self, team: &mut Team) -> Result<(), BenchError> {
        for (length, found) in LENGTHS.into_iter().zip(&mut self.flows) {
            for (rate, found) in RATES.into_iter().zip(found) {
                let pause = pause(length, rate);
                let count = (PACKETS * rate / RATES[0]) as u64;
                let packet = |number| Packet { number, arrives: (number as f64 * pause) as u64 };
                let left = leave(team, (0..count).map(packet).collect())?;
                found.push(Reordering::of(left));
            }
        }
        let Some((capture, [all, flows])) = &mut self.capture else { return Ok(()) };
        let left = leave(team, capture.packets.clone())?;
        flows.push(Reordering::within(left.iter().map(|n| (capture.flows[*n as usize], *n))));
        all.push(Reordering::of(left));
        Ok(())
    }

    pub(super) fn report(&self, report: &mut Report) {
        report.setup("reordering: forwarded by two threads without pauses; RFC 4737");
        for (length, found) in LENGTHS.into_iter().zip(&self.flows) {
            for (rate, found) in RATES.into_iter().zip(found) {
                found.report(report, &format!("one flow, {length} bytes, {rate} Gbit/s"));
            }
        }
        let Some((capture, [all, flows])) = &self.capture else { return };
        report.setup(capture.describe());
        all.report(report, "capture");
        flows.report(report, "capture, within flows");
    }
}

/// The numbers of packets in the order in which two threads send them.
fn leave(team: &mut Team, packets: Vec<Packet>) -> Result<Vec<u64>, BenchError> {
    let queue = Queue::new(packets, 2, true);
    let mut left = team.pair(std::slice::from_ref(&queue))?.left;
    // Those of a burst have one time, and keep their order.
    left.sort_by_key(|(left, _)| *left);
    Ok(left.into_iter().map(|(_, number)| number).collect())
}

/// When a file's packets arrive, and of which flows they are.
struct Capture {
    packets: Vec<Packet>,
    flows: Vec<u64>,
    octets: u64,
}

impl Capture {
    fn read(path: &Path) -> Result<Capture, BenchError> {
        let failed = |error: &dyn std::fmt::Display| {
            BenchError::of("capture")(format!("{}: {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| failed(&error))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|error| failed(&error))?;
        let (mut arrivals, mut first, mut octets) = (Vec::new(), None, 0);
        while let Some(record) = reader.read().map_err(|error| failed(&error))? {
            let arrives = record.time.saturating_sub(*first.get_or_insert(record.time));
            if arrivals.len() == MOST || arrives > LONGEST {
                break;
            }
            arrivals.push((arrives, flow(record.data)));
            octets += u64::from(record.original);
        }
        // Captures of several cores are not always in order.
        arrivals.sort_by_key(|(arrives, _)| *arrives);
        let packet =
            |(number, (arrives, _)): (u64, &(u64, u64))| Packet { number, arrives: *arrives };
        let packets: Vec<Packet> = (0..).zip(&arrivals).map(packet).collect();
        let flows = arrivals.into_iter().map(|(_, flow)| flow).collect();
        match packets.len() {
            0..=1 => Err(failed(&"it has fewer than two packets")),
            _ => Ok(Capture { packets, flows, octets }),
        }
    }

    fn describe(&self) -> String {
        let seconds = self.packets.last().map_or(0.0, |packet| packet.arrives as f64 / 1e9);
        let flows = self.flows.iter().collect::<std::collections::HashSet<_>>().len();
        format!(
            "capture: {} packets of {flows} flows in {seconds:.3} s, {:.2} Gbit/s",
            self.packets.len(),
            self.octets as f64 * 8.0 / seconds.max(1e-9) / 1e9
        )
    }
}

/// A number for the addresses, the protocol and the ports of an Ethernet frame, as far as it has them.
fn flow(frame: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let word = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let network = if word(12) == 0x8100 { 18 } else { 14 };
    let (protocol, addresses, ports) = match word(network - 2) {
        0x0800 => {
            let header = usize::from(word(network) >> 8 & 15) * 4;
            (network + 9, network + 12..network + 20, network + header)
        }
        0x86dd => (network + 6, network + 8..network + 40, network + 40),
        _ => (12, 0..14, frame.len()),
    };
    (frame.get(protocol), frame.get(addresses)).hash(&mut hasher);
    // Others have no ports there, and pieces behind the first have none at all.
    if matches!(frame.get(protocol), Some(6 | 17 | 132)) {
        frame.get(ports..ports + 4).hash(&mut hasher);
    }
    hasher.finish()
}

impl Reordering {
    /// Of packets in the order in which they left, each with its flow: the share of all that are reordered
    /// within their flow, and the largest extent there.
    fn within(left: impl IntoIterator<Item = (u64, u64)>) -> Reordering {
        let mut flows: HashMap<u64, Vec<u64>> = HashMap::new();
        left.into_iter().for_each(|(flow, number)| flows.entry(flow).or_default().push(number));
        let count: usize = flows.values().map(Vec::len).sum();
        let (mut reordered, mut extent) = (0.0, 0);
        for numbers in flows.into_values() {
            let packets = numbers.len() as f64;
            let found = Reordering::of(numbers);
            reordered += found.share * packets;
            extent = extent.max(found.extent);
        }
        Reordering { share: reordered / count.max(1) as f64, extent }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weever_link::pcap::{Format, Interface, Record, Writer};
    use weever_wire::MacAddr;

    use super::super::gateway::Work;
    use super::*;
    use crate::traffic::udp_frame;

    fn frame(port: u16) -> Vec<u8> {
        let [source, sink] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        udp_frame((MacAddr([2; 6]), source, MacAddr([4; 6]), sink), port, 60).unwrap()
    }

    #[test]
    fn a_capture_is_replayed_at_its_times_and_by_its_flows() {
        let file = std::env::temp_dir().join(format!("weever-order-{}.pcap", std::process::id()));
        let mut writer = Writer::new(File::create(&file).unwrap(), Format::Pcap, "a test").unwrap();
        writer.interface(&Interface::ethernet("any")).unwrap();
        for number in 0..2000 {
            let frame = frame(1 + (number % 3) as u16);
            writer.write(&Record::whole(77_000_000_000 + number * 1000, &frame)).unwrap();
        }
        writer.flush().unwrap();
        let mut order = Order::new(Some(&file)).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (capture, _) = order.capture.as_ref().unwrap();
        assert_eq!(capture.packets[1999].arrives, 1_999_000);
        assert!(capture.describe().contains("2000 packets of 3 flows"), "{}", capture.describe());
        order.round(&mut Team::new(Work::Light, 2).unwrap()).unwrap();
        let mut report = Report::new("corec");
        order.report(&mut report);
        let named = |name: &str| report.rows.iter().any(|row| row.name.contains(name));
        assert!(named("reordered, capture, within flows"), "{report}");
        assert!(named("reordered, one flow, 1514 bytes, 1 Gbit/s"), "{report}");
    }

    #[test]
    fn a_file_that_is_no_capture_is_named() {
        let Err(error) = Order::new(Some(Path::new("/proc/self/status"))) else { panic!("read") };
        assert!(error.to_string().contains("/proc/self/status"), "{error}");
    }

    #[test]
    fn flows_are_told_apart_by_their_ports() {
        assert_eq!(flow(&frame(1)), flow(&frame(1)));
        assert_ne!(flow(&frame(1)), flow(&frame(2)));
        (0..60).for_each(|length| assert_ne!(flow(&frame(1)[..length]), 0));
    }

    #[test]
    fn packets_of_other_flows_are_not_behind() {
        let found = Reordering::within([(1, 1), (2, 2), (1, 4), (2, 5), (1, 3), (2, 6)]);
        assert_eq!((found.share * 6.0, found.extent), (1.0, 1));
    }
}
