//! What a queue is made of.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use weever_app_ring::Geometry;

/// Where a stack listens for applications unless it is told otherwise.
pub const DEFAULT_PATH: &str = "/run/weever/apps.sock";

/// What a queue is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The stack's socket; by default what the environment's `WEEVER_APPS` says, or
    /// [`DEFAULT_PATH`].
    pub path: PathBuf,
    /// The application's name in `weever sockets`.
    pub name: String,
    /// Whether the name is a slot: refused while another queue has it.
    pub slot: bool,
    /// Rings and frames of each channel; there is one for each of the stack's workers.
    pub geometry: Geometry,
    /// How long [`wait`](crate::AppQueue::wait) polls before it sleeps: zero on a core that others
    /// need, more than the tens of microseconds that waking up takes on a core of one's own.
    pub spin: Duration,
}

impl Default for Config {
    fn default() -> Config {
        let path = env::var_os("WEEVER_APPS").map_or_else(|| DEFAULT_PATH.into(), PathBuf::from);
        let program = env::args_os().next().map(PathBuf::from);
        let name = program.as_deref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
        let name = name.map_or_else(|| "application".into(), |name| name.into_owned());
        Config { path, name, slot: false, geometry: Geometry::default(), spin: Duration::ZERO }
    }
}
