//! The product's steward over the sockets of a benchmark's device: it finds flows by their traffic, and places them as
//! a policy says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weever_device::xdp::XdpSteering;
use weever_engine::monotonic;
use weever_link_sys::af_xdp::Steering;
use weever_plan::nic::Nic;
use weever_plan::search::Options;
use weever_plan::watch::FiveTuple;
use weever_policy::policy;
use weever_steward::{InitialPlan, ProgramTarget, Settings, Steward, StewardThread};
use weever_testbed::pin_to;

use crate::BenchError;

/// When the filters of flows were set, on the engine's clock.
pub(crate) type Placed = Arc<Mutex<Vec<(FiveTuple, u64)>>>;

/// Starts the steward on `core`; it ends when the thread's handle is dropped.
pub(crate) fn start(
    steering: &Steering,
    text: &str,
    workers: u32,
    core: usize,
) -> Result<(StewardThread, Placed), BenchError> {
    let failed = BenchError::of("policy");
    let policy = policy::parse(text).map_err(|e| failed(e.to_string()))?;
    let graph = weever_models::nic("xdp").map_err(|e| failed(e.to_string()))?;
    let nic = Nic::of(&graph).and_then(|nic| nic.with_queues(workers));
    let nic = nic.map_err(|e| failed(e.to_string()))?;
    let (mut planned, _) = InitialPlan::new(policy, [], nic.clone(), Options::default(), None);
    let Some(classifier) = steering.classifier() else {
        return Err(failed("one socket only".into()));
    };
    let steering = XdpSteering::of(Arc::clone(classifier), &nic, planned.search().rss());
    let mut steering = steering.map_err(|e| failed(e.to_string()))?;
    let [flows, every] = ProgramTarget::SAMPLING;
    steering.sample_within_rules(flows, every).map_err(|e| failed(e.to_string()))?;
    let target = Box::new(ProgramTarget::attached(steering));
    let started = Steward::start("bench", planned, target, Settings::default());
    let (mut steward, _) = started.map_err(|e| failed(e.to_string()))?;
    let placed = Placed::default();
    let filled = Arc::clone(&placed);
    let mut pinned = None;
    let step = move || {
        pinned.get_or_insert_with(|| pin_to(core));
        let step = steward.step(monotonic());
        if let Some(error) = step.failure {
            eprintln!("weever bench: filters are not set: {error}");
        }
        let now = monotonic();
        let mut placed = filled.lock().unwrap_or_else(PoisonError::into_inner);
        placed.extend(step.came.into_iter().map(|flow| (flow, now)));
        Duration::ZERO
    };
    let thread = StewardThread::start(step).map_err(BenchError::of("steward"))?;
    Ok((thread, placed))
}
