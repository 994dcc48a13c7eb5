//! `weever bench rx`: receiving 64-byte frames into a UDP socket, as fast as they come.

use weever_models::Service;

use crate::contender::{Contender, Gate};
use crate::peers;
use crate::plan::Plan;
use crate::rig::Rig;
use crate::traffic::Traffic;
use crate::{BenchError, Report, Samples};

type Body = fn(&Gate) -> Result<(), BenchError>;

/// The contenders, in the order in which they run in each round.
const CONTENDERS: [(&str, Body); 5] = [
    ("weever", |gate| peers::weever(gate, Service::Discard, 0)),
    ("weever + 10 counters", |gate| peers::weever(gate, Service::Discard, 10)),
    ("bare AF_XDP drop", peers::bare_drop),
    ("kernel recvmmsg", peers::recvmmsg),
    ("TPACKET_V3", peers::tpacket),
];

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let rig = Rig::new("rx")?;
    rig.kernel_host()?;
    let mut samples: [Samples; CONTENDERS.len()] = Default::default();
    for _ in plan.rounds() {
        for ((_, body), samples) in CONTENDERS.iter().zip(&mut samples) {
            let contender = Contender::start(&rig, *body)?;
            let traffic = Traffic::start(&rig, 64)?;
            samples.push(contender.rate(plan.each));
            drop(traffic);
            contender.finish()?;
        }
    }
    Ok(report(&rig, &samples))
}

fn report(rig: &Rig, samples: &[Samples; CONTENDERS.len()]) -> Report {
    let mut report = Report::new("rx");
    report.setup(rig.describe());
    report.setup("load: UDP in 64-byte frames, 16 flows, live frames, open loop");
    for ((name, _), samples) in CONTENDERS.iter().zip(samples) {
        report.row(name, "Mpps", samples);
    }
    let [weever, counters, bare, recvmmsg, tpacket] = samples;
    report.ratio("rx_vs_recvmmsg", "ratio", &weever.ratio(recvmmsg));
    report.ratio("rx_vs_bare_xsk", "ratio", &weever.ratio(bare));
    report.ratio("rx_vs_tpacket", "ratio", &weever.ratio(tpacket));
    let cost = counters.ratio(weever).0.iter().map(|ratio| 1.0 - ratio).collect();
    report.ratio("ten_blocks_cost", "share", &Samples(cost));
    report
}
