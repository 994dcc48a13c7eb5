//! Getting a lease (discovery, request, and probing for another station with the address) and keeping it.

use weever_wire::dhcp4::{DhcpView, MessageType, option};

use super::client::{Client, Event, Ignored, MAX_REQUESTS, Output, State};
use super::lease;
use super::lease::Lease;
use crate::SECOND;

impl Client {
    pub(super) fn discover(&mut self, now: u64) -> Output {
        if self.state == State::Init {
            self.enter(State::Selecting, now);
        }
        self.at = self.backoff(now);
        self.tries += 1;
        Output::Send(self.message(MessageType::Discover, now))
    }

    pub(super) fn offered(&mut self, view: DhcpView<'_>, now: u64) -> Result<(), Ignored> {
        self.offer = Some(Lease::parse(view, now).ok_or(Ignored::Unusable)?);
        self.enter(State::Requesting, now);
        Ok(())
    }

    pub(super) fn request(&mut self, now: u64) -> Output {
        let mut request = self.message(MessageType::Request, now);
        if let Some(offer) = &self.offer {
            (request.requested, request.server) = (Some(offer.address.addr()), Some(offer.server));
        }
        self.note_asked(now);
        self.at = self.backoff(now);
        self.tries += 1;
        Output::Send(request)
    }

    pub(super) fn granted(&mut self, view: DhcpView<'_>, now: u64) -> Result<(), Ignored> {
        let lease = self.acknowledged(view, now)?;
        let asked = self.offer.as_ref().map(|offer| (offer.address.addr(), offer.server));
        if asked != Some((lease.address.addr(), lease.server)) {
            return Err(Ignored::Unexpected);
        }
        self.offer = Some(lease);
        if self.config.probing.count == 0 {
            self.bind(now);
        } else {
            let wait = self.random.up_to(self.config.probing.wait);
            self.enter(State::Probing, now.saturating_add(wait));
        }
        Ok(())
    }

    pub(super) fn probe(&mut self, now: u64) -> Option<Output> {
        let probing = self.config.probing;
        if self.tries >= probing.count.into() {
            self.bind(now);
            return self.poll(now);
        }
        self.tries += 1;
        let wait = match self.tries == probing.count.into() {
            true => probing.after,
            false => probing.min + self.random.up_to(probing.max.saturating_sub(probing.min)),
        };
        self.at = now.saturating_add(wait);
        self.probed().map(Output::Probe)
    }

    pub(super) fn bind(&mut self, now: u64) {
        let Some(lease) = self.offer.take() else { return self.init(now, 0) };
        (self.refusals, self.checking) = (0, false);
        self.enter(State::Bound, lease.since.saturating_add(lease.renew_after));
        let bound = Output::Event(Event::Bound(lease.clone()));
        let addr = lease.address.addr();
        let old = self.lease.replace(lease);
        match old.filter(|old| old.address.addr() != addr) {
            Some(old) => {
                self.pending = Some(Output::Event(Event::Lost(old)));
                self.later = Some(bound);
            }
            None => self.pending = Some(bound),
        }
    }
}

/// RFC 2131 §4.4.5: "the client SHOULD wait one-half of the remaining time until T2 […], down to
/// a minimum of 60 seconds".
const MIN_RENEWAL_RETRY: u64 = 60 * SECOND;

impl Client {
    /// T1, T2, and the check after a restart.
    pub(super) fn keep(&mut self, now: u64) -> Option<Output> {
        let lease = self.lease.as_ref()?;
        let (t2, end) = (lease.since.saturating_add(lease.rebind_after), lease.until());
        let (ip, server) = (lease.address.addr(), lease.server);
        if self.checking && self.tries >= MAX_REQUESTS {
            self.init(now, 0);
            return self.poll(now);
        }
        let state = if now >= t2 || self.state == State::Rebinding {
            State::Rebinding
        } else {
            State::Renewing
        };
        if self.state != state || self.tries == 0 {
            self.enter(state, now);
            self.began = now;
            self.xid = self.random.next_u64() as u32;
        }
        self.note_asked(now);
        let limit = if now >= t2 { end } else { t2 };
        self.at = match self.checking {
            true => self.backoff(now).min(end),
            false => {
                let half = (limit.saturating_sub(now) / 2).max(MIN_RENEWAL_RETRY);
                now.saturating_add(half).min(limit)
            }
        };
        self.tries += 1;
        let mut request = self.message(MessageType::Request, now);
        request.src = ip;
        if state == State::Renewing {
            request.dst = server;
        }
        Some(Output::Send(request))
    }

    pub(super) fn renewed(&mut self, view: DhcpView<'_>, now: u64) -> Result<(), Ignored> {
        let lease = self.acknowledged(view, now)?;
        let old = self.lease.as_ref().ok_or(Ignored::Unexpected)?;
        if lease.address.addr() != old.address.addr() {
            return Err(Ignored::Unexpected);
        }
        self.offer = Some(lease);
        self.bind(now);
        Ok(())
    }

    /// Only the server that was asked may refuse; while rebinding, any.
    pub(super) fn refused(&mut self, view: DhcpView<'_>, now: u64) -> Result<(), Ignored> {
        let from = lease::address(view, option::SERVER_ID);
        let asked = self.offer.as_ref().or(self.lease.as_ref()).map(|lease| lease.server);
        if from.is_none() || (self.state != State::Rebinding && from != asked) {
            return Err(Ignored::Unexpected);
        }
        self.lose();
        let delay = SECOND << self.refusals.min(6);
        self.refusals += 1;
        self.init(now, delay);
        Ok(())
    }

    /// The lease is over. A search for another one goes on.
    pub(super) fn expire(&mut self, now: u64) -> Option<Output> {
        self.lose();
        if matches!(self.state, State::Bound | State::Renewing | State::Rebinding) {
            self.init(now, 0);
        }
        self.poll(now)
    }
}
