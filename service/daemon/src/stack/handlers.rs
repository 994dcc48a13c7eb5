//! The methods of the control socket: the answers of a running stack, in alphabetical order.

use std::fmt::Display;
use std::sync::PoisonError;

use weever_app_server::PlanRequests;
use weever_host::WorkerHandle;
use weever_link_sys::af_xdp::ReceiveThreads;
use weever_net::addr::Address;
use weever_net::iface::Interface;
use weever_net::ipv6::AddrOrigin;
use weever_net::route::{Origin, Route, Way};
use weever_net::state::{NetConfig, ReversePath};
use weever_service_api::{
    ApiError, ApplyRequest, Assignment, CaptureEvent, CaptureRequest, Changed, Counters,
    CountersRequest, ErrorKind, Flows, FlowsRequest, GraphFormat, GraphRequest, GraphText, Handle,
    How, MAX_FLOWS, MAX_SOCKETS, QueueStatus, Queues, QueuesRequest, Reply, SetRequest, Settings,
    SettingsRequest, Sockets, SocketsRequest, Status, StatusRequest, StopRequest, Stopping,
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
        if let Some(server) = self.applications.get() {
            let server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let PlanRequests { granted, refused } = server.plan_requests();
            (flows.asked_for, flows.too_soon) = (granted, refused);
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
    /// A worker's graph as a picture, with its counters.
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
        self.name_applications(&mut queues);
        let mut problems = Vec::new();
        for steward in self.stewards.lock().iter_mut() {
            steward::report::describe(steward, &mut queues, filters);
            problems.extend(steward::report::problem(steward));
        }
        Queues { uptime_ns: self.uptime_ns(), queues, problems }
    }

    /// How workers share the queues of a link, if that can be changed.
    fn receivers_of(&self, link: &str) -> Option<&ReceiveThreads> {
        let number = self.names.all().iter().position(|name| name == link)?;
        self.receivers.get(number)?.as_deref()
    }

    /// A row for each link from which the worker receives.
    fn queues_of(&self, number: u32, worker: &WorkerHandle, nodes: &[usize]) -> Vec<QueueStatus> {
        let nodes_of = |number: usize| nodes.get(number).map_or(0, |nodes| *nodes as u64);
        let mut rows: Vec<QueueStatus> = Vec::new();
        for counted in self.links_of(worker) {
            let at = rows.iter().position(|row| row.link == counted.link).unwrap_or_else(|| {
                let receivers = self.receivers_of(&counted.link);
                let ordered = receivers.filter(|receivers| receivers.keeps_order());
                rows.push(QueueStatus {
                    link: counted.link.clone(),
                    queue: number,
                    worker: worker.name.clone(),
                    core: worker.core,
                    turns: worker.stats.turns(),
                    sleeps: worker.stats.sleeps(),
                    nodes: nodes_of(number as usize),
                    nodes_of_all: nodes_of(0),
                    threads: receivers.map(ReceiveThreads::get),
                    order_given_up: ordered.map(ReceiveThreads::given_up),
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

impl Handle<SettingsRequest> for Shared {
    fn handle(&self, _: SettingsRequest) -> Result<Reply<Settings>, ApiError> {
        let served = *self.serves.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.host.network.state();
        let network = state.config();
        let mut settings = Vec::new();
        for (name, port) in [
            ("echo", served.echo),
            ("discard", served.discard),
            ("tcp-echo", served.tcp_echo),
            ("tcp-discard", served.tcp_discard),
        ] {
            let port = port.map_or_else(|| "none".into(), |port| port.to_string());
            settings.push(setting(format!("services.{name}"), port));
        }
        network.interfaces().iter().for_each(|iface| settings.extend(of_interface(iface)));
        for (device, threads) in self.names.all().iter().zip(&self.receivers) {
            let Some(threads) = threads else { continue };
            settings.push(setting(format!("queue.{device}.threads"), threads.get().to_string()));
            let ordered = if threads.keeps_order() { "on" } else { "off" };
            settings.push(setting(format!("queue.{device}.ordered"), ordered));
        }
        settings.extend(of_routes(network, network.routes4()));
        settings.extend(of_routes(network, network.routes6()));
        let reverse_path = match network.settings.reverse_path {
            ReversePath::None => "none",
            ReversePath::Loose => "loose",
            ReversePath::Strict => "strict",
        };
        settings.push(setting("forwarding", switch(network.settings.forwarding)));
        settings.push(setting("redirects", switch(network.settings.redirects)));
        settings.push(setting("reverse-path", reverse_path));
        Ok(Settings { settings }.into())
    }
}

fn setting(path: impl Into<String>, value: impl Into<String>) -> Assignment {
    Assignment { path: path.into(), value: value.into(), how: How::Set }
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Operators' settings of an interface: borrowed addresses are the kernel's.
fn of_interface(iface: &Interface) -> Vec<Assignment> {
    let list = |all: Vec<String>| if all.is_empty() { "none".into() } else { all.join(",") };
    let named =
        |key: &str, value: String| setting(format!("interface.{}.{key}", iface.name), value);
    let mut settings = Vec::new();
    if !iface.borrowed {
        let v4 = iface.v4.iter().chain(iface.tentative.iter()).chain(iface.duplicate.iter());
        let v6 = iface.v6.iter().filter(|own| own.origin == AddrOrigin::Static);
        let v6 = v6.map(|own| own.cidr.to_string());
        settings.push(named("addr", list(v4.map(|cidr| cidr.to_string()).chain(v6).collect())));
        let groups6 = iface.groups6.joined.iter().map(ToString::to_string);
        let groups = iface.groups4.joined.iter().map(ToString::to_string).chain(groups6);
        settings.push(named("groups", list(groups.collect())));
    }
    settings.push(named("mtu", iface.mtu.to_string()));
    settings.push(named("up", switch(iface.up).into()));
    settings.push(named("forwarding", switch(iface.forwarding).into()));
    settings
}

/// The routes that operators have set.
fn of_routes<A: Address + Display>(network: &NetConfig, routes: &[Route<A>]) -> Vec<Assignment> {
    let own = routes.iter().filter(|route| route.origin == Origin::Static);
    own.filter_map(|route| {
        let name = route.iface.and_then(|id| network.interface(id)).map(|iface| &iface.name);
        let value = match (route.way, name) {
            (Way::Via(via), Some(name)) => format!("{via}%{name}"),
            (Way::Via(via), None) => via.to_string(),
            (Way::OnLink, name) => name?.clone(),
            (Way::Unreachable, _) => "unreachable".into(),
            (Way::Prohibited, _) => "prohibited".into(),
            (Way::Blackhole, _) => "blackhole".into(),
        };
        Some(setting(format!("route.{}", route.to), value))
    })
    .collect()
}

impl Handle<SocketsRequest> for Shared {
    fn handle(&self, request: SocketsRequest) -> Result<Reply<Sockets>, ApiError> {
        Ok(self.sockets(request.most.min(MAX_SOCKETS)).into())
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
        // Only after the answer, so that the client learns of it.
        Ok(Reply::followed_by(Stopping { pid: std::process::id() }, move |_| {
            stopper.stop();
            Ok(())
        }))
    }
}
