//! The search, with the flows of a file and those that traffic shows.

use std::collections::HashMap;
use std::fmt::Write;

use weever_commands_plan::{Model, load_flows, load_policy};
use weever_plan::flow::{Conj, Flow};
use weever_plan::map::Placement;
use weever_plan::search::{FlowId, Options, Search};
use weever_plan::watch::{Due, FiveTuple, Settings, Watch};
use weever_policy::Problems;
use weever_policy::flows::FlowList;
use weever_policy::policy::CheckedPolicy;

use crate::{SteerArgs, SteerError};

/// More flows are not shown one by one.
const SHOWN: usize = 40;
const SECOND: u64 = 1_000_000_000;

/// What is planned.
pub(crate) struct Planner {
    pub(crate) search: Search,
    page: CheckedPolicy,
    /// The flows of the file.
    registered: Vec<(FlowId, Flow)>,
    /// Flows that traffic showed.
    seen: HashMap<FiveTuple, FlowId>,
    watch: Watch,
    /// What is doubtful about the files, a line each.
    pub(crate) notes: Vec<String>,
}

impl Planner {
    /// Reads policy and flows, and plans.
    ///
    /// # Errors
    /// A file is wrong, or the policy cannot be satisfied.
    pub(crate) fn new(args: &SteerArgs, model: Model) -> Result<Planner, SteerError> {
        let mut page = load_policy(args.policy.as_deref())?;
        let list = match &args.flows {
            Some(path) => load_flows(path, args.keep_going)?,
            None => FlowList::default(),
        };
        let mut notes = Vec::new();
        note(&mut notes, "left out", &list.problems);
        note(&mut notes, "warning", &page.warnings);
        if page.document.paths.is_some() {
            notes.push("left out: `[paths]` is about weever's own graph, not the kernel's".into());
        }
        let (mut flows, problems) = page.classify(list.flows);
        note(&mut notes, "class of the packets used instead", &problems);
        let Model { nic, silicon, .. } = model;
        let options = Options { seed: args.seed, silicon, ..Options::default() };
        let mut search = Search::new(nic, page.cost_function(None), options);
        flows.extend(page.standing_flows());
        let ids = search.run(flows.clone());
        let registered = ids.into_iter().zip(flows).collect();
        let settings = Settings {
            most: args.most as usize,
            rate: args.rate,
            stale: args.stale.max(1).saturating_mul(SECOND),
            ..Settings::default()
        };
        let (watch, seen) = (Watch::new(settings), HashMap::new());
        let mut planner = Planner { search, page, registered, seen, watch, notes };
        planner.accept().map_err(SteerError::Unsatisfied)?;
        Ok(planner)
    }

    /// What keeps the policy from being satisfied now, a line each.
    fn accept(&mut self) -> Result<(), String> {
        if self.search.cost().is_acceptable() {
            return Ok(());
        }
        let plan = self.search.plan();
        let mut lines: Vec<String> = plan.complaints.iter().map(|c| format!("  {c}")).collect();
        for shortage in &plan.shortages {
            let (flows, class) =
                (counted(shortage.flows), self.page.document.class_name(shortage.class));
            let (table, reason) = (&shortage.table, &shortage.reason);
            lines.push(format!("  {flows} of class `{class}`: {table}: {reason}"));
        }
        if self.search.nic().tables.is_empty() {
            lines.push(format!("  {} has no filters that could steer flows", plan.nic));
        }
        Err(lines.join("\n"))
    }

    /// Traffic that was seen.
    pub(crate) fn saw(&mut self, now: u64, flow: FiveTuple, packets: u64) {
        self.watch.saw(now, flow, packets);
    }

    /// Takes in which flows came and went, if the last time is long enough ago. Says what happened, if
    /// something did.
    pub(crate) fn follow(&mut self, now: u64) -> Option<String> {
        let was_acceptable = self.search.cost().is_acceptable();
        self.watch.tick(now);
        let due = self.watch.due(now);
        let (came, gone) = self.take_in(due);
        if came + gone == 0 {
            return None;
        }
        let mut told = format!("flows: {came} came, {gone} went");
        if let Err(why) = self.accept()
            && was_acceptable
        {
            write!(told, "; the policy cannot be satisfied any more:\n{why}").expect("a string");
        }
        Some(told)
    }

    fn take_in(&mut self, due: Due) -> (usize, usize) {
        let (mut came, mut gone) = (0, 0);
        for tuple in due.gone {
            let known = self.seen.remove(&tuple);
            gone += usize::from(known.is_some_and(|id| self.search.remove(id).is_some()));
        }
        for (tuple, rate) in due.came {
            let Some(mut flow) = tuple.flow().filter(|flow| !self.is_registered(&flow.parts[0]))
            else {
                continue;
            };
            self.page.classifier.classify(&mut flow);
            flow.rate = Some(rate);
            self.seen.insert(tuple, self.search.add(flow));
            came += 1;
        }
        (came, gone)
    }

    /// Whether a flow of the file has all of these packets.
    fn is_registered(&self, packets: &Conj) -> bool {
        let has = |flow: &Flow| flow.parts.iter().any(|part| packets.implies(part));
        self.registered.iter().any(|(_, flow)| has(flow))
    }

    /// How many new flows there was no room for.
    pub(crate) fn refused(&self) -> u64 {
        self.watch.refused()
    }

    /// The plan for people: where flows arrive, and which did not get a place of their own.
    pub(crate) fn describe(&mut self, queue: impl Fn(u32) -> String) -> Vec<String> {
        let plan = self.search.plan();
        let head = format!(
            "{}: queues {}, flows {}, filters {}, cost {}",
            plan.nic,
            plan.queues.len(),
            plan.flows.len(),
            plan.rules.len(),
            plan.cost
        );
        let mut lines = vec![head];
        for flow in plan.flows.iter().take(SHOWN) {
            let class = self.page.document.class_name(flow.class);
            let at = match &flow.placement {
                Placement::One(at) => queue(*at),
                placement if !placement.arrives() => "dropped".into(),
                Placement::Spread(spread) => {
                    let all = spread.shares.iter().map(|(at, _)| at.to_string());
                    format!("spread over queues {}", all.collect::<Vec<_>>().join(" "))
                }
            };
            lines.push(format!("  {} (class {class}): {at}", flow.name));
        }
        if plan.flows.len() > SHOWN {
            lines.push(format!("  and {} more", plan.flows.len() - SHOWN));
        }
        for shortage in &plan.shortages {
            let flows = counted(shortage.flows);
            let (table, reason) = (&shortage.table, &shortage.reason);
            lines.push(format!("  no filter for {flows}: {table}: {reason}"));
        }
        let other: Vec<String> =
            plan.queues.iter().filter(|q| q.other).map(|q| q.queue.to_string()).collect();
        lines.push(format!("  all other traffic: queues {}", other.join(" ")));
        lines
    }
}

fn counted(flows: usize) -> String {
    format!("{flows} {}", if flows == 1 { "flow" } else { "flows" })
}

fn note(notes: &mut Vec<String>, what: &str, problems: &Problems) {
    if !problems.is_empty() {
        notes.extend(problems.to_string().lines().map(|line| format!("{what}: {line}")));
    }
}
