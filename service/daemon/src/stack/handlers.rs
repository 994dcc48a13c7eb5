//! The methods of the control socket: what a running stack answers to each, in alphabetical order.

use weever_host::WorkerHandle;
use weever_service_api::{
    ApiError, ApplyRequest, CaptureEvent, CaptureRequest, Changed, Counters, CountersRequest,
    ErrorKind, Flows, FlowsRequest, GraphFormat, GraphRequest, GraphText, Handle, MAX_FLOWS,
    QueueStatus, Queues, QueuesRequest, Reply, SetRequest, Status, StatusRequest, StopRequest,
    Stopping,
};

use crate::stack::graph::capture;
use crate::stack::report::picture;
use crate::stack::run::shared::Shared;
use crate::stack::steward;

impl Handle<ApplyRequest> for Shared {
    fn handle(&self, request: ApplyRequest) -> Result<Reply<Changed>, ApiError> {
        Ok(self.apply_text(&request.name, &request.text)?.into())
    }
}

impl Handle<CaptureRequest> for Shared {
    fn handle(&self, request: CaptureRequest) -> Result<Reply<CaptureEvent>, ApiError> {
        Ok(capture::reply(self.captures.begin(&request)?, request.count))
    }
}

impl Handle<CountersRequest> for Shared {
    fn handle(&self, _: CountersRequest) -> Result<Reply<Counters>, ApiError> {
        Ok(self.counters().into())
    }
}

impl Handle<FlowsRequest> for Shared {
    fn handle(&self, request: FlowsRequest) -> Result<Reply<Flows>, ApiError> {
        Ok(self.flows(request.most.min(MAX_FLOWS)).into())
    }
}

impl Shared {
    pub(in crate::stack) fn flows(&self, most: usize) -> Flows {
        let mut flows = Flows { uptime_ns: self.uptime_ns(), ..Flows::default() };
        for steward in self.stewards.lock().iter_mut() {
            steward::report::add_flows(steward, &mut flows, most);
        }
        flows
    }
}

impl Handle<GraphRequest> for Shared {
    fn handle(&self, request: GraphRequest) -> Result<Reply<GraphText>, ApiError> {
        let text = match request.worker {
            None => self.picture(&request)?,
            Some(worker) => self.picture_of(worker, &request)?,
        };
        Ok(GraphText { format: request.format, text }.into())
    }
}

impl Shared {
    /// What a worker runs, with what it has counted.
    fn picture_of(&self, worker: u32, wanted: &GraphRequest) -> Result<String, ApiError> {
        let refused = |message: String, remedy: &str| {
            Err(ApiError::new(ErrorKind::BadParameters, message, remedy))
        };
        let graph = self.host.publisher.executed(worker as usize);
        let Some((graph, handle)) = graph.zip(self.host.workers.get(worker as usize)) else {
            let last = self.host.workers.len() - 1;
            return refused(format!("there is no worker {worker}"), &format!("use 0 to {last}"));
        };
        if wanted.format == GraphFormat::Unicorn {
            let message = format!("the text is of the graph of all, not of worker {worker}'s part");
            return refused(message, "ask without a worker, or for text, svg or dot");
        }
        picture::draw(&graph, &handle.counters.describe(), wanted)
    }
}

impl Handle<QueuesRequest> for Shared {
    fn handle(&self, request: QueuesRequest) -> Result<Reply<Queues>, ApiError> {
        Ok(self.queues(request.filters.min(MAX_FLOWS)).into())
    }
}

impl Shared {
    pub(in crate::stack) fn queues(&self, filters: usize) -> Queues {
        let (workers, nodes) =
            ((0u32..).zip(self.host.workers.iter()), self.host.publisher.sizes());
        let mut queues: Vec<QueueStatus> =
            workers.flat_map(|(number, worker)| self.queues_of(number, worker, &nodes)).collect();
        queues.sort_by(|a, b| (&a.link, a.queue).cmp(&(&b.link, b.queue)));
        let mut problems = Vec::new();
        for steward in self.stewards.lock().iter_mut() {
            steward::report::describe(steward, &mut queues, filters);
            problems.extend(steward::report::problem(steward));
        }
        Queues { uptime_ns: self.uptime_ns(), queues, problems }
    }

    /// A row for each link from which the worker receives.
    fn queues_of(&self, number: u32, worker: &WorkerHandle, nodes: &[usize]) -> Vec<QueueStatus> {
        let nodes_of = |number: usize| nodes.get(number).map_or(0, |nodes| *nodes as u64);
        let mut rows: Vec<QueueStatus> = Vec::new();
        for counted in self.links_of(worker) {
            let at = rows.iter().position(|row| row.link == counted.link).unwrap_or_else(|| {
                rows.push(QueueStatus {
                    link: counted.link.clone(),
                    queue: number,
                    worker: worker.name.clone(),
                    core: worker.core,
                    turns: worker.stats.turns(),
                    sleeps: worker.stats.sleeps(),
                    nodes: nodes_of(number as usize),
                    nodes_of_all: nodes_of(0),
                    ..QueueStatus::default()
                });
                rows.len() - 1
            });
            let row = &mut rows[at];
            row.sockets.push(counted.queue);
            row.received += counted.rx_packets;
            row.sent += counted.tx_packets;
            row.dropped += counted.rx_dropped;
        }
        rows
    }
}

impl Handle<SetRequest> for Shared {
    fn handle(&self, request: SetRequest) -> Result<Reply<Changed>, ApiError> {
        Ok(self.assign(&request.assignments())?.into())
    }
}

impl Handle<StatusRequest> for Shared {
    fn handle(&self, _: StatusRequest) -> Result<Reply<Status>, ApiError> {
        Ok(self.status().into())
    }
}

impl Handle<StopRequest> for Shared {
    fn handle(&self, _: StopRequest) -> Result<Reply<Stopping>, ApiError> {
        let stopper = self.host.stopper.clone();
        // Only then, so that the client learns of it.
        Ok(Reply::followed_by(Stopping { pid: std::process::id() }, move |_| {
            stopper.stop();
            Ok(())
        }))
    }
}
