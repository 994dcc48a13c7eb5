//! What the control socket's threads may ask of a stack.

use std::net::IpAddr;
use std::time::Instant;

use weever_graph::Verified;
use weever_link::LinkInfo;
use weever_net::addr::Cidr;
use weever_packet::Pool;
use weever_service_api::{
    ApiError, Counters, DropCounter, GraphFormat, GraphText, PoolCounters, ServiceStatus, Status,
    WorkerStatus,
};
use weever_wire::MacAddr;

use super::worker::{self, Meter};
use super::{Report, Stopper, picture, view};
use crate::config::{Config, Prefix};
use crate::control::Source;

pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) link: LinkInfo,
    pub(super) graph: Verified,
    pub(super) pool: Pool,
    pub(super) started: Instant,
    pub(super) stopper: Stopper,
    pub(super) meter: Meter,
}

impl Shared {
    pub(super) fn report(&self) -> Report {
        let failure = self.meter.failures().first().cloned();
        Report { counters: self.counters(), failure }
    }

    pub(super) fn picture(&self, format: GraphFormat) -> Result<String, ApiError> {
        picture::draw(&self.graph, &self.meter.counters.describe(), format)
    }

    fn uptime_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Packets whose queue had failed by the time they were to be sent.
    fn undeliverable(&self) -> Option<DropCounter> {
        let packets = self.meter.stats.undeliverable();
        let (node, reason) = (self.link.name.clone(), "the link's queue has failed".into());
        (packets > 0).then_some(DropCounter { node, port: None, reason, packets })
    }

    fn services(&self) -> Vec<ServiceStatus> {
        let services = self.config.services;
        let ports = [("echo", services.echo), ("discard", services.discard)];
        let running = ports.into_iter().filter_map(|(name, port)| Some((name, port?)));
        let status = |(name, port): (&str, u16)| ServiceStatus {
            name: name.into(),
            protocol: "udp".into(),
            port,
        };
        running.map(status).collect()
    }

    fn worker(&self) -> WorkerStatus {
        let failures = self.meter.failures();
        WorkerStatus {
            name: worker::NAME.into(),
            core: self.config.cores.first().copied(),
            mode: self.config.mode.to_string(),
            queues: (0..self.link.queues).collect(),
            state: failures.last().cloned().unwrap_or_else(|| "running".into()),
        }
    }
}

impl Source for Shared {
    fn counters(&self) -> Counters {
        let mut counters = view::nodes(&[self.meter.counters.describe()]);
        counters.uptime_ns = self.uptime_ns();
        let queues = self.meter.stats.queues();
        let numbered = (0..).zip(&queues);
        counters.links =
            numbered.map(|(number, (_, q))| view::queue(&self.link.name, number, q)).collect();
        counters.drops.extend(counters.links.iter().flat_map(view::lost));
        counters.drops.extend(self.undeliverable());
        let (frames, available) = (self.pool.frames() as u64, self.pool.available() as u64);
        counters.pools.push(PoolCounters { frames, available });
        counters
    }

    fn status(&self) -> Status {
        let interface = &self.config.interfaces[0];
        let address = interface.first_v4().unwrap_or(Cidr::ALL);
        let default = self.config.routes.iter().find(|route| route.to == Prefix::ALL_V4);
        let gateway = match default.and_then(|route| route.via) {
            Some(IpAddr::V4(via)) => Some(via),
            _ => None,
        };
        Status {
            pid: std::process::id(),
            program: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: self.uptime_ns(),
            link: self.link.name.clone(),
            mac: MacAddr(self.link.mac).to_string(),
            mtu: self.link.mtu,
            queues: self.link.queues,
            mode: self.link.mode.clone(),
            share: interface.share.to_string(),
            address: address.addr(),
            prefix: address.prefix_len(),
            gateway,
            services: self.services(),
            workers: vec![self.worker()],
        }
    }

    fn graph(&self, format: GraphFormat) -> Result<GraphText, ApiError> {
        Ok(GraphText { format, text: self.picture(format)? })
    }

    fn stop(&self) {
        self.stopper.stop();
    }
}
