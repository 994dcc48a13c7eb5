//! The work that follows from an event: lists, timers and memory of a connection, and the results that callers poll.

use super::{Endpoint, IN_A_ROW};
use crate::connection::AckNeed;
use crate::segment::Transmit;
use crate::{Events, Id, NEVER, Nanos, State};

impl Endpoint {
    /// After anything has happened to a connection: lists, timers, memory, and its end.
    #[inline]
    pub(super) fn settle(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index];
        let accepted = slot.listener().is_none();
        let Some(connection) = slot.connection.as_mut() else { return };
        if self.memory > self.config.memory_limit / 4 * 3 {
            // Under pressure no region grows.
            connection.events.remove(Events::CRAMPED);
        }
        let sends = connection.may_transmit();
        if sends {
            if !std::mem::replace(&mut slot.in_sends, true) {
                self.sends.push_back(index);
            }
        } else if connection.state == State::Closed && connection.released {
            return self.remove(index);
        }
        if !connection.events.is_empty() && accepted && !std::mem::replace(&mut slot.in_ready, true)
        {
            self.ready.push_back(index);
        }
        let memory = connection.memory();
        self.memory = self.memory - u64::from(slot.memory) + u64::from(memory);
        slot.memory = memory;
        if !sends {
            // Otherwise after its segments were polled.
            slot.set_timer(&mut self.wheel, index, now);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has to be called; it may be early.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.wheel.next_deadline()
    }

    /// Does all work due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(index) = self.wheel.poll(now) {
            let slot = &mut self.slots[index];
            slot.warm();
            (slot.timer, slot.timer_at) = (None, NEVER);
            if let Some(connection) = slot.connection.as_mut() {
                let half_open = connection.state == State::SynReceived;
                connection.arm_resend(now);
                if connection.next_deadline() <= now {
                    connection.timeout(now);
                }
                // After its last activity a connection still has a timer: its spare memory is given
                // back here.
                connection.shed(now);
                if half_open && connection.state == State::Closed {
                    self.drop_half_open(index, now);
                }
                self.settle(index, now);
            }
        }
    }

    /// The next segment to send, taking turns between connections. Call it until it returns `None`. A caller
    /// with many to send asks by [`poll_into`](Self::poll_into).
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit> {
        let mut out = Transmit::place();
        self.poll_into(&mut out, now).then_some(out)
    }

    /// As [`poll_transmit`](Self::poll_transmit), with the segment written to `out`; false if there is none, and `out`
    /// means nothing.
    #[inline]
    pub fn poll_into(&mut self, out: &mut Transmit, now: Nanos) -> bool {
        if let Some(reply) = self.poll_reply() {
            *out = reply;
            return true;
        }
        while let Some(index) = self.sends.front().copied() {
            let slot = &mut self.slots[index];
            let Some(connection) = slot.connection.as_mut() else {
                self.leave_sends(index, now);
                continue;
            };
            if connection.ack_need == AckNeed::Challenge {
                self.challenges.limit(connection, &mut self.counters, now);
            }
            if let Some(more) = connection.poll_into(out, now) {
                out.connection = Some(Id { index, generation: slot.generation });
                self.in_a_row += out.pieces();
                if !more {
                    self.leave_sends(index, now);
                } else if self.in_a_row >= IN_A_ROW {
                    self.in_a_row = 0;
                    self.sends.rotate_left(1);
                }
                return true;
            }
            self.leave_sends(index, now);
        }
        false
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) may have a segment: a caller that has to find room for one
    /// first need not look for it in vain.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        !self.sends.is_empty() || !self.replies.is_empty()
    }

    /// The next answer that belongs to no connection: a reset, or a SYN cookie.
    /// [`poll_transmit`](Self::poll_transmit) has them, too; a caller that sends answers out where the
    /// segment came in asks here after each segment.
    #[inline]
    pub fn poll_reply(&mut self) -> Option<Transmit> {
        self.replies.pop_front()
    }

    /// The first connection in the list has nothing more to send for now. Data that it still has
    /// wait for the window or for time, so it is not put back.
    fn leave_sends(&mut self, index: u32, now: Nanos) {
        self.in_a_row = 0;
        self.sends.pop_front();
        let slot = &mut self.slots[index];
        slot.in_sends = false;
        let Some(connection) = slot.connection.as_ref() else { return };
        if connection.state == State::Closed && connection.released && !connection.reset_due {
            return self.remove(index);
        }
        slot.set_timer(&mut self.wheel, index, now);
    }

    /// The next connection with news for its application. Call it until it returns `None`.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(Id, Events)> {
        while let Some(index) = self.ready.pop_front() {
            let slot = &mut self.slots[index];
            slot.in_ready = false;
            let generation = slot.generation;
            let Some(connection) = slot.connection.as_mut() else { continue };
            let events = connection.events.take();
            if !events.is_empty() && (!connection.released || self.config.report_gone) {
                return Some((Id { index, generation }, events));
            }
        }
        None
    }
}
