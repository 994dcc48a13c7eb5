//! Networks of their own, for what two hosts on one link cannot show. They need the kernel.

mod hosts;
mod neighbours;
mod net;
mod routed;
mod router;
mod workers;

pub(crate) use router::router;
pub(crate) use workers::workers;

/// What the router's steps are about, for people.
pub(crate) const ROUTER: &str = "weever as a router between three networks of the kernel's";
/// What the steps with several workers are about.
pub(crate) const WORKERS: &str = "weever on two workers, each with a queue of the device";
