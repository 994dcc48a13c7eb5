//! A plan for programs.

use serde_json::{Value, json};
use weever_plan::config::Target;
use weever_plan::map::{Placement, WHOLE};
use weever_plan::search::{Alternative, PlannedRule};

use super::Result;
use crate::plan::{class_name, explanation_of};

/// The plan as one JSON object, indented.
pub(crate) fn json(result: &Result<'_>) -> String {
    let plan = result.plan;
    let nic = &result.model.nic;
    let queue = |q: &weever_plan::search::PlannedQueue| {
        let classes = q.classes.iter().map(
            |(class, flows)| json!({ "class": class_name(result.page, *class), "flows": flows }),
        );
        json!({
            "queue": q.queue,
            "flows": q.flows,
            "other": q.other,
            "classes": classes.collect::<Vec<_>>(),
        })
    };
    let shortage = |s: &weever_plan::search::Shortage| {
        json!({
            "class": class_name(result.page, s.class),
            "table": s.table,
            "reason": s.reason.to_string(),
            "flows": s.flows,
        })
    };
    let mut value = json!({
        "nic": nic.name,
        "view": if result.model.silicon.is_some() { "linux" } else { "silicon" },
        "acceptable": plan.is_acceptable(),
        "cost": plan.cost.value,
        "violations": plan.cost.rejected,
        "complaints": plan.complaints,
        "exhausted": plan.exhausted.map(|e| json!({ "steps": e.steps, "skipped": e.skipped })),
        "shortages": plan.shortages.iter().map(shortage).collect::<Vec<_>>(),
        "queues": plan.queues.iter().map(queue).collect::<Vec<_>>(),
        "rss": { "table": plan.rss.table, "contexts": plan.contexts },
        "filters": plan.rules.iter().map(|r| filter(result, r)).collect::<Vec<_>>(),
        "flows": (0..plan.flows.len()).map(|i| flow(result, i)).collect::<Vec<_>>(),
    });
    if !result.embedded.is_empty() {
        value["graphs"] = super::graphs::values(&result.embedded);
    }
    if let Some(work) = &result.work {
        value["work"] = work.value();
    }
    format!("{value:#}\n")
}

fn filter(result: &Result<'_>, planned: &PlannedRule) -> Value {
    let model = &result.model.nic.tables[planned.table].model;
    let keys = model.matches.iter().zip(&planned.rule.keys).filter(|(_, k)| k.mask != 0);
    let key = |(m, k): (&weever_graph::nic::FieldMatch, &weever_graph::Key)| {
        // JSON readers do not expect 128-bit numbers.
        json!({
            "field": weever_unicorn::predicate::field_name(m.field),
            "value": format!("{:#x}", k.value),
            "mask": format!("{:#x}", k.mask),
        })
    };
    json!({
        "table": planned.table_name,
        "type": planned.rule.flow_type.map(|t| t.name()),
        "match": keys.map(key).collect::<Vec<_>>(),
        "queue": queue(planned.rule.target),
        "queues": result.plan.reached_by(&planned.rule),
        "action": action(planned.rule.target),
        "priority": planned.rule.priority,
        "location": planned.rule.location,
    })
}

fn queue(target: Target) -> Option<u32> {
    match target {
        Target::Queue(queue) => Some(queue),
        Target::Context(_) | Target::Drop => None,
    }
}

fn action(target: Target) -> &'static str {
    match target {
        Target::Queue(_) => "queue",
        Target::Context(_) => "context",
        Target::Drop => "drop",
    }
}

fn flow(result: &Result<'_>, at: usize) -> Value {
    let flow = &result.plan.flows[at];
    let refused = flow
        .refused
        .iter()
        .map(|(table, reason)| json!({ "table": table, "reason": reason.to_string() }));
    let mut value = json!({
        "name": flow.name,
        "class": class_name(result.page, flow.class),
        "queues": placement(&flow.placement),
        "dropped": share_of(flow.placement.dropped()),
        "certain": flow.placement.is_certain(),
        "filters": flow.rules,
        "refused": refused.collect::<Vec<_>>(),
    });
    if let Some(explanation) = explanation_of(&result.explanations, result.plan, at) {
        value["chosen"] = alternative(&explanation.chosen);
        value["runner_up"] = explanation.runner_up.as_ref().map_or(Value::Null, alternative);
        value["why"] = explanation.why.clone().into();
    }
    value
}

fn alternative(alternative: &Alternative) -> Value {
    json!({
        "table": alternative.table,
        "queues": placement(&alternative.placement),
        "cost": alternative.cost.value,
        "violations": alternative.cost.rejected,
        "objection": alternative.objection,
    })
}

/// Queues with the share of the flow's packets that each gets.
fn placement(placement: &Placement) -> Value {
    let share = |(queue, share): (u32, u32)| json!({ "queue": queue, "share": share_of(share) });
    placement.shares().map(share).collect()
}

fn share_of(share: u32) -> f64 {
    f64::from(share) / f64::from(WHOLE)
}
