//! A plan on any device: a generated program sorts frames into software queues.
//!
//! [`XdpSteering`] takes the changes that a search collects ([`DeviceChange`](weever_plan::search::DeviceChange)) and brings them into a
//! [`Classifier`](weever_ebpf::xdp::classify::Classifier): rules of tables in which the more specific one wins become entries of hash maps,
//! one update each; rules of tables with priorities become the program's ordered filters. Nothing is
//! lost while that happens. It goes with the process, however that ends.

mod counts;
mod error;
mod exact;
mod ordered;
mod steering;
#[cfg(test)]
mod tests;

pub use counts::FlowCounter;
pub use error::{ProgramReport, XdpError};
pub use steering::XdpSteering;
/// The place in the receive path where a program runs.
pub use weever_ebpf::sys::AttachMode;

use weever_ebpf::sys::{Map, MapKind, possible_cpus};

/// How many frames wait for a CPU at most.
const LENGTH: u32 = 2048;

/// A map through which frames go to these CPUs, where the kernel's stack takes them. The kernel runs
/// a thread for each of them as long as the map lives.
///
/// # Errors
/// [`XdpError::Cpu`] for a CPU that does not exist, [`XdpError::NoCpu`] for none.
pub fn cpu_map(cpus: &[u32]) -> Result<Map, XdpError> {
    if cpus.is_empty() {
        return Err(XdpError::NoCpu);
    }
    let possible = possible_cpus().unwrap_or(1) as u32;
    let map = Map::create(MapKind::CpuMap, "weever_cpus", 4, 8, possible)?;
    // The length, and no program to run there.
    let value = [LENGTH.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
    for cpu in cpus {
        let made = map.update(&cpu.to_ne_bytes(), &value);
        made.map_err(|source| XdpError::Cpu { cpu: *cpu, source })?;
    }
    Ok(map)
}
