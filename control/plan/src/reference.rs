//! The search as the paper wrote it, as a yardstick: Algorithm 1 of the Dragonet queue management
//! paper, and for the tests of this crate brute force.
//!
//! Nothing here is incremental. Every candidate is judged by building the flow map, the tables and
//! the policy's sums from nothing. Use it in tests and benchmarks only: it takes time in proportion
//! to the cube of the number of flows.

use crate::config::{Rss, Target};
use crate::flow::Flow;
use crate::map::{FlowMap, Journal, NewEntry, Placement};
use crate::nic::Nic;
use crate::oracle::{self, Fate, Situation, State};
use crate::policy::{Change, Cost, Policy, QueueSet, Subject};

/// The decisions made so far: flows and their rules, in order.
type Decided<'f> = Vec<(&'f Flow, Vec<NewEntry>)>;

/// A flow map and the contents of the tables.
struct World {
    map: FlowMap,
    state: State,
}

/// The reference search.
pub(crate) struct Reference<'a> {
    nic: &'a Nic,
    rss: Rss,
    policy: &'a dyn Fn() -> Box<dyn Policy>,
}

impl<'a> Reference<'a> {
    /// A search with a policy that can be made anew. `rss_key` as in
    /// [`Options`](crate::search::Options).
    pub(crate) fn new(
        nic: &'a Nic,
        policy: &'a dyn Fn() -> Box<dyn Policy>,
        rss_key: Option<Vec<u8>>,
    ) -> Reference<'a> {
        let started = started(nic, policy);
        let queues = nic.queues.lo..=nic.queues.hi;
        let open: Vec<u32> = queues.filter(|q| started.takes_other(*q)).collect();
        Reference { nic, rss: Rss::over(nic, &open, rss_key), policy }
    }

    /// Algorithm 1: takes the flows one by one, and for each the change that costs least.
    pub(crate) fn greedy(&self, flows: &[Flow]) -> Cost {
        let mut decided: Decided<'_> = Vec::new();
        let mut least = self.cost(&decided);
        for flow in flows {
            let candidates = self.candidates(&decided, flow);
            let costs = candidates.into_iter().map(|rules| {
                let mut then = decided.clone();
                then.push((flow, rules));
                (self.cost(&then), then)
            });
            let best = costs.min_by_key(|(cost, _)| *cost);
            if let Some((cost, then)) = best {
                (least, decided) = (cost, then);
            }
        }
        least
    }

    /// The least cost that any choice of one of the oracles' changes for each flow has, the flows
    /// being taken in their order.
    #[cfg(test)]
    pub(crate) fn brute_force(&self, flows: &[Flow]) -> Cost {
        self.best_from(&mut Vec::new(), flows)
    }

    #[cfg(test)]
    fn best_from<'f>(&self, decided: &mut Decided<'f>, flows: &'f [Flow]) -> Cost {
        let Some((flow, rest)) = flows.split_first() else { return self.cost(decided) };
        let candidates = self.candidates(decided, flow);
        let costs = candidates.into_iter().map(|rules| {
            decided.push((flow, rules));
            let cost = self.best_from(decided, rest);
            decided.pop();
            cost
        });
        costs.min().unwrap_or_default()
    }

    /// Every change for a flow: none, and the rules of every table to every queue.
    fn candidates(&self, decided: &Decided<'_>, flow: &Flow) -> Vec<Vec<NewEntry>> {
        let mut world = self.world(decided);
        let index = world.map.add_flow(flow.clone(), &mut Journal::default());
        let mut all = vec![Vec::new()];
        let subject = Subject::of(flow);
        let fate = Fate::of(&subject, &*started(self.nic, self.policy));
        for table in 0..self.nic.tables.len() {
            let World { map, state } = &world;
            let at = Situation { nic: self.nic, map, state, stale: &Default::default() };
            let Ok(proposal) = oracle::propose(&at, index, table, fate) else { continue };
            let mut then = self.world(decided);
            let index = then.map.add_flow(flow.clone(), &mut Journal::default());
            let Some(settled) = then.settle_all(self.nic, index, proposal.rules) else { continue };
            if fate == Fate::Dropped {
                all.push(settled);
                continue;
            }
            for queue in proposal.queues.lo..=proposal.queues.hi {
                let target = Target::Queue(queue);
                let at = |rule: &NewEntry| NewEntry { target, ..rule.clone() };
                all.push(settled.iter().map(at).collect());
            }
        }
        all
    }

    /// Everything from nothing.
    fn world(&self, decided: &Decided<'_>) -> World {
        let map = FlowMap::new(self.nic, &self.rss);
        let mut world = World { map, state: State::new(self.nic) };
        let mut journal = Journal::default();
        for (flow, rules) in decided {
            let index = world.map.add_flow((*flow).clone(), &mut journal);
            rules.iter().for_each(|r| world.insert(self.nic, index, r.clone()));
        }
        world
    }

    fn cost(&self, decided: &Decided<'_>) -> Cost {
        let World { map, .. } = self.world(decided);
        let mut policy = started(self.nic, self.policy);
        for (_, member) in map.flows.iter() {
            policy.apply(&Subject::of(&member.flow), &member.placement, Change::Comes);
        }
        for queue in map.other_queues() {
            policy.apply(&Subject::OTHER, &Placement::One(queue), Change::Comes);
        }
        policy.cost()
    }
}

impl World {
    fn insert(&mut self, nic: &Nic, flow: u32, rule: NewEntry) {
        let id = self.map.insert_entry(rule, flow, &mut Journal::default());
        self.state.inserted(nic, id, &self.map.entries[id].rule);
    }

    /// Inserts rules and returns them with their places; nothing if one finds none.
    fn settle_all(&mut self, nic: &Nic, flow: u32, rules: Vec<NewEntry>) -> Option<Vec<NewEntry>> {
        let mut settled = Vec::new();
        for mut rule in rules {
            oracle::settle(nic, &mut self.map, &self.state, flow, &mut rule).ok()?;
            settled.push(rule.clone());
            self.insert(nic, flow, rule);
        }
        Some(settled)
    }
}

fn started(nic: &Nic, policy: &dyn Fn() -> Box<dyn Policy>) -> Box<dyn Policy> {
    let mut policy = policy();
    let queues: QueueSet = (nic.queues.lo..=nic.queues.hi).collect();
    policy.start(&queues, nic.default_queue);
    policy
}
