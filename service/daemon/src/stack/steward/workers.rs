//! Workers adapt to the plan: their graphs fit the packets that can arrive at their queues, and
//! their wait modes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_plan::config::Configuration;
use weever_plan::embed::{Arrival, either, needs};
use weever_plan::nic::Nic;
use weever_plan::policy::QueueMode;
use weever_steward::Receivers;

use crate::stack::graph::parts::GraphParts;
use crate::stack::run::wait_modes::WaitModes;

/// The workers behind the queues of a link.
pub(in crate::stack) struct WorkerReceivers {
    link: u16,
    /// The maker of their graphs; `None` if each worker runs the whole graph.
    graph_parts: Option<Arc<GraphParts>>,
    wait_modes: Arc<WaitModes>,
    /// The packets that arrive at each queue now, and those that may arrive next.
    present: Vec<Arrival>,
    next: Option<Vec<Arrival>>,
    took: Duration,
}

impl WorkerReceivers {
    /// The workers of link number `link`.
    pub(in crate::stack) fn new(
        link: u16,
        graph_parts: Option<Arc<GraphParts>>,
        wait_modes: Arc<WaitModes>,
    ) -> WorkerReceivers {
        let (present, next) = (Vec::new(), None);
        WorkerReceivers { link, graph_parts, wait_modes, present, next, took: Duration::ZERO }
    }

    /// The packets that arrive at each queue under a configuration, as far as graphs can tell.
    fn arrivals(&self, nic: &Nic, configuration: &Configuration) -> Vec<Arrival> {
        let Some(graph_parts) = &self.graph_parts else { return Vec::new() };
        needs(nic, configuration, &graph_parts.fields())
    }

    fn order(&mut self, arrivals: Vec<Arrival>) {
        if let Some(graph_parts) = &self.graph_parts {
            let began = Instant::now();
            graph_parts.order(self.link, arrivals);
            self.took += began.elapsed();
        }
    }
}

impl Receivers for WorkerReceivers {
    fn prepare(&mut self, nic: &Nic, next: &Configuration) {
        let next = self.arrivals(nic, next);
        self.order(either(&self.present, &next));
        self.next = Some(next);
    }

    fn commit(&mut self, nic: &Nic, present: &Configuration) {
        self.present = self.arrivals(nic, present);
        self.next = None;
        self.order(self.present.clone());
    }

    fn abandon(&mut self) {
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
