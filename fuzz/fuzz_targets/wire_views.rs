//! Any bytes as any header: a view accepts or refuses but never panics, and the fields of
//! an accepted header are the same after they have been written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_wire::arp::{ArpRepr, ArpView};
use weever_wire::ethernet::{EthernetRepr, EthernetView};
use weever_wire::icmpv4::{IcmpRepr, IcmpView};
use weever_wire::icmpv6::{self, Icmpv6Repr, Icmpv6View};
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::ipv6::{Chain, Ipv6Repr, Ipv6View, is_extension, next_header};
use weever_wire::mld::{MldQuery, MldReport};
use weever_wire::ndp::NdpRepr;
use weever_wire::tcp::{MAX_WINDOW_SCALE, TcpOptions, TcpView};
use weever_wire::udp::{UdpRepr, UdpView};
use weever_wire::vlan::{VlanRepr, VlanView};

fuzz_target!(|bytes: &[u8]| {
    ethernet(bytes);
    vlan(bytes);
    arp(bytes);
    ipv4(bytes);
    ipv6(bytes);
    icmp(bytes);
    icmpv6(bytes);
    ndp(bytes);
    mld(bytes);
    udp(bytes);
    tcp(bytes);
});

fn ethernet(bytes: &[u8]) {
    let Ok(view) = EthernetView::new(bytes) else { return };
    let repr = EthernetRepr::parse(view.header());
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written).unwrap();
    assert_eq!(EthernetRepr::parse(EthernetView::new(&written).unwrap().header()), repr);
    assert_eq!(written.len() + view.payload().len(), bytes.len());
}

fn vlan(bytes: &[u8]) {
    let Ok(view) = VlanView::new(bytes) else { return };
    let repr = VlanRepr::parse(view.header());
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written).unwrap();
    assert_eq!(written, bytes[..written.len()]);
}

fn arp(bytes: &[u8]) {
    let Ok(view) = ArpView::new(bytes) else { return };
    let repr = ArpRepr::parse(view);
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written).unwrap();
    assert_eq!(ArpRepr::parse(ArpView::new(&written).unwrap()), repr);
}

fn ipv4(bytes: &[u8]) {
    let Ok(view) = Ipv4View::new(bytes) else { return };
    let options: usize = view.options().flatten().map(|option| option.data.len()).sum();
    assert!(options <= view.header_bytes().len());
    let repr = Ipv4Repr::parse(view);
    let mut written = vec![0; repr.buffer_len()];
    // A datagram with options is shorter without them, so that it always fits.
    repr.emit(&mut written).unwrap();
    written.extend_from_slice(view.payload());
    let again = Ipv4View::new(&written).unwrap();
    assert!(again.checksum_ok());
    assert_eq!((Ipv4Repr::parse(again), again.payload()), (repr, view.payload()));
}

fn ipv6(bytes: &[u8]) {
    let Ok(view) = Ipv6View::new(bytes) else { return };
    let repr = Ipv6Repr::parse(view);
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written).unwrap();
    written.extend_from_slice(view.payload());
    assert_eq!(Ipv6Repr::parse(Ipv6View::new(&written).unwrap()), repr);
    chain(&written);
}

fn chain(packet: &[u8]) {
    let Ok(chain) = Chain::walk(packet) else { return };
    assert!(chain.offset <= packet.len());
    assert_eq!(packet[chain.pointer], chain.protocol);
    assert!(!is_extension(chain.protocol) || chain.protocol == next_header::FRAGMENT);
}

const ADDRESSES: [u8; 32] = [0x20; 32];

fn icmpv6(bytes: &[u8]) {
    let Ok(view) = Icmpv6View::new(bytes) else { return };
    let Ok(repr) = Icmpv6Repr::parse(view) else { return };
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written, &ADDRESSES).unwrap();
    assert!(icmpv6::checksum_ok(&written, &ADDRESSES));
    assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&written).unwrap()), Ok(repr));
}

fn ndp(bytes: &[u8]) {
    let Ok(repr) = NdpRepr::parse(bytes) else { return };
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written, &ADDRESSES).unwrap();
    assert!(icmpv6::checksum_ok(&written, &ADDRESSES));
    assert_eq!(NdpRepr::parse(&written), Ok(repr));
}

fn mld(bytes: &[u8]) {
    if let Ok(query) = MldQuery::parse(bytes) {
        assert!(query.sources.iter().len() * 16 <= bytes.len());
    }
    let Ok(report) = MldReport::parse(bytes) else { return };
    let records = report.flatten().map(|record| 20 + 16 * record.sources.iter().len());
    assert!(records.sum::<usize>() <= bytes.len());
}

fn icmp(bytes: &[u8]) {
    let Ok(view) = IcmpView::new(bytes) else { return };
    let Ok(repr) = IcmpRepr::parse(view) else { return };
    let mut written = vec![0; repr.buffer_len()];
    repr.emit(&mut written).unwrap();
    let again = IcmpView::new(&written).unwrap();
    assert!(again.checksum_ok());
    assert_eq!(IcmpRepr::parse(again), Ok(repr));
}

fn udp(bytes: &[u8]) {
    let Ok(view) = UdpView::new(bytes) else { return };
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let repr = UdpRepr::parse(view);
    let mut written = vec![0; repr.buffer_len()];
    written.extend_from_slice(view.payload());
    repr.emit_with_checksum(&mut written, src, dst).unwrap();
    let again = UdpView::new(&written).unwrap();
    assert!(again.checksum_ok(again.pseudo_sum(src, dst)));
    assert_eq!((UdpRepr::parse(again), again.payload()), (repr, view.payload()));
}

fn tcp(bytes: &[u8]) {
    let Ok(view) = TcpView::new(bytes) else { return };
    let parts = view.header().header_len() + view.payload().len();
    assert_eq!(parts, bytes.len());
    assert!(view.options().len() <= view.header().header_len());
    if let Ok(options) = TcpOptions::parse(view.options()) {
        assert!(options.window_scale.is_none_or(|shift| shift <= MAX_WINDOW_SCALE));
        assert_eq!(options.sack_blocks().count() * 8, options.sack.len());
    }
}
