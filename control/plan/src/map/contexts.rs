//! Further tables of the hash, for rules that spread over some queues.

use super::placement::Placement;
use super::spreading::Spreading;
use crate::config::Rss;
use crate::nic::Nic;

/// One context.
struct Slot {
    queues: Vec<u32>,
    spreading: Spreading,
    users: u32,
}

/// The contexts that rules use. A number means the same queues for as long as a rule uses it.
#[derive(Default)]
pub(crate) struct Contexts {
    slots: Vec<Slot>,
}

impl Contexts {
    /// The number of a context that spreads over `queues`: an existing one, or a new one while fewer
    /// than `most` are in use. Nothing if there is none, or the hash cannot name two of the queues.
    pub(crate) fn over(&mut self, nic: &Nic, rss: &Rss, queues: &[u32], most: u32) -> Option<u32> {
        let same = self.slots.iter().position(|s| s.queues == queues);
        if let Some(at) = same.filter(|at| self.slots[*at].users > 0 || self.count() < most) {
            return Some(at as u32);
        }
        let Rss { table, .. } = Rss::over(nic, queues, None);
        if self.count() >= most || table.iter().all(|q| *q == table[0]) {
            return None;
        }
        let spreading = Spreading::new(nic, &Rss { table, ..rss.clone() });
        let slot = Slot { queues: queues.to_vec(), spreading, users: 0 };
        let at = self.slots.iter().position(|s| s.users == 0).unwrap_or(self.slots.len());
        match self.slots.get_mut(at) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        Some(at as u32)
    }

    pub(super) fn spreading(&self, context: u32) -> &Spreading {
        &self.slots[context as usize].spreading
    }

    /// The queues that a context reaches.
    pub(super) fn queues(&self, context: u32) -> Vec<u32> {
        match self.spreading(context).everywhere() {
            Placement::One(queue) => vec![*queue],
            spread => spread.shares().map(|(queue, _)| queue).collect(),
        }
    }

    pub(super) fn used(&mut self, context: u32, by: i32) {
        let users = &mut self.slots[context as usize].users;
        *users = users.saturating_add_signed(by);
    }

    pub(super) fn start_over(&mut self) {
        self.slots.iter_mut().for_each(|s| s.users = 0);
    }

    /// The queues of each context, none for unused contexts.
    pub(crate) fn in_use(&self) -> Vec<Vec<u32>> {
        let queues = |s: &Slot| if s.users > 0 { s.queues.clone() } else { Vec::new() };
        self.slots.iter().map(queues).collect()
    }

    /// The number of contexts in use.
    pub(crate) fn count(&self) -> u32 {
        self.slots.iter().filter(|s| s.users > 0).count() as u32
    }

    /// Restores the contexts that [`Contexts::in_use`] returned.
    pub(crate) fn restore(&mut self, nic: &Nic, rss: &Rss, all: &[Vec<u32>]) {
        let slot = |queues: &Vec<u32>| {
            let Rss { table, .. } = Rss::over(nic, queues, None);
            let spreading = Spreading::new(nic, &Rss { table, ..rss.clone() });
            Slot { queues: queues.clone(), spreading, users: 0 }
        };
        self.slots = all.iter().map(slot).collect();
    }
}
