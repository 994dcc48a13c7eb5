//! A plan held against where frames arrive: a peer sends probes, the device's counters say where they went.
//!
//! [`frame`] makes frames of the plan's flows and neighbours of them, [`exchange`] has the peer send them, and
//! here each probe's arrival is compared with the plan.

mod exchange;
mod frame;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weever_plan::config::Configuration;
use weever_plan::flow::Conj;
use weever_plan::map::{Placement, place};
use weever_plan::nic::Nic;
use weever_steward::{Arrivals, Steward, Switch};

pub(crate) use exchange::{Peer, Prober, serve};
use frame::{FLOW, Frame, KINDS, SENDER};

use crate::SteerError;

/// The frames of a probe: many, so that other traffic is little beside them.
const FRAMES: u32 = 400;
/// A place that counts so many has got them. If it counts more, there is too much other traffic to tell.
const ENOUGH: RangeInclusive<u64> = 360..=440;
/// More flows are not probed.
const MAX_FLOWS: usize = 64;
/// The pause between two looks at the counters.
const PAUSE: Duration = Duration::from_millis(5);
/// Frames that come later than this behind others count for the next probe.
const QUIET: Duration = Duration::from_millis(30);

/// Where the frames of a probe arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// At a queue.
    Queue(u32),
    /// At one of the queues over which the plan spreads what no filter takes.
    Spread,
    /// A filter dropped them.
    Dropped,
    /// No counter rose by enough.
    Nowhere,
    /// Several counters rose by enough, or one by too much.
    Unclear,
}

/// Whether the plan is right about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail,
    /// The plan claims nothing, or it cannot be seen.
    NotTold,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotTold => "not told",
        }
    }
}

/// Where a plan says that the frames of a probe arrive.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// At one of these queues.
    queues: Vec<u32>,
    /// Whether they may be dropped.
    dropped: bool,
    /// Whether they go where they would go without filters.
    is_spread: bool,
}

/// One probe with its result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    frame: String,
    /// Nothing if the plan claims nothing.
    expected: Option<Expected>,
    arrived: Arrival,
    pub(crate) verdict: Verdict,
}

/// The results of all probes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) rows: Vec<Row>,
    /// Whether a signal came before all were done.
    pub(crate) ended_early: bool,
    /// The switches that the plan relies on, as they were behind the last probe.
    pub(crate) switches: Vec<Switch>,
    /// Flows without probes: they are not of IP, or there are too many.
    pub(crate) left_out: usize,
}

/// Has probes of all flows sent to `station`, the device's, and compares. `patience` is how long the counters are waited for;
/// `ends` says whether to end before all are done.
pub(crate) fn verify(
    steward: &mut Steward,
    flows: &[Conj],
    prober: &mut dyn Prober,
    station: [u8; 6],
    patience: Duration,
    ends: &dyn Fn() -> bool,
) -> Result<Sheet, SteerError> {
    let frames = frames_of(flows);
    let left_out = flows.len() - frames.len();
    let mut sheet = Sheet { left_out, ..Sheet::default() };
    for (frame, (kind, neighbour)) in frames.iter().flat_map(|f| KINDS.map(|kind| (f, kind))) {
        let Some(probe) = neighbour(frame) else { continue };
        if ends() {
            sheet.ended_early = true;
            break;
        }
        let before = steward.arrivals()?;
        if !prober.send(&probe.octets(station, SENDER), FRAMES, ends)? {
            sheet.ended_early = true;
            break;
        }
        let arrived = arrival(steward, &before, patience)?;
        let expected = expected(steward, &probe);
        let verdict = judge(expected.as_ref(), &arrived, before.counts_by_filter);
        sheet.rows.push(Row { kind, frame: probe.to_string(), expected, arrived, verdict });
    }
    if !steward.arrivals()?.counts_by_filter {
        sheet.judge_drops();
    }
    sheet.switches = steward.switches()?;
    Ok(sheet)
}

/// Whether any of the flows has a frame that can be sent.
pub(crate) fn has_probes(flows: &[Conj]) -> bool {
    flows.iter().any(|flow| Frame::of(flow).is_some())
}

fn frames_of(flows: &[Conj]) -> Vec<Frame> {
    flows.iter().filter_map(Frame::of).take(MAX_FLOWS).collect()
}

/// Waits until a counter has risen by enough, and then for late frames, which would count for the next probe.
fn arrival(
    steward: &mut Steward,
    before: &Arrivals,
    patience: Duration,
) -> Result<Arrival, SteerError> {
    let start = Instant::now();
    let mut now = steward.arrivals()?;
    while found(before, &now) == Arrival::Nowhere && start.elapsed() < patience {
        thread::sleep(PAUSE);
        now = steward.arrivals()?;
    }
    while start.elapsed() < patience {
        thread::sleep(QUIET);
        let later = steward.arrivals()?;
        if later == now {
            break;
        }
        now = later;
    }
    Ok(found(before, &now))
}

/// The place whose counter has risen by enough.
fn found(before: &Arrivals, now: &Arrivals) -> Arrival {
    let queues = now.queues.iter().zip(&before.queues).zip(0..);
    let queues = queues.map(|((now, before), queue)| (now, before, Arrival::Queue(queue)));
    let apart = [
        (&now.spread, &before.spread, Arrival::Spread),
        (&now.dropped, &before.dropped, Arrival::Dropped),
    ];
    let rises = queues.chain(apart).map(|(now, before, at)| (now.saturating_sub(*before), at));
    let mut risen = rises.filter(|(rise, _)| rise >= ENOUGH.start());
    match (risen.next(), risen.next()) {
        (None, _) => Arrival::Nowhere,
        (Some((rise, at)), None) if ENOUGH.contains(&rise) => at,
        _ => Arrival::Unclear,
    }
}

/// What the plan claims about a probe, if anything.
fn expected(steward: &Steward, probe: &Frame) -> Option<Expected> {
    let nic = steward.search().nic();
    let packets = probe.packets();
    if !nic.claims().covers(&packets) || !forms_are_claimed(nic, probe) {
        return None;
    }
    let configuration = steward.configuration();
    let placement = place(nic, &configuration, &packets);
    let rules = vec![Vec::new(); configuration.rules.len()];
    let without_rules = place(nic, &Configuration { rules, ..configuration }, &packets);
    let queues = queues_of(&placement);
    let is_spread = queues == queues_of(&without_rules);
    Some(Expected { queues, dropped: placement.dropped() > 0, is_spread })
}

/// Whether no table of the NIC leaves a form of the frame open for rules that might match it.
fn forms_are_claimed(nic: &Nic, probe: &Frame) -> bool {
    let forms = probe.forms();
    let in_tunnel = forms.contains(weever_graph::nic::Form::Tunnels);
    !nic.tables.iter().any(|table| {
        let types = table.model.flow_types.iter();
        let met = types.filter(|t| in_tunnel || t.ip_version().is_none_or(|v| v == probe.version));
        let mut open = met.map(|flow_type| table.model.unclaimed.of(*flow_type));
        open.any(|open| forms.iter().any(|form| open.contains(form)))
    })
}

fn queues_of(placement: &Placement) -> Vec<u32> {
    placement.shares().map(|(queue, _)| queue).collect()
}

/// `by_filter`: a queue counts only what a filter sent there.
fn judge(expected: Option<&Expected>, arrived: &Arrival, by_filter: bool) -> Verdict {
    let Some(expected) = expected else { return Verdict::NotTold };
    let as_planned = match arrived {
        // No filter may take what is to be spread over several queues.
        Arrival::Queue(_) if by_filter && expected.is_spread && expected.queues.len() > 1 => false,
        Arrival::Queue(queue) => expected.queues.contains(queue),
        Arrival::Spread => expected.is_spread,
        Arrival::Dropped => expected.dropped,
        // They may also be lost on the way, or dropped for their tag or address: see `judge_drops`.
        Arrival::Nowhere | Arrival::Unclear => return Verdict::NotTold,
    };
    if as_planned { Verdict::Pass } else { Verdict::Fail }
}

impl Sheet {
    /// Whether the sheet shows that the plan is right: all probes were sent, none arrived elsewhere than planned, those
    /// of the flows themselves arrived as planned, and the device has its switches as planned.
    pub(crate) fn has_passed(&self) -> bool {
        let mut flows = self.rows.iter().filter(|row| row.kind == FLOW).peekable();
        !self.ended_early
            && self.total(Verdict::Fail) == 0
            && self.switches.iter().all(Switch::is_as_wanted)
            && flows.peek().is_some()
            && flows.all(|row| row.verdict == Verdict::Pass)
    }

    /// Judges probes that a filter was to drop and that arrived nowhere, where drops are not counted. That they are
    /// dropped only shows if frames reach the device at that time: of the probes that are not to be dropped, one before
    /// and one after have to arrive; on one side there may be none of them.
    fn judge_drops(&mut self) {
        let arrives = |row: &Row| matches!(row.arrived, Arrival::Queue(_) | Arrival::Spread);
        let is_kept = |row: &&Row| row.expected.as_ref().is_some_and(|e| !e.dropped);
        for at in 0..self.rows.len() {
            let [before, after] = [&self.rows[..at], &self.rows[at + 1..]].map(|side| {
                let kept = side.iter().filter(is_kept);
                (kept.clone().next().is_none(), kept.clone().any(arrives))
            });
            let is_shown = (before.1 || after.1) && [before, after].iter().all(|s| s.0 || s.1);
            let row = &mut self.rows[at];
            let is_drop = row.expected.as_ref().is_some_and(|e| e.dropped && e.queues.is_empty());
            if is_drop && is_shown && row.arrived == Arrival::Nowhere {
                row.verdict = Verdict::Pass;
            }
        }
    }

    /// The number of probes with this verdict.
    pub(crate) fn total(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    fn count(&self, kind: &str, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.kind == kind && row.verdict == verdict).count()
    }

    /// For people: a line for each kind, and one for each probe that failed or could not be judged.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, _) in KINDS {
            let of = self.rows.iter().filter(|row| row.kind == kind);
            if of.clone().next().is_none() {
                continue;
            }
            let [pass, fail, not_told] = [Verdict::Pass, Verdict::Fail, Verdict::NotTold]
                .map(|verdict| self.count(kind, verdict));
            lines.push(format!("{kind}: {pass} pass, {fail} fail, {not_told} not told"));
            let rest = of.filter(|row| row.verdict != Verdict::Pass);
            lines.extend(rest.map(|row| format!("  {}: {}", row.verdict.name(), row.described())));
        }
        if !self.switches.is_empty() {
            let wrong = self.switches.iter().filter(|switch| !switch.is_as_wanted());
            let fail = wrong.clone().count();
            lines.push(format!("switch: {} pass, {fail} fail", self.switches.len() - fail));
            let on = |on: bool| if on { "on" } else { "off" };
            lines.extend(wrong.map(|switch| {
                let found = switch.found.map_or("not there", on);
                format!("  fail: {}: planned: {}; is: {found}", switch.name, on(switch.wanted))
            }));
        }
        if self.left_out > 0 {
            lines.push(format!("flows without probes: {}", self.left_out));
        }
        if self.ended_early {
            lines.push("ended before all probes were sent".into());
        }
        let result = if self.has_passed() { "passed" } else { "not passed" };
        let [pass, fail, not_told] =
            [Verdict::Pass, Verdict::Fail, Verdict::NotTold].map(|verdict| self.total(verdict));
        lines.push(format!("{result}: {pass} pass, {fail} fail, {not_told} not told in all"));
        lines
    }

    /// For programs.
    pub(crate) fn value(&self) -> Value {
        let row = |row: &Row| {
            let arrived = match row.arrived {
                Arrival::Queue(queue) => json!(queue),
                _ => json!(row.arrived.to_string()),
            };
            let expected = row.expected.as_ref();
            json!({
                "kind": row.kind,
                "frame": row.frame,
                "expected": expected.map(|e| json!({ "queues": e.queues, "dropped": e.dropped })),
                "arrived": arrived,
                "verdict": row.verdict.name(),
            })
        };
        Value::Array(self.rows.iter().map(row).collect())
    }
}

impl Sheet {
    /// The switches, for programs.
    pub(crate) fn switches(&self) -> Value {
        let each = self.switches.iter().map(|switch| {
            let verdict = if switch.is_as_wanted() { Verdict::Pass } else { Verdict::Fail };
            json!({
                "name": switch.name, "wanted": switch.wanted, "found": switch.found,
                "verdict": verdict.name(),
            })
        });
        Value::Array(each.collect())
    }
}

impl Row {
    fn described(&self) -> String {
        let planned = match &self.expected {
            None => "the plan claims nothing".into(),
            Some(expected) if expected.queues.is_empty() => "planned: dropped".into(),
            Some(Expected { queues, .. }) => {
                let queues: Vec<String> = queues.iter().map(u32::to_string).collect();
                format!("planned: queues {}", queues.join(" "))
            }
        };
        format!("{}: {planned}; arrived: {}", self.frame, self.arrived)
    }
}

impl std::fmt::Display for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arrival::Queue(queue) => write!(f, "queue {queue}"),
            Arrival::Spread => f.write_str("spread, no filter took it"),
            Arrival::Dropped => f.write_str("dropped by a filter"),
            Arrival::Nowhere => f.write_str("at no queue"),
            Arrival::Unclear => f.write_str("unclear beside other traffic"),
        }
    }
}
