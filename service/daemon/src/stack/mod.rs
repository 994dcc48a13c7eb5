//! A running stack: links, the graph over them, the workers that execute it, and the control socket.
//!
//! ```text
//!  start ──► handlers: the methods of the control socket
//!    └─► run: host, settings, changes, network watcher
//!              ├──► steward: the policy
//!              ├──► device: links, shared ports and addresses, the kernel's network
//!              ├──► graph: text and services, parts for workers, captures
//!              └──► report: status and counters for control messages
//! ```

mod device;
mod error;
mod graph;
mod handlers;
mod report;
mod run;
mod start;
mod steward;

use std::path::Path;
use std::sync::Arc;

use weever_host::RunningHost;
use weever_link::LinkInfo;
use weever_service_api::{ApiError, Counters, GraphFormat, Status};

use crate::config::Config;
use crate::control::ControlServer;
use crate::metrics::MetricsServer;

pub use error::{PolicyError, StartError};
pub use report::counters::StackTotals;
pub use steward::PolicyReloader;
pub use weever_host::Stopper;

use weever_app_server::AppListener;

use device::applications::ApplicationPorts;
pub(crate) use device::ephemeral::release;

use device::ephemeral::ReservedRange;
use device::kernel::Follower;
use device::middleware::Recording;
use run::shared::Shared;
use run::watch::NetworkWatcher;
use steward::Routine;

/// A running stack: its workers and its control socket have threads of their own. Dropping it stops
/// it; [`stop`](Stack::stop) also returns its totals.
pub struct Stack {
    running: Option<RunningHost>,
    watcher: Option<NetworkWatcher>,
    routine: Option<Routine>,
    follower: Option<Follower>,
    recording: Option<Recording>,
    control: Option<ControlServer>,
    metrics: Option<MetricsServer>,
    applications: Option<AppListener>,
    /// Ephemeral ports that the kernel leaves alone.
    _range: Option<ReservedRange>,
    /// Whether nobody else has frames of the pool.
    owns_pool: bool,
    shared: Arc<Shared>,
}

impl Stack {
    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// The status: devices, addresses, services, workers.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The running graph with its counters; as a picture with folded clusters.
    ///
    /// # Errors
    /// When it cannot be had in this format.
    pub fn graph(&self, format: GraphFormat) -> Result<String, ApiError> {
        self.shared.picture(&format.into())
    }

    /// The configuration, completed by start.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Where applications are served, if they are.
    pub fn applications_path(&self) -> Option<&Path> {
        self.applications.as_ref().map(AppListener::path)
    }

    /// Where Prometheus gets the counters, if anywhere.
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::address)
    }

    /// The links, as they were opened, by their number.
    pub fn links(&self) -> &[LinkInfo] {
        &self.shared.host.links
    }

    /// The control socket, if there is one.
    pub fn control_path(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlServer::path)
    }

    /// A handle that tells it to stop, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.shared.host.stopper.clone()
    }

    /// A handle by which it reads its policy again, from any thread.
    pub fn reloader(&self) -> PolicyReloader {
        PolicyReloader::new(&self.shared)
    }

    /// Blocks until somebody wants it to stop: a [`Stopper`], a control message, or a worker that
    /// has failed. It runs on until [`stop`](Self::stop).
    pub fn wait(&self) {
        self.shared.host.stopper.wait();
    }

    /// Stops it: leases are given back, the worker ends, the device goes back to the kernel, the
    /// control socket is removed. Blocks for as long as that takes: milliseconds, and up to a fifth
    /// of a second with leases.
    #[must_use = "the report tells whether a worker failed"]
    pub fn stop(mut self) -> StackTotals {
        self.shut_down()
    }

    fn shut_down(&mut self) -> StackTotals {
        // Before the leases are released, which is no news then.
        self.watcher = None;
        self.shared.application_ports.iter().for_each(ApplicationPorts::end);
        // While workers run: applications learn that their queues are closed.
        self.applications = None;
        let stopped = self.running.take().map(RunningHost::stop);
        (self.follower, self.routine) = (None, None);
        let mut report = self.shared.report();
        if let Some(problem) = self.recording.take().and_then(Recording::finish) {
            tracing::error!("{problem}");
            report.failure.get_or_insert(problem);
        }
        if let Some(stopped) = stopped.as_ref().filter(|_| self.owns_pool) {
            // The workers have ended: frames may be with devices that keep some, and nowhere else.
            let frames = &stopped.frames;
            debug_assert!(frames.inside() == 0 || std::thread::panicking(), "{frames}");
        }
        let (received, sent, dropped) = report.totals();
        tracing::info!(received, sent, dropped, "stack stopped");
        // Last, so that a client which waits for its connection to be closed knows that the devices
        // are free.
        drop(stopped);
        self.control = None;
        self.metrics = None;
        report
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.running.is_some() {
            drop(self.shut_down());
        }
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> =
            self.shared.config.interfaces.iter().map(|i| i.name.as_str()).collect();
        write!(f, "Stack({})", names.join(", "))
    }
}
