//! CPUs as queues.

use weever_ebpf::sys::{Map, MapKind, possible_cpus};

use super::XdpError;

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
