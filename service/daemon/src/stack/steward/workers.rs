//! Workers adapt to the plan: their graphs fit the packets that can arrive at their queues, and they wait for
//! packets as the classes that arrive there want.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weever_engine as engine;
use weever_graph::Predicate;
use weever_host::{HostHandle, WorkerHandle};
use weever_plan::config::{Configuration, Rule};
use weever_plan::embed::{Arrival, either, needs};
use weever_plan::nic::Nic;
use weever_plan::policy::QueueMode;
use weever_steward::Receivers;

use super::moves::ConnectionMover;
use crate::config::Mode;
use crate::stack::graph::parts::{GraphParts, Known};

/// The workers behind the queues of a link.
pub(in crate::stack) struct WorkerReceivers {
    link: u16,
    /// The maker of their graphs; `None` if each worker runs the whole graph.
    graph_parts: Option<Arc<GraphParts>>,
    wait_modes: Arc<WaitModes>,
    connections: ConnectionMover,
    /// What the device guarantees for every packet.
    vouched: Predicate,
    /// The packets that arrive at each queue now, and those that may arrive next.
    present: Vec<Arrival>,
    next: Option<Vec<Arrival>>,
    took: Duration,
}

impl WorkerReceivers {
    /// The workers of link number `link` of a host.
    pub(in crate::stack) fn new(
        link: u16,
        host: &HostHandle,
        graph_parts: Option<Arc<GraphParts>>,
        wait_modes: Arc<WaitModes>,
    ) -> WorkerReceivers {
        let connections = ConnectionMover::new(link, host);
        let (present, next, took) = (Vec::new(), None, Duration::ZERO);
        let vouched = Predicate::True;
        WorkerReceivers { link, graph_parts, wait_modes, connections, vouched, present, next, took }
    }

    /// The packets that arrive at each queue under a configuration, as far as graphs can tell.
    fn arrivals(&self, nic: &Nic, configuration: &Configuration) -> Vec<Arrival> {
        let Some(graph_parts) = &self.graph_parts else { return Vec::new() };
        needs(nic, configuration, &graph_parts.fields())
    }

    fn order(&mut self, arriving: Vec<Arrival>) {
        if let Some(graph_parts) = &self.graph_parts {
            let began = Instant::now();
            let vouched = self.vouched.clone();
            graph_parts.order(self.link, Known { arriving, vouched });
            self.took += began.elapsed();
        }
    }
}

impl Receivers for WorkerReceivers {
    fn expect(&mut self, nic: &Nic, changing: &[(usize, Rule)]) -> bool {
        self.connections.expect(nic, changing)
    }

    fn prepare(&mut self, nic: &Nic, next: &Configuration) {
        let arrivals = self.arrivals(nic, next);
        self.vouched = nic.vouched(&[]).always();
        self.order(either(&self.present, &arrivals));
        self.next = Some(arrivals);
        let began = Instant::now();
        self.connections.begin(nic, next);
        self.took += began.elapsed();
    }

    fn commit(&mut self, nic: &Nic, present: &Configuration) {
        self.connections.finish(nic, present);
        self.present = self.arrivals(nic, present);
        self.next = None;
        self.order(self.present.clone());
    }

    fn abandon(&mut self) {
        self.connections.fail();
        if let Some(next) = self.next.take() {
            self.present = either(&self.present, &next);
        }
    }

    fn set_modes(&mut self, modes: Vec<Option<QueueMode>>) {
        self.wait_modes.want(self.link, modes);
    }

    fn take_time(&mut self) -> Duration {
        std::mem::take(&mut self.took)
    }
}

/// The workers' wait modes.
pub(in crate::stack) struct WaitModes {
    workers: Arc<[WorkerHandle]>,
    /// The mode where no class names one.
    usual: Mode,
    /// The wanted modes, by link and worker.
    wanted: Mutex<Vec<Vec<Option<QueueMode>>>>,
}

impl WaitModes {
    /// All wait as the configuration says.
    pub(in crate::stack) fn new(
        workers: Arc<[WorkerHandle]>,
        usual: Mode,
        links: usize,
    ) -> WaitModes {
        WaitModes { workers, usual, wanted: Mutex::new(vec![Vec::new(); links]) }
    }

    /// Sets the modes in which the flows of a link want workers to wait from now on. Of several
    /// links, the most impatient counts.
    pub(in crate::stack) fn want(&self, link: u16, by_worker: Vec<Option<QueueMode>>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted[usize::from(link)] = by_worker;
        for (number, worker) in self.workers.iter().enumerate() {
            let most = wanted.iter().filter_map(|link| link.get(number).copied().flatten()).max();
            let mode = most.map_or(wait_mode(self.usual), mode);
            if worker.pace.mode() != mode {
                tracing::info!(worker = number, ?mode, "worker wait mode changed");
                worker.pace.set(mode);
                worker.waker.wake();
            }
        }
    }
}

/// A wait mode in the engine's terms.
pub(in crate::stack) fn wait_mode(mode: Mode) -> engine::Mode {
    match mode {
        Mode::Busy => engine::Mode::Busy,
        Mode::Adaptive => engine::Mode::default(),
        Mode::Interrupt => engine::Mode::Interrupt,
    }
}

fn mode(wanted: QueueMode) -> engine::Mode {
    wait_mode(match wanted {
        QueueMode::Busy => Mode::Busy,
        QueueMode::Adaptive => Mode::Adaptive,
        QueueMode::Interrupt => Mode::Interrupt,
    })
}

/// A mode's name in settings.
pub(in crate::stack) fn wait_mode_name(mode: engine::Mode) -> String {
    match mode {
        engine::Mode::Busy => Mode::Busy,
        engine::Mode::Adaptive { .. } => Mode::Adaptive,
        engine::Mode::Interrupt => Mode::Interrupt,
    }
    .to_string()
}
