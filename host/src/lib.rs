//! A host: links, interfaces, routes and sockets become workers that run the host's graph.
//!
//! The daemon, simulations and benchmarks all assemble their hosts here, so that the simulated and the
//! measured code is the shipped one. Applications that bring the stack into their own process do the
//! same; `examples/embed.rs` is one of them.
//!
//! Data takes one path:
//!
//! ```text
//!  daemon: Config   simulation: Topology   benchmark: its rig   your program
//!        └─────────────────┴───────┬──────────────┴────────────────┘
//!                                  ▼
//!  HostBuilder   link(), interface(), route(), neighbour(), serve(): each checks its arguments
//!        │ build(now)
//!        ├─ NetConfig ──► Env: network, neighbour caches, path MTUs, fragments, DHCP clients
//!        ├─ sockets ────► Graph: the one that ships, or your own
//!        └─ links ──────► queue i of every link goes to worker i modulo their number
//!                                  ▼
//!  Host          workers with their first tasks, and no threads
//!        │ start()                                │ step(now), next_deadline()
//!        ▼                                        ▼
//!  RunningHost   a thread for each worker         you call it, by a clock of your own
//!
//!  HostHandle    questions and commands to both while they run: network, graph, counters
//! ```
//!
//! With `step`, a host needs neither threads nor a clock, and a seed for its unpredictable numbers
//! ([`HostBuilder::secret`]) makes every run the same.
#![forbid(unsafe_code)]

mod applications;
mod budget;
mod builder;
mod error;
mod handle;
mod host;
mod interface;
mod prefix;
mod relief;

pub use budget::{FrameBudget, FrameShare, PoolBudget};
pub use builder::{HostBuilder, with_dhcp_socket};
pub use error::HostError;
pub use handle::{HostHandle, Stopper, WorkerHandle};
pub use host::{Host, RunningHost, StoppedHost, allowed_cores};
pub use interface::{InterfaceConfig, Route};
pub use prefix::{ParsePrefixError, Prefix};
pub use relief::Relieved;
pub use weever_models::Service;
