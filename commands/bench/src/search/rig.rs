//! NICs and flows, and the measurement of one number of flows.

use std::time::Instant;

use weever_graph::Field;
use weever_plan::flow::{Conj, Flow};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{FlowId, Options, Search};

use crate::plan::Plan;
use crate::{BenchError, Samples};

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
