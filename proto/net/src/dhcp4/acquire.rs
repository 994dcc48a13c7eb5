//! Getting a lease: discovery, request, and probing for another station with the address.

use weever_wire::dhcp4::{DhcpView, MessageType};

use super::client::{Client, Event, Ignored, Output, State};
use super::lease::Lease;

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
