//! Networks of their own, for what two hosts on one link cannot show. They need the kernel.

mod neighbours;
mod net;
mod routed;
mod router;
mod workers;

pub(crate) use router::router;
pub(crate) use workers::workers;
