//! Services, cores and memory.

use weever_packet::{HugePages, PoolConfig};

use super::super::settings::Table;
use super::super::{Config, Services, Share};
use super::problems::Problems;

/// In bytes: the sizes that AF_XDP takes.
const FRAME_SIZES: [u32; 2] = [2048, 4096];

pub(super) fn pool(top: &Table) -> PoolConfig {
    let huge_pages = if top.get("pool.huge-pages") { HugePages::Try } else { HugePages::Never };
    let (frames, frame_size) = (top.get("pool.frames"), top.get("pool.frame-size"));
    PoolConfig { frames, frame_size, huge_pages, ..PoolConfig::default() }
}

pub(super) fn check(config: &Config, problems: &mut Problems) {
    let Services { echo, discard } = config.services;
    if let Some(port) = echo.filter(|_| echo == discard) {
        let problem = "services.echo has the same port";
        problems.add("services.discard", port, problem, "give every service a port of its own");
    }
    let cores = &config.cores;
    let twice = cores.iter().enumerate().find(|(i, core)| cores[..*i].contains(core));
    if let Some((_, core)) = twice {
        let problem = format!("core {core} is there twice");
        problems.add(
            "cores",
            format!("{cores:?}"),
            &problem,
            "give every worker a core of its own",
        );
    }
    if !FRAME_SIZES.contains(&config.pool.frame_size) {
        let remedy = format!("use {} or {} (bytes)", FRAME_SIZES[0], FRAME_SIZES[1]);
        let problem = "AF_XDP has no frames of that size";
        problems.add("pool.frame-size", config.pool.frame_size, problem, &remedy);
    }
    let by_port = config.interfaces.iter().find(|interface| interface.share == Share::Ports);
    if let Some((apps, interface)) = config.apps.as_deref().zip(by_port) {
        let problem = format!(
            "applications bind ports as they run, and {} has the kernel's addresses, by port",
            interface.name
        );
        let remedy = "use `share = \"address\"`, with an address of its own";
        problems.add("apps", apps.display(), &problem, remedy);
    }
    if config.flows.is_some() && config.policy.is_none() {
        let flows = config.flows.as_deref().unwrap_or("".as_ref()).display();
        let remedy = "leave it out, or give `--policy FILE`";
        problems.add("flows", flows, "there is no policy that would place them", remedy);
    }
}
