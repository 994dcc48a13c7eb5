//! `weever status`.

use std::io::Write;

use clap::Args;
use weever_service_api::{
    InterfaceStatus, NeighbourStatus, PoolCounters, PoolShare, RouteStatus, Status, StatusRequest,
    WorkerStatus,
};

use crate::table::{grouped, span};
use crate::{CliError, Target};

/// Shows a running stack: device, address, services, workers. Names other stacks that run.
#[derive(Args, Clone, Debug, Default)]
pub struct StatusArgs {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// Asks and prints.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let mut client = self.target.connect()?;
        let status = client.call(&StatusRequest {})?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &status).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            write!(out, "{}", describe(&status))?;
            for other in Target::others(client.path()) {
                writeln!(out, "{:<10}{other}", "also")?;
            }
        }
        Ok(())
    }
}

fn describe(status: &Status) -> String {
    let Status { link, mac, mtu, queues, mode, share, address, prefix, .. } = status;
    let mut lines = vec![
        ("process", format!("{} (weever {})", status.pid, status.program)),
        ("up", span(status.uptime_ns)),
        ("device", format!("{link}, {mac}, mtu {mtu}, {queues} {}", plural(*queues, "queue"))),
        ("mode", mode.clone()),
        ("share", share.clone()),
    ];
    // It may have none, or none of this family.
    if !address.is_unspecified() {
        lines.push(("address", format!("{address}/{prefix}")));
    }
    lines.extend(status.gateway.map(|gateway| ("gateway", gateway.to_string())));
    lines.push(("services", services(status)));
    lines.extend(status.interfaces.iter().map(|i| ("interface", interface(i))));
    lines.extend(status.routes.iter().map(|r| ("route", route(r))));
    lines.extend(status.neighbours.iter().map(|n| ("neighbour", neighbour(n))));
    for one in &status.pools {
        lines.push(("pool", pool(one)));
        lines.extend(one.shares.iter().map(|one| ("", pool_share(one))));
    }
    let of_applications = &status.application_frames;
    if !of_applications.is_empty() {
        let frames: u64 = of_applications.iter().map(|share| share.count * share.each).sum();
        lines.push(("pool", format!("{} frames of applications' own", grouped(frames))));
        lines.extend(of_applications.iter().map(|one| ("", pool_share(one))));
    }
    for status in &status.workers {
        lines.push(("worker", worker(status)));
        lines.push(("", work(status)));
    }
    lines.iter().map(|(key, value)| format!("{key:<10}{value}\n")).collect()
}

fn services(status: &Status) -> String {
    let services = status.services.iter();
    let services: Vec<String> =
        services.map(|s| format!("{} {} {}", s.protocol, s.name, s.port)).collect();
    if services.is_empty() { "none".into() } else { services.join(", ") }
}

fn worker(worker: &WorkerStatus) -> String {
    let core = worker.core.map_or("any core".into(), |core| format!("core {core}"));
    let queues: Vec<String> = worker.queues.iter().map(u16::to_string).collect();
    let (name, mode, state) = (&worker.name, &worker.mode, &worker.state);
    let noun = plural(queues.len() as u16, "queue");
    format!("{name} on {core}, {mode}, {noun} {}: {state}", queues.join(" "))
}

fn work(worker: &WorkerStatus) -> String {
    let WorkerStatus { turns, sleeps, received, sent, handed_over, taken_over, .. } = worker;
    let [turns, sleeps, received, sent, given, taken] =
        [turns, sleeps, received, sent, handed_over, taken_over].map(|n| grouped(*n));
    format!(
        "  received {received}, sent {sent}; handed over {given}, taken over {taken}; \
         {turns} turns, {sleeps} sleeps"
    )
}

fn interface(interface: &InterfaceStatus) -> String {
    let InterfaceStatus { name, link, vlan, mtu, mac, up, .. } = interface;
    let on = vlan.map(|vlan| format!(" on {link}, vlan {vlan}")).unwrap_or_default();
    let mut text = format!("{name}{on}, {mac}, mtu {mtu}, {}", if *up { "up" } else { "down" });
    for (word, list) in [
        ("", &interface.addresses),
        ("tentative ", &interface.tentative),
        ("duplicate ", &interface.duplicate),
        ("groups ", &interface.groups),
    ] {
        if !list.is_empty() {
            text += &format!(", {word}{}", list.join(" "));
        }
    }
    text
}

fn route(route: &RouteStatus) -> String {
    let RouteStatus { to, way, origin, .. } = route;
    let by = route.interface.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
    let metric =
        if route.metric == 0 { String::new() } else { format!(", metric {}", route.metric) };
    format!("{to} {way}{by} ({origin}{metric})")
}

fn neighbour(neighbour: &NeighbourStatus) -> String {
    let NeighbourStatus { address, interface, mac, state } = neighbour;
    let mac = mac.as_deref().unwrap_or("?");
    format!("{address} at {mac} on {interface}, {state}")
}

fn pool(pool: &PoolCounters) -> String {
    let used = pool.frames.saturating_sub(pool.available);
    let (used, frames) = (grouped(used), grouped(pool.frames));
    match pool.holder.as_str() {
        "" => format!("{used} of {frames} frames in use or in caches"),
        holder => format!("{used} of {frames} frames in use for {holder}"),
    }
}

fn pool_share(share: &PoolShare) -> String {
    let PoolShare { holder, count, each } = share;
    format!("  {} for {holder}: {count} with up to {} each", grouped(count * each), grouped(*each))
}

fn plural(n: u16, noun: &str) -> String {
    if n == 1 { noun.into() } else { format!("{noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_in_words() {
        let golden = include_str!("../../../service/api/tests/golden/status.json");
        let message: serde_json::Value = serde_json::from_str(golden).unwrap();
        let status = serde_json::from_value(message["ok"].clone()).unwrap();
        let expected = "\
process   4711 (weever 0.1.0)
up        1.5 s
device    eth0, 02:00:00:00:00:01, mtu 1500, 4 queues
mode      AF_XDP native, copy mode
share     address
address   10.77.0.1/24
services  udp echo 7
interface eth0, 02:00:00:00:00:01, mtu 1500, up, 10.77.0.1/24, groups 224.0.0.251
route     10.77.0.0/24 on link by eth0 (connected)
neighbour 10.77.0.2 at 02:00:00:00:00:02 on eth0, reachable
pool      4,384 of 16,384 frames in use or in caches
            4,096 for receiving on eth0: 4 with up to 1,024 each
pool      3 of 128 frames in use for datagrams in pieces
pool      8,192 frames of applications' own
            8,192 for demo (process 815): 4 with up to 2,048 each
worker    worker-0 on core 1, adaptive, queues 0 1 2 3: running
            received 1,000, sent 990; handed over 3, taken over 0; 9,000 turns, 12 sleeps
";
        assert_eq!(describe(&status), expected);
    }

    #[test]
    fn an_address_that_is_none_is_not_shown() {
        let golden = include_str!("../../../service/api/tests/golden/status.json");
        let message: serde_json::Value = serde_json::from_str(golden).unwrap();
        let mut status: Status = serde_json::from_value(message["ok"].clone()).unwrap();
        (status.address, status.prefix) = (std::net::Ipv4Addr::UNSPECIFIED, 0);
        assert!(!describe(&status).contains("address "), "{}", describe(&status));
    }
}
