#![doc = include_str!("README.md")]

mod neighbours;
mod state;

pub use neighbours::Neighbours;
pub(crate) use neighbours::Reader;
pub use state::HostState;

use std::sync::Arc;

use weever_blocks_api::{Env, Nanos};

/// Provides what the protocol blocks of one host share: who it is, and an empty neighbour cache
/// with the default limits, whose first poll announces its addresses.
pub fn provide(env: &Env, host: HostState, now: Nanos) {
    let neighbours = Neighbours::new(&host, weever_net::arp::Config::default(), now);
    env.provide(Arc::new(neighbours));
    env.provide(Arc::new(host));
}
