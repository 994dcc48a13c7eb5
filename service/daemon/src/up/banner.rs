//! What is said once the stack runs.

use std::io::{self, Write};

use crate::stack::Stack;

/// Device, mode, address, services and control socket, a line each.
pub(super) fn write(out: &mut dyn Write, stack: &Stack) -> io::Result<()> {
    let status = stack.status();
    let queues = if status.queues == 1 { "queue" } else { "queues" };
    writeln!(out, "weever {} is up", status.program)?;
    writeln!(out, "  device    {} ({}), {} {queues}", status.link, status.mac, status.queues)?;
    writeln!(out, "  mode      {}; workers {}", status.mode, stack.config().mode)?;
    writeln!(out, "  share     {}", status.share)?;
    writeln!(out, "  address   {}/{}", status.address, status.prefix)?;
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
    if let Some(path) = stack.control_path() {
        writeln!(out, "  control   {}", path.display())?;
    }
    writeln!(out, "Ctrl-C or `weever stop` ends it.")
}
