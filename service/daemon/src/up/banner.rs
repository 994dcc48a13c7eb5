//! The banner of a stack that has started.

use std::io::{self, Write};

use weever_wire::MacAddr;

use crate::config::Interface;
use crate::stack::Stack;

/// Device, mode, address, services and control socket, a line each.
pub(super) fn write(out: &mut dyn Write, stack: &Stack) -> io::Result<()> {
    let status = stack.status();
    writeln!(out, "weever {} is up", status.program)?;
    for link in stack.links() {
        let queues = if link.queues == 1 { "queue" } else { "queues" };
        let mac = MacAddr(link.mac);
        writeln!(
            out,
            "  device    {} ({mac}), {} {queues}, {}",
            link.name, link.queues, link.mode
        )?;
    }
    let workers = if status.workers.len() == 1 { "worker" } else { "workers" };
    writeln!(out, "  workers   {} {workers}, {}", status.workers.len(), stack.config().mode)?;
    for interface in &stack.config().interfaces {
        write!(out, "  interface {}", interface.name)?;
        interface.addresses.iter().try_for_each(|address| write!(out, " {address}"))?;
        writeln!(out, "{}; share {}", given(interface), interface.share)?;
    }
    for service in &status.services {
        writeln!(
            out,
            "  service   {} {} on port {}",
            service.protocol, service.name, service.port
        )?;
    }
    if let Some(address) = stack.metrics_address() {
        writeln!(out, "  metrics   http://{address}/metrics")?;
    }
    if let Some(path) = stack.applications_path() {
        writeln!(out, "  apps      {}", path.display())?;
    }
    if let Some(path) = stack.control_path() {
        writeln!(out, "  control   {}", path.display())?;
    }
    writeln!(out, "Ctrl-C or `weever stop` ends it.")
}

/// The sources of addresses beside the configuration.
fn given(interface: &Interface) -> &'static str {
    match (interface.dhcp, interface.slaac) {
        (true, true) => " and addresses from DHCP and routers",
        (true, false) => " and addresses from DHCP",
        (false, true) => " and addresses from routers",
        (false, false) => "",
    }
}
