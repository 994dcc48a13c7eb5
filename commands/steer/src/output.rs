//! The command's standard output: lines for people, or with `--json` one object a line.
//!
//! Every object has the name of its `event` and the `lines` that people see; some have fields of their own.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use weever_device::state::DeviceState;
use weever_plan::map::Placement;
use weever_plan::search::Plan;
use weever_plan::watch::FiveTuple;
use weever_policy::policy::CheckedPolicy;
use weever_steward::{Applied, Step};

use crate::verify::{Sheet, Verdict};

/// More flows are not shown one by one to people.
const MAX_FLOWS: usize = 40;

/// The version of the kernel.
const KERNEL: &str = "/proc/sys/kernel/osrelease";

/// The form of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json }
    }

    /// An event with lines only; none without lines.
    pub(crate) fn lines(self, event: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.event(event, lines, Map::new);
        }
    }

    /// The plan: where flows arrive, and which have no place of their own.
    pub(crate) fn plan(self, plan: &Plan, policy: &CheckedPolicy, cpus: Option<&[u32]>) {
        let lines = describe(plan, policy, cpus);
        self.event("plan", &lines, || plan_fields(plan, policy, cpus));
    }

    /// Changes that were made to the device, and the filters that it refused.
    pub(crate) fn applied(self, applied: &Applied, complaints: &[String]) {
        if applied.is_empty() {
            return;
        }
        let mut lines = applied.lines.clone();
        let refused = applied.refused.iter();
        lines.extend(refused.map(|why| format!("note: planned without a filter: {why}")));
        if !complaints.is_empty() {
            lines.push("note: without them the policy cannot be satisfied:".into());
            lines.extend(complaints.iter().map(|complaint| format!("  {complaint}")));
        }
        self.event("applied", &lines, || {
            fields(json!({ "refused": applied.refused, "unsatisfied": complaints }))
        });
    }

    /// Flows that came and went.
    pub(crate) fn flows(self, step: &Step) {
        let mut lines = Vec::new();
        if !step.came.is_empty() || step.gone > 0 {
            lines.push(format!("flows: {} came, {} went", step.came.len(), step.gone));
        }
        if !step.unplaced.is_empty() {
            let count = step.unplaced.len();
            lines.push(format!(
                "flows: the policy has no place for {count} more; other traffic's queues get them"
            ));
        }
        if !lines.is_empty() {
            let all = |tuples: &[FiveTuple]| tuples.iter().map(tuple).collect::<Vec<_>>();
            self.event("flows", &lines, || {
                let (came, unplaced) = (all(&step.came), all(&step.unplaced));
                fields(json!({ "came": came, "gone": step.gone, "unplaced": unplaced }))
            });
        }
    }

    /// What a device has.
    pub(crate) fn state(self, state: &DeviceState, model: &str) {
        let mut lines = state.lines();
        lines.insert(1, format!("  model: {model}"));
        self.event("state", &lines, || {
            let mut all = fields(serde_json::to_value(state).unwrap_or_default());
            all.insert("model".into(), model.into());
            all
        });
    }

    /// Where probes arrived.
    pub(crate) fn sheet(self, sheet: &Sheet, model: &str, driver: &str) {
        let kernel = std::fs::read_to_string(KERNEL).unwrap_or_default();
        let mut lines = vec![format!("model {model}, driver {driver}, Linux {}", kernel.trim())];
        lines.extend(sheet.lines());
        self.event("sheet", &lines, || {
            fields(json!({
                "model": model, "driver": driver, "kernel": kernel.trim(),
                "passed": sheet.has_passed(), "ended_early": sheet.ended_early,
                "pass": sheet.total(Verdict::Pass), "fail": sheet.total(Verdict::Fail),
                "not_told": sheet.total(Verdict::NotTold),
                "left_out": sheet.left_out, "probes": sheet.value(),
                "switches": sheet.switches(),
            }))
        });
    }

    /// The files were read again.
    pub(crate) fn reloaded(self, flows: usize, filters: usize) {
        let line = format!("read again: flows {flows}, filters {filters}");
        self.event("reloaded", &[line], || fields(json!({ "flows": flows, "filters": filters })));
    }

    /// A closed standard output is no failure.
    fn event(self, event: &str, lines: &[String], more: impl FnOnce() -> Map<String, Value>) {
        let mut out = io::stdout().lock();
        if self.json {
            let mut object = more();
            object.insert("event".into(), event.into());
            object.insert("lines".into(), lines.into());
            drop(writeln!(out, "{}", Value::Object(object)));
        } else {
            lines.iter().for_each(|line| drop(writeln!(out, "{line}")));
        }
        drop(out.flush());
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn tuple(tuple: &FiveTuple) -> Value {
    let (src, dst) = (tuple.src.to_string(), tuple.dst.to_string());
    json!({ "protocol": tuple.protocol, "src": src, "dst": dst })
}

fn plan_fields(plan: &Plan, policy: &CheckedPolicy, cpus: Option<&[u32]>) -> Map<String, Value> {
    let flow = |flow: &weever_plan::search::PlannedFlow| {
        let queues: Vec<u32> = flow.placement.shares().map(|(queue, _)| queue).collect();
        json!({
            "name": flow.name,
            "class": policy.document.class_name(flow.class),
            "queues": queues,
            "dropped": flow.placement.dropped() > 0,
        })
    };
    let shortage = |shortage: &weever_plan::search::Shortage| {
        json!({
            "flows": shortage.flows,
            "class": policy.document.class_name(shortage.class),
            "table": shortage.table,
            "reason": shortage.reason.to_string(),
        })
    };
    let queue = |queue: &weever_plan::search::PlannedQueue| {
        let cpu = cpu_of(queue.queue, cpus);
        json!({ "queue": queue.queue, "cpu": cpu, "other": queue.other })
    };
    fields(json!({
        "nic": plan.nic,
        "acceptable": plan.is_acceptable(),
        "cost": plan.cost.value,
        "filters": plan.rules.len(),
        "queues": plan.queues.iter().map(queue).collect::<Vec<_>>(),
        "flows": plan.flows.iter().map(flow).collect::<Vec<_>>(),
        "shortages": plan.shortages.iter().map(shortage).collect::<Vec<_>>(),
    }))
}

fn describe(plan: &Plan, policy: &CheckedPolicy, cpus: Option<&[u32]>) -> Vec<String> {
    let head = format!(
        "{}: queues {}, flows {}, filters {}, cost {}",
        plan.nic,
        plan.queues.len(),
        plan.flows.len(),
        plan.rules.len(),
        plan.cost
    );
    let mut lines = vec![head];
    for flow in plan.flows.iter().take(MAX_FLOWS) {
        let class = policy.document.class_name(flow.class);
        let at = match &flow.placement {
            Placement::One(at) => shown(*at, cpus),
            placement if !placement.arrives() => "dropped".into(),
            Placement::Spread(spread) => {
                let all = spread.shares.iter().map(|(at, _)| at.to_string());
                format!("spread over queues {}", all.collect::<Vec<_>>().join(" "))
            }
        };
        lines.push(format!("  {} (class {class}): {at}", flow.name));
    }
    if plan.flows.len() > MAX_FLOWS {
        lines.push(format!("  and {} more", plan.flows.len() - MAX_FLOWS));
    }
    for shortage in &plan.shortages {
        let (count, table, reason) = (shortage.flows, &shortage.table, &shortage.reason);
        let flows = if count == 1 { "flow" } else { "flows" };
        lines.push(format!("  no filter for {count} {flows}: {table}: {reason}"));
    }
    let other: Vec<String> =
        plan.queues.iter().filter(|q| q.other).map(|q| q.queue.to_string()).collect();
    lines.push(format!("  all other traffic: queues {}", other.join(" ")));
    lines
}

/// A queue, with its CPU if it is one.
fn shown(queue: u32, cpus: Option<&[u32]>) -> String {
    match cpu_of(queue, cpus) {
        Some(cpu) => format!("queue {queue}, CPU {cpu}"),
        None => format!("queue {queue}"),
    }
}

fn cpu_of(queue: u32, cpus: Option<&[u32]>) -> Option<u32> {
    cpus.and_then(|cpus| cpus.get(queue as usize % cpus.len().max(1)).copied())
}
