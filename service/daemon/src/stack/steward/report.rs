//! The stewards' state, as control messages.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use weever_graph::Predicate;
use weever_plan::config::Rule;
use weever_plan::map::WHOLE;
use weever_plan::search::{FlowId, Plan, PlannedFlow, PlannedQueue, PlannedRule, RuleId};
use weever_service_api::{ClassShare, FilterStatus, FlowStatus, Flows, QueueStatus};
use weever_steward::{Origin, Steward};
use weever_unicorn::predicate::PredicateText;

/// A plan with its counters.
struct PlanReport<'s> {
    steward: &'s Steward,
    plan: Plan,
    /// `None` if the device does not count hits.
    hits: Option<HashMap<RuleId, u64>>,
    /// The flows whose packets are counted without filters.
    counted: HashSet<FlowId>,
}

/// Adds the flows of a steward, at most `most` in all. Takes time in proportion to flows and filters.
pub(in crate::stack) fn add_flows(steward: &mut Steward, to: &mut Flows, most: usize) {
    let report = PlanReport::new(steward);
    let mut flows: Vec<FlowStatus> =
        report.plan.flows.iter().map(|flow| report.flow(flow)).collect();
    flows.sort_by_key(|flow| Reverse((flow.rate, flow.packets)));
    to.total += flows.len() as u64;
    flows.truncate(most.saturating_sub(to.flows.len()));
    to.flows.extend(flows);
    let stats = steward.stats();
    to.unplaced += stats.unplaced;
    to.refused += stats.refused;
    to.searches += stats.searches;
    let slowest = u64::try_from(stats.slowest.as_nanos()).unwrap_or(u64::MAX);
    to.slowest_ns = to.slowest_ns.max(slowest);
}

/// Says in the rows of the steward's link which classes and filters lead to each queue, with at most
/// `most` filters.
pub(in crate::stack) fn describe(steward: &mut Steward, rows: &mut [QueueStatus], most: usize) {
    let report = PlanReport::new(steward);
    let plan = &report.plan;
    let names: HashMap<_, &str> =
        plan.flows.iter().map(|flow| (flow.id, flow.name.as_str())).collect();
    for row in rows.iter_mut().filter(|row| row.link == report.steward.name()) {
        let planned = plan.queues.iter().find(|planned| planned.queue == row.queue);
        let Some(planned) = planned else { continue };
        row.other = planned.other;
        row.classes = report.classes(planned);
        row.registered_rate = report.registered_rates(row.queue);
        row.applications = report.applications(row.queue);
        let here = plan.rules.iter().filter(|r| plan.reached_by(&r.rule).contains(&row.queue));
        let mut filters: Vec<FilterStatus> = here
            .map(|rule| FilterStatus {
                filter: report.text(rule),
                flow: rule.flow.and_then(|id| names.get(&id)).map(ToString::to_string),
                hits: report.hits(rule.id),
            })
            .collect();
        filters.sort_by_key(|filter| Reverse(filter.hits));
        row.filters_total = filters.len() as u64;
        filters.truncate(most);
        row.filters = filters;
    }
}

/// The reason why the device is not as the policy wants it.
pub(in crate::stack) fn problem(steward: &Steward) -> Option<String> {
    steward.problem().map(|problem| format!("{}: {problem}", steward.name()))
}

impl<'s> PlanReport<'s> {
    fn new(steward: &'s mut Steward) -> PlanReport<'s> {
        let plan = steward.plan();
        let (hits, counted) = (steward.hits(), steward.counted_flows().into_iter().collect());
        PlanReport { steward, plan, hits, counted }
    }

    fn hits(&self, rule: RuleId) -> Option<u64> {
        Some(self.hits.as_ref()?.get(&rule).copied().unwrap_or_default())
    }

    fn flow(&self, flow: &PlannedFlow) -> FlowStatus {
        let rules = || flow.rules.iter().filter_map(|at| self.plan.rules.get(*at));
        let count = self.steward.flow(flow.id);
        let steered = rules().filter_map(|planned| self.hits(planned.id)).sum();
        let packets = count.map_or(0, |count| count.packets).max(steered);
        let rate = count.map_or(0, |count| count.rate);
        let is_counted = self.hits.is_some() || self.counted.contains(&flow.id);
        FlowStatus {
            link: self.steward.name().to_owned(),
            name: flow.name.clone(),
            class: self.class_name(flow.class),
            origin: match count.map(|count| count.origin) {
                Some(Origin::Traffic(_)) => "traffic".into(),
                Some(Origin::Service(..)) => "service".into(),
                Some(Origin::Application { .. }) => "application".into(),
                Some(Origin::File) => "file".into(),
                None => "policy".into(),
            },
            queues: flow.placement.shares().map(|(queue, _)| queue).collect(),
            filters: rules().map(|planned| self.text(planned)).collect(),
            packets: is_counted.then_some(packets),
            rate: is_counted.then_some(rate),
            registered_rate: self.registered_rate(flow),
        }
    }

    /// The rate that a flow was registered with. That of traffic is measured.
    fn registered_rate(&self, flow: &PlannedFlow) -> Option<u64> {
        let origin = self.steward.flow(flow.id).map(|count| count.origin);
        flow.rate.filter(|_| !matches!(origin, None | Some(Origin::Traffic(_))))
    }

    /// The rates with which flows of a queue were registered; of a flow that is spread, its part.
    fn registered_rates(&self, queue: u32) -> Option<u64> {
        let part = |flow: &PlannedFlow| {
            let share = flow.placement.shares().find(|(at, _)| *at == queue)?.1;
            Some(u128::from(self.registered_rate(flow)?) * u128::from(share))
        };
        let parts: Vec<u128> = self.plan.flows.iter().filter_map(part).collect();
        let sum = parts.iter().sum::<u128>() / u128::from(WHOLE);
        (!parts.is_empty()).then(|| u64::try_from(sum).unwrap_or(u64::MAX))
    }

    fn text(&self, planned: &PlannedRule) -> String {
        let model = &self.steward.search().nic().tables[planned.table].model;
        let Rule { flow_type, keys, .. } = &planned.rule;
        let mut parts: Vec<String> = flow_type.iter().map(|t| t.name().to_string()).collect();
        for (m, key) in model.matches.iter().zip(keys).filter(|(_, key)| key.mask != 0) {
            let test = Predicate::Match { field: m.field, mask: key.mask, value: key.value };
            parts.push(PredicateText(&test).to_string());
        }
        if parts.is_empty() { "everything".into() } else { parts.join(", ") }
    }

    fn classes(&self, planned: &PlannedQueue) -> Vec<ClassShare> {
        let share = |(class, flows): &(_, usize)| ClassShare {
            name: self.class_name(*class),
            flows: *flows as u64,
        };
        planned.classes.iter().map(share).collect()
    }

    /// The names of the applications whose sockets' packets arrive at a queue.
    fn applications(&self, queue: u32) -> Vec<String> {
        let is_socket = |flow: &&PlannedFlow| {
            let origin = self.steward.flow(flow.id).map(|count| count.origin);
            matches!(origin, Some(Origin::Application { .. })) && flow.placement.reaches(queue)
        };
        let apps = self.plan.flows.iter().filter(is_socket).filter_map(|flow| flow.app);
        let names = &self.steward.policy().apps;
        let named = apps.filter_map(|app| names.get(app.0 as usize).cloned());
        named.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn class_name(&self, class: weever_plan::flow::ClassId) -> String {
        self.steward.policy().document.class_name(class).to_owned()
    }
}
