//! The search for a configuration: greedy over flows, with oracles that are derived from the NIC's
//! model (the Dragonet queue management paper, §3.2).
//!
//! A [`Search`] holds the configuration that it has found. [`Search::run`] takes all flows;
//! [`Search::add`] and [`Search::remove`] change it little by little, and the changes for a device are
//! collected until [`Search::take_changes`]. A flow is placed by asking the tables for rules
//! (`oracle`), and the policy at which queue they cost least. When a flow goes, its rules stay as
//! *stale* ones until their place is needed, unless the policy objects.

mod account;
mod arrange;
mod budget;
mod changes;
mod choose;
mod explain;
mod improve;
mod jump;
mod others;
mod plan;
mod refuse;
mod several;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;

pub use account::Exhausted;
pub use changes::{DeviceChange, RuleId};
pub use explain::{Alternative, Explanation};
pub use plan::{Plan, PlannedFlow, PlannedQueue, PlannedRule, Shortage};
pub use refuse::Refused;

pub use crate::config::OthersRule;
use crate::config::{Rss, Rule, Target};
use crate::flow::Flow;
use crate::map::{FlowMap, Journal, Placement};
use crate::nic::Nic;
use crate::oracle::State;
use crate::policy::{Change, Cost, Policy, QueueSet, Subject};
use account::{Budget, Moves};
use changes::Changes;

/// Settings of a search.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides about the order of flows in jumps; the same seed gives the same plan.
    pub seed: u64,
    /// How many other orders are tried when no acceptable plan was found.
    pub jumps: u32,
    /// No jump begins that would place more flows than this in all.
    pub jump_budget: usize,
    /// The work of one call, in steps of about 100 ns, beside some for each flow. When it is used up,
    /// the best plan so far counts, and is marked so ([`Plan::exhausted`]).
    pub budget: u64,
    /// How many stale rules are kept at most.
    pub stale: usize,
    /// The key of the NIC's hash, if it is known and not the one that the [NIC](Nic::hash_key) has.
    pub rss_key: Option<Vec<u8>>,
    /// The NIC with all that its silicon can do, if `nic` is the part that Linux exposes. It is
    /// consulted only to report that more would be possible.
    pub silicon: Option<Nic>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 0,
            jumps: 8,
            jump_budget: 200_000,
            budget: 3_000_000,
            stale: 256,
            rss_key: None,
            silicon: None,
        }
    }
}

/// A flow in a search. It stays valid until the flow is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    index: u32,
    generation: u32,
}

/// How many candidates are tried for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thoroughness {
    /// The tables in the order in which their entries are least missed, until one steers the flow
    /// without affecting others: later tables cannot cost less.
    Quick,
    /// Every table in the NIC's order, as the paper's Algorithm 1 does.
    AsWritten,
}

/// A NIC's configuration, the flows that it is for, and a policy.
///
/// ```
/// use weever_graph::Field;
/// use weever_plan::flow::{Conj, Flow};
/// use weever_plan::nic::Nic;
/// use weever_plan::policy::{Balance, Measure};
/// use weever_plan::search::{Options, Search};
///
/// let nic = Nic::linux_of(&weever_models::nic("e810")?)?.with_queues(4)?;
/// let mut search = Search::new(nic, Box::new(Balance::new(Measure::Flows)), Options::default());
/// let udp = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
/// search.run(vec![Flow::of("dns", vec![udp.with(Field::L4Dst, 53)])]);
///
/// let plan = search.plan();
/// assert!(plan.is_acceptable());
/// assert_eq!(plan.flows[0].name, "dns");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Search {
    nic: Nic,
    rss: Rss,
    options: Options,
    policy: Box<dyn Policy>,
    map: FlowMap,
    state: State,
    /// The rules of others on the device.
    others: Vec<OthersRule>,
    /// Rules without their flow, the oldest first.
    stale: VecDeque<u32>,
    journal: Journal,
    /// Whether a flow was at several queues at some time.
    divided: bool,
    changes: Changes,
    budget: Budget,
    moves: Moves,
    /// A table and the masks that its rules are to share, while that is tried.
    insist: Option<(usize, Vec<u128>)>,
    /// Whether a flow takes rules even where it costs less to leave it without, while that is tried.
    eager: bool,
}

impl Search {
    /// A search on `nic`, which is the view to be configured ([`Nic::linux`], [`Nic::with_queues`]).
    /// Without flows it spreads arriving packets over the queues where the policy takes them.
    pub fn new(nic: Nic, mut policy: Box<dyn Policy>, options: Options) -> Search {
        let queues: QueueSet = (nic.queues.lo..=nic.queues.hi).collect();
        policy.start(&queues, nic.default_queue);
        let open: Vec<u32> = queues.iter().filter(|q| policy.takes_other(*q)).collect();
        let key = options.rss_key.clone().or_else(|| nic.hash_key.clone());
        let rss = Rss::over(&nic, &open, key);
        let map = FlowMap::new(&nic, &rss);
        let state = State::new(&nic);
        let mut search = Search {
            nic,
            rss,
            options,
            policy,
            map,
            state,
            others: Vec::new(),
            stale: VecDeque::new(),
            journal: Journal::default(),
            divided: false,
            changes: Changes::default(),
            budget: Budget::default(),
            moves: Moves::default(),
            insist: None,
            eager: false,
        };
        search.announce_other();
        search
    }

    /// The NIC.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// The spreading of packets that no rule takes.
    pub fn rss(&self) -> &Rss {
        &self.rss
    }

    /// The policy's cost of the present configuration.
    pub fn cost(&self) -> Cost {
        self.policy.cost()
    }

    /// The number of flows.
    pub fn len(&self) -> usize {
        self.map.flows.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many flows have rules of their own.
    pub fn steered(&self) -> usize {
        self.map.flows.iter().filter(|(_, m)| !m.rules.is_empty()).count()
    }

    /// Where a flow's packets arrive; nothing if it was removed.
    pub fn placement(&self, id: FlowId) -> Option<&Placement> {
        self.member(id).map(|m| &self.map.flows[m].placement)
    }

    /// Adds many flows: all are placed anew, in the policy's order, and if the plan is not
    /// acceptable then in other orders. Returns their numbers in the order of `flows`.
    pub fn run(&mut self, flows: Vec<Flow>) -> Vec<FlowId> {
        let ids: Vec<u32> = flows.into_iter().map(|f| self.map.register(f)).collect();
        self.place_all();
        ids.into_iter().map(|i| self.id(i)).collect()
    }

    /// Adds a flow and leaves the others where they are. If that makes an acceptable plan
    /// unacceptable, all are placed anew.
    pub fn add(&mut self, flow: Flow) -> FlowId {
        let acceptable = self.cost().is_acceptable();
        let index = self.map.register(flow);
        let id = self.id(index);
        self.start_work(1);
        self.enter(index, Thoroughness::Quick);
        if acceptable && !self.cost().is_acceptable() {
            self.place_all();
        }
        self.rebalance(&Subject::of(&self.map.flows[index].flow));
        id
    }

    /// Removes a flow and returns it; nothing if there is no such flow. Its rules stay unless the
    /// policy objects to the packets that they catch now. Flows that depended on removed rules are
    /// placed anew if the policy objects to their new queue.
    pub fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let index = self.member(id)?;
        let acceptable = self.cost().is_acceptable();
        self.start_work(1);
        self.lift(index);
        let before = self.cost();
        let rules = std::mem::take(&mut self.map.flows[index].rules);
        for rule in &rules {
            self.map.entries[*rule].owner = None;
            self.state.staled(&self.nic, &self.map.entries[*rule].rule);
        }
        self.journal.clear();
        let member = self.map.remove_flow(index, &mut self.journal)?;
        self.tell();
        self.stale.extend(&rules);
        // Packets of a removed drop rule arrive again.
        let drops = rules.iter().any(|r| self.map.entries[*r].rule.target == Target::Drop);
        let gone = if drops || self.cost() > before { rules } else { Vec::new() };
        let surplus = (self.stale.len() - gone.len()).saturating_sub(self.options.stale);
        let oldest: Vec<u32> = self.stale.iter().copied().take(surplus).collect();
        let orphans: Vec<u32> =
            gone.into_iter().chain(oldest).flat_map(|rule| self.drop_stale(rule)).collect();
        if acceptable && !self.cost().is_acceptable() {
            self.take_care_of(&orphans);
        }
        self.rebalance(&Subject::of(&member.flow));
        Some(member.flow)
    }

    /// Places flows anew that relied on another flow's rule, and all flows if that is not enough.
    fn take_care_of(&mut self, orphans: &[u32]) {
        for flow in orphans {
            self.lift(*flow);
            self.withdraw(*flow);
            self.choose(*flow, Thoroughness::Quick);
        }
        if !self.cost().is_acceptable() {
            self.place_all();
        }
    }

    /// Sets the rate of a flow, for policies that balance rates. Returns whether there is such a flow.
    /// It stays where it is until it is placed anew.
    pub fn set_rate(&mut self, id: FlowId, rate: Option<u64>) -> bool {
        let Some(index) = self.member(id) else { return false };
        self.lift(index);
        self.map.flows[index].flow.rate = rate;
        self.drop_in(index);
        true
    }

    /// Places one flow anew. Returns whether there is such a flow.
    pub fn replace(&mut self, id: FlowId) -> bool {
        let Some(index) = self.member(id) else { return false };
        self.start_work(1);
        self.lift(index);
        self.withdraw(index);
        self.choose(index, Thoroughness::Quick);
        true
    }

    /// Takes the place of another search for the same NIC: the next changes are the difference from what that
    /// one has told, and the rules of others are those that it knew.
    pub fn succeed(&mut self, before: Search) {
        self.map.number_above(before.map.last_number());
        self.changes = before.changes;
        self.changes.started_over();
        self.plan_around(before.others);
    }

    /// The changes for the device since the last call, in this order.
    pub fn take_changes(&mut self) -> Vec<DeviceChange> {
        self.changes.take(&self.nic, &self.map.entries)
    }

    /// The rules that the next [`take_changes`](Self::take_changes) is about, with their tables' positions, and
    /// perhaps others. Nothing is taken.
    pub fn changing(&self) -> Vec<(usize, Rule)> {
        self.changes.coming(&self.nic, &self.map.entries)
    }

    fn id(&self, index: u32) -> FlowId {
        FlowId { index, generation: self.map.flows[index].generation }
    }

    fn member(&self, id: FlowId) -> Option<u32> {
        let member = self.map.flows.get(id.index)?;
        (member.generation == id.generation).then_some(id.index)
    }

    fn subject(&self, index: u32) -> Subject {
        Subject::of(&self.map.flows[index].flow)
    }

    /// Takes a registered flow into the map and places it.
    fn enter(&mut self, index: u32, how: Thoroughness) {
        self.journal.clear();
        self.map.enter(index, &mut self.journal);
        self.tell();
        self.choose(index, how);
    }

    /// Takes a flow out of the policy's sums.
    fn lift(&mut self, index: u32) {
        let subject = self.subject(index);
        let member = &mut self.map.flows[index];
        if std::mem::take(&mut member.applied) {
            self.policy.apply(&subject, &member.placement, Change::Goes);
        }
    }

    /// Puts it into them.
    fn drop_in(&mut self, index: u32) {
        let subject = self.subject(index);
        let member = &mut self.map.flows[index];
        if !std::mem::replace(&mut member.applied, true) {
            self.policy.apply(&subject, &member.placement, Change::Comes);
        }
    }

    /// Tells the policy the changes in the journal, and starts a new one.
    fn tell(&mut self) {
        for (index, before) in &self.journal.flows {
            let Some(member) = self.map.flows.get(*index).filter(|m| m.applied) else { continue };
            let subject = Subject::of(&member.flow);
            self.policy.apply(&subject, before, Change::Goes);
            self.policy.apply(&subject, &member.placement, Change::Comes);
        }
        for (queue, before) in &self.journal.other {
            let now = self.map.other_reaches(*queue);
            if now != *before {
                let change = if now { Change::Comes } else { Change::Goes };
                self.policy.apply(&Subject::OTHER, &Placement::One(*queue), change);
            }
        }
        self.journal.clear();
    }

    fn announce_other(&mut self) {
        for queue in self.map.other_queues() {
            self.policy.apply(&Subject::OTHER, &Placement::One(queue), Change::Comes);
        }
    }

    /// Removes the rules of a flow, which the policy already counts as gone.
    fn withdraw(&mut self, index: u32) {
        self.journal.clear();
        let rules = std::mem::take(&mut self.map.flows[index].rules);
        for rule in rules {
            self.remove_rule(rule, true);
        }
        self.tell();
    }

    /// Returns the flows that are placed otherwise without it.
    fn drop_stale(&mut self, rule: u32) -> Vec<u32> {
        self.stale.retain(|r| *r != rule);
        self.journal.clear();
        self.remove_rule(rule, true);
        let concerned = self.journal.flows.iter().map(|(flow, _)| *flow).collect();
        self.tell();
        concerned
    }

    fn insert_rule(&mut self, rule: crate::map::NewEntry, owner: u32) -> u32 {
        let id = self.map.insert_entry(rule, owner, &mut self.journal);
        self.state.inserted(&self.nic, id, &self.map.entries[id].rule);
        id
    }

    fn remove_rule(&mut self, rule: u32, for_good: bool) {
        if for_good {
            self.changes.removed(&self.map.entries[rule]);
        }
        if let Some(entry) = self.map.remove_entry(rule, &mut self.journal) {
            self.state.removed(&self.nic, rule, &entry);
        }
    }
}
