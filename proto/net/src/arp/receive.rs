//! The effect of packets on the entries: RFC 826, "Packet Reception".

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, op};

use super::poll::announcement;
use super::{Cache, Learned, Outcome, State, Transmit, Verdict};
use crate::addr::Martian;

impl Cache {
    /// Handles an ARP packet for IPv4 over Ethernet that was received at `now`.
    pub fn handle(&mut self, arp: &ArpRepr, now: u64) -> Outcome {
        let verdict = match self.judge(arp) {
            Verdict::Taken => match self.duplicate(arp) {
                Some(ip) => Verdict::Duplicate { ip, mac: arp.sha },
                None if self.asks_us(arp) && !self.may_answer(arp, now) => Verdict::Limited,
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

    fn may_answer(&mut self, arp: &ArpRepr, now: u64) -> bool {
        let known = self.entries.is_used(arp.spa);
        self.answers.take(arp.spa.into(), known, now)
    }

    fn asks_us(&self, arp: &ArpRepr) -> bool {
        arp.op == op::REQUEST && self.locals.is_ours(arp.tpa)
    }

    /// RFC 826: "If the pair <protocol type, sender protocol address> is already in my translation
    /// table, update the sender hardware address field of the entry with the new information in
    /// the packet". A new entry is only made of a request to us, when an answer to follow is
    /// likely, and only for a neighbour. An unsolicited reply makes no entry.
    fn learn(&mut self, arp: &ArpRepr, now: u64) -> Option<Learned> {
        if arp.spa.is_unspecified() {
            return None;
        }
        let known = self.entries.state(arp.spa).is_some();
        let welcome = known || self.asks_us(arp) && self.locals.on_link(arp.spa);
        if welcome { self.heard(arp.spa, arp.sha, now) } else { None }
    }

    /// Enters a neighbour that was heard, or that the kernel resolved; `None` if an operator has
    /// entered another, or nothing can be evicted for it.
    pub(super) fn heard(&mut self, ip: Ipv4Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        let until = (State::Reachable, now.saturating_add(self.config.reachable));
        match self.entries.state(ip) {
            Some(_) => self.entries.update((ip, mac), until, now),
            None => self.entries.create((ip, mac), until, now),
        }
    }

    /// RFC 826: "Swap hardware and protocol fields, putting the local hardware and protocol
    /// addresses in the sender fields. Set the ar$op field to ares_op$REPLY."
    fn reply(&self, arp: &ArpRepr) -> Transmit {
        let (tha, tpa) = (arp.sha, arp.spa);
        let arp = ArpRepr { op: op::REPLY, sha: self.mac, spa: arp.tpa, tha, tpa };
        Transmit { dst: tha, arp }
    }
}
