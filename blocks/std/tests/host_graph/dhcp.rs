use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_blocks_std::dhcp::Dhcp;
use weever_blocks_std::host::{Network, Secret, provide};
use weever_blocks_std::testing::{HostBox, env, frames::*};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, host};
use weever_net::addr::Cidr;
use weever_net::dhcp4::{CLIENT_PORT, Probing, SERVER_PORT, State};
use weever_net::iface::IfaceId;
use weever_net::state::NetConfig;
use weever_wire::MacAddr;
use weever_wire::arp::{ArpView, op};
use weever_wire::dhcp4::{DhcpView, MessageType, collect, option};
use weever_wire::ethernet::EthernetHeader;
use weever_wire::ipv4::Ipv4View;
use weever_wire::udp::UdpView;

const SECOND: u64 = 1_000_000_000;
const MASK: [u8; 4] = [255, 255, 255, 0];
const LINK: IfaceId = IfaceId(0);
const OFFERED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

struct Configured {
    host: HostBox,
    dhcp: Arc<Dhcp>,
    net: Arc<Network>,
    /// Message types that the server has heard.
    heard: Vec<MessageType>,
    /// ARP packets that the host sent: operation, sender, target.
    arps: Vec<(u16, Ipv4Addr, Ipv4Addr)>,
    /// Addresses of other stations.
    taken: Vec<Ipv4Addr>,
    answers: bool,
    mask: [u8; 4],
    pings: usize,
}

impl Configured {
    fn new(probing: Probing) -> Configured {
        let env = env();
        env.provide(Arc::new(Secret::from_seed(3)));
        let net = provide(&env, NetConfig::single(HOST_MAC, &[]), 0);
        let dhcp: Arc<Dhcp> = env.get_or_default();
        let graph = host(&HostConfig::default().with_dhcp()).unwrap();
        let host = HostBox::in_env(graph, &env, Limits::default());
        dhcp.start(LINK, probing);
        let (heard, arps, taken) = (Vec::new(), Vec::new(), Vec::new());
        Configured { host, dhcp, net, heard, arps, taken, answers: true, mask: MASK, pings: 0 }
    }

    /// Lets time pass, and the server and other stations answer.
    fn pass(&mut self, nanos: u64) {
        let end = self.host.now() + nanos;
        while self.host.now() < end {
            self.host.advance(SECOND / 20);
            for frame in self.host.sent() {
                self.see(&frame);
            }
        }
    }

    fn see(&mut self, frame: &[u8]) {
        let header = EthernetHeader::first(frame).unwrap();
        assert_eq!(header.src(), HOST_MAC);
        if let Ok(arp) = ArpView::new(&frame[14..]) {
            let arp = arp.header();
            self.arps.push((arp.op(), arp.spa(), arp.tpa()));
            let theirs = self.taken.contains(&arp.tpa()) || arp.tpa() == PEER;
            if arp.op() == op::REQUEST && theirs {
                let reply = self::arp(2, (PEER_MAC, arp.tpa()), (HOST_MAC, arp.spa()));
                self.host.receive(&[reply]);
            }
            return;
        }
        let ip = Ipv4View::new(&frame[14..]).unwrap();
        if ip.header().protocol() == 1 {
            self.pings += 1;
            return;
        }
        let udp = UdpView::new(ip.payload()).unwrap();
        let (src, dst) = (ip.header().src(), ip.header().dst());
        assert!(ip.checksum_ok() && udp.checksum_ok(udp.pseudo_sum(src, dst)));
        assert_eq!((udp.header().src_port(), udp.header().dst_port()), (CLIENT_PORT, SERVER_PORT));
        let everybody = dst.is_broadcast();
        assert_eq!(header.dst(), if everybody { MacAddr::BROADCAST } else { PEER_MAC });
        let message = DhcpView::new(udp.payload()).unwrap();
        let kind = message.message_type().unwrap();
        self.heard.push(kind);
        let answer = match kind {
            MessageType::Discover => MessageType::Offer,
            MessageType::Request => MessageType::Ack,
            _ => return,
        };
        if self.answers {
            let reply = reply(answer, message.header().xid(), self.mask);
            self.host.receive(&[reply]);
        }
        if kind == MessageType::Request && src.is_unspecified() {
            let wanted = collect(message.options(), option::REQUESTED_IP).unwrap();
            assert_eq!(wanted.bytes(), OFFERED.octets());
        }
    }

    fn state(&self) -> State {
        self.dhcp.status()[0].state
    }
}

fn reply(kind: MessageType, xid: u32, mask: [u8; 4]) -> Vec<u8> {
    dhcp_answer(kind, xid, OFFERED, mask)
}

#[test]
fn an_interface_without_an_address_gets_one() {
    let mut it = Configured::new(Probing::RFC5227);
    it.pass(2 * SECOND);
    assert_eq!(it.state(), State::Probing);
    assert!(!it.net.state().is_ours(OFFERED), "not before it was probed");
    it.pass(8 * SECOND);
    assert_eq!(
        (it.state(), &it.heard[..]),
        (State::Bound, &[MessageType::Discover, MessageType::Request][..])
    );
    let probes = it.arps.iter().filter(|a| **a == (op::REQUEST, Ipv4Addr::UNSPECIFIED, OFFERED));
    assert_eq!(probes.count(), 3);
    let announced = it.arps.iter().filter(|a| **a == (op::REQUEST, OFFERED, OFFERED));
    assert_eq!(announced.count(), 2, "RFC 5227 §2.3");
    let state = it.net.state();
    assert!(state.is_ours(OFFERED));
    assert_eq!(state.interface(LINK).unwrap().mtu, 1400);
    let far = state.route4(Ipv4Addr::new(8, 8, 8, 8)).unwrap();
    assert_eq!((far.gateway, far.source), (PEER, OFFERED));

    // It is used: pings are answered.
    let ping = weever_wire::icmpv4::IcmpRepr::EchoRequest { ident: 1, seq: 1, data: b"x" };
    it.host.receive(&[icmp(OFFERED, ping)]);
    it.pass(SECOND);
    assert_eq!(it.pings, 1);

    // Renewed by unicast at half of the lease.
    it.heard.clear();
    it.pass(301 * SECOND);
    assert_eq!((it.state(), &it.heard[..]), (State::Bound, &[MessageType::Request][..]));

    // And given back.
    it.dhcp.stop(LINK);
    it.pass(SECOND);
    assert_eq!(it.heard[1..], [MessageType::Release]);
    let state = it.net.state();
    assert!(!state.is_ours(OFFERED) && state.route4(Ipv4Addr::new(8, 8, 8, 8)).is_none());
    assert_eq!((state.interface(LINK).unwrap().mtu, it.dhcp.status().len()), (1500, 0));
    it.host.finish();
}

#[test]
fn an_operators_address_outlives_the_lease() {
    let mut it = Configured::new(Probing::NONE);
    let own: Cidr = "10.0.0.77/25".parse().unwrap();
    it.net.update(|net| net.add_address(LINK, own)).unwrap();
    it.pass(2 * SECOND);
    assert_eq!(it.state(), State::Bound);
    it.dhcp.stop(LINK);
    it.pass(SECOND);
    let held: Vec<Cidr> = it.net.state().interface(LINK).unwrap().v4.iter().collect();
    assert_eq!((it.dhcp.status().len(), held), (0, vec![own]));
    it.host.finish();
}

#[test]
fn a_renewal_may_change_the_prefix() {
    let mut it = Configured::new(Probing::NONE);
    it.pass(2 * SECOND);
    it.mask = [255, 255, 0, 0];
    it.pass(301 * SECOND);
    let held: Vec<Cidr> = it.net.state().interface(LINK).unwrap().v4.iter().collect();
    assert_eq!(held, ["10.0.0.77/16".parse().unwrap()]);
    it.dhcp.stop(LINK);
    it.pass(SECOND);
    assert!(!it.net.state().is_ours(OFFERED));
    it.host.finish();
}

#[test]
fn what_is_stopped_and_started_at_once_begins_anew() {
    let mut it = Configured::new(Probing::NONE);
    it.pass(2 * SECOND);
    it.heard.clear();
    it.dhcp.stop(LINK);
    it.dhcp.start(LINK, Probing::NONE);
    it.dhcp.restart(LINK);
    it.pass(3 * SECOND);
    use MessageType::{Discover, Release, Request};
    assert_eq!((it.state(), &it.heard[..]), (State::Bound, &[Release, Discover, Request][..]));
    it.dhcp.start(LINK, Probing::NONE);
    it.dhcp.stop(LINK);
    it.pass(SECOND);
    assert_eq!(it.dhcp.status().len(), 0);
    it.host.finish();
}

#[test]
fn an_operators_mtu_outlives_renewals_and_the_lease() {
    let mut it = Configured::new(Probing::NONE);
    it.pass(2 * SECOND);
    let mtu = |it: &Configured| it.net.state().interface(LINK).unwrap().mtu;
    assert_eq!(mtu(&it), 1400, "the lease's");
    it.net.update(|net| net.set_mtu(LINK, 1300)).unwrap();
    it.heard.clear();
    it.pass(301 * SECOND);
    assert_eq!((mtu(&it), &it.heard[..]), (1300, &[MessageType::Request][..]));
    it.dhcp.stop(LINK);
    it.pass(SECOND);
    assert_eq!((mtu(&it), it.dhcp.status().len()), (1300, 0));
    it.host.finish();
}

#[test]
fn an_address_that_somebody_has_is_declined() {
    let mut it = Configured::new(Probing::QUICK);
    it.taken.push(OFFERED);
    it.pass(5 * SECOND);
    assert_eq!(it.heard[2], MessageType::Decline);
    assert!(!it.net.state().is_ours(OFFERED));
    assert_eq!(it.host.count("RxL3ARPWatch", CounterKind::Own, "conflicts"), 1);
    // It tries again, and by then the address is free.
    it.taken.clear();
    it.pass(20 * SECOND);
    assert_eq!(it.state(), State::Bound);
    it.host.finish();
}

#[test]
fn a_lease_that_nobody_renews_is_given_up() {
    let mut it = Configured::new(Probing::NONE);
    it.pass(2 * SECOND);
    assert!(it.net.state().is_ours(OFFERED));
    it.answers = false;
    it.pass(601 * SECOND);
    let state = it.net.state();
    assert!(!state.is_ours(OFFERED) && state.routes4_of_dhcp() == 0);
    it.answers = true;
    it.pass(70 * SECOND);
    assert!(it.net.state().is_ours(OFFERED));
    it.host.finish();
}

#[test]
fn answers_that_nobody_waits_for_are_drops() {
    let mut it = Configured::new(Probing::NONE);
    it.pass(2 * SECOND);
    it.host.receive(&[reply(MessageType::Nak, 7, MASK), reply(MessageType::Ack, 7, MASK)]);
    let drops = it.host.drops();
    assert!(drops.iter().any(|(node, _, n)| node == "RxL4UDPDhcp" && *n == 2), "{drops:?}");
    assert!(it.net.state().is_ours(OFFERED));
    it.host.finish();
}

trait DhcpRoutes {
    fn routes4_of_dhcp(&self) -> usize;
}

impl DhcpRoutes for weever_net::state::NetState {
    fn routes4_of_dhcp(&self) -> usize {
        let dhcp = |route: &&_| {
            let route: &weever_net::route::Route<Ipv4Addr> = route;
            route.origin == weever_net::route::Origin::Dhcp
        };
        self.config().routes4().iter().filter(dhcp).count()
    }
}
