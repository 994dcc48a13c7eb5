//! Any IPv4 datagram, its header checksum repaired if the first byte says so: what is taken is
//! consistent, and whatever we send because of it is taken by the host it goes to.
#![no_main]

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use weever_net::addr::{Cidr, Destination, Locals};
use weever_net::iface::IfaceId;
use weever_net::route::Kind;
use weever_net::state::{NetConfig, NetState};
use weever_net::udp::{self, Partial};
use weever_net::{icmp, ipv4};
use weever_wire::MacAddr;
use weever_wire::checksum;
use weever_wire::icmpv4::IcmpView;
use weever_wire::ipv4::{Ipv4View, protocol};

const CHECKSUM: std::ops::Range<usize> = 10..12;

fuzz_target!(|data: &[u8]| {
    let Some((flags, datagram)) = data.split_first() else { return };
    let mut datagram = datagram.to_vec();
    if flags & 1 != 0 {
        repair(&mut datagram);
    }
    let locals = host(Ipv4Addr::new(10, 77, 0, 1));
    report(&datagram, &locals);
    pass_on(&datagram);
    let Ok((view, destination)) = ipv4::receive(&datagram, &locals) else { return };
    assert_ne!(destination, Destination::Other);
    assert!(view.checksum_ok() && view.payload().len() < datagram.len());
    match view.header().protocol() {
        protocol::ICMP => echo(&datagram, view, destination),
        protocol::UDP => answer_udp(view, flags & 2 != 0),
        _ => {}
    }
});

/// A router forwards only what it may, and an error that is believed quotes one of its addresses.
fn pass_on(datagram: &[u8]) {
    static STATE: OnceLock<NetState> = OnceLock::new();
    let us = Ipv4Addr::new(10, 77, 0, 1);
    let state = STATE.get_or_init(|| {
        let cidr = Cidr::new(us, 24).expect("24 is a prefix length");
        NetState::new(NetConfig::single(MacAddr([2, 0, 0, 0, 0, 1]), &[cidr]), 1)
    });
    let Ok(view) = Ipv4View::new(datagram) else { return };
    let header = view.header();
    let decided = ipv4::forward(state, IfaceId(0), state.route4(header.dst()), header);
    if let ipv4::Forward::Pass(hop) | ipv4::Forward::Fragment { hop, .. } = decided {
        assert!(hop.kind == Kind::Unicast && header.ttl() > 1);
    }
    ipv4::options_may_pass(&view.header_bytes()[ipv4::HEADER_LEN..]);
    let mut segment = view.payload().to_vec();
    ipv4::complete_partial(header, &mut segment);
    if let Ok(error) = icmp::check_error(view.payload(), state) {
        assert!(error.local == us && error.transport().len() >= 8);
    }
}

fn host(address: Ipv4Addr) -> Locals {
    Locals::new(&[Cidr::new(address, 24).expect("24 is a prefix length")])
}

fn repair(datagram: &mut [u8]) {
    let Ok(header_len) = Ipv4View::new(datagram).map(|view| view.header_bytes().len()) else {
        return;
    };
    datagram[CHECKSUM].fill(0);
    let sum = checksum::finish(checksum::sum(&datagram[..header_len]));
    datagram[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

/// An error that may be reported reaches the sender, and quotes what it sent.
fn report(datagram: &[u8], locals: &Locals) {
    let us = Ipv4Addr::new(10, 77, 0, 1);
    let mut out = vec![0; icmp::error_len(datagram)];
    let written = icmp::emit_error(icmp::Cause::PortUnreachable, datagram, us, &mut out);
    if icmp::may_report(datagram, false, locals).is_err() {
        return;
    }
    assert_eq!(written, Ok(out.len()));
    let view = Ipv4View::new(&out).expect("our own datagram");
    assert!(view.checksum_ok());
    let message = IcmpView::new(view.payload()).expect("our own message");
    assert!(message.checksum_ok() && datagram.starts_with(message.data()));
    assert!(icmp::may_report(&out, false, &host(view.header().dst())).is_err(), "no error loops");
}

fn echo(datagram: &[u8], view: Ipv4View<'_>, destination: Destination) {
    let Ok(request) = icmp::check_echo(view.payload(), destination) else { return };
    let mut reply = datagram.to_vec();
    assert!(icmp::reply_in_place(&mut reply, 64));
    let answer = Ipv4View::new(&reply).expect("as long as the request");
    assert!(answer.checksum_ok());
    assert_eq!(answer.header().src(), view.header().dst());
    assert_eq!(answer.header().dst(), view.header().src());
    let message = IcmpView::new(answer.payload()).expect("as long as the request");
    assert!(message.checksum_ok());
    assert_eq!(message.data(), request.data());
}

fn answer_udp(view: Ipv4View<'_>, software: bool) {
    let (src, dst) = (view.header().src(), view.header().dst());
    let partial = if software { Partial::Accepted } else { Partial::Refused };
    let Ok((datagram, _)) = udp::receive(view.payload(), src, dst, partial) else { return };
    let flow = udp::flow(datagram.header(), src, dst);
    let mut out = vec![0; udp::HEADERS_LEN];
    out.extend_from_slice(datagram.payload());
    udp::emit_headers(&mut out, flow).expect("no longer than what came");
    let sent = Ipv4View::new(&out).expect("our own datagram");
    let (from, to) = (sent.header().src(), sent.header().dst());
    assert!(sent.checksum_ok() && (from, to) == (dst, src));
    if flow.remote.port != 0 {
        let (there, _) = udp::receive(sent.payload(), from, to, Partial::Refused).expect("ours");
        assert_eq!(there.payload(), datagram.payload());
    }
}
