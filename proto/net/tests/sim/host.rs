//! A station that asks for its neighbour by ARP before it sends, without a graph or IP.
//!
//! Frames that are not ARP carry their kind ([`DATA`], [`ASK`] or [`ANSWER`]), the sender's address
//! and a payload.

use std::net::Ipv4Addr;

use weever_net::addr::{Cidr, Locals};
use weever_net::arp::{Action, ArpConfig, Cache, Discovery, Lookup, Transmit};
use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, ArpView};
use weever_wire::ethernet::{EthernetHeader, EthernetRepr, HEADER_LEN, ethertype};

/// Frames that wait for one neighbour, at most.
const MAX_WAITING: usize = 16;
/// A payload that is not answered.
const DATA: u8 = 0;
/// One that is sent back.
const ASK: u8 = 1;
/// One that was sent back.
const ANSWER: u8 = 2;

pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) arp: Cache,
    pub(crate) out: Vec<Vec<u8>>,
    /// Payloads that came, with their time.
    pub(crate) data: Vec<(u64, Vec<u8>)>,
    /// Payloads that came back.
    pub(crate) answers: Vec<(u64, Vec<u8>)>,
    pub(crate) unresolved: Vec<(u64, Ipv4Addr)>,
    pub(crate) dropped: usize,
    ip: Ipv4Addr,
    waiting: Vec<(Ipv4Addr, Vec<u8>)>,
}

fn locals(ip: Ipv4Addr) -> Locals {
    Locals::new(&[Cidr::new(ip, 24).unwrap()])
}

impl Host {
    pub(crate) fn new(ip: Ipv4Addr, station: u8) -> Self {
        let mac = MacAddr([2, 0, 0, 0, 0, station]);
        Self {
            mac,
            arp: Cache::new(mac, locals(ip), ArpConfig::default(), 0),
            out: Vec::new(),
            data: Vec::new(),
            answers: Vec::new(),
            unresolved: Vec::new(),
            dropped: 0,
            ip,
            waiting: Vec::new(),
        }
    }

    /// A new network card: another link address and nothing remembered.
    pub(crate) fn replace_card(&mut self, station: u8, now: u64) {
        self.mac = MacAddr([2, 0, 0, 0, 0, station]);
        self.arp = Cache::new(self.mac, locals(self.ip), ArpConfig::default(), now);
    }

    /// Sends `payload`.
    pub(crate) fn send(&mut self, to: Ipv4Addr, payload: &[u8], now: u64) {
        self.send_as(DATA, to, payload, now);
    }

    /// Sends `payload`, for it to be sent back.
    pub(crate) fn ask(&mut self, to: Ipv4Addr, payload: &[u8], now: u64) {
        self.send_as(ASK, to, payload, now);
    }

    fn send_as(&mut self, what: u8, to: Ipv4Addr, payload: &[u8], now: u64) {
        let packet = [&[what][..], &self.ip.octets(), &[payload.len() as u8], payload].concat();
        match self.arp.lookup(to, now) {
            Lookup::Hit(mac) => self.transmit(mac, &packet),
            Lookup::Incomplete => self.wait(to, packet),
            Lookup::MissSendRequest(request) => {
                self.emit_arp(request);
                self.wait(to, packet);
            }
            Lookup::Failed | Lookup::Full => self.dropped += 1,
        }
    }

    fn wait(&mut self, neighbour: Ipv4Addr, packet: Vec<u8>) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push((neighbour, packet));
        } else {
            self.dropped += 1;
        }
    }

    fn transmit(&mut self, dst: MacAddr, packet: &[u8]) {
        let mut frame = [&[0; HEADER_LEN], packet].concat();
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
        let header = EthernetHeader::first(frame);
        let ours = header.filter(|h| h.dst() == self.mac || h.dst().is_broadcast());
        let taken = match ours.map(EthernetHeader::ethertype) {
            Some(ethertype::ARP) => self.receive_arp(&frame[HEADER_LEN..], now),
            Some(ethertype::IPV4) => self.receive_packet(&frame[HEADER_LEN..], now),
            _ => None,
        };
        self.dropped += usize::from(taken.is_none());
    }

    fn receive_arp(&mut self, packet: &[u8], now: u64) -> Option<()> {
        let outcome = self.arp.handle(&ArpRepr::parse(ArpView::new(packet).ok()?), now);
        if let Some(reply) = outcome.reply {
            self.emit_arp(reply);
        }
        let Some(learned) = outcome.learned.filter(|learned| learned.resolves) else {
            return Some(());
        };
        for (neighbour, packet) in std::mem::take(&mut self.waiting) {
            if neighbour == learned.ip {
                self.transmit(learned.mac, &packet);
            } else {
                self.waiting.push((neighbour, packet));
            }
        }
        Some(())
    }

    fn receive_packet(&mut self, packet: &[u8], now: u64) -> Option<()> {
        let (&[what, a, b, c, d, len], rest) = packet.split_first_chunk()?;
        let payload = rest.get(..len.into())?;
        match what {
            DATA => self.data.push((now, payload.to_vec())),
            ASK => self.send_as(ANSWER, Ipv4Addr::new(a, b, c, d), payload, now),
            ANSWER => self.answers.push((now, payload.to_vec())),
            _ => return None,
        }
        Some(())
    }
}
