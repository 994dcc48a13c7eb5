//! The host's graph behind each queue: how much of it is needed there, and its nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weever_graph::svg::svg;
use weever_graph::{Field, Node, Verified, verify};
use weever_models::{HostConfig, Service};
use weever_plan::embed::{Embedded, ExecutionModel, embed, settings, stated};
use weever_plan::flow::Conj;
use weever_plan::simplify::{ForeignPackets, HandOver, Size};

use super::work::Work;
use super::{Result, columns};
use crate::PlanToolError;

type PlannedOutput<T> = std::result::Result<T, PlanToolError>;

/// Sockets of the host that is looked at.
const MAX_SOCKETS: usize = 4096;

/// The graph of every queue at which anything can arrive, and the work of the device for all of them. The
/// host has a UDP socket on each port that flows name as their destination.
pub(crate) fn embedded(result: &Result<'_>) -> PlannedOutput<(Vec<Embedded>, Work)> {
    let host = host(result.flows.iter().flat_map(|flow| &flow.parts))?;
    let nic = &result.model.nic;
    let configuration = result.plan.configuration(nic.tables.len());
    let single_homed = single_homed();
    let foreign = ForeignPackets::HandOver(HandOver::default());
    let execution = ExecutionModel { foreign, single_homed: &single_homed };
    let embedded = embed(&result.model.prg, nic, &configuration, &host, &execution);
    Ok((embedded, work_of(result, &host)))
}

/// Whether a node runs at the default queue's worker only.
pub(crate) fn single_homed() -> impl Fn(&Node) -> bool {
    let registry = weever_blocks_std::registry();
    move |node| registry.home_for_parts(node).is_some()
}

/// The graph of a host with a UDP socket on each port to which all of some of `parts` goes.
pub(crate) fn host<'a>(parts: impl Iterator<Item = &'a Conj>) -> PlannedOutput<Verified> {
    let ports = parts.filter_map(|part| u16::try_from(part.single(Field::L4Dst)?).ok());
    let ports: BTreeSet<u16> = ports.filter(|port| *port != 0).take(MAX_SOCKETS).collect();
    let socket = |config: HostConfig, port| config.and(Service::Discard, port);
    let config = ports.into_iter().fold(HostConfig::default(), socket);
    let failed = |reason: String| PlanToolError::Host { reason };
    let mut graph = weever_models::host(&config).map_err(|e| failed(e.to_string()))?;
    let registry = weever_blocks_std::registry();
    registry.annotate(&mut graph).map_err(|e| failed(e.to_string()))?;
    verify(graph).map_err(|errors| failed(errors[0].message.clone()))
}

/// A line for each queue.
pub(crate) fn lines(embedded: &[Embedded]) -> String {
    let row = |e: &Embedded| {
        let report = &e.simplified.report;
        let change = |size: fn(&Size) -> usize| {
            format!("{} of {}", size(&report.after), size(&report.before))
        };
        vec![
            e.arrival.queue.to_string(),
            change(|s| s.nodes),
            change(|s| s.steps),
            change(|s| s.depth),
            report.foreign.len().to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = embedded.iter().map(row).collect();
    let head = ["queue", "nodes", "receive steps", "longest path", "ports to the whole graph"];
    format!("\nthe host's graph behind each queue:\n{}", columns(&head, &rows))
}

fn work_of(result: &Result<'_>, host: &Verified) -> Work {
    let nic = &result.model.nic;
    let configuration = result.plan.configuration(nic.tables.len());
    let vouched = stated(&result.model.prg, nic, &settings(nic, &configuration, host));
    let needs = nic.used(host).into_iter().flat_map(|setting| setting.names).collect();
    Work { needs, vouched }
}

/// The same for programs.
pub(crate) fn values(embedded: &[Embedded]) -> Value {
    let size = |s: &Size| json!({ "nodes": s.nodes, "steps": s.steps, "depth": s.depth });
    let one = |e: &Embedded| {
        let report = &e.simplified.report;
        let foreign = report.foreign.iter().map(|(node, port)| format!("{node}.{port}"));
        json!({
            "queue": e.arrival.queue,
            "before": size(&report.before),
            "after": size(&report.after),
            "folded": report.folded,
            "foreign": foreign.collect::<Vec<_>>(),
        })
    };
    embedded.iter().map(one).collect()
}

/// The graph of one queue: a picture, or its nodes with their ports and edges for people.
pub(crate) fn of_queue(
    embedded: &[Embedded],
    queue: u32,
    as_picture: bool,
) -> PlannedOutput<String> {
    let found = embedded.iter().find(|e| e.arrival.queue == queue);
    let Some(found) = found else {
        let known: Vec<String> = embedded.iter().map(|e| e.arrival.queue.to_string()).collect();
        return Err(PlanToolError::NoArrivals { queue, known: known.join(", ") });
    };
    let graph = &found.simplified.graph;
    if as_picture {
        return Ok(svg(graph));
    }
    Ok(weever_unicorn::show(graph))
}
