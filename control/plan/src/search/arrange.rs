//! A better arrangement of flows whose rules concern nobody else: which of them have rules, in which table, and to
//! which queue.
//!
//! Such flows are independent of each other, so an arrangement needs no flow map: it is a place for each
//! [`Item`], and the policy's sums are its cost. Steps are an item elsewhere, two that exchange their places, and one
//! that gives its entries to another; they are taken as long as they lower the cost. Then some items are moved at
//! random, and it goes on from there. Only the best arrangement is carried out, and only if the search's cost is
//! lower then.

use super::Search;
use crate::map::{Placement, mix};
use crate::nic::Nic;
use crate::oracle;
use crate::policy::{Change, Cost, Policy, Subject};

/// Pairs of items, at most.
const MOST_PAIRS: usize = 1 << 13;
/// Items that are moved at random at once.
const SHAKEN: u64 = 3;

/// Whether so many flows can be arranged.
pub(super) fn is_possible(flows: usize) -> bool {
    flows.saturating_mul(flows) <= MOST_PAIRS
}

/// The entries that rules take in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    table: usize,
    rules: u32,
    entries: u32,
}

/// The place of an item with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    need: Need,
    queue: u32,
}

/// A flow, and those that its rules carry along.
struct Item {
    leader: u32,
    /// Each with its placement if the item has no rules.
    flows: Vec<(Subject, Placement)>,
    needs: Vec<Need>,
    place: Option<Place>,
}

/// Entries in use.
#[derive(Clone)]
struct Room {
    /// Free entries of each pool, and of each table by itself.
    pools: Vec<u32>,
    tables: Vec<u32>,
    /// Free numbers of rules.
    rules: u32,
}

impl Room {
    fn fits(&self, nic: &Nic, need: Need) -> bool {
        let pool = nic.tables[need.table].pool;
        self.pools[pool] >= need.entries
            && self.tables[need.table] >= need.rules
            && self.rules >= need.rules
    }

    fn take(&mut self, nic: &Nic, need: Need) {
        self.pools[nic.tables[need.table].pool] -= need.entries;
        self.tables[need.table] -= need.rules;
        self.rules -= need.rules;
    }

    fn give(&mut self, nic: &Nic, need: Need) {
        self.pools[nic.tables[need.table].pool] += need.entries;
        self.tables[need.table] += need.rules;
        self.rules = self.rules.saturating_add(need.rules);
    }
}

/// Items in their places, while the policy counts them there.
struct Arrangement<'a> {
    nic: &'a Nic,
    policy: &'a mut dyn Policy,
    items: Vec<Item>,
    room: Room,
    /// Costs that were asked for.
    looks: usize,
}

impl Arrangement<'_> {
    /// Moves an item. Returns whether there is room.
    fn put(&mut self, nth: usize, to: Option<Place>) -> bool {
        let Item { place: from, flows, .. } = &self.items[nth];
        let from = *from;
        from.iter().for_each(|place| self.room.give(self.nic, place.need));
        if to.is_some_and(|place| !self.room.fits(self.nic, place.need)) {
            from.iter().for_each(|place| self.room.take(self.nic, place.need));
            return false;
        }
        to.iter().for_each(|place| self.room.take(self.nic, place.need));
        for (subject, loose) in flows {
            for (place, change) in [(from, Change::Goes), (to, Change::Comes)] {
                match place {
                    Some(place) => self.policy.apply(subject, &Placement::One(place.queue), change),
                    None => self.policy.apply(subject, loose, change),
                }
            }
        }
        self.items[nth].place = to;
        true
    }

    fn cost(&mut self) -> Cost {
        self.looks += 1;
        self.policy.cost()
    }

    /// Takes steps, unless one has no room or they do not lower the cost.
    fn attempt(&mut self, steps: &[(usize, Option<Place>)], least: &mut Cost) -> bool {
        let mut undo = [(0, None); 2];
        let mut done = 0;
        for (nth, to) in steps {
            undo[done] = (*nth, self.items[*nth].place);
            if !self.put(*nth, *to) {
                break;
            }
            done += 1;
        }
        if done == steps.len() {
            let cost = self.cost();
            if cost < *least {
                *least = cost;
                return true;
            }
        }
        for (nth, from) in undo[..done].iter().rev() {
            self.put(*nth, *from);
        }
        false
    }

    /// Takes steps as long as there are any that lower the cost.
    fn descend(&mut self) -> Cost {
        let mut least = self.cost();
        loop {
            let before = least;
            for one in 0..self.items.len() {
                self.move_one(one, &mut least);
                for other in 0..one {
                    self.exchange(one, other, &mut least);
                }
            }
            // Rounding must not keep it going.
            if least.rejected == before.rejected && least.value >= before.value * (1.0 - 1e-9) {
                return least;
            }
        }
    }

    fn move_one(&mut self, nth: usize, least: &mut Cost) {
        for need in self.items[nth].needs.clone() {
            let Some(queues) = oracle::steerable(self.nic, need.table) else { continue };
            for queue in queues.lo..=queues.hi {
                self.attempt(&[(nth, Some(Place { need, queue }))], least);
            }
        }
        if self.items[nth].place.is_some() {
            self.attempt(&[(nth, None)], least);
        }
    }

    fn exchange(&mut self, one: usize, other: usize, least: &mut Cost) {
        let (a, b) = (self.items[one].place, self.items[other].place);
        match (a, b) {
            (Some(a), Some(b)) if a.queue != b.queue => {
                let (to, from) = (Place { queue: b.queue, ..a }, Place { queue: a.queue, ..b });
                if self.reaches(to) && self.reaches(from) {
                    self.attempt(&[(one, Some(to)), (other, Some(from))], least);
                }
            }
            (Some(given), None) => self.hand_over(one, other, given, least),
            (None, Some(given)) => self.hand_over(other, one, given, least),
            _ => {}
        }
    }

    /// An item without rules gets entries of another, which has rules in another table then, or none.
    fn hand_over(&mut self, giver: usize, taker: usize, given: Place, least: &mut Cost) {
        let same = |need: &&Need| need.table == given.need.table;
        let Some(need) = self.items[taker].needs.iter().find(same).copied() else { return };
        let to = Place { need, ..given };
        if self.attempt(&[(giver, None), (taker, Some(to))], least) {
            return;
        }
        for elsewhere in self.items[giver].needs.clone() {
            let away = Place { need: elsewhere, ..given };
            if elsewhere.table != given.need.table && self.reaches(away) {
                let steps = [(giver, Some(away)), (taker, Some(to))];
                if self.attempt(&steps, least) {
                    return;
                }
            }
        }
    }

    fn reaches(&self, place: Place) -> bool {
        let queues = oracle::steerable(self.nic, place.need.table);
        queues.is_some_and(|queues| queues.contains(place.queue))
    }

    fn places(&self) -> Vec<Option<Place>> {
        self.items.iter().map(|item| item.place).collect()
    }

    /// Puts all items into these places.
    fn set(&mut self, places: &[Option<Place>]) {
        for (nth, place) in places.iter().enumerate() {
            if self.items[nth].place != *place {
                self.put(nth, None);
            }
        }
        for (nth, place) in places.iter().enumerate() {
            self.put(nth, *place);
        }
    }

    fn shake(&mut self, seed: u64) {
        for shaken in 0..SHAKEN {
            let random = mix(seed, shaken);
            let nth = (random % self.items.len() as u64) as usize;
            let needs = &self.items[nth].needs;
            let choice = (random >> 20) as usize % (needs.len() + 1);
            let place = needs.get(choice).and_then(|need| {
                let queues = oracle::steerable(self.nic, need.table)?;
                let queue = queues.lo + (random >> 32) as u32 % queues.count();
                Some(Place { need: *need, queue })
            });
            self.put(nth, place);
        }
    }

    /// The best places that so many rounds of random steps lead to.
    fn best_places(&mut self, rounds: u32, seed: u64, most_looks: u64) -> Vec<Option<Place>> {
        let mut least = self.descend();
        let mut best = self.places();
        for round in 0..rounds {
            if self.looks as u64 > most_looks || self.policy.is_at_best() {
                break;
            }
            self.shake(mix(seed, u64::from(round)));
            let cost = self.descend();
            if cost < least {
                (least, best) = (cost, self.places());
            } else {
                self.set(&best);
            }
        }
        best
    }
}

impl Search {
    /// Arranges flows anew, if that lowers the cost, in so many rounds.
    pub(super) fn arrange(&mut self, order: &[u32], rounds: u32) {
        if self.out_of_budget() || !self.may_improve() {
            return;
        }
        let items = self.items(order);
        if items.is_empty() || !is_possible(items.len()) {
            return;
        }
        let before: Vec<Option<Place>> = items.iter().map(|item| item.place).collect();
        let room = self.room();
        let (seed, most) = (self.options.seed, self.steps_left() / 3);
        let (nic, policy) = (&self.nic, &mut *self.policy);
        let mut arrangement = Arrangement { nic, policy, items, room, looks: 0 };
        let best = arrangement.best_places(rounds, seed, most);
        arrangement.set(&before);
        let Arrangement { items, looks, .. } = arrangement;
        self.map.work.spend(looks);
        if best != before {
            self.carry_out(&items, &best);
        }
    }

    fn room(&self) -> Room {
        let tables = 0..self.nic.tables.len();
        let pool = |at: usize| self.nic.capacity(at).saturating_sub(self.state.taken[at]);
        let table = |at: usize| {
            let own = self.nic.tables[at].model.capacity.entries;
            let learned = self.state.learned.limit(at).map_or(u32::MAX, |(limit, _)| limit);
            own.min(learned).saturating_sub(self.state.tables[at].rules)
        };
        Room {
            pools: tables.clone().map(pool).collect(),
            tables: tables.map(table).collect(),
            rules: self.nic.locations.unwrap_or(u32::MAX).saturating_sub(self.state.rules()),
        }
    }

    /// The flows that can be arranged: their rules catch nobody who has rules or does not go along as a whole.
    fn items(&mut self, order: &[u32]) -> Vec<Item> {
        let mut known = Vec::new();
        let mut items: Vec<Item> = Vec::new();
        let (steered, waiting): (Vec<u32>, Vec<u32>) =
            order.iter().copied().partition(|i| !self.map.flows[*i].rules.is_empty());
        for leader in steered.into_iter().chain(waiting) {
            if known.contains(&leader) {
                continue;
            }
            let Some((item, flows)) = self.item(leader) else { continue };
            if flows.iter().any(|flow| known.contains(flow)) {
                continue;
            }
            known.extend(flows);
            items.push(item);
        }
        items
    }

    fn item(&mut self, leader: u32) -> Option<(Item, Vec<u32>)> {
        if self.policy.drops(&self.subject(leader)) {
            return None;
        }
        let rules = self.map.flows[leader].rules.clone();
        let own: Vec<Need> = self.need_of(&rules).into_iter().collect();
        if !rules.is_empty() && own.is_empty() {
            return None;
        }
        let mut needs = own.clone();
        let mut caught = vec![leader];
        // The first table whose rules would carry others along, if no table has rules for the leader alone.
        let mut with_others = None;
        for table in 0..self.nic.tables.len() {
            let situation = self.situation();
            let Some(conjs) = oracle::rules_for(&situation, leader, table) else { continue };
            let entries = conjs.iter().map(|(_, cost)| cost).sum();
            let need = Need { table, rules: conjs.len() as u32, entries };
            let met = conjs.iter().flat_map(|(conj, _)| self.map.flows_meeting(conj));
            let met: Vec<u32> = met.collect();
            if own.first().is_some_and(|need| need.table == table) {
                caught.extend(met);
            } else if met.iter().all(|flow| *flow == leader) {
                needs.push(need);
            } else if with_others.is_none() {
                with_others = Some((need, met));
            }
        }
        if let Some((need, met)) = with_others.filter(|_| needs.is_empty()) {
            needs.push(need);
            caught.extend(met);
        }
        caught.sort_unstable();
        caught.dedup();
        let place = match own.first() {
            Some(need) => Some(Place { need: *need, queue: self.single_queue(leader)? }),
            None => None,
        };
        let mut flows = Vec::with_capacity(caught.len());
        for flow in &caught {
            let member = self.map.flows.get(*flow).filter(|m| m.applied)?;
            let at = member.placement.queue();
            let apart = *flow != leader && !member.rules.is_empty();
            if apart || place.is_some_and(|place| at != Some(place.queue)) {
                return None;
            }
            let subject = Subject::of(&member.flow);
            flows.push((subject, self.map.placement_without(*flow, &rules)?));
        }
        // A flow that was caught by others has no place of its own to go to.
        let loose = |search: &Search| {
            let placed = caught.iter().map(|flow| &search.map.flows[*flow].placement);
            placed.zip(&flows).all(|(now, (_, loose))| now == loose)
        };
        let moves = !needs.is_empty() && (place.is_some() || loose(self));
        moves.then_some((Item { leader, flows, needs, place }, caught))
    }

    /// The entries that these rules take, if all are of one table.
    fn need_of(&self, rules: &[u32]) -> Option<Need> {
        let rule = |id: &u32| &self.map.entries[*id].rule;
        let table = rule(rules.first()?).table;
        let same = rules.iter().all(|id| rule(id).table == table);
        let model = &self.nic.tables[table].model;
        let entries = rules.iter().map(|id| oracle::cost(model, rule(id).flow_type)).sum();
        same.then_some(Need { table, rules: rules.len() as u32, entries })
    }

    /// Brings the flows to their places; if that does not lower the cost, all stays as it was.
    fn carry_out(&mut self, items: &[Item], places: &[Option<Place>]) {
        let before = self.found();
        let stays = |item: &Item, place: &Option<Place>| match (item.place, place) {
            (Some(from), Some(to)) => from.need.table == to.need.table,
            (from, to) => from.is_none() && to.is_none(),
        };
        let changes: Vec<(&Item, &Option<Place>)> = items.iter().zip(places).collect();
        for (item, place) in &changes {
            if item.place.is_some() && !stays(item, place) {
                self.lift(item.leader);
                self.withdraw(item.leader);
                self.drop_in(item.leader);
            }
        }
        for (item, place) in changes {
            let Some(to) = place else { continue };
            if stays(item, place) {
                if item.place.is_some_and(|from| from.queue != to.queue) {
                    self.send(item.leader, to.queue);
                }
                continue;
            }
            self.lift(item.leader);
            let (proposals, _) = self.proposals(item.leader);
            let offer = proposals.iter().find(|offer| offer.rules[0].table == to.need.table);
            match offer.and_then(|offer| self.try_out(item.leader, offer).ok()) {
                Some(rules) => {
                    let target = crate::config::Target::Queue(to.queue);
                    self.commit(item.leader, rules, target);
                }
                None => self.map.flows[item.leader].unplaced = true,
            }
            self.drop_in(item.leader);
        }
        if self.cost() >= before.cost {
            self.restore(before);
        }
    }
}
