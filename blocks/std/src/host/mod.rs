#![doc = include_str!("README.md")]

mod fragments;
mod neighbours;
mod paths;
mod resolver;
mod secret;
mod state;

pub use fragments::{Fragments, Pieces};
pub(crate) use fragments::{Kept, Room};
pub(crate) use neighbours::Snapshot as NeighbourSnapshot;
pub use neighbours::{AddressConflict, Neighbourhood, Neighbours, Neighbours6, V4, V6};
pub(crate) use neighbours::{Family, Key4, Key6, NeighbourKey, Reader, Sent, Session};
pub(crate) use paths::PathReader;
pub use paths::Paths;
pub use resolver::Resolver;
pub use secret::Secret;
pub(crate) use state::Changes;
pub use state::{Clerk, Network, StateReader};

use std::sync::Arc;

use weever_block::{Env, Nanos};
use weever_net::state::NetConfig;

use crate::icmp::IcmpLimits;
use crate::icmp6::Icmp6Limits;

/// Provides the shared state of one host's protocol blocks: its network, and empty neighbour caches
/// with the default limits, whose first polls announce its addresses.
pub fn provide(env: &Env, config: NetConfig, now: Nanos) -> Arc<Network> {
    let host = Arc::new(Network::new(config));
    let resolver = env.get_or_default::<Resolver>();
    let secret = env.get_or_default::<Secret>();
    let key = secret.key("arp answers");
    let family =
        V4::new(weever_net::arp::ArpConfig { key, ..weever_net::arp::ArpConfig::default() });
    let four = Neighbours::new(Arc::clone(&host), Arc::clone(&resolver), family, now);
    env.provide(Arc::new(four));
    let config = weever_net::ndp::NdpConfig::default();
    // Stations that start at the same moment must not wait for the same time.
    let family = V6::new(config, secret.key("neighbour discovery"));
    env.provide(Arc::new(Neighbours6::new(Arc::clone(&host), resolver, family, now)));
    env.provide(Arc::clone(&host));
    env.provide(Arc::new(Paths::new(weever_net::pmtu::PathMtuConfig::default(), *secret)));
    env.provide(Arc::new(IcmpLimits::new(secret.key("icmp errors"))));
    env.provide(Arc::new(Icmp6Limits::new(secret.key("icmpv6 errors"))));
    env.get_or_default::<Fragments>();
    host
}
