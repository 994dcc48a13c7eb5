#![doc = include_str!("README.md")]

mod follow;
mod fragments;
mod neighbours;
mod neighbours6;
mod nodes6;
mod paths;
mod resolver;
mod secret;
mod state;

pub(crate) use fragments::Room;
pub use fragments::{Fragments, Pieces};
pub use neighbours::Neighbours;
pub(crate) use neighbours::{Reader, Session, key};
pub use neighbours6::Neighbours6;
pub(crate) use neighbours6::{Reader6, key6};
pub(crate) use paths::PathReader;
pub use paths::Paths;
pub use resolver::Resolver;
pub use secret::Secret;
pub use state::{Host, StateReader};

use std::sync::Arc;

use weever_blocks_api::{Env, Nanos};
use weever_net::state::NetConfig;

/// Provides what the protocol blocks of one host share: its network, and empty neighbour caches
/// with the default limits, whose first polls announce its addresses.
pub fn provide(env: &Env, config: NetConfig, now: Nanos) -> Arc<Host> {
    let host = Arc::new(Host::new(config));
    let config = weever_net::arp::Config::default();
    let resolver = env.get_or_default::<Resolver>();
    let neighbours = Neighbours::new(Arc::clone(&host), config, now);
    let neighbours = neighbours.with_resolver(Arc::clone(&resolver));
    env.provide(Arc::new(neighbours));
    let config = weever_net::ndp::Config::default();
    let neighbours = Neighbours6::new(Arc::clone(&host), config, seed(), now);
    env.provide(Arc::new(neighbours.with_resolver(resolver)));
    env.provide(Arc::clone(&host));
    let secret = env.get_or_default::<Secret>();
    env.provide(Arc::new(Paths::new(weever_net::pmtu::Config::default(), *secret)));
    env.get_or_default::<Fragments>();
    host
}

/// Stations that start at the same moment must not wait for the same time.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
