//! The cases of the search, their times, and two ways to show them: beside the paper's table 1, and as growth
//! with the number of flows.

use std::time::Instant;

use weever_graph::Field;
use weever_plan::flow::{Conj, Flow};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{FlowId, Options, Search};

use crate::plot::{Line, Plot, Scale};
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

/// Additions and removals that one sample is the mean of.
const EACH: u32 = 100;

fn model(name: &str) -> Result<weever_graph::Graph, BenchError> {
    weever_models::nic(name).map_err(BenchError::of("NIC model"))
}

/// The paper's NIC: all that the silicon has, 10 queues.
pub(crate) fn i82599() -> Result<Nic, BenchError> {
    let nic = Nic::of(&model("82599")?).map_err(BenchError::of("82599"))?;
    nic.with_queues(10).map_err(BenchError::of("82599"))
}

/// weever's own program, 64 queues.
pub(crate) fn xdp() -> Result<Nic, BenchError> {
    let nic = Nic::of(&model("xdp")?).map_err(BenchError::of("xdp"))?;
    nic.with_queues(64).map_err(BenchError::of("xdp"))
}

/// A ConnectX-5, as Linux exposes it or as it is, 64 queues.
pub(crate) fn connectx5(linux: bool) -> Result<Nic, BenchError> {
    let prg = model("connectx5")?;
    let nic = if linux { Nic::linux_of(&prg) } else { Nic::of(&prg) };
    let nic = nic.map_err(BenchError::of("connectx5"))?;
    nic.with_queues(64).map_err(BenchError::of("connectx5"))
}

/// How many connected flows the NIC's tables take, and the device has locations for.
pub(crate) fn reach(nic: &Nic) -> u32 {
    let says = |t: &&weever_plan::nic::Table| t.model.granularity(Field::L4Src).is_some();
    let pools = nic.tables.iter().enumerate().filter(|(i, t)| says(t) && t.pool == *i);
    let room: u32 = pools.map(|(i, _)| nic.capacity(i)).sum();
    nic.locations.map_or(room, |locations| room.min(locations))
}

/// Connected UDP flows from different clients to one server.
pub(crate) fn flows(from: u32, to: u32) -> Vec<Flow> {
    let conj = |i: u32| {
        Conj::all()
            .with(Field::EthType, 0x0800)
            .with(Field::Ip4Proto, 17)
            .with(Field::Ip4Src, 0x0a01_0000 + u128::from(i / 100))
            .with(Field::Ip4Dst, 0x0a00_0001)
            .with(Field::L4Src, 20_000 + u128::from(i % 100))
            .with(Field::L4Dst, 11_211)
    };
    (from..to).map(|i| Flow::of(format!("client {i}"), vec![conj(i)])).collect()
}

/// A NIC and how many flows it has.
pub(crate) struct Case<'a> {
    nic: &'a Nic,
    flows: u32,
}

/// The times of a case, in milliseconds, a sample per round.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) full: Samples,
    pub(crate) add1: Samples,
    pub(crate) add10: Samples,
    pub(crate) del1: Samples,
    pub(crate) del10: Samples,
    /// Flows that got a rule.
    pub(crate) placed: Samples,
}

impl Case<'_> {
    pub(crate) fn new(nic: &Nic, flows: u32) -> Case<'_> {
        Case { nic, flows }
    }

    pub(crate) fn measure(&self, plan: Plan) -> Times {
        let mut times = Times::default();
        for _ in plan.rounds() {
            self.round(&mut times);
        }
        times
    }

    fn round(&self, times: &mut Times) {
        let policy = Box::new(Balance::new(Measure::Flows));
        let mut search = Search::new(self.nic.clone(), policy, Options::default());
        let all = flows(0, self.flows);
        times.full.push(timed(1, || search.run(all)).0);
        times.placed.push(search.steered() as f64);
        let more = flows(self.flows, self.flows + EACH);
        let add = |search: &mut Search, more: Vec<Flow>| -> Vec<FlowId> {
            more.into_iter().map(|f| search.add(f)).collect()
        };
        let (time, one) = timed(EACH, || add(&mut search, more));
        times.add1.push(time);
        // Removed flows are dropped after the clock has stopped.
        let remove = |search: &mut Search, ids: Vec<FlowId>| -> Vec<Option<Flow>> {
            ids.into_iter().map(|id| search.remove(id)).collect()
        };
        times.del1.push(timed(EACH, || remove(&mut search, one)).0);
        let (from, tens) = (self.flows + EACH, EACH / 10);
        let more = flows(from, from + EACH);
        let (time, ten) = timed(tens, || add(&mut search, more));
        times.add10.push(time);
        times.del10.push(timed(tens, || remove(&mut search, ten)).0);
    }
}

/// Milliseconds for one of `count`, and the result.
fn timed<T>(count: u32, work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64() * 1e3 / f64::from(count), result)
}

/// Medians by number of flows, in milliseconds.
#[derive(Default)]
pub(super) struct Growth {
    points: Vec<(f64, f64, f64, f64)>,
}

impl Growth {
    pub(super) fn add(&mut self, flows: u32, times: &Times) {
        let median = |samples: &Samples| samples.summary().median;
        let (full, add, del) = (median(&times.full), median(&times.add1), median(&times.del1));
        self.points.push((f64::from(flows), full, add, del));
    }

    /// The exponents of growth over the larger half of the range: 1 is linear, 0 is flat.
    pub(super) fn report(&self, report: &mut Report) {
        let [.., from, _, to] = self.points[..] else { return };
        let exponent = |a: f64, b: f64| Samples(vec![(b / a).ln() / (to.0 / from.0).ln()]);
        let name = |what| format!("growth of {what} from {} to {} flows", from.0, to.0);
        report.row(&name("full"), "exponent", &exponent(from.1, to.1));
        report.row(&name("+1"), "exponent", &exponent(from.2, to.2));
        report.row(&name("-1"), "exponent", &exponent(from.3, to.3));
    }

    pub(super) fn to_svg(&self) -> String {
        let line = |name, colour, pick: fn(&(f64, f64, f64, f64)) -> f64| Line {
            name,
            colour,
            points: self.points.iter().map(|p| (p.0, pick(p))).collect(),
        };
        let lines = vec![
            line("all flows", "#1f6f8b", |p| p.1),
            line("one more", "#c1440e", |p| p.2),
            line("one fewer", "#5a7d2a", |p| p.3),
        ];
        Plot {
            title: "Search on the xdp model, 64 queues",
            x: "flows",
            y: "ms",
            scales: (Scale::Log, Scale::Log),
            lines,
        }
        .to_svg()
    }
}

/// The times of a search there, in milliseconds.
struct Paper {
    flows: u32,
    basic: f64,
    /// With the incremental flow map: full, +1, +10, -1, -10.
    incremental: [f64; 5],
}

const TABLE_1: [Paper; 4] = [
    Paper { flows: 10, basic: 11.0, incremental: [17.0, 2.0, 22.0, 0.009, 0.0237] },
    Paper { flows: 100, basic: 1_200.0, incremental: [600.0, 9.0, 94.0, 0.074, 0.117] },
    Paper { flows: 250, basic: 13_000.0, incremental: [4_000.0, 21.0, 219.0, 0.190, 0.277] },
    Paper { flows: 500, basic: 76_000.0, incremental: [17_000.0, 43.0, 484.0, 0.382, 0.548] },
];

/// Rows of one line of the table, each with the paper's beside it.
pub(super) fn beside_paper(report: &mut Report, flows: u32, times: &Times) {
    let Some(paper) = TABLE_1.iter().find(|p| p.flows == flows) else { return };
    let columns = ["full", "+1", "+10", "-1", "-10"];
    let ours = [&times.full, &times.add1, &times.add10, &times.del1, &times.del10];
    let one = |ms: f64| Samples(vec![ms]);
    report.row(&format!("82599 {flows} flows, basic (paper)"), "ms", &one(paper.basic));
    for ((column, ours), theirs) in columns.iter().zip(ours).zip(paper.incremental) {
        report.row(&format!("82599 {flows} flows, {column}"), "ms", ours);
        report.row(&format!("82599 {flows} flows, {column} (paper)"), "ms", &one(theirs));
    }
}
