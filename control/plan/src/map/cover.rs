//! Which flow a rule's packets belong to: the narrowest one that contains the rule, or `other`.
//!
//! A part of a flow that contains a rule *covers* it. Wider parts do not see a rule that a narrower one
//! covers, and a rule that nothing covers leaks: `other` reaches its queues.

use super::entry::Journal;
use super::{Entry, FlowMap};
use crate::config::Target;

impl FlowMap {
    /// Lets a new part see the present entries, and hides from wider parts those that it contains.
    pub(super) fn meet_entries(&mut self, part: u32, journal: &mut Journal) {
        let conj = self.parts[part].conj.clone();
        for entry in self.overlapping_entries(&conj) {
            if !self.entries[entry].rule.conj.implies(&conj) {
                self.parts[part].seen.push(entry);
                continue;
            }
            self.covered(entry, part, journal);
            if !self.hidden(entry, part, None) {
                self.parts[part].seen.push(entry);
            }
        }
    }

    fn covered(&mut self, entry: u32, part: u32, journal: &mut Journal) {
        if self.entries[entry].cover.is_empty() {
            self.leak(self.entries[entry].rule.target, -1, journal);
        }
        // Only a part that contains the entry can be wider than one that does.
        let others: Vec<u32> = self.entries[entry].cover.iter().collect();
        self.work.spend(others.len());
        self.entries[entry].cover.push(part);
        for wider in others {
            if self.narrower(part, wider) && self.parts[wider].seen.remove(entry) {
                self.refresh(wider, journal);
            }
        }
    }

    pub(super) fn uncovered(&mut self, entry: u32, journal: &mut Journal) {
        let left: Vec<u32> = self.entries[entry].cover.iter().collect();
        let tightest = self.tightest(entry);
        for part in left {
            if !self.parts[part].seen.contains(entry) && !self.hidden(entry, part, tightest) {
                self.parts[part].seen.push(entry);
                self.refresh(part, journal);
            }
        }
        if self.entries[entry].cover.is_empty() {
            self.leak(self.entries[entry].rule.target, 1, journal);
        }
    }

    /// A part of the same packets as `entry`, if there is one: it hides the entry from all wider ones.
    pub(super) fn tightest(&self, entry: u32) -> Option<u32> {
        let Entry { rule, cover, .. } = &self.entries[entry];
        cover.iter().find(|c| self.parts[*c].conj.implies(&rule.conj))
    }

    /// Whether the packets of `entry` belong to a flow narrower than `part`.
    pub(super) fn hidden(&self, entry: u32, part: u32, tightest: Option<u32>) -> bool {
        let Entry { rule, cover, .. } = &self.entries[entry];
        // A narrower flow that contains the entry lies within the part, and so does the entry.
        if !rule.conj.implies(&self.parts[part].conj) {
            return false;
        }
        if tightest.is_some_and(|t| t != part && self.narrower(t, part)) {
            return true;
        }
        let mut looked = 0;
        let hidden =
            cover.iter().inspect(|_| looked += 1).any(|c| c != part && self.narrower(c, part));
        self.work.spend(looked);
        hidden
    }

    fn narrower(&self, part: u32, than: u32) -> bool {
        let (part, than) = (&self.parts[part], &self.parts[than]);
        part.flow != than.flow && part.conj.implies(&than.conj) && !than.conj.implies(&part.conj)
    }

    /// Counts a rule without a flow as a reason for `other` to reach the rule's queues.
    pub(super) fn leak(&mut self, target: Target, by: i32, journal: &mut Journal) {
        if let Target::Queue(queue) = target {
            return self.leak_to(queue, by, journal);
        }
        for queue in self.reached_by(target) {
            self.leak_to(queue, by, journal);
        }
    }

    fn leak_to(&mut self, queue: u32, by: i32, journal: &mut Journal) {
        let count = &mut self.other[queue as usize];
        let before = *count > 0;
        *count = count.saturating_add_signed(by);
        if before != (*count > 0) {
            journal.note_other(queue, before);
        }
    }

    pub(super) fn reached_by(&self, target: Target) -> Vec<u32> {
        match target {
            Target::Queue(queue) => vec![queue],
            Target::Context(context) => self.contexts.queues(context),
            Target::Drop => Vec::new(),
        }
    }
}
