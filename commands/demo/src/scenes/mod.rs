//! Networks of their own, for features that two hosts on one link cannot show. They need the
//! kernel.

mod net;
mod routed;
mod router;
mod workers;

pub(crate) use router::router;
pub(crate) use workers::workers;

/// The title of the router's steps, for people.
pub(crate) const ROUTER: &str = "weever as a router between three networks of the kernel's";
/// The title of the steps with several workers.
pub(crate) const WORKERS: &str = "weever on two workers, each with a queue of the device";
