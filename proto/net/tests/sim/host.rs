//! A host put together of the pieces under test, without a graph.

use std::net::Ipv4Addr;

use weever_net::addr::{Cidr, Destination, Locals};
use weever_net::arp::{Action, Cache, Config, Discovery, Lookup, Transmit};
use weever_net::ethernet::{self, EthernetRepr, LinkDestination, ethertype};
use weever_net::icmp::{self, Cause, ErrorLimits, IcmpRepr, IcmpView};
use weever_net::ipv4::{self, Ipv4View, protocol};
use weever_net::state::{NetConfig, NetState};
use weever_net::udp::{self, Flow, Partial};
use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, ArpView};

/// Datagrams that wait for one neighbour, at most.
const MAX_WAITING: usize = 16;

/// What an application sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Udp(Flow, Vec<u8>),
    EchoReply(Vec<u8>),
    /// Type and code.
    Error(u8, u8),
}

pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) arp: Cache,
    pub(crate) out: Vec<Vec<u8>>,
    pub(crate) received: Vec<(u64, Received)>,
    pub(crate) unresolved: Vec<(u64, Ipv4Addr)>,
    pub(crate) dropped: usize,
    pub(crate) open_port: u16,
    locals: Locals,
    state: NetState,
    limits: ErrorLimits,
    waiting: Vec<(Ipv4Addr, Vec<u8>)>,
}

impl Host {
    pub(crate) fn new(ip: Ipv4Addr, station: u8) -> Self {
        let mac = MacAddr([2, 0, 0, 0, 0, station]);
        let locals = Locals::new(&[Cidr::new(ip, 24).unwrap()]);
        Self {
            mac,
            arp: Cache::new(mac, locals.clone(), Config::default(), 0),
            out: Vec::new(),
            received: Vec::new(),
            unresolved: Vec::new(),
            dropped: 0,
            open_port: 7,
            state: NetState::new(NetConfig::single(mac, &[Cidr::new(ip, 24).unwrap()]), 0),
            limits: ErrorLimits::new(10, 5),
            locals,
            waiting: Vec::new(),
        }
    }

    /// A new network card: another link address and nothing remembered.
    pub(crate) fn replace_card(&mut self, station: u8, now: u64) {
        self.mac = MacAddr([2, 0, 0, 0, 0, station]);
        self.arp = Cache::new(self.mac, self.locals.clone(), Config::default(), now);
    }

    pub(crate) fn send_udp(&mut self, flow: Flow, payload: &[u8], now: u64) {
        let mut datagram = [&[0; udp::HEADERS_LEN], payload].concat();
        udp::emit_headers(&mut datagram, flow).unwrap();
        self.send(datagram, now);
    }

    pub(crate) fn ping(&mut self, to: Ipv4Addr, data: &[u8], now: u64) {
        let echo = IcmpRepr::EchoRequest { ident: 1, seq: 1, data };
        let from = self.locals.source_for(to).unwrap();
        let mut datagram = vec![0; ipv4::HEADER_LEN + echo.buffer_len()];
        let header = ipv4::template(from, to, protocol::ICMP, echo.buffer_len() as u16);
        header.emit(&mut datagram).unwrap();
        echo.emit(&mut datagram[ipv4::HEADER_LEN..]).unwrap();
        self.send(datagram, now);
    }

    fn send(&mut self, datagram: Vec<u8>, now: u64) {
        let dst = Ipv4View::new(&datagram).unwrap().header().dst();
        let Some(hop) = self.state.route4(dst) else {
            self.dropped += 1;
            return;
        };
        let neighbour = hop.neighbour(dst);
        match self.arp.lookup(neighbour, now) {
            Lookup::Hit(mac) => self.transmit(mac, &datagram),
            Lookup::Incomplete => self.wait(neighbour, datagram),
            Lookup::MissSendRequest(request) => {
                self.emit_arp(request);
                self.wait(neighbour, datagram);
            }
            Lookup::Failed | Lookup::Full => self.dropped += 1,
        }
    }

    fn wait(&mut self, neighbour: Ipv4Addr, datagram: Vec<u8>) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push((neighbour, datagram));
        } else {
            self.dropped += 1;
        }
    }

    fn transmit(&mut self, dst: MacAddr, datagram: &[u8]) {
        let mut frame = [&[0; ethernet::HEADER_LEN], datagram].concat();
        let ethertype = ethertype::IPV4;
        EthernetRepr { dst, src: self.mac, ethertype }.emit(&mut frame).unwrap();
        frame.resize(frame.len().max(60), 0);
        self.out.push(frame);
    }

    fn emit_arp(&mut self, transmit: Transmit) {
        let mut frame = vec![0; 60];
        transmit.emit(&mut frame).unwrap();
        self.out.push(frame);
    }

    pub(crate) fn poll(&mut self, now: u64) {
        let mut actions = Vec::new();
        self.arp.poll(now, |action| actions.push(action));
        for action in actions {
            match action {
                Action::Send(transmit) => self.emit_arp(transmit),
                Action::Free(_) => {}
                Action::Unresolved(ip) => {
                    let before = self.waiting.len();
                    self.waiting.retain(|(neighbour, _)| *neighbour != ip);
                    self.dropped += before - self.waiting.len();
                    self.unresolved.push((now, ip));
                }
            }
        }
    }

    pub(crate) fn receive(&mut self, frame: &[u8], now: u64) {
        let Ok(destination) = ethernet::receive(frame, self.mac) else {
            self.dropped += 1;
            return;
        };
        let payload = &frame[ethernet::HEADER_LEN..];
        if frame[12..14] == ethertype::ARP.to_be_bytes() {
            self.receive_arp(payload, now);
        } else {
            self.receive_ipv4(payload, destination, now);
        }
    }

    fn receive_arp(&mut self, packet: &[u8], now: u64) {
        let Ok(view) = ArpView::new(packet) else {
            self.dropped += 1;
            return;
        };
        let outcome = self.arp.handle(&ArpRepr::parse(view), now);
        if let Some(reply) = outcome.reply {
            self.emit_arp(reply);
        }
        let Some(learned) = outcome.learned.filter(|learned| learned.resolves) else { return };
        for (neighbour, datagram) in std::mem::take(&mut self.waiting) {
            if neighbour == learned.ip {
                self.transmit(learned.mac, &datagram);
            } else {
                self.waiting.push((neighbour, datagram));
            }
        }
    }

    fn receive_ipv4(&mut self, packet: &[u8], link: LinkDestination, now: u64) {
        let Ok((view, destination)) = ipv4::receive(packet, &self.locals) else {
            self.dropped += 1;
            return;
        };
        let whole = &packet[..view.header().total_len()];
        match view.header().protocol() {
            protocol::ICMP => self.receive_icmp(whole, view, destination, now),
            protocol::UDP => self.receive_udp(whole, view, link, now),
            _ => self.report(Cause::ProtocolUnreachable, whole, link, now),
        }
    }

    fn receive_icmp(&mut self, whole: &[u8], view: Ipv4View<'_>, to: Destination, now: u64) {
        if icmp::check_echo(view.payload(), to).is_ok() {
            let mut reply = whole.to_vec();
            assert!(icmp::reply_in_place(&mut reply, ipv4::DEFAULT_TTL));
            return self.send(reply, now);
        }
        let message = IcmpView::new(view.payload()).ok().filter(|message| message.checksum_ok());
        let Some((message, repr)) = message.and_then(|m| Some((m, IcmpRepr::parse(m).ok()?)))
        else {
            self.dropped += 1;
            return;
        };
        let received = match repr {
            IcmpRepr::EchoReply { data, .. } => Received::EchoReply(data.to_vec()),
            _ => Received::Error(message.header().kind(), message.header().code()),
        };
        self.received.push((now, received));
    }

    fn receive_udp(&mut self, whole: &[u8], view: Ipv4View<'_>, link: LinkDestination, now: u64) {
        let (src, dst) = (view.header().src(), view.header().dst());
        let Ok((datagram, _)) = udp::receive(view.payload(), src, dst, Partial::Refused) else {
            self.dropped += 1;
            return;
        };
        if datagram.header().dst_port() != self.open_port {
            return self.report(Cause::PortUnreachable, whole, link, now);
        }
        let flow = udp::flow(datagram.header(), src, dst);
        self.received.push((now, Received::Udp(flow, datagram.payload().to_vec())));
    }

    fn report(&mut self, cause: Cause, about: &[u8], link: LinkDestination, now: u64) {
        let allowed = icmp::may_report(about, link != LinkDestination::Us, &self.locals).is_ok();
        if !allowed || !self.limits.take(cause.kind(), now) {
            self.dropped += 1;
            return;
        }
        let from = Ipv4View::new(about).unwrap().header().dst();
        let mut report = vec![0; icmp::error_len(about)];
        icmp::emit_error(cause, about, from, &mut report).unwrap();
        self.send(report, now);
    }
}
