//! The effect of packets on the entries (RFC 826, "Packet Reception"), and of time.

use core::net::Ipv4Addr;

use alloc::vec::Vec;
use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, op};

use super::cache::request;
use super::claim::probe;
use super::{Action, ArpConfig, Cache, Learned, Outcome, State, Transmit, Verdict};
use crate::addr::Martian;
use crate::neighbour::NEVER;

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

type Entry = crate::neighbour::Entry<Ipv4Addr>;

/// The action of an entry whose deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    /// Nothing: the entry has changed its state.
    Wait,
    /// Ask the station.
    Ask(MacAddr),
    /// Give up asking.
    GiveUp,
    /// Forget the entry.
    Forget,
}

impl Cache {
    /// Does all work due at `now`.
    pub(super) fn expire(&mut self, now: u64, mut act: impl FnMut(Action)) {
        let (mac, locals, config) = (self.mac, &self.locals, self.config);
        let mut wake = self.claims.poll(now, |ip| act(Action::Send(announcement(mac, ip))));
        let mut free = Vec::new();
        let ask = |ip| act(Action::Send(probe(mac, ip)));
        wake = wake.min(self.probes.poll(now, ask, |ip| free.push(ip)));
        free.into_iter().for_each(|ip| act(Action::Free(ip)));
        self.entries.poll(now, |entry| {
            let expiry = expire(entry, config, now);
            match expiry {
                Expiry::Ask(dst) => act(Action::Send(request(locals, mac, dst, entry.ip))),
                Expiry::GiveUp => act(Action::Unresolved(entry.ip)),
                Expiry::Wait | Expiry::Forget => {}
            }
            expiry != Expiry::Forget
        });
        self.entries.arm(wake);
    }
}

/// RFC 5227 §3: a broadcast request with both protocol addresses ours.
pub(super) fn announcement(mac: MacAddr, ip: Ipv4Addr) -> Transmit {
    Transmit::request(MacAddr::BROADCAST, mac, ip, ip)
}

/// The transition of an entry whose deadline has come.
fn expire(entry: &mut Entry, config: ArpConfig, now: u64) -> Expiry {
    match entry.state {
        State::Incomplete if entry.tries < config.broadcast_tries => ask(entry, config, now),
        State::Incomplete => {
            enter(entry, State::Failed, now.saturating_add(config.failed));
            Expiry::GiveUp
        }
        // RFC 1122 §2.3.2.1(2), "Unicast Poll": a neighbour in use is asked while its address is
        // still used, so that a living one never stalls its traffic.
        State::Reachable if entry.used_at.is_some_and(|used| used > entry.heard_at) => {
            enter(entry, State::Probe, now);
            ask(entry, config, now)
        }
        State::Reachable => {
            enter(entry, State::Stale, now.saturating_add(config.stale));
            Expiry::Wait
        }
        State::Probe if entry.tries < config.unicast_tries => ask(entry, config, now),
        // It may have got another link address, which a unicast cannot find out.
        State::Probe => {
            enter(entry, State::Incomplete, now);
            ask(entry, config, now)
        }
        State::Stale | State::Delay | State::Failed => Expiry::Forget,
        State::Static => {
            entry.deadline = NEVER;
            Expiry::Wait
        }
    }
}

fn enter(entry: &mut Entry, state: State, deadline: u64) {
    (entry.state, entry.tries, entry.deadline) = (state, 0, deadline);
}

fn ask(entry: &mut Entry, config: ArpConfig, now: u64) -> Expiry {
    entry.tries += 1;
    entry.deadline = now.saturating_add(config.retry);
    Expiry::Ask(if entry.state == State::Probe { entry.mac } else { MacAddr::BROADCAST })
}
