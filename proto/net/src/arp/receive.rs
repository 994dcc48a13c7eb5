//! What packets do to the entries: RFC 826, "Packet Reception".

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, op};

use super::poll::announcement;
use super::{Cache, Learned, Outcome, State, Transmit, Verdict};
use crate::addr::Martian;
use crate::neighbour::Entry;

impl Cache {
    /// Handles an ARP packet for IPv4 over Ethernet that was received at `now`.
    pub fn handle(&mut self, arp: &ArpRepr, now: u64) -> Outcome {
        let verdict = match self.judge(arp) {
            Verdict::Taken => match self.duplicate(arp) {
                Some(ip) => Verdict::Duplicate { ip, mac: arp.sha },
                None => Verdict::Taken,
            },
            refused => refused,
        };
        let mut outcome = Outcome { verdict, reply: None, learned: None };
        match verdict {
            Verdict::Taken => {
                outcome.learned = self.learn(arp, now);
                outcome.reply = self.asks_us(arp).then(|| self.reply(arp));
            }
            Verdict::Conflict { ip, .. } if self.claims.defend(ip, now) => {
                outcome.reply = Some(announcement(self.mac, ip));
            }
            _ => {}
        }
        outcome
    }

    fn judge(&self, arp: &ArpRepr) -> Verdict {
        if !matches!(arp.op, op::REQUEST | op::REPLY) {
            Verdict::UnknownOp
        } else if arp.sha == self.mac {
            Verdict::Loop
        } else if !arp.sha.is_unicast() {
            Verdict::BadSender
        } else {
            self.judge_address(arp)
        }
    }

    fn judge_address(&self, arp: &ArpRepr) -> Verdict {
        match self.locals.check_source(arp.spa) {
            Ok(()) => Verdict::Taken,
            Err(Martian::Own) => Verdict::Conflict { ip: arp.spa, mac: arp.sha },
            // RFC 5227 §2.1.1: a probe is a request with an all-zero sender address.
            Err(_) if arp.spa.is_unspecified() && arp.op == op::REQUEST => Verdict::Taken,
            Err(_) => Verdict::BadSender,
        }
    }

    fn asks_us(&self, arp: &ArpRepr) -> bool {
        arp.op == op::REQUEST && self.locals.is_ours(arp.tpa)
    }

    /// RFC 826: "If the pair <protocol type, sender protocol address> is already in my translation
    /// table, update the sender hardware address field of the entry with the new information in
    /// the packet". A new entry is only made of a request to us, when an answer to follow is
    /// likely, and only for a neighbour; of replies that nobody asked for, none is made.
    fn learn(&mut self, arp: &ArpRepr, now: u64) -> Option<Learned> {
        if arp.spa.is_unspecified() {
            return None;
        }
        if self.table.find(arp.spa).is_some() {
            return self.update(arp.spa, arp.sha, now);
        }
        let welcome = self.asks_us(arp) && self.locals.on_link(arp.spa);
        if welcome { self.create(arp.spa, arp.sha, now) } else { None }
    }

    /// Takes over a link address that somebody else on this station found out, as if the neighbour
    /// had been heard. `None` if an operator has entered another, or nothing can be evicted for it.
    pub fn adopt(&mut self, ip: Ipv4Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        match self.table.contains(ip) {
            true => self.update(ip, mac, now),
            false => self.create(ip, mac, now),
        }
    }

    fn update(&mut self, ip: Ipv4Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        let deadline = now.saturating_add(self.config.reachable);
        let entry = self.table.find(ip).filter(|entry| entry.state != State::Static)?;
        let (before, old) = (entry.state, entry.mac);
        (entry.state, entry.tries, entry.deadline) = (State::Reachable, 0, deadline);
        (entry.mac, entry.heard_at) = (mac, now);
        let resolves = before == State::Incomplete;
        self.incomplete -= usize::from(resolves);
        let replaces = (before.is_resolved() && old != mac).then_some(old);
        self.generation += u64::from(!before.is_resolved() || replaces.is_some());
        self.arm(deadline);
        Some(Learned { ip, mac, resolves, replaces })
    }

    fn create(&mut self, ip: Ipv4Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        let deadline = now.saturating_add(self.config.reachable);
        let (state, tries, heard_at, used_at) = (State::Reachable, 0, now, None);
        self.insert(Entry { ip, mac, state, tries, deadline, heard_at, used_at }).ok()?;
        self.generation += 1;
        Some(Learned { ip, mac, resolves: false, replaces: None })
    }

    /// RFC 826: "Swap hardware and protocol fields, putting the local hardware and protocol
    /// addresses in the sender fields. Set the ar$op field to ares_op$REPLY."
    fn reply(&self, arp: &ArpRepr) -> Transmit {
        let (tha, tpa) = (arp.sha, arp.spa);
        let arp = ArpRepr { op: op::REPLY, sha: self.mac, spa: arp.tpa, tha, tpa };
        Transmit { dst: tha, arp }
    }
}
