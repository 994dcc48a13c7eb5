//! Counters in the format of OpenMetrics.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weever_service_api::{Counters, Status};

type Labels = Vec<(&'static str, String)>;

/// Counters and status as OpenMetrics text.
pub fn exposition(counters: &Counters, status: &Status) -> String {
    let mut registry = Registry::with_prefix("weever");
    registry.register_collector(Box::new(Page(families(counters, status))));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes everything");
    text
}

/// One metric with all its labels. Values with equal labels are added up: a label set may occur
/// only once.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    counts: bool,
    values: BTreeMap<Labels, u64>,
}

impl Family {
    fn counter(name: &'static str, help: &'static str) -> Family {
        Family { name, help, counts: true, values: BTreeMap::new() }
    }

    fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { name, help, counts: false, values: BTreeMap::new() }
    }

    fn add(&mut self, labels: &[(&'static str, &str)], value: u64) {
        let labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let sum = self.values.entry(labels).or_default();
        *sum = sum.wrapping_add(value);
    }
}

#[derive(Debug)]
struct Page(Vec<Family>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = if family.counts { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &family.values {
                let place = metric.encode_family(labels)?;
                if family.counts {
                    ConstCounter::new(*value).encode(place)?;
                } else {
                    ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX)).encode(place)?;
                }
            }
        }
        Ok(())
    }
}

fn families(counters: &Counters, status: &Status) -> Vec<Family> {
    let mut all = stack(counters, status);
    all.extend(nodes(counters));
    all.extend(links(counters));
    all.extend(workers(status));
    all
}

fn stack(counters: &Counters, status: &Status) -> Vec<Family> {
    let mut uptime = Family::gauge("uptime_seconds", "Seconds since the stack was started");
    let labels = [("version", status.program.as_str())];
    uptime.add(&labels, counters.uptime_ns / 1_000_000_000);
    let mut frames = Family::gauge("pool_frames", "Frames of the buffer pool");
    let mut free = Family::gauge("pool_available_frames", "Frames in the pool's depot");
    for (number, pool) in counters.pools.iter().enumerate() {
        let number = number.to_string();
        frames.add(&[("pool", &number)], pool.frames);
        free.add(&[("pool", &number)], pool.available);
    }
    let mut neighbours = Family::gauge("neighbours", "Known neighbours by state");
    for neighbour in &status.neighbours {
        neighbours.add(&[("interface", &neighbour.interface), ("state", &neighbour.state)], 1);
    }
    vec![uptime, frames, free, neighbours]
}

fn nodes(counters: &Counters) -> Vec<Family> {
    let mut reached = Family::counter("node_packets", "Tasks that reached a node");
    let mut left = Family::counter("port_packets", "Tasks that left a node by a port");
    let mut own = Family::counter("block_events", "Events counted by a block itself");
    for node in &counters.nodes {
        reached.add(&[("node", &node.name)], node.packets);
        for port in &node.ports {
            left.add(&[("node", &node.name), ("port", &port.name)], port.packets);
        }
        for counter in &node.own {
            own.add(&[("node", &node.name), ("counter", &counter.name)], counter.value);
        }
    }
    let mut drops = Family::counter("dropped_packets", "Packets dropped, by place and reason");
    // An alert needs a series before the first drop. The reasons appear as they occur.
    drops.add(&[], 0);
    for drop in &counters.drops {
        let port = drop.port.as_deref().unwrap_or_default();
        let labels = [("node", drop.node.as_str()), ("port", port), ("reason", &drop.reason)];
        drops.add(&labels, drop.packets);
    }
    vec![reached, left, own, drops]
}

fn links(counters: &Counters) -> Vec<Family> {
    let mut families = [
        Family::counter("link_received_packets", "Packets received by a queue"),
        Family::counter("link_received_bytes", "Bytes received by a queue"),
        Family::counter("link_sent_packets", "Packets given to the device"),
        Family::counter("link_sent_bytes", "Bytes given to the device"),
        Family::counter("link_receive_drops", "Packets the device dropped for want of room"),
        Family::counter("link_receive_invalid", "Receive descriptors that were invalid"),
        Family::counter("link_receive_unusable", "Packets that cannot be replayed"),
        Family::counter("link_send_drops", "Packets that could not be sent"),
        Family::counter("link_fill_empty", "Times the device found no free frame"),
        Family::counter("link_send_copies", "Packets copied into the device's pool to be sent"),
        Family::counter("link_bad_returns", "Frames given back that the device did not have"),
    ];
    for link in &counters.links {
        let queue = link.queue.to_string();
        let labels = [("link", link.link.as_str()), ("queue", queue.as_str())];
        let values = [
            link.rx_packets,
            link.rx_bytes,
            link.tx_packets,
            link.tx_bytes,
            link.rx_dropped,
            link.rx_invalid,
            link.rx_unusable,
            link.tx_dropped,
            link.fill_empty,
            link.tx_copied,
            link.bad_returns,
        ];
        for (family, value) in families.iter_mut().zip(values) {
            family.add(&labels, value);
        }
    }
    families.into()
}

fn workers(status: &Status) -> Vec<Family> {
    let mut families = [
        Family::counter("worker_turns", "Turns of a worker's loop"),
        Family::counter("worker_sleeps", "Times a worker went to sleep"),
        Family::counter("worker_received_packets", "Packets a worker received"),
        Family::counter("worker_sent_packets", "Packets a worker gave to devices"),
        Family::counter("worker_handed_over", "Tasks and packets handed to other workers"),
        Family::counter("worker_taken_over", "Tasks and packets taken from other workers"),
    ];
    let mut running = Family::gauge("worker_running", "1 while a worker runs");
    for worker in &status.workers {
        let labels = [("worker", worker.name.as_str())];
        running.add(&labels, u64::from(worker.state == "running"));
        let values = [
            worker.turns,
            worker.sleeps,
            worker.received,
            worker.sent,
            worker.handed_over,
            worker.taken_over,
        ];
        for (family, value) in families.iter_mut().zip(values) {
            family.add(&labels, value);
        }
    }
    families.into_iter().chain([running]).collect()
}
