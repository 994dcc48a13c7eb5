//! A host's network: interfaces, addresses, routes, settings.
//!
//! [`NetConfig`] is the configuration by operators, DHCP and router advertisements; its methods refuse
//! changes that contradict it. [`NetState`] is made of it: an immutable snapshot with the lookup tables of
//! the packet path. The owner of one that threads share publishes a new one for each change, and counts
//! generations.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use crate::fib::Fib;
use crate::iface::{IfaceId, Interface};
use crate::route::Kind;

use family::Fibs;

mod addresses;
mod config;
mod error;
mod family;
mod lookup;
mod resolve;
mod settings;
#[cfg(test)]
mod tests;

pub use addresses::Advertised;
pub use config::NetConfig;
pub use error::StateError;
pub use family::Family;
pub use settings::{IcmpRates, MAX_INTERFACES, MIN_MTU, Rate, ReversePath, Settings};

/// A host's network at one moment.
#[derive(Clone, Debug)]
pub struct NetState {
    config: NetConfig,
    generation: u64,
    /// By number.
    interfaces: Box<[Option<Interface>]>,
    /// Which interface a link's VLAN is, by ascending [`member_key`]. Only those that are up.
    members: Box<[(u32, IfaceId)]>,
    /// The first IPv4 address of ours, to which most datagrams for us go: it is compared before the
    /// table is asked, at a tenth of the price.
    first4: Option<Ipv4Addr>,
    fibs: Fibs,
}

/// The tag 0 carries a priority only: IEEE 802.1Q has it belong to no VLAN, as if untagged.
#[inline]
const fn member_key(link: u16, vlan: u16) -> u32 {
    (link as u32) << 16 | vlan as u32
}

impl NetState {
    /// The state that `config` describes.
    pub fn new(config: NetConfig, generation: u64) -> Self {
        let v4 = Arc::new(Fib::new(resolve::ipv4(&config)));
        let v6 = Arc::new(Fib::new(resolve::ipv6(&config)));
        Self::with(config, generation, Fibs { v4, v6 })
    }

    /// The next state, which `config` describes. A family whose addresses and routes have not changed keeps
    /// its table: a router that advertises does not have the IPv4 routes laid out again.
    pub fn next(&self, config: NetConfig) -> Self {
        let v4 = match resolve::same4(&self.config, &config) {
            true => Arc::clone(&self.fibs.v4),
            false => Arc::new(Fib::new(resolve::ipv4(&config))),
        };
        let v6 = match resolve::same6(&self.config, &config) {
            true => Arc::clone(&self.fibs.v6),
            false => Arc::new(Fib::new(resolve::ipv6(&config))),
        };
        Self::with(config, self.generation + 1, Fibs { v4, v6 })
    }

    fn with(config: NetConfig, generation: u64, fibs: Fibs) -> Self {
        let up = config.interfaces().iter().filter(|iface| iface.up);
        let key = |iface: &Interface| member_key(iface.link, iface.vlan.unwrap_or(0));
        let mut members: Vec<_> = up.map(|iface| (key(iface), iface.id)).collect();
        members.sort_unstable();
        let slots = config.interfaces().iter().map(|i| i.id.index() + 1).max().unwrap_or(0);
        let interfaces = (0..slots).map(|n| config.interface(IfaceId(n as u16)).cloned());
        let first4 = first_ours(&config, &fibs);
        let (interfaces, members) = (interfaces.collect(), members.into());
        Self { config, generation, interfaces, members, first4, fibs }
    }

    /// Its configuration.
    pub fn config(&self) -> &NetConfig {
        &self.config
    }

    /// A number that is different for every change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// The interface of this number.
    #[inline]
    pub fn interface(&self, id: IfaceId) -> Option<&Interface> {
        self.interfaces.get(id.index())?.as_ref()
    }

    /// The interface that frames of this VLAN of the link belong to, if it is up; VLAN 0 are frames
    /// without a tag or with a priority tag only.
    #[inline]
    pub fn member(&self, link: u16, vlan: u16) -> Option<IfaceId> {
        let key = member_key(link, vlan);
        match &*self.members {
            [(only, id)] if *only == key => Some(*id),
            all => {
                let at = all.binary_search_by_key(&key, |(key, _)| *key).ok()?;
                Some(all[at].1)
            }
        }
    }
}

/// The first IPv4 address that the routes say is ours.
fn first_ours(config: &NetConfig, fibs: &Fibs) -> Option<Ipv4Addr> {
    let is_ours = |ip: &Ipv4Addr| fibs.v4.get(*ip).is_some_and(|hop| hop.kind == Kind::Local);
    config.interfaces().iter().flat_map(|i| i.v4.iter()).map(|own| own.addr()).find(is_ours)
}
