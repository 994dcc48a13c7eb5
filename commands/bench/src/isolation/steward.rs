//! Detection, search and filters, as the daemon does it, on a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weever_device::xdp::XdpSteering;
use weever_engine::monotonic;
use weever_link_sys::af_xdp::Steering;
use weever_plan::nic::Nic;
use weever_plan::search::{Options, Search};
use weever_plan::watch::{FiveTuple, Settings, Watch};
use weever_policy::flows::FlowSpec;
use weever_policy::policy::{self, CheckedPolicy};
use weever_testbed::pin_to;

use crate::BenchError;

const PERIOD: Duration = Duration::from_millis(20);

/// The thread. Dropping it ends it.
pub(super) struct Steward {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    placed: Placed,
}

/// When filters for which flows were set, on the engine's clock.
pub(super) type Placed = Arc<Mutex<Vec<(FiveTuple, u64)>>>;

struct Work {
    page: CheckedPolicy,
    search: Search,
    steering: XdpSteering,
    watch: Watch,
    placed: Placed,
}

impl Steward {
    pub(super) fn start(
        steering: &Steering,
        text: &str,
        workers: u32,
        core: usize,
    ) -> Result<Steward, BenchError> {
        let failed = BenchError::of("policy");
        let page = policy::parse(text).map_err(|e| failed(e.to_string()))?;
        let graph = weever_models::nic("xdp").map_err(|e| failed(e.to_string()))?;
        let nic = Nic::of(&graph).and_then(|nic| nic.with_queues(workers));
        let nic = nic.map_err(|e| failed(e.to_string()))?;
        let search = Search::new(nic.clone(), page.cost_function(None), Options::default());
        let Some(classifier) = steering.classifier() else {
            return Err(failed("one socket only".into()));
        };
        let steering = XdpSteering::of(Arc::clone(classifier), &nic, search.rss());
        let mut steering = steering.map_err(|e| failed(e.to_string()))?;
        steering.sample_within_rules(8192, 4).map_err(|e| failed(e.to_string()))?;
        let (watch, placed) = (Watch::new(Settings::default()), Placed::default());
        let mut work = Work { page, search, steering, watch, placed: Arc::clone(&placed) };
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let attend = move || {
            let _anywhere = pin_to(core);
            while !stopped.load(Ordering::Relaxed) {
                work.step();
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("steward".into()).spawn(attend);
        Ok(Steward { stop, thread: Some(thread.map_err(BenchError::of("steward"))?), placed })
    }

    /// A handle that outlives the thread.
    pub(super) fn placed(&self) -> Placed {
        Arc::clone(&self.placed)
    }
}

impl Work {
    fn step(&mut self) {
        let (now, watch) = (monotonic(), &mut self.watch);
        let taken = self.steering.take_missed(|flow, packets| watch.saw(now, flow, packets));
        if taken.is_err() {
            return;
        }
        self.watch.tick(now);
        let came = self.watch.due(now).came;
        let specs = came.iter().filter_map(|(flow, rate)| FlowSpec::seen(*flow, *rate));
        let (flows, _) = self.page.classify(specs);
        for flow in flows {
            self.search.add(flow);
        }
        let changes = self.search.take_changes();
        if !changes.is_empty()
            && let Err(error) = self.steering.apply(&changes)
        {
            eprintln!("weever bench: filters are not set: {error}");
        }
        let now = monotonic();
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        placed.extend(came.into_iter().map(|(flow, _)| (flow, now)));
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}
