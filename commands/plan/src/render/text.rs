//! A plan for people: queues, filters, flows that no table took.

use std::fmt::Write;

use weever_graph::nic::TableModel;
use weever_plan::config::{Rule, Target};
use weever_plan::map::Placement;
use weever_plan::policy::QueueSet;
use weever_plan::search::{Alternative, Explanation, PlannedFlow};

use super::{Result, columns, count};
use crate::plan::{class_name, explanation_of};

/// More flows than this without a rule are counted only.
const MAX_UNPLACED: usize = 50;
/// More rules are counted only.
const MAX_RULES: usize = 200;

/// The plan as text.
pub(crate) fn text(result: &Result<'_>) -> String {
    let mut out = head(result);
    out.push_str(&queues(result));
    out.push_str(&filters(result));
    if !result.embedded.is_empty() {
        out.push_str(&super::graphs::lines(&result.embedded));
    }
    if let Some(work) = &result.work {
        out.push_str(&work.lines(&result.model.nic.name));
    }
    out.push_str(&unplaced(result));
    out.push_str(&explained(result));
    out.push_str(&exhausted(result));
    out.push_str(&verdict(result));
    out
}

/// A plan that ran out of budget says so.
fn exhausted(result: &Result<'_>) -> String {
    let Some(exhausted) = result.plan.exhausted else { return String::new() };
    let skipped = match exhausted.skipped {
        0 => String::new(),
        n => format!("; no filter was tried for {}", count(n, "flow")),
    };
    let steps = exhausted.steps;
    format!(
        "\nthis is the best plan found in {steps} steps{skipped}. The flows overlap too much to try \
         all: fewer masks or ranges, or priorities of classes, help\n"
    )
}

fn head(result: &Result<'_>) -> String {
    let nic = &result.model.nic;
    let view = match result.model.silicon {
        Some(_) => "as Linux exposes it",
        None => "all that it can do",
    };
    let (flows, rules) = (result.plan.flows.len(), result.plan.rules.len());
    let cost = result.plan.cost;
    format!(
        "{} ({view}), {}: {}, {}, cost {cost}\n",
        nic.name,
        count(nic.queues.count() as usize, "queue"),
        count(flows, "flow"),
        count(rules, "filter"),
    )
}

fn queues(result: &Result<'_>) -> String {
    let row = |q: &weever_plan::search::PlannedQueue| {
        let classes =
            q.classes.iter().map(|(class, n)| format!("{} {n}", class_name(result.page, *class)));
        let mut classes: Vec<String> = classes.collect();
        if q.other {
            classes.push("other".into());
        }
        vec![
            q.queue.to_string(),
            format!("{:.2}", q.flows),
            load(result, q.queue),
            classes.join(", "),
        ]
    };
    let used = result.plan.queues.iter().filter(|q| q.other || !q.classes.is_empty());
    let rows: Vec<Vec<String>> = used.map(row).collect();
    let idle = result.plan.queues.len() - rows.len();
    let mut out = format!("\n{}", columns(&["queue", "flows", "load", "classes"], &rows));
    if idle > 0 {
        let _ = writeln!(out, "nothing arrives at {}", count(idle, "queue"));
    }
    out
}

/// The load of the flows with known rates on a queue; nothing if none is known.
fn load(result: &Result<'_>, queue: u32) -> String {
    let part = |(flow, spec): (&PlannedFlow, &weever_plan::flow::Flow)| {
        let rate = spec.rate? as f64;
        let share = flow.placement.shares().find(|(q, _)| *q == queue)?.1;
        Some(rate * f64::from(share) / f64::from(weever_plan::map::WHOLE))
    };
    let parts: Vec<f64> = result.plan.flows.iter().zip(result.flows).filter_map(part).collect();
    if parts.is_empty() { "-".into() } else { format!("{:.0}", parts.iter().sum::<f64>()) }
}

fn filters(result: &Result<'_>) -> String {
    if result.plan.rules.is_empty() {
        return String::new();
    }
    let tables = &result.model.nic.tables;
    let row = |planned: &weever_plan::search::PlannedRule| {
        let flow = planned.flow.and_then(|id| result.plan.flows.iter().find(|f| f.id == id));
        vec![
            planned.table_name.clone(),
            rule(&tables[planned.table].model, &planned.rule),
            target(result, &planned.rule),
            flow.map_or_else(String::new, |f| f.name.clone()),
        ]
    };
    let rows: Vec<Vec<String>> = result.plan.rules.iter().take(MAX_RULES).map(row).collect();
    let mut out = format!("\n{}", columns(&["table", "filter", "queue", "for"], &rows));
    let more = result.plan.rules.len().saturating_sub(MAX_RULES);
    if more > 0 {
        let _ = writeln!(out, "{more} more filters; `--format json` shows all");
    }
    out
}

/// Where a rule sends its packets.
fn target(result: &Result<'_>, rule: &Rule) -> String {
    match rule.target {
        Target::Queue(queue) => queue.to_string(),
        Target::Context(_) => set(&result.plan.reached_by(rule)),
        Target::Drop => "drop".into(),
    }
}

/// `1-3,7`.
fn set(queues: &[u32]) -> String {
    queues.iter().copied().collect::<QueueSet>().to_string()
}

/// The match of a rule.
pub(super) fn rule(model: &TableModel, rule: &Rule) -> String {
    let mut parts: Vec<String> = rule.flow_type.iter().map(|t| t.name().to_string()).collect();
    for (m, key) in model.matches.iter().zip(&rule.keys).filter(|(_, k)| k.mask != 0) {
        let test =
            weever_graph::Predicate::Match { field: m.field, mask: key.mask, value: key.value };
        parts.push(weever_unicorn::predicate::PredicateText(&test).to_string());
    }
    if parts.is_empty() { "everything".into() } else { parts.join(", ") }
}

fn unplaced(result: &Result<'_>) -> String {
    let refused: Vec<&PlannedFlow> =
        result.plan.flows.iter().filter(|f| !f.refused.is_empty()).collect();
    if refused.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n{} would be better elsewhere, but no table takes them:\n",
        count(refused.len(), "flow")
    );
    for flow in refused.iter().take(MAX_UNPLACED) {
        let _ = writeln!(out, "  {} (arrives at {})", flow.name, places(&flow.placement));
        for (table, reason) in &flow.refused {
            let _ = writeln!(out, "    {table}: {reason}");
        }
    }
    let more = refused.len().saturating_sub(MAX_UNPLACED);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more");
    }
    out
}

/// The queues of a placement.
pub(super) fn places(placement: &Placement) -> String {
    match placement {
        Placement::One(queue) => format!("queue {queue}"),
        Placement::Spread(spread) => {
            let queues: Vec<String> = spread.shares.iter().map(|(q, _)| q.to_string()).collect();
            let arrives = match (queues.is_empty(), spread.certain) {
                (true, _) => return "dropped".into(),
                (_, true) => format!("queues {}", queues.join(" ")),
                (_, false) => format!("one of queues {}", queues.join(" ")),
            };
            match spread.dropped {
                0 => arrives,
                _ => format!("{arrives}, and some packets dropped"),
            }
        }
    }
}

fn explained(result: &Result<'_>) -> String {
    if result.explanations.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nwhy each flow is where it is:\n");
    for (i, flow) in result.plan.flows.iter().enumerate() {
        if let Some(explanation) = explanation_of(&result.explanations, result.plan, i) {
            explain(&mut out, result, flow, explanation);
        }
    }
    out
}

fn explain(out: &mut String, result: &Result<'_>, flow: &PlannedFlow, explanation: &Explanation) {
    let class = class_name(result.page, flow.class);
    let _ = writeln!(out, "  {} (class {class})", flow.name);
    let _ = writeln!(out, "    {}", alternative(&explanation.chosen));
    for planned in flow.rules.iter().filter_map(|at| result.plan.rules.get(*at)) {
        let model = &result.model.nic.tables[planned.table].model;
        let _ = writeln!(out, "    filter: {} {}", planned.table_name, rule(model, &planned.rule));
    }
    match &explanation.runner_up {
        Some(other) => {
            let _ = writeln!(out, "    runner-up: {}; {}", alternative(other), explanation.why);
        }
        None => {
            let _ = writeln!(out, "    {}", explanation.why);
        }
    }
    for (table, reason) in &explanation.refused {
        let _ = writeln!(out, "    not {table}: {reason}");
    }
}

fn alternative(alternative: &Alternative) -> String {
    let places = places(&alternative.placement);
    match &alternative.table {
        Some(table) => format!("{places} by {table}, cost {}", alternative.cost),
        None => format!("{places} by itself, cost {}", alternative.cost),
    }
}

/// Why the policy cannot be satisfied, if it cannot.
fn verdict(result: &Result<'_>) -> String {
    let plan = result.plan;
    if plan.is_acceptable() {
        return String::new();
    }
    let mut out = String::from("\nthe policy cannot be satisfied:\n");
    for complaint in &plan.complaints {
        let _ = writeln!(out, "  {complaint}");
    }
    for shortage in &plan.shortages {
        let class = class_name(result.page, shortage.class);
        let (n, table) = (count(shortage.flows, "flow"), &shortage.table);
        let _ = writeln!(out, "  {n} of class `{class}`: {table}: {}", shortage.reason);
    }
    if result.model.nic.tables.is_empty() {
        let nic = &result.model.nic.name;
        let _ = writeln!(out, "  {nic} has no filters {}", by_whom(result));
    }
    out
}

/// Why there are no filters.
fn by_whom(result: &Result<'_>) -> &'static str {
    match &result.model.silicon {
        Some(silicon) if !silicon.tables.is_empty() => "that Linux exposes",
        _ => "that could steer flows",
    }
}
