//! `weever bench sizes`: receive, echo and forward with frames of the sizes that RFC 2544 §9.1 lists
//! for Ethernet, beside the kernel.

use std::path::Path;
use std::time::Duration;

use weever_models::Service;

use crate::contender::{Contender, Gate, rate};
use crate::crossing::{Crossing, Forwarder};
use crate::forward;
use crate::plot::{Line, Plot, Scale};
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::traffic::Traffic;
use crate::{BenchError, Report, Samples, peers};

/// Bytes of a frame, check sequence included.
const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

type Body = fn(&Gate) -> Result<(), BenchError>;

/// The work on the frames.
#[derive(Clone, Copy)]
enum Task {
    /// Taken into a UDP socket; counted there.
    Receive(Body),
    /// Sent back; counted where they come back.
    Echo(Body),
    /// Passed on; counted at the far end.
    Forward(Forwarder),
}

const TASKS: [(&str, &str, Task); 6] = [
    ("weever, receive", "#1f77b4", Task::Receive(|gate| peers::weever(gate, Service::Discard, 0))),
    ("kernel, receive", "#9ecae1", Task::Receive(peers::recvmmsg)),
    ("weever, echo", "#d62728", Task::Echo(|gate| peers::weever(gate, Service::Echo, 0))),
    ("kernel, echo", "#ff9896", Task::Echo(peers::mmsg_echo)),
    ("weever, forward", "#2ca02c", Task::Forward(Forwarder::Weever)),
    ("kernel, forward", "#98df8a", Task::Forward(Forwarder::Kernel)),
];

type Rates = [[Samples; SIZES.len()]; TASKS.len()];

/// Measures every size; with `svg`, draws the medians into that file.
pub(crate) fn run(plan: Plan, svg: Option<&Path>) -> Result<Report, BenchError> {
    let rig = Rig::new("sizes")?;
    rig.kernel_host()?;
    rig.receive_returns(Receiver::Generator)?;
    let crossing = Crossing::new("sizes")?;
    let mut rates: Rates = Default::default();
    for _ in plan.rounds() {
        for ((_, _, task), samples) in TASKS.iter().zip(&mut rates) {
            for (size, samples) in SIZES.iter().zip(samples) {
                samples.push(measure(&rig, &crossing, *task, *size, plan.each)?);
            }
        }
    }
    if let Some(path) = svg {
        let written = std::fs::write(path, picture(&rates).to_svg());
        written.map_err(BenchError::of("plot"))?;
    }
    Ok(report(&rig, &crossing, &rates))
}

fn measure(
    rig: &Rig,
    crossing: &Crossing,
    task: Task,
    size: usize,
    each: Duration,
) -> Result<f64, BenchError> {
    let (body, echoes) = match task {
        Task::Forward(forwarder) => return forward::measure(crossing, forwarder, size, each),
        Task::Receive(body) => (body, false),
        Task::Echo(body) => (body, true),
    };
    let contender = Contender::start(rig, body)?;
    let traffic = Traffic::start(rig, size)?;
    let packets = match echoes {
        true => rate(each, || Ok(rig.generator_end()?.counters.rx_packets))?,
        false => contender.rate(each),
    };
    drop(traffic);
    contender.finish()?;
    Ok(packets)
}

fn report(rig: &Rig, crossing: &Crossing, rates: &Rates) -> Report {
    let mut report = Report::new("sizes");
    report.setup(rig.describe());
    report.setup(crossing.describe());
    report.setup("load: UDP, 16 flows, live frames, open loop; sizes with the check sequence");
    for ((name, ..), by_size) in TASKS.iter().zip(rates) {
        for (size, samples) in SIZES.iter().zip(by_size) {
            report.row(&format!("{name}, {size} B"), "Mpps", samples);
        }
    }
    for (key, pair) in ["receive", "echo", "forward"].into_iter().zip(rates.chunks_exact(2)) {
        for (size, (own, kernel)) in SIZES.iter().zip(pair[0].iter().zip(&pair[1])) {
            report.ratio(&format!("{key}_vs_kernel_{size}"), "ratio", &own.ratio(kernel));
        }
    }
    report
}

fn picture(rates: &Rates) -> Plot {
    let points = |by_size: &[Samples; SIZES.len()]| {
        let medians = by_size.iter().map(|samples| samples.summary().median);
        SIZES.iter().map(|size| *size as f64).zip(medians).collect()
    };
    let lines = TASKS.iter().zip(rates);
    let line = |((name, colour, _), by_size): (&(&'static str, &'static str, Task), _)| Line {
        name,
        colour,
        points: points(by_size),
    };
    Plot {
        title: "Frames of RFC 2544's sizes, one core, veth",
        x: "bytes of a frame",
        y: "Mpps",
        scales: (Scale::Linear, Scale::Log),
        lines: lines.map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_a_line_for_every_task() {
        let mut rates: Rates = Default::default();
        for (task, by_size) in rates.iter_mut().enumerate() {
            by_size.iter_mut().for_each(|samples| samples.push(0.5 + task as f64));
        }
        let svg = picture(&rates).to_svg();
        assert_eq!(svg.matches("<polyline").count(), TASKS.len());
        assert_eq!(svg.matches("<circle").count(), TASKS.len() * SIZES.len());
    }

    #[test]
    fn every_task_moves_the_longest_frames() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let rig = Rig::new("sizes").unwrap();
        rig.kernel_host().unwrap();
        let crossing = Crossing::new("sizes").unwrap();
        for (name, _, task) in TASKS {
            let rate = || measure(&rig, &crossing, task, 1518, Duration::from_millis(50)).unwrap();
            // A busy machine may keep the worker from its core for a while.
            assert!((0..100).any(|_| rate() > 0.0), "{name}");
        }
    }
}
