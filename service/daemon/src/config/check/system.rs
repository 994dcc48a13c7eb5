//! Services, cores and memory.

use weever_packet::{HugePages, PoolConfig};

use super::super::{ConfigError, PoolSettings, Services};
use super::Problems;

pub(super) const DEFAULT_FRAMES: u32 = 16_384;
/// Fewer cannot fill the rings of one queue and leave some to send with.
const FEWEST_FRAMES: u32 = 1024;
const MOST_FRAMES: u32 = 1 << 22;
/// In bytes, the default first.
const FRAME_SIZES: [u32; 2] = [2048, 4096];

pub(super) fn services(
    echo: Option<u16>,
    discard: Option<u16>,
    problems: &mut Problems,
) -> Services {
    for (key, port) in [("services.echo", echo), ("services.discard", discard)] {
        if port == Some(0) {
            problems.add(key, 0, "port 0 cannot be bound", "use 1 to 65535");
        }
    }
    if let Some(port) = echo.filter(|port| *port != 0 && echo == discard) {
        let problem = "services.echo has the same port";
        problems.add("services.discard", port, problem, "give every service a port of its own");
    }
    Services { echo, discard }
}

/// One worker for each core.
pub(super) fn cores(cores: Vec<usize>) -> Result<Vec<usize>, ConfigError> {
    let twice = cores.iter().enumerate().find(|(i, core)| cores[..*i].contains(core));
    if let Some((_, core)) = twice {
        let problem = format!("core {core} is there twice");
        let remedy = "give every worker a core of its own";
        return Err(ConfigError::invalid("cores", format!("{cores:?}"), problem, remedy));
    }
    Ok(cores)
}

pub(super) fn pool(settings: &PoolSettings, problems: &mut Problems) -> PoolConfig {
    let frames = settings.frames.unwrap_or(DEFAULT_FRAMES);
    if !(FEWEST_FRAMES..=MOST_FRAMES).contains(&frames) {
        let remedy = format!("use {FEWEST_FRAMES} to {MOST_FRAMES}");
        problems.add("pool.frames", frames, "that many frames cannot be used", &remedy);
    }
    let frame_size = settings.frame_size.unwrap_or(FRAME_SIZES[0]);
    if !FRAME_SIZES.contains(&frame_size) {
        let remedy = format!("use {} or {} (bytes)", FRAME_SIZES[0], FRAME_SIZES[1]);
        let problem = "AF_XDP has no frames of that size";
        problems.add("pool.frame-size", frame_size, problem, &remedy);
    }
    let huge_pages =
        if settings.huge_pages == Some(false) { HugePages::Never } else { HugePages::Try };
    PoolConfig { frames, frame_size, huge_pages, ..PoolConfig::default() }
}
