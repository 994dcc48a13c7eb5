//! Any frame: the tolerant walk stays within it, and agrees with the strict views wherever they
//! accept a header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_wire::ethernet::ethertype;
use weever_wire::fields::{Fields, Parsed, summarize};
use weever_wire::ipv4::Ipv4View;
use weever_wire::ipv6::Ipv6View;
use weever_wire::udp::UdpView;

fuzz_target!(|frame: &[u8]| {
    let parsed = summarize(frame);
    assert_eq!(parsed.frame_len, frame.len());
    check_fields(frame, &parsed);
    check_offsets(frame, &parsed);
    let Some(packet) = parsed.l3.and_then(|l3| frame.get(l3..)) else { return };
    match parsed.ethertype {
        Some(ethertype::IPV4) => check_ipv4(packet, &parsed),
        Some(ethertype::IPV6) => check_ipv6(packet, &parsed),
        _ => assert_eq!((parsed.ip4_src, parsed.ip6_src), (None, None)),
    }
});

/// What filters read of a frame one by one.
fn check_fields(frame: &[u8], parsed: &Parsed) {
    let fields = Fields::of(frame);
    assert_eq!((fields.l3(), fields.l4()), (parsed.l3, parsed.l4));
    assert_eq!((fields.l4_src(), fields.l4_dst()), (parsed.l4_src, parsed.l4_dst));
    assert_eq!((fields.upper(), fields.payload_len()), (parsed.upper, parsed.payload_len));
    assert_eq!((fields.udp_len(), fields.tcp_flags()), (parsed.udp_len, parsed.tcp_flags));
}

fn check_offsets(frame: &[u8], parsed: &Parsed) {
    let offsets = [parsed.l2, parsed.l3, parsed.l4];
    let known: Vec<usize> = offsets.iter().flatten().copied().collect();
    assert!(known.is_sorted(), "{parsed:?}");
    assert!(known.iter().all(|&at| at <= frame.len()), "{parsed:?}");
    let gap = offsets.iter().skip_while(|at| at.is_some()).any(Option::is_some);
    assert!(!gap, "no header without the one before it: {parsed:?}");
}

fn check_ipv4(packet: &[u8], parsed: &Parsed) {
    let Ok(view) = Ipv4View::new(packet) else { return };
    let header = view.header();
    assert_eq!((parsed.ip4_src, parsed.ip4_dst), (Some(header.src()), Some(header.dst())));
    if header.is_later_fragment() {
        assert_eq!(parsed.l4, None);
        return;
    }
    assert_eq!(parsed.l4, parsed.l3.map(|l3| l3 + header.header_len()));
    if parsed.ip4_proto == Some(17)
        && let Ok(udp) = UdpView::new(view.payload())
    {
        let ports = (udp.header().src_port(), udp.header().dst_port());
        assert_eq!((parsed.l4_src, parsed.l4_dst), (Some(ports.0), Some(ports.1)));
    }
}

fn check_ipv6(packet: &[u8], parsed: &Parsed) {
    let Ok(view) = Ipv6View::new(packet) else { return };
    let header = view.header();
    assert_eq!((parsed.ip6_src, parsed.ip6_dst), (Some(header.src()), Some(header.dst())));
    assert_eq!(parsed.ip6_next, Some(header.next_header()));
}
