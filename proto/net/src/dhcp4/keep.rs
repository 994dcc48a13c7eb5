//! Keeping a lease: renewal, refusal, and its end.

use weever_wire::dhcp4::{DhcpView, MessageType, option};

use super::client::{Client, Ignored, MAX_REQUESTS, Output, State};
use super::lease;
use crate::SECOND;

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
