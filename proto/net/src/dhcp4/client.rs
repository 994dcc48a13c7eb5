//! The client: its inputs, and the state that handles each. Getting a lease is in
//! [`acquire`](super::acquire), keeping it in [`keep`](super::keep).

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::dhcp4::{DhcpView, MessageType};

use super::Transmit;
use super::lease::Lease;
use crate::random::Random;
use crate::{MILLIS, SECOND};

/// RFC 2131 §4.1: 4 s between the first two messages, doubled up to 64 s.
const FIRST_RETRY: u64 = 4 * SECOND;
const MAX_DOUBLINGS: u32 = 4;
/// Requests without an answer before the offer is given up.
pub(super) const MAX_REQUESTS: u32 = 4;
/// RFC 2131 §3.1: after a DECLINE, "a minimum of ten seconds".
const AFTER_DECLINE: u64 = 10 * SECOND;

/// How an offered address is probed (RFC 5227 §1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// ARP probes; 0: none, the address is used at once.
    pub count: u8,
    /// At most so long before the first.
    pub wait: u64,
    /// At least so long between two.
    pub min: u64,
    /// At most so long between two.
    pub max: u64,
    /// So long after the last.
    pub after: u64,
}

impl Probing {
    /// As RFC 5227 §1.1 has it: five to seven seconds in all.
    pub const RFC5227: Probing =
        Probing { count: 3, wait: SECOND, min: SECOND, max: 2 * SECOND, after: 2 * SECOND };
    /// For links where stations answer at once: 0.6 s in all.
    pub const QUICK: Probing =
        Probing { count: 2, wait: 0, min: 200 * MILLIS, max: 200 * MILLIS, after: 400 * MILLIS };
    /// None.
    pub const NONE: Probing = Probing { count: 0, wait: 0, min: 0, max: 0, after: 0 };
}

/// Parameters of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The interface's link address.
    pub mac: MacAddr,
    /// For transaction identifiers and delays; another one for every start.
    pub random: Random,
    /// How to probe an address.
    pub probing: Probing,
}

/// Where a client stands; see the picture in the [module's documentation](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the RFC's names")]
pub enum State {
    Init,
    Selecting,
    Requesting,
    Probing,
    Bound,
    Renewing,
    Rebinding,
    /// Released: nothing more happens until a restart.
    Stopped,
}

/// An output of [`Client::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send(Transmit),
    /// Broadcast an ARP probe for this address (RFC 5227 §2.1.1: sender address 0.0.0.0).
    Probe(Ipv4Addr),
    /// Tell the host.
    Event(Event),
}

/// A change of the lease in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Use this address and these routes from now on, in place of any earlier ones.
    Bound(Lease),
    /// Stop using this lease: its address, routes and the rest.
    Lost(Lease),
}

/// Why a message made no difference; the name of a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Ignored {
    /// It is not a DHCP message from a server.
    #[error("no DHCP reply")]
    NotAReply,
    /// It answers another client, or an earlier question.
    #[error("DHCP reply to another client")]
    NotOurs,
    /// It does not fit the client's state.
    #[error("unexpected DHCP reply")]
    Unexpected,
    /// Its offer cannot be used.
    #[error("unusable DHCP offer")]
    Unusable,
}

/// A client on one interface; see the [module's documentation](super).
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) config: ClientConfig,
    pub(super) random: Random,
    pub(super) state: State,
    pub(super) xid: u32,
    pub(super) began: u64,
    /// When the first request of this transaction was sent: leases count from there.
    pub(super) asked: u64,
    /// Whether the lease in use is being checked after a restart.
    pub(super) checking: bool,
    /// When the next message or probe is due.
    pub(super) at: u64,
    /// Messages or probes sent in this state.
    pub(super) tries: u32,
    /// The lease that was offered or granted and is not in use yet.
    pub(super) offer: Option<Lease>,
    pub(super) lease: Option<Lease>,
    /// Refusals in a row: a server that offers and refuses for ever is asked ever more seldom.
    pub(super) refusals: u32,
    pub(super) pending: Option<Output>,
    pub(super) later: Option<Output>,
}

impl Client {
    /// A client that will send its first message within a second.
    pub fn new(config: ClientConfig, now: u64) -> Self {
        let mut client = Self {
            config,
            random: config.random,
            state: State::Init,
            xid: 0,
            began: now,
            asked: now,
            checking: false,
            at: now,
            tries: 0,
            offer: None,
            lease: None,
            refusals: 0,
            pending: None,
            later: None,
        };
        let delay = client.random.up_to(SECOND);
        client.init(now, delay);
        client
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The lease in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The transaction that a server's answer has to name.
    pub fn transaction(&self) -> u32 {
        self.xid
    }

    /// The address that is being probed, for which ARP packets are to be watched.
    pub fn probed(&self) -> Option<Ipv4Addr> {
        let offer = self.offer.as_ref().filter(|_| self.state == State::Probing);
        offer.map(|offer| offer.address.addr())
    }

    /// When [`poll`](Self::poll) has something to do next.
    pub fn poll_at(&self) -> Option<u64> {
        if self.pending.is_some() || self.later.is_some() {
            return Some(0);
        }
        let end = self.lease.as_ref().map_or(u64::MAX, Lease::until);
        Some(self.at.min(end)).filter(|at| *at != u64::MAX)
    }

    /// The next action due now; `None` when there are no more.
    pub fn poll(&mut self, now: u64) -> Option<Output> {
        if let Some(output) = self.pending.take().or_else(|| self.later.take()) {
            return Some(output);
        }
        if self.lease.as_ref().is_some_and(|lease| lease.until() <= now) {
            return self.expire(now);
        }
        if now < self.at {
            return None;
        }
        match self.state {
            State::Init | State::Selecting => Some(self.discover(now)),
            State::Requesting if self.tries >= MAX_REQUESTS => {
                self.init(now, 0);
                self.poll(now)
            }
            State::Requesting => Some(self.request(now)),
            State::Probing => self.probe(now),
            State::Bound | State::Renewing | State::Rebinding => self.keep(now),
            State::Stopped => None,
        }
    }

    /// Takes the payload of a UDP datagram to port 68.
    ///
    /// # Errors
    /// Why it made no difference.
    pub fn handle(&mut self, message: &[u8], now: u64) -> Result<(), Ignored> {
        let view = DhcpView::new(message).map_err(|_| Ignored::NotAReply)?;
        let header = view.header();
        let kind = view.message_type().filter(|_| header.is_reply()).ok_or(Ignored::NotAReply)?;
        if header.xid() != self.xid || header.mac() != self.config.mac {
            return Err(Ignored::NotOurs);
        }
        match (self.state, kind) {
            (State::Selecting, MessageType::Offer) => self.offered(view, now),
            (State::Requesting, MessageType::Ack) => self.granted(view, now),
            (State::Renewing | State::Rebinding, MessageType::Ack) => self.renewed(view, now),
            (State::Requesting | State::Renewing | State::Rebinding, MessageType::Nak) => {
                self.refused(view, now)
            }
            _ => Err(Ignored::Unexpected),
        }
    }

    /// Another station uses `ip`. While it is probed, it is declined; once it is in use, the lease is
    /// given up (RFC 5227 §2.4(a)), which the caller may prefer not to report but to defend.
    pub fn conflict(&mut self, ip: Ipv4Addr, now: u64) {
        if self.probed() == Some(ip) {
            let server = self.offer.as_ref().map(|offer| offer.server);
            if self.lease.as_ref().is_some_and(|lease| lease.address.addr() == ip) {
                self.lose();
            }
            self.decline(ip, server, now);
        } else if self.lease.as_ref().is_some_and(|lease| lease.address.addr() == ip) {
            let server = self.lease.as_ref().map(|lease| lease.server);
            self.lose();
            self.decline(ip, server, now);
        }
    }

    /// Gives the lease back and stops. The message to send comes from [`poll`](Self::poll), before
    /// which the address must not be taken away.
    pub fn release(&mut self, now: u64) {
        if let Some(lease) = self.lease.take() {
            let (src, dst) = (lease.address.addr(), lease.server);
            let mut release = self.message(MessageType::Release, now);
            (release.src, release.dst, release.server) = (src, dst, Some(dst));
            self.pending = Some(Output::Send(release));
            self.later = Some(Output::Event(Event::Lost(lease)));
        }
        (self.state, self.at, self.offer) = (State::Stopped, u64::MAX, None);
    }

    /// Begins anew, as after the link came back. A lease stays in use until another is granted, it
    /// is refused, or it ends: a server that is silent need not be another network's.
    pub fn restart(&mut self, now: u64) {
        if self.lease.is_some() {
            // RFC 2131 §3.7: a client that may have changed networks checks its address.
            (self.offer, self.checking) = (None, true);
            self.enter(State::Rebinding, now);
        } else {
            self.init(now, 0);
        }
    }

    pub(super) fn enter(&mut self, state: State, at: u64) {
        (self.state, self.at, self.tries) = (state, at, 0);
    }

    pub(super) fn init(&mut self, now: u64, delay: u64) {
        (self.offer, self.checking) = (None, false);
        self.xid = self.random.next_u64() as u32;
        self.began = now.saturating_add(delay);
        self.enter(State::Init, self.began);
    }

    pub(super) fn lose(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.later = Some(Output::Event(Event::Lost(lease)));
        }
    }

    fn decline(&mut self, ip: Ipv4Addr, server: Option<Ipv4Addr>, now: u64) {
        let mut decline = self.message(MessageType::Decline, now);
        (decline.requested, decline.server) = (Some(ip), server);
        self.pending = Some(Output::Send(decline));
        self.init(now, AFTER_DECLINE);
    }

    /// RFC 2131 §4.1: "randomized exponential backoff", a second more or less.
    pub(super) fn backoff(&mut self, now: u64) -> u64 {
        let wait = FIRST_RETRY << self.tries.min(MAX_DOUBLINGS);
        let jitter = self.random.up_to(2 * SECOND);
        now.saturating_add(wait - SECOND + jitter)
    }

    /// A broadcast message from 0.0.0.0.
    pub(super) fn message(&self, kind: MessageType, now: u64) -> Transmit {
        let secs = (now.saturating_sub(self.began) / SECOND).min(u16::MAX.into()) as u16;
        Transmit {
            kind,
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::BROADCAST,
            xid: self.xid,
            secs,
            mac: self.config.mac,
            requested: None,
            server: None,
        }
    }

    /// RFC 2131 §4.4.1: a lease lasts from "the time at which the client sent the DHCPREQUEST
    /// message". Which of several the server answers cannot be told; the first is the safe guess.
    pub(super) fn note_asked(&mut self, now: u64) {
        if self.tries == 0 {
            self.asked = now;
        }
    }

    /// The lease in an ACK; one that is over by now is of no use.
    pub(super) fn acknowledged(&self, view: DhcpView<'_>, now: u64) -> Result<Lease, Ignored> {
        let lease = Lease::parse(view, self.asked).filter(|lease| lease.until() > now);
        lease.ok_or(Ignored::Unusable)
    }
}
