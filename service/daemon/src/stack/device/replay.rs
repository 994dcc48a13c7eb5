//! A capture file as a device: its packets are received, and sent ones are discarded.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;

use weever_link::pcap::playback::{self, Capture, End, PlaybackLink};
use weever_link::{Link, LinkInfo, Offload};
use weever_wire::MacAddr;
use weever_wire::fields::{Parsed, summarize};

use crate::config::{Interface, Pace, Station};
use crate::stack::StartError;

/// The most bytes of a capture file that are kept in memory.
const MOST_REPLAYED: usize = 1 << 30;

/// Opens an interface's capture file. The stack takes the place of `station`, or without one, of
/// the most likely station.
pub(in crate::stack) fn open(
    interface: &Interface,
    station: Option<Station>,
) -> Result<Box<dyn Link>, StartError> {
    let path = &interface.dev;
    let failed = |e: &dyn Display| StartError::Setting(format!("{path}: {e}"));
    let file = File::open(path).map_err(|e| failed(&e))?;
    let capture = Capture::read(BufReader::new(file), MOST_REPLAYED).map_err(|e| failed(&e))?;
    let left_out = capture.left_out();
    if left_out.total() > 0 && !capture.is_empty() {
        tracing::warn!(file = path, "not every packet is replayed: {left_out}");
    }
    let own: Vec<IpAddr> = interface.addresses.iter().map(|prefix| prefix.addr()).collect();
    let mac = place(&capture, station, &own).map_err(|why| failed(&why))?;
    let (pace, speed) = match interface.pace {
        Pace::Recorded => (playback::Pace::Timed(1.0), "as recorded"),
        Pace::Unpaced => (playback::Pace::Unpaced, "as fast as it goes"),
    };
    let info = LinkInfo {
        name: interface.name.clone(),
        mac: mac.0,
        mtu: interface.mtu.unwrap_or(1500),
        queues: 1,
        partial_checksums: true,
        offload: Offload::default(),
        mode: format!("capture file, {} packets, {speed}, as {mac}", capture.len()),
    };
    Ok(Box::new(PlaybackLink::new(info, capture, pace, End::Quiet)))
}

/// The hardware address of the station whose place the stack takes: the configured one, else the
/// destination of packets to the stack's `own` addresses, else the destination of the first unicast
/// packet.
fn place(capture: &Capture, station: Option<Station>, own: &[IpAddr]) -> Result<MacAddr, String> {
    if capture.is_empty() {
        return Err(match capture.left_out() {
            left_out if left_out.total() > 0 => format!(
                "none of its packets can be replayed: {left_out}; capture whole Ethernet frames, \
                 on one device (`tcpdump -i eth0 -s 0`)"
            ),
            _ => "there is no packet in it".into(),
        });
    }
    let packets = || capture.packets().map(|(_, packet)| summarize(packet));
    match station {
        Some(Station::Mac(mac)) => Ok(mac),
        Some(Station::Ip(ip)) => station_of(packets(), &[ip])
            .ok_or_else(|| format!("no packet in it is to or from {ip}, which `--station` names")),
        None => station_of(packets(), own).or_else(|| packets().find_map(|p| receiver(&p))).ok_or(
            "every packet in it is for a group: name the station whose place the stack takes, by \
             `--station MAC`"
                .into(),
        ),
    }
}

/// The destination of packets to one of these addresses, else the source of packets from them.
fn station_of(packets: impl Iterator<Item = Parsed>, addresses: &[IpAddr]) -> Option<MacAddr> {
    let is_one = |ip: Option<IpAddr>| ip.is_some_and(|ip| addresses.contains(&ip));
    let mut sender = None;
    for parsed in packets {
        let v4 = parsed.ip4_dst.or(parsed.arp_tpa).map(IpAddr::V4);
        if is_one(v4.or(parsed.ip6_dst.map(IpAddr::V6)))
            && let Some(mac) = receiver(&parsed)
        {
            return Some(mac);
        }
        let v4 = parsed.ip4_src.map(IpAddr::V4);
        if is_one(v4.or(parsed.ip6_src.map(IpAddr::V6))) {
            sender = sender.or(parsed.eth_src);
        }
    }
    sender
}

/// The single station that a packet is for.
fn receiver(parsed: &Parsed) -> Option<MacAddr> {
    parsed.eth_dst.filter(|mac| mac.0[0] & 1 == 0)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use weever_blocks_std::testing::frames::{
        HOST, HOST_MAC, PEER, PEER_MAC, ethernet, udp_datagram,
    };
    use weever_link::pcap::{Format, Interface as Captured, Record, Writer};

    use super::*;

    const OTHER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x77]);

    fn frame(dst: MacAddr, src: MacAddr, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
        let packet = udp_datagram(SocketAddrV4::new(from, 1), SocketAddrV4::new(to, 2), b"x");
        ethernet(dst, src, 0x0800, &packet)
    }

    fn capture(frames: &[Vec<u8>], link_type: u16, original: u32) -> Capture {
        let mut writer = Writer::new(Vec::new(), Format::Pcapng, "test").unwrap();
        writer.interface(&Captured { link_type, ..Captured::ethernet("eth0") }).unwrap();
        for frame in frames {
            let record = Record::whole(0, frame);
            let original = record.original + original;
            writer.write(&Record { original, ..record }).unwrap();
        }
        Capture::read(&writer.into_inner()[..], 1 << 20).unwrap()
    }

    #[test]
    fn the_station_is_the_named_one_or_that_of_the_own_address_or_the_first() {
        let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
        let frames = [
            frame(OTHER_MAC, PEER_MAC, PEER, elsewhere),
            frame(PEER_MAC, HOST_MAC, HOST, PEER),
            frame(HOST_MAC, PEER_MAC, PEER, HOST),
        ];
        let both = capture(&frames, 1, 0);
        assert_eq!(place(&both, None, &[HOST.into()]), Ok(HOST_MAC));
        assert_eq!(place(&both, None, &[]), Ok(OTHER_MAC));
        assert_eq!(place(&both, Some(Station::Ip(PEER.into())), &[HOST.into()]), Ok(PEER_MAC));
        assert_eq!(place(&both, Some(Station::Mac(OTHER_MAC)), &[]), Ok(OTHER_MAC));
        let sent = capture(&frames[1..2], 1, 0);
        assert_eq!(place(&sent, Some(Station::Ip(HOST.into())), &[]), Ok(HOST_MAC));
        let unknown = place(&sent, Some(Station::Ip(elsewhere.into())), &[]).unwrap_err();
        assert!(unknown.contains("no packet in it is to or from 192.0.2.1"), "{unknown}");
    }

    #[test]
    fn a_file_that_cannot_be_replayed_says_why() {
        let frames = [frame(HOST_MAC, PEER_MAC, PEER, HOST)];
        let why = |capture: Capture| place(&capture, None, &[]).unwrap_err();
        let cooked = why(capture(&frames, 113, 0));
        assert!(cooked.contains("1 are of link type 113 (Linux cooked"), "{cooked}");
        let cut = why(capture(&frames, 1, 100));
        assert!(cut.contains("1 were cut by their capture"), "{cut}");
        assert_eq!(why(capture(&[], 1, 0)), "there is no packet in it");
        let group = frame(MacAddr::BROADCAST, PEER_MAC, PEER, HOST);
        assert!(why(capture(&[group], 1, 0)).contains("`--station MAC`"));
    }
}
