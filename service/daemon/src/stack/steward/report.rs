//! What stewards do, as control messages.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use weever_graph::Predicate;
use weever_plan::config::Rule;
use weever_plan::search::{FlowId, Plan, PlannedFlow, PlannedQueue, PlannedRule, RuleId};
use weever_service_api::{ClassShare, FilterStatus, FlowStatus, Flows, QueueStatus};
use weever_unicorn::predicate::Shown;

use super::Steward;
use super::work::Origin;

/// A plan with what was counted.
struct Present {
    plan: Plan,
    /// Nothing if nobody counts them.
    hits: Option<HashMap<RuleId, u64>>,
    /// The flows whose packets are counted without filters.
    seen: HashSet<FlowId>,
}

impl Present {
    fn hits(&self, rule: RuleId) -> Option<u64> {
        Some(self.hits.as_ref()?.get(&rule).copied().unwrap_or_default())
    }

    /// What was counted of a flow, if anybody could.
    fn of(&self, flow: FlowId, count: u64) -> Option<u64> {
        (self.hits.is_some() || self.seen.contains(&flow)).then_some(count)
    }
}

impl Steward {
    /// Takes time in proportion to flows and filters.
    fn present(&mut self) -> Present {
        let hits = self.means.hits().map(|hits| hits.into_iter().collect());
        let seen = match self.means.samples() {
            true => self.tuples.values().copied().collect(),
            false => HashSet::new(),
        };
        Present { plan: self.search.plan(), hits, seen }
    }

    /// Adds its flows, at most `most` of them.
    pub(in super::super) fn add_flows(&mut self, to: &mut Flows, most: usize) {
        let present = self.present();
        let mut flows: Vec<FlowStatus> =
            present.plan.flows.iter().map(|flow| self.flow(&present, flow)).collect();
        flows.sort_by_key(|flow| Reverse((flow.rate, flow.packets)));
        to.total += flows.len() as u64;
        flows.truncate(most.saturating_sub(to.flows.len()));
        to.flows.extend(flows);
        to.unplaced += self.unplaced;
        to.refused += self.watch.refused();
        to.searches += self.searches;
        to.slowest_ns = to.slowest_ns.max(self.slowest);
    }

    fn flow(&self, present: &Present, flow: &PlannedFlow) -> FlowStatus {
        let rules = || flow.rules.iter().filter_map(|at| present.plan.rules.get(*at));
        let member = self.members.get(&flow.id);
        let steered = rules().filter_map(|planned| present.hits(planned.id)).sum();
        let packets = member.map_or(0, |member| member.packets).max(steered);
        let rate = member.map_or(0, |member| member.rate);
        FlowStatus {
            link: self.link.clone(),
            name: flow.name.clone(),
            class: self.page.document.class_name(flow.class).to_owned(),
            origin: match member.map(|member| member.origin) {
                Some(Origin::Traffic(_)) => "traffic".into(),
                Some(Origin::Service(..)) => "service".into(),
                Some(Origin::File) => "file".into(),
                None => "policy".into(),
            },
            queues: flow.placement.shares().map(|(queue, _)| queue).collect(),
            filters: rules().map(|planned| self.text(planned)).collect(),
            packets: present.of(flow.id, packets),
            rate: present.of(flow.id, rate),
        }
    }

    fn text(&self, planned: &PlannedRule) -> String {
        let model = &self.search.nic().tables[planned.table].model;
        let Rule { flow_type, keys, .. } = &planned.rule;
        let mut parts: Vec<String> = flow_type.iter().map(|t| t.name().to_string()).collect();
        for (m, key) in model.matches.iter().zip(keys).filter(|(_, key)| key.mask != 0) {
            let test = Predicate::Match { field: m.field, mask: key.mask, value: key.value };
            parts.push(Shown(&test).to_string());
        }
        if parts.is_empty() { "everything".into() } else { parts.join(", ") }
    }

    /// Says in the rows of its link which classes and filters lead to each, with at most `most`
    /// filters.
    pub(in super::super) fn describe(&mut self, rows: &mut [QueueStatus], most: usize) {
        let present = self.present();
        let names: HashMap<_, &str> =
            present.plan.flows.iter().map(|flow| (flow.id, flow.name.as_str())).collect();
        for row in rows.iter_mut().filter(|row| row.link == self.link) {
            let planned = present.plan.queues.iter().find(|planned| planned.queue == row.queue);
            let Some(planned) = planned else { continue };
            row.other = planned.other;
            row.classes = self.classes(planned);
            let here = present.plan.rules.iter();
            let here = here.filter(|r| present.plan.reached_by(&r.rule).contains(&row.queue));
            let mut filters: Vec<FilterStatus> = here
                .map(|rule| FilterStatus {
                    filter: self.text(rule),
                    flow: rule.flow.and_then(|id| names.get(&id)).map(ToString::to_string),
                    hits: present.hits(rule.id),
                })
                .collect();
            filters.sort_by_key(|filter| Reverse(filter.hits));
            row.filters_total = filters.len() as u64;
            filters.truncate(most);
            row.filters = filters;
        }
    }

    /// Why the device is not as the policy wants it.
    pub(in super::super) fn problem(&self) -> Option<String> {
        self.means.problem().map(|said| format!("{}: {said}", self.link))
    }

    fn classes(&self, planned: &PlannedQueue) -> Vec<ClassShare> {
        let share = |(class, flows): &(_, usize)| ClassShare {
            name: self.page.document.class_name(*class).to_owned(),
            flows: *flows as u64,
        };
        planned.classes.iter().map(share).collect()
    }
}
