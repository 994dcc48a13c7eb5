//! The flow map: which flow arrives at which queues, kept as rules and flows come and go.
//!
//! Two indexes find the parts and rules that a change affects: the parts of flows that a rule can
//! catch, and the rules that can catch a part. A part keeps the list of rules that it *sees*; its
//! placement follows from them and from how the NIC spreads the rest. A rule that lies whole within a
//! part belongs to the narrowest such part: wider flows (a listening socket above connected ones) and
//! `other`, the flow of all unregistered packets, see it only if no narrower flow does.

mod cover;
mod entry;
mod index;
mod placement;
mod places;
mod spreading;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use entry::{Arena, Entry, Journal, NewEntry, Work};
pub(crate) use index::mix;
pub use placement::{Placement, Spread, WHOLE};
pub use places::Places;

use entry::List;
use placement::PlacementSum;
use spreading::{Contexts, Spreading};
pub use walk::place_configured as place;
use walk::{Destination, MatchedEntry};

use crate::config::{Rss, Target};
use crate::flow::{Conj, Flow};
use crate::nic::{Claims, Nic};
use index::Index;

/// A conjunction of a flow.
struct Part {
    flow: u32,
    conj: Conj,
    seen: List,
    placement: Placement,
}

/// A flow in the map. Its parts are apart.
pub(crate) struct Member {
    pub(crate) flow: Flow,
    parts: List,
    pub(crate) placement: Placement,
    /// The rules that were made for it.
    pub(crate) rules: Vec<u32>,
    /// Whether it is in the map.
    entered: bool,
    /// Whether the policy knows of it.
    pub(crate) applied: bool,
    /// Whether no table took it although it would be better elsewhere.
    pub(crate) unplaced: bool,
    /// Whether no table was asked, because the search ran out of budget.
    pub(crate) skipped: bool,
    /// How often its number was used before.
    pub(crate) generation: u32,
    /// The journal that has noted it.
    noted: u64,
}

impl Member {
    fn new(flow: Flow, generation: u32) -> Member {
        Member {
            flow,
            parts: List::default(),
            placement: Placement::One(0),
            rules: Vec::new(),
            entered: false,
            applied: false,
            unplaced: false,
            skipped: false,
            generation,
            noted: 0,
        }
    }
}

/// Flows, rules, and where the first go because of the second.
pub(crate) struct FlowMap {
    /// What plans claim something about.
    claims: Claims,
    spreading: Spreading,
    pub(crate) contexts: Contexts,
    pub(crate) flows: Arena<Member>,
    parts: Arena<Part>,
    pub(crate) entries: Arena<Entry>,
    part_index: Index,
    entry_index: Index,
    /// How many reasons `other` has to reach each queue.
    other: Vec<u32>,
    inserted: u64,
    generation: u32,
    found: Vec<u32>,
    /// The work so far, for the search to bound.
    pub(crate) work: Work,
    /// Whether parts are placed roughly from now on: queues may be listed that no packet reaches.
    pub(crate) rough: bool,
}

impl FlowMap {
    pub(crate) fn new(nic: &Nic, rss: &Rss) -> FlowMap {
        let spreading = Spreading::new(nic, rss);
        let mut other = vec![0; nic.queues.hi as usize + 1];
        for (queue, _) in spreading.place(&Conj::all()).shares() {
            other[queue as usize] += 1;
        }
        FlowMap {
            claims: nic.claims(),
            spreading,
            contexts: Contexts::default(),
            flows: Arena::default(),
            parts: Arena::default(),
            entries: Arena::default(),
            part_index: Index::default(),
            entry_index: Index::default(),
            other,
            inserted: 0,
            generation: 0,
            found: Vec::new(),
            work: Work::default(),
            rough: false,
        }
    }

    /// Whether unregistered traffic can reach `queue`.
    pub(crate) fn other_reaches(&self, queue: u32) -> bool {
        self.other.get(queue as usize).is_some_and(|n| *n > 0)
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.part_index.places() + self.entry_index.places()
    }

    /// The queues that `other` reaches.
    pub(crate) fn other_queues(&self) -> impl Iterator<Item = u32> + '_ {
        self.other.iter().enumerate().filter(|(_, n)| **n > 0).map(|(q, _)| q as u32)
    }

    pub(crate) fn parts_of(&self, flow: u32) -> impl Iterator<Item = &Conj> {
        self.flows[flow].parts.iter().map(|p| &self.parts[p].conj)
    }

    /// The entries that the parts of a flow meet.
    pub(crate) fn seen_by(&self, flow: u32) -> impl Iterator<Item = u32> + '_ {
        self.flows[flow].parts.iter().flat_map(|p| self.parts[p].seen.iter())
    }

    /// Registers a flow and lets it enter. The journal receives the changes to other flows.
    #[cfg(test)]
    pub(crate) fn add_flow(&mut self, flow: Flow, journal: &mut Journal) -> u32 {
        let id = self.register(flow);
        self.enter(id, journal);
        id
    }

    /// Registers a flow, which is not in the map until it [enters](FlowMap::enter).
    pub(crate) fn register(&mut self, mut flow: Flow) -> u32 {
        let conjs = self.claims.parts(std::mem::take(&mut flow.parts));
        self.generation = self.generation.wrapping_add(1);
        let id = self.flows.insert(Member::new(flow, self.generation));
        for conj in conjs {
            let placement = Placement::One(0);
            let part = Part { flow: id, conj, seen: List::default(), placement };
            let part = self.parts.insert(part);
            self.flows[id].parts.push(part);
        }
        id
    }

    /// Takes a registered flow into the map.
    pub(crate) fn enter(&mut self, id: u32, journal: &mut Journal) {
        let member = &mut self.flows[id];
        (member.noted, member.entered) = (journal.epoch(), true);
        for part in member.parts.clone().iter() {
            self.part_index.insert(part, &self.parts[part].conj);
            self.meet_entries(part, journal);
            self.parts[part].placement = self.placed(part);
        }
        self.flows[id].placement = self.combined(id);
    }

    /// Forgets a flow. Its rules stay; now others may see them.
    pub(crate) fn remove_flow(&mut self, id: u32, journal: &mut Journal) -> Option<Member> {
        let member = self.flows.remove(id)?;
        let mut uncovered = Vec::new();
        for part in member.parts.iter() {
            let Some(gone) = self.parts.remove(part).filter(|_| member.entered) else { continue };
            self.part_index.remove(part, &gone.conj);
            for entry in self.overlapping_entries(&gone.conj) {
                if self.entries[entry].cover.remove(part) && !uncovered.contains(&entry) {
                    uncovered.push(entry);
                }
            }
        }
        uncovered.into_iter().for_each(|entry| self.uncovered(entry, journal));
        Some(member)
    }

    /// Inserts a rule.
    pub(crate) fn insert_entry(
        &mut self,
        rule: NewEntry,
        owner: u32,
        journal: &mut Journal,
    ) -> u32 {
        self.insert(rule, Some(owner), journal)
    }

    /// Inserts a rule that others made.
    pub(crate) fn insert_fixed(&mut self, rule: NewEntry, journal: &mut Journal) -> u32 {
        self.insert(rule, None, journal)
    }

    fn insert(&mut self, rule: NewEntry, owner: Option<u32>, journal: &mut Journal) -> u32 {
        self.inserted += 1;
        self.uses(rule.target, 1);
        let (seq, fixed, cover) = (self.inserted, owner.is_none(), List::default());
        let id = self.entries.insert(Entry { rule, owner, fixed, seq, cover });
        self.entry_index.insert(id, &self.entries[id].rule.conj);
        let parts = self.overlapping_parts(&self.entries[id].rule.conj.clone());
        for part in &parts {
            if self.entries[id].rule.conj.implies(&self.parts[*part].conj) {
                self.entries[id].cover.push(*part);
            }
        }
        let tightest = self.tightest(id);
        for part in parts {
            if !self.hidden(id, part, tightest) {
                journal.caught_others |= Some(self.parts[part].flow) != owner;
                self.parts[part].seen.push(id);
                self.refresh(part, journal);
            }
        }
        if self.entries[id].cover.is_empty() {
            journal.caught_others = true;
            self.leak(self.entries[id].rule.target, 1, journal);
        }
        id
    }

    /// The number of the rule that was inserted last.
    pub(crate) fn last_number(&self) -> u64 {
        self.inserted
    }

    /// Renumbers all rules, in the same order, so that each has a number above `last`.
    pub(crate) fn number_above(&mut self, last: u64) {
        self.inserted += last;
        self.entries.iter_mut().for_each(|entry| entry.seq += last);
    }

    /// Gives a rule the age that it had before its removal.
    pub(crate) fn reseat(&mut self, id: u32, seq: u64, journal: &mut Journal) {
        self.entries[id].seq = seq;
        for part in self.overlapping_parts(&self.entries[id].rule.conj.clone()) {
            self.refresh(part, journal);
        }
    }

    /// Removes all rules, and lets all flows leave until they enter again. Nothing is journalled.
    pub(crate) fn start_over(&mut self) {
        let unclaimed = self.entries.iter().filter(|(_, e)| e.cover.is_empty());
        let unclaimed: Vec<Target> = unclaimed.map(|(_, e)| e.rule.target).collect();
        for target in unclaimed {
            for queue in self.reached_by(target) {
                self.other[queue as usize] -= 1;
            }
        }
        self.contexts.start_over();
        self.entries = Arena::default();
        self.entry_index = Index::default();
        self.part_index = Index::default();
        self.parts.iter_mut().for_each(|part| part.seen = List::default());
        for member in self.flows.iter_mut() {
            member.rules.clear();
            (member.entered, member.applied) = (false, false);
            (member.unplaced, member.skipped) = (false, false);
        }
    }

    /// Removes a rule.
    pub(crate) fn remove_entry(&mut self, id: u32, journal: &mut Journal) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.uses(entry.rule.target, -1);
        self.entry_index.remove(id, &entry.rule.conj);
        for part in self.overlapping_parts(&entry.rule.conj) {
            if self.parts[part].seen.remove(id) {
                self.refresh(part, journal);
            }
        }
        if entry.cover.is_empty() {
            self.leak(entry.rule.target, -1, journal);
        }
        Some(entry)
    }

    /// Sends a rule's packets to another queue.
    pub(crate) fn retarget(&mut self, id: u32, target: Target, journal: &mut Journal) {
        let old = std::mem::replace(&mut self.entries[id].rule.target, target);
        if old == target {
            return;
        }
        self.uses(target, 1);
        self.uses(old, -1);
        // The parts that contain it see it, and the parts within it; only a rule that overlaps
        // others partly needs a look-up.
        let unclaimed = self.entries[id].cover.is_empty();
        for part in self.overlapping_parts(&self.entries[id].rule.conj.clone()) {
            if self.parts[part].seen.contains(id) {
                self.refresh(part, journal);
            }
        }
        if unclaimed {
            self.leak(target, 1, journal);
            self.leak(old, -1, journal);
        }
    }

    /// The entries that can catch a packet of `conj`.
    pub(crate) fn overlapping_entries(&mut self, conj: &Conj) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let entries = &self.entries;
        self.entry_index.candidates(conj, |e| &entries[e].rule.conj, &mut found);
        self.work.spend(found.len());
        let overlapping = found.iter().copied();
        let overlapping = overlapping.filter(|e| !entries[*e].rule.conj.disjoint(conj)).collect();
        self.found = found;
        overlapping
    }

    /// Whether more than `limit` parts of flows overlap `conj`.
    pub(crate) fn catches_more_than(&mut self, limit: usize, conj: &Conj) -> bool {
        self.found.clear();
        let parts = &self.parts;
        self.part_index.candidates(conj, |p| &parts[p].conj, &mut self.found);
        self.work.spend(self.found.len());
        let caught = self.found.iter().filter(|p| !parts[**p].conj.disjoint(conj));
        caught.take(limit + 1).count() > limit
    }

    /// The flows of which a packet may match `conj`.
    pub(crate) fn flows_meeting(&mut self, conj: &Conj) -> Vec<u32> {
        let parts = self.overlapping_parts(conj);
        parts.into_iter().map(|part| self.parts[part].flow).collect()
    }

    /// A flow's placement if these rules were not there; nothing if others take its packets as well.
    pub(crate) fn placement_without(&self, flow: u32, rules: &[u32]) -> Option<Placement> {
        let mut mix = PlacementSum::default();
        let mut first = None;
        let mut same = true;
        for part in self.flows[flow].parts.iter().map(|part| &self.parts[part]) {
            if !part.seen.iter().all(|entry| rules.contains(&entry)) {
                return None;
            }
            let placement = self.spreading.place(&part.conj);
            mix.merge(&placement, 1.0);
            same &= *first.get_or_insert_with(|| placement.clone()) == placement;
        }
        if same { first } else { Some(mix.finish()) }
    }

    fn overlapping_parts(&mut self, conj: &Conj) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let parts = &self.parts;
        self.part_index.candidates(conj, |p| &parts[p].conj, &mut found);
        self.work.spend(found.len());
        let overlapping = found.iter().copied();
        let overlapping = overlapping.filter(|p| !parts[*p].conj.disjoint(conj)).collect();
        self.found = found;
        overlapping
    }

    fn uses(&mut self, target: Target, by: i32) {
        if let Target::Context(context) = target {
            self.contexts.used(context, by);
        }
    }

    fn to(&self, target: Target) -> Destination<'_> {
        match target {
            Target::Queue(queue) => Destination::Queue(queue),
            Target::Context(context) => Destination::Spread(self.contexts.spreading(context)),
            Target::Drop => Destination::Nowhere,
        }
    }

    /// Places a part anew and notes it if that changed something.
    fn refresh(&mut self, part: u32, journal: &mut Journal) {
        let placement = self.placed(part);
        if placement == self.parts[part].placement {
            return;
        }
        self.parts[part].placement = placement;
        let id = self.parts[part].flow;
        let placement = self.combined(id);
        let member = &mut self.flows[id];
        let before = std::mem::replace(&mut member.placement, placement);
        if member.noted != journal.epoch() {
            member.noted = journal.epoch();
            journal.note(id, before);
        }
    }

    fn placed(&self, part: u32) -> Placement {
        let Part { conj, seen, .. } = &self.parts[part];
        if seen.is_empty() {
            return self.spreading.place(conj);
        }
        let mut seen: Vec<&Entry> = seen.iter().map(|e| &self.entries[e]).collect();
        seen.sort_unstable_by_key(|e| e.turn());
        let met: Vec<MatchedEntry<'_>> = seen
            .iter()
            .map(|e| MatchedEntry { conj: &e.rule.conj, to: self.to(e.rule.target) })
            .collect();
        walk::place(conj, &met, &self.spreading, self.rough, &self.work)
    }

    fn combined(&self, flow: u32) -> Placement {
        let parts = &self.flows[flow].parts;
        let mut placements = parts.iter().map(|p| &self.parts[p].placement);
        let Some(first) = placements.next() else { return Placement::One(0) };
        if placements.all(|p| p == first) {
            return first.clone();
        }
        let mut mix = PlacementSum::default();
        parts.iter().for_each(|p| mix.merge(&self.parts[p].placement, 1.0));
        mix.finish()
    }
}
