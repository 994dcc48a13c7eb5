//! The control socket of a running stack.
//!
//! [`ControlSocket::bind`] takes the place on the file system, before anything else is touched;
//! [`ControlServer::serve`] answers on it once there is something to tell. Threads: one that
//! accepts, and one per connection, all of them off the packet path.

mod capture;
mod connection;
mod server;
mod socket;

use weever_service_api::{
    ApiError, Assignment, CaptureRequest, CaptureStarted, CapturedPacket, Changed, Counters, Flows,
    GraphRequest, GraphText, Queues, Status,
};

pub use server::ControlServer;
pub use socket::{ControlError, ControlSocket};

/// A capture that goes on. Dropping it ends it.
pub trait Capturing: Send {
    /// Where packets are captured.
    fn started(&self) -> CaptureStarted;

    /// What has come, at most so many packets of each worker and place. Does not wait.
    fn collect(&mut self, most: usize) -> Vec<CapturedPacket>;

    /// Packets, since the start, that were wanted and found no room.
    fn missed(&self) -> u64;

    /// Whether the places are not in the graph any more.
    fn is_removed(&self) -> bool;
}

/// Where answers come from. Called from several threads; may block briefly.
pub trait Source: Send + Sync {
    /// What has been counted.
    fn counters(&self) -> Counters;

    /// What is running.
    fn status(&self) -> Status;

    /// Which flow goes where, at most so many of them.
    fn flows(&self, most: usize) -> Flows;

    /// What each worker gets, with at most so many filters of each.
    fn queues(&self, filters: usize) -> Queues;

    /// The running graph with its counters, or a worker's part of it.
    ///
    /// # Errors
    /// What to answer when it cannot be drawn in this format, or there is no such worker or cluster.
    fn graph(&self, wanted: &GraphRequest) -> Result<GraphText, ApiError>;

    /// Makes the running graph that of a text in Unicorn, which `name` names in messages. Blocks
    /// until every worker runs it.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn apply(&self, name: &str, text: &str) -> Result<Changed, ApiError>;

    /// Changes settings, in their order: all of them or none.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn set(&self, assignments: &[Assignment]) -> Result<Changed, ApiError>;

    /// Begins to copy packets. Blocks as long as a change of the graph does.
    ///
    /// # Errors
    /// What to answer when that cannot be.
    fn capture(&self, wanted: &CaptureRequest) -> Result<Box<dyn Capturing>, ApiError>;

    /// Begins to shut down, and returns at once. Called after the answer was sent.
    fn stop(&self);
}
