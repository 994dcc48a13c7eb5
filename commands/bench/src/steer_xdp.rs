//! `weever bench steer-xdp`: the cost of the generated classifier per packet, and of a change of
//! it.
//!
//! The kernel runs the program on one frame over and over and reports the time of a run. Frames of
//! several flows take turns, so that no filter is the only one in the cache.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weever_ebpf::xdp::classify::{Classifier, Fallback, Field, Rule, Sink, Target, Test};
use weever_wire::MacAddr;

use crate::samples::Plan;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples, claims};

/// How many filters there are.
const COUNTS: [u16; 4] = [1, 10, 100, 1000];
/// Flows whose frames are measured in turn.
const FLOWS: u16 = 16;
const CAPACITY: u32 = 65_536;
const FIRST_PORT: u16 = 10_000;
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Iterations of one run of the kernel's loop: short runs are too coarsely timed.
const REPEAT: u32 = 100_000;

/// A program with this number of filters, and the cost of its packets.
struct Contender {
    name: String,
    classifier: Classifier,
    frames: Vec<Vec<u8>>,
    samples: Samples,
}

/// The times of changes, in microseconds.
#[derive(Default)]
struct Changes {
    add: Samples,
    remove: Samples,
    ordered: Samples,
    load: Samples,
}

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let mut contenders = contenders()?;
    let mut changes = Changes::default();
    for round in plan.rounds() {
        for contender in &mut contenders {
            contender.measure()?;
        }
        changes.measure(round as u16)?;
    }
    let mut report = report(&contenders, &changes);
    let wrong = claims::wrong(plan.rounds.clamp(1, claims::ROUNDS) * claims::FRAMES, 1)?;
    let frames =
        "frames of 1,000,000 random ones that a plan's program treats otherwise than the plan says";
    report.setup(format!("claims_wrong: {frames}"));
    report.ratio("claims_wrong", "frames", &Samples(vec![wrong as f64]));
    Ok(report)
}

fn report(contenders: &[Contender], changes: &Changes) -> Report {
    let mut report = Report::new("steer-xdp");
    report
        .setup("the kernel's test runs of the program: parsing, filters, hit counter; no redirect");
    report.setup(format!("frames of {FLOWS} flows take turns, {REPEAT} runs each"));
    let none = contenders.iter().find(|c| c.name == "no filter").map(|c| &c.samples);
    for contender in contenders {
        report.row(&contender.name, "ns/packet", &contender.samples);
    }
    for (key, name) in
        [("ns_1", "1 exact"), ("ns_1000", "1000 exact"), ("ns_tree_1000", "1000 ordered")]
    {
        if let Some(found) = contenders.iter().find(|c| c.name == name) {
            report.ratio(key, "ns/packet", &found.samples);
        }
    }
    if let (Some(none), Some(most)) = (none, contenders.iter().find(|c| c.name == "1000 exact")) {
        let above = most.samples.0.iter().zip(&none.0).map(|(most, none)| most - none).collect();
        report.ratio("filters_ns", "ns/packet", &Samples(above));
    }
    report.ratio("add_us", "µs", &changes.add);
    report.ratio("remove_us", "µs", &changes.remove);
    report.ratio("ordered_100_us", "µs", &changes.ordered);
    report.ratio("load_us", "µs", &changes.load);
    report
}

fn contenders() -> Result<Vec<Contender>, BenchError> {
    let mut all = vec![Contender::new("no filter".into(), 1, |_, _| Ok(()))?];
    for count in COUNTS {
        all.push(Contender::new(format!("{count} exact"), count, |classifier, rules| {
            rules.iter().try_for_each(|rule| classifier.insert(rule).map(drop))
        })?);
    }
    for count in COUNTS {
        all.push(Contender::new(format!("{count} ordered"), count, |classifier, rules| {
            classifier.set_ordered(rules.to_vec()).map(drop)
        })?);
    }
    Ok(all)
}

impl Contender {
    fn new(
        name: String,
        count: u16,
        fill: impl FnOnce(&mut Classifier, &[Rule]) -> Result<(), weever_ebpf::sys::BpfError>,
    ) -> Result<Contender, BenchError> {
        let mut classifier = classifier()?;
        let rules: Vec<Rule> = (0..count).map(rule).collect();
        fill(&mut classifier, &rules)?;
        let step = (count / FLOWS).max(1);
        let flows = (0..count).step_by(usize::from(step)).take(usize::from(FLOWS));
        let frames = flows.map(frame).collect::<Result<_, _>>()?;
        Ok(Contender { name, classifier, frames, samples: Samples::default() })
    }

    fn measure(&mut self) -> Result<(), BenchError> {
        let mut sum = Duration::ZERO;
        for frame in &self.frames {
            sum += self.classifier.program().run(frame, REPEAT)?.duration;
        }
        self.samples.push(sum.as_nanos() as f64 / self.frames.len() as f64);
        Ok(())
    }
}

impl Changes {
    /// One program: a thousand filters come and go, the mean of each is a sample.
    fn measure(&mut self, round: u16) -> Result<(), BenchError> {
        let started = Instant::now();
        let mut classifier = classifier()?;
        self.load.push(micros(started, 1));
        let rules: Vec<Rule> = (0..1001).map(rule).collect();
        // The first makes the map and exchanges the program.
        classifier.insert(&rules[1000])?;
        let rules = &rules[..1000];
        let started = Instant::now();
        for rule in rules {
            classifier.insert(rule)?;
        }
        self.add.push(micros(started, rules.len()));
        let started = Instant::now();
        for rule in rules {
            classifier.remove(rule)?;
        }
        self.remove.push(micros(started, rules.len()));
        let ordered = (round..round + 100).map(rule).collect();
        let started = Instant::now();
        classifier.set_ordered(ordered)?;
        self.ordered.push(micros(started, 1));
        Ok(())
    }
}

fn micros(since: Instant, each_of: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / 1e3 / each_of as f64
}

fn classifier() -> Result<Classifier, BenchError> {
    let loaded = Classifier::load(Sink::Count, Fallback::To(Target::Pass), CAPACITY);
    loaded.map_err(|error| match error.is_denied() {
        true => BenchError::Rights("steer-xdp"),
        false => error.into(),
    })
}

/// A five-tuple filter for the flow from one port.
fn rule(flow: u16) -> Rule {
    let exact = |field, value: u32| Test::exact(field, value.into());
    let tests = vec![
        exact(Field::Src4, PEER.to_bits()),
        exact(Field::Dst4, HOST.to_bits()),
        exact(Field::Protocol, 17),
        exact(Field::SrcPort, 10_000),
        exact(Field::DstPort, u32::from(FIRST_PORT + flow)),
    ];
    Rule { tests, target: Target::Queue(u32::from(flow) % 64) }
}

fn frame(flow: u16) -> Result<Vec<u8>, BenchError> {
    let ends = (MacAddr([2, 0, 0, 0, 0, 2]), PEER, MacAddr([2, 0, 0, 0, 0, 1]), HOST);
    udp_frame(ends, FIRST_PORT + flow, 60).map_err(BenchError::of("frame"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_is_hit_by_its_frame() {
        let mut classifier = match classifier() {
            Ok(classifier) => classifier,
            Err(error) => return println!("skipped: {error}"),
        };
        for flow in [0, 7, 999] {
            classifier.insert(&rule(flow)).unwrap();
            classifier.program().run(&frame(flow).unwrap(), 1).unwrap();
            assert_eq!(classifier.hits(&rule(flow)).unwrap(), Some(1));
        }
        assert_eq!(classifier.missed().unwrap(), 0);
    }

    #[test]
    fn a_short_run_has_every_figure() {
        if classifier().is_err() {
            return println!("skipped: needs CAP_BPF");
        }
        let report = run(Plan { rounds: 1, each: Duration::ZERO }).unwrap();
        for key in ["ns_1", "ns_1000", "ns_tree_1000", "filters_ns", "add_us"] {
            assert!(report.ratios.contains_key(key), "{key}: {report}");
        }
    }
}
