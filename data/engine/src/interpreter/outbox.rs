//! Packets that wait for a link to send them.

use std::collections::VecDeque;

use weever_packet::{BURST, Buffer};

use crate::Limits;

#[derive(Debug)]
pub(crate) struct Outboxes {
    links: Box<[VecDeque<Buffer>]>,
    limit: usize,
}

impl Outboxes {
    pub(crate) fn new(limits: &Limits) -> Outboxes {
        let room = limits.outbox.min(4 * BURST);
        let links = (0..limits.links).map(|_| VecDeque::with_capacity(room)).collect();
        Outboxes { links, limit: limits.outbox }
    }

    pub(crate) fn of(&mut self, link: u16) -> Option<&mut VecDeque<Buffer>> {
        self.links.get_mut(link as usize)
    }

    /// The link's outbox and how many packets it still takes: none when there is no such link.
    #[inline]
    pub(crate) fn room_of(&mut self, link: u16) -> Option<(&mut VecDeque<Buffer>, usize)> {
        let outbox = self.links.get_mut(link as usize)?;
        let room = self.limit.saturating_sub(outbox.len());
        (room > 0).then_some((outbox, room))
    }

    /// How many packets the fullest outbox of those that `counts` chooses still takes.
    pub(crate) fn room_of_those(&self, counts: impl Fn(usize) -> bool) -> usize {
        let outboxes = self.links.iter().enumerate().filter(|(link, _)| counts(*link));
        let fullest = outboxes.map(|(_, outbox)| outbox.len()).max().unwrap_or(0);
        self.limit.saturating_sub(fullest)
    }

    /// How many packets the fullest outbox still takes.
    pub(crate) fn room(&self) -> usize {
        let fullest = self.links.iter().map(VecDeque::len).max().unwrap_or(0);
        self.limit.saturating_sub(fullest)
    }
}
